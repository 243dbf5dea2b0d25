"""`python -m ratings create`: traces, or clips whose masks are computed, become a study."""

from __future__ import annotations

import argparse
import json
import secrets
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from macd_studio.core.cli.flags import add_some_flags, some_options
from macd_studio.core.embedded import EMBEDDED, EVERYDAY, REAL_DETECTOR
from macd_studio.core.errors import MacdError, OptionError
from macd_studio.core.masking.controls import CONTROLS, PLACE
from macd_studio.core.system.shipped import assets
from macd_studio.core.text.words import count, visible
from macd_studio.core.validation import Number, Text
from macd_studio.ratings.arms import ARMS, BY_HAND, MACD
from macd_studio.ratings.clips import Job, jobs_of, trace_clips
from macd_studio.ratings.create import (
    Created,
    LeftOut,
    StudyPlan,
    create_study,
    preregistration_path,
)
from macd_studio.ratings.gold import read_gold
from macd_studio.ratings.plan import DESIGNS, PAIRS, RATINGS, SCALES
from macd_studio.ratings.source import Source, read_source, source_of, without_pixels

URL = "http://127.0.0.1:7860"
HERE = Path(__file__).parent
PROPOSED, MOST_PROPOSED = 8, 50
READING = ("--frames", "--start", "--end", "--confidence")
"""Flags of the run that matter for masks alone."""
INSTRUCTIONS = {RATINGS: "instructions.md", PAIRS: "instructions_pairs.md"}
MOST_INSTRUCTIONS = 20_000


def add_create(create: argparse.ArgumentParser) -> None:
    """Adds the arguments of `create`."""
    traces = create.add_mutually_exclusive_group(required=True)
    traces.add_argument("--traces", nargs="+", type=Path, metavar="FILE.macd")
    traces.add_argument("--examples", action="store_true", help="the shipped example traces")
    traces.add_argument(
        "--clips", type=Path, metavar="FOLDER",
        help="clips with questions.json or a text beside each; masks are computed, no answers."
        " Objects of a clip may lie beside it, as clip.xml, .json, .zip or a folder of masks",
    )  # fmt: skip
    create.add_argument("--question", default="", help="of clips that have none of their own")
    create.add_argument(
        "--detector",
        default=REAL_DETECTOR,
        help="looks for objects in --clips (default: %(default)s)",
    )
    create.add_argument(
        "--backbone", default=EVERYDAY,
        help="whose gradient chooses the masks of --clips (default: %(default)s, the embedded one)",
    )  # fmt: skip
    create.add_argument("--device", default="auto", help="of both models (default: auto)")
    add_some_flags(create, READING)
    compared = create.add_mutually_exclusive_group()
    compared.add_argument(
        "--control", choices=tuple(CONTROLS), default=PLACE,
        help="what MACD's masks are compared with: "
        + "; ".join(f"{name}: {what}" for name, what in CONTROLS.items())
        + ". The paper's comparison is random-place (default: %(default)s)",
    )  # fmt: skip
    compared.add_argument(
        "--arms", metavar="NAME,…",
        help=f"instead of macd and a control: two or more of {', '.join([*ARMS, BY_HAND])}; each is"
        " compared with the first",
    )  # fmt: skip
    create.add_argument(
        "--by-hand", nargs="+", type=Path, default=[], metavar="FILE.macd",
        help="traces changed by hand: the masks of the arm by-hand",
    )  # fmt: skip
    create.add_argument(
        "--design", choices=DESIGNS, default="pair",
        help="two masks of a clip on one screen, or one (default: pair)",
    )  # fmt: skip
    create.add_argument(
        "--scale", choices=SCALES, default=RATINGS,
        help="rate each mask 1 to 5, or name the better of two: left, right, or no difference"
        " (default: ratings)",
    )  # fmt: skip
    create.add_argument("--raters", type=int, default=3, help="how many are planned (default: 3)")
    create.add_argument(
        "--repeat", type=float, default=0.1, metavar="SHARE",
        help="share of the screens that each rater sees twice (default: 0.1)",
    )  # fmt: skip
    create.add_argument("--gold", type=Path, metavar="FILE.json", help="items of known rating")
    create.add_argument(
        "--propose", type=int, metavar="N",
        help="known items at most that are made of the clips and proposed to the organiser, who"
        f" confirms each at /organise before it counts (default: {PROPOSED} for --clips without"
        " --gold, else 0)",
    )  # fmt: skip
    create.add_argument("--instructions", type=Path, metavar="FILE.md", help="what raters read")
    create.add_argument(
        "--seed", type=int, help="of the random masks (default: drawn, and kept in the study)"
    )
    create.add_argument("--url", default=URL, help="where the page will be (default: %(default)s)")


def create(args: argparse.Namespace) -> int:
    """Makes the study that the arguments of `add_create` describe; gives the exit code."""
    Number(1, 1000, whole=True).read(args.raters, "raters")
    Number(0.0, 0.5).read(args.repeat, "repeat")
    proposed = PROPOSED if args.clips and not args.gold else 0
    if args.propose is not None:
        proposed = int(Number(0, MOST_PROPOSED, whole=True).read(args.propose, "propose") or 0)
    seed = secrets.randbits(32) if args.seed is None else args.seed
    Number(0, 2**63 - 1, whole=True).read(seed, "seed")
    folder: Path | None = None
    gold, files = args.gold, args.traces
    jobs = jobs_of(args.clips, args.question) if args.clips else []
    if args.examples:
        folder = assets() / "examples"
        index = json.loads((folder / "index.json").read_text(encoding="utf-8"))
        files = [(folder / row["video"]).with_suffix(".macd") for row in index]
        gold = gold or HERE / "examples_gold.json"
    plan = StudyPlan(
        arms=tuple(a.strip() for a in args.arms.split(",")) if args.arms else (MACD, args.control),
        design=args.design,
        scale=args.scale,
        raters=args.raters,
        repeat=args.repeat,
        seed=seed,
        instructions=_instructions(args.instructions or HERE / INSTRUCTIONS[args.scale]),
        gold=tuple(read_gold(gold, folder if gold != args.gold else None)) if gold else (),
        proposed=proposed,
        by_hand=tuple(without_pixels(read_source(f)) for f in args.by_hand),
    )
    failed: list[LeftOut] = []
    sources = _traced(jobs, args, failed) if jobs else map(read_source, files)
    made = create_study(args.study, sources, plan, failed)
    print(f"{count(made.items, 'item')} of {len(jobs or files)} stay")
    _tell_left_out(made)
    _tell_overlaps(made)
    if made.proposed:
        print(f"{count(made.proposed, 'known item')} proposed: confirm each on the organiser's page"
              " before you invite raters")  # fmt: skip
    print(f"preregistration: {preregistration_path(args.study)}")
    print(f"sha256: {made.sha256}")
    print(f"organiser: {link_of(args.url, 'organise', made.organiser)}")
    return 0


def _tell_left_out(made: Created) -> None:
    for reason in dict.fromkeys(x.reason for x in made.left_out):
        those = [x for x in made.left_out if x.reason == reason]
        names = ", ".join(
            x.name if x.hidden is None else f"{x.name} (MACD hides {x.hidden:.1%})" for x in those
        )
        print(f"{count(len(those), 'item')} left out, {reason}: {visible(names)}")


def _tell_overlaps(made: Created) -> None:
    """Of every item, how much of what the first arm hides each other arm hides too."""
    for arm, rows in made.overlaps.items():
        shares = sorted(share for _, share in rows)
        middle = shares[len(shares) // 2]
        print(f"{arm}: share of what the first arm hides that it hides too, by item"
              f" (median {middle:.0%}, {shares[0]:.0%} to {shares[-1]:.0%}):")  # fmt: skip
        for name, share in rows:
            print(f"  {share:4.0%}  {visible(name)}")


def _traced(
    jobs: Sequence[Job], args: argparse.Namespace, failed: list[LeftOut]
) -> Iterator[Source]:
    """The masks of clips, computed one after the other.

    One that fails is told, and added to `failed` with its reason.
    """
    models = {"detector": args.detector, "backbone": args.backbone, "device": args.device}
    how: dict[str, Any] = {**models, **some_options(args, READING)}
    if args.backbone == EMBEDDED:
        print("masks are chosen by toyworld, which was trained on drawings: leave --backbone out"
              " for a study of real clips", file=sys.stderr)  # fmt: skip
    for number, (job, result, motion) in enumerate(trace_clips(jobs, **how), 1):
        place = f"  {number}/{len(jobs)} {visible(job.clip.name)}: "
        if isinstance(result, MacdError):
            print(f"{place}left out, {visible(str(result))}", file=sys.stderr)
            failed.append(LeftOut(job.clip.name, f"no masks: {result.cause}"))
        else:
            print(f"{place}{count(len(result.tracks), 'object')}", file=sys.stderr)
            source = source_of(result)
            if motion is not None and len(motion.pictures) > len(source.frames):
                source = replace(source, motion=motion.pictures, motion_times=motion.times)
            yield source


def _instructions(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise OptionError(
            f"the instructions {str(path)[:200]!r} cannot be read ({type(error).__name__})",
            "Give a text file in UTF-8",
        ) from error
    return Text(MOST_INSTRUCTIONS).read(text, "instructions")


def link_of(url: str, page: str, code: str) -> str:
    """The code stands behind #, which browsers send to nobody."""
    return f"{url.rstrip('/')}/{page}#{code}"
