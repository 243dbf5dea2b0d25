"""Commands of a rating study: `python -m ratings COMMAND --help`.

Exit codes: 0 done, 1 a study that `check` finds damaged, 2 bad input, 130 interrupted. Errors go to
stderr.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from macd_studio.commands import parser as command_line
from macd_studio.commands import pipe_closed
from macd_studio.core.cli.flags import add_some_flags, add_version, some_options
from macd_studio.core.embedded import EMBEDDED, EVERYDAY, REAL_DETECTOR
from macd_studio.core.errors import MacdError, OptionError
from macd_studio.core.masking.controls import CONTROLS, PLACE
from macd_studio.core.system.process import configure_process
from macd_studio.core.system.shipped import assets
from macd_studio.core.text.words import count, visible
from macd_studio.core.validation import Number, Text
from macd_studio.ratings.adjudication import (
    apart_text,
    appoint,
    open_disputes,
    threshold_text,
)
from macd_studio.ratings.arms import ARMS, BY_HAND, MACD
from macd_studio.ratings.branches import merge, read_rows, read_shards
from macd_studio.ratings.check import (
    as_line,
    check_media,
    check_study,
    read_json_text,
    read_reveal,
    reveal,
    verify,
)
from macd_studio.ratings.clips import Job, jobs_of, trace_clips
from macd_studio.ratings.create import (
    Created,
    LeftOut,
    StudyPlan,
    create_study,
    preregistration_path,
)
from macd_studio.ratings.errors import StudyError, cannot_write, read_text
from macd_studio.ratings.export import FORMATS, export
from macd_studio.ratings.gold import read_gold
from macd_studio.ratings.plan import DESIGNS, PAIRS, RATINGS, SCALES
from macd_studio.ratings.planning import add_plan, outlook, plan
from macd_studio.ratings.render import html_page, markdown, rated_line, unit_of
from macd_studio.ratings.report import figures, progress
from macd_studio.ratings.screening import read_screening
from macd_studio.ratings.simulate import simulate
from macd_studio.ratings.source import Source, read_source, source_of, without_pixels
from macd_studio.ratings.store import Study


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code."""
    configure_process()
    args = _parser().parse_args(argv)
    try:
        code: int = args.run(args)
        sys.stdout.flush()
    except MacdError as error:
        print(f"error: {visible(str(error))}", file=sys.stderr)
        return 2
    except sqlite3.DatabaseError as error:
        print(f"error: the study cannot be read ({error}). Check it: ratings check.",
              file=sys.stderr)  # fmt: skip
        return 2
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return pipe_closed()
    return code


def _parser() -> argparse.ArgumentParser:
    parser = command_line("ratings", __doc__)
    add_version(parser)
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name: str, run: Any, text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text)
        added.add_argument("study", metavar="STUDY.db", type=Path)
        added.set_defaults(run=run)
        return added

    add_create(command("create", create, "make a study from traces"))
    invite = command("invite", _invite, "print a link for each new rater")
    invite.add_argument("--n", type=int, default=1, help="how many (default: 1)")
    invite.add_argument("--url", default=URL, help="where the page is (default: %(default)s)")
    invite.add_argument(
        "--organiser", action="store_true",
        help="print a new link for the organiser instead; the one before no longer opens",
    )  # fmt: skip
    recruits = command("recruit", _recruit, "print one link for all participants of a panel")
    recruits.add_argument("--url", default=URL, help="where the page is (default: %(default)s)")
    recruits.add_argument(
        "--completion", metavar="CODE", default="", help="shown to who has finished"
    )
    recruits.add_argument(
        "--return", dest="back", metavar="ADDRESS", default="",
        help="https address of a link for who has finished",
    )  # fmt: skip
    recruits.add_argument(
        "--participant", metavar="TEXT", default="{{%%PROLIFIC_PID%%}}",
        help="what the panel writes in place of an id (default: %(default)s, Prolific's)",
    )  # fmt: skip
    forget = command(
        "erase", _erase,
        "take all that raters gave, and what is known of them, out of the study for good",
    )  # fmt: skip
    forget.add_argument("raters", metavar="RATER", nargs="+", help="as `status` names them: R03")
    judge = command(
        "adjudicate", _adjudicate,
        "list items on which raters disagree, and print a link for somebody who rates them again",
    )  # fmt: skip
    judge.add_argument("--url", default=URL, help="where the page is (default: %(default)s)")
    judge.add_argument("--list", action="store_true", help="only list them")
    status = command("status", _status, "progress, without which arm is ahead")
    status.add_argument("--json", action="store_true", help="print one JSON object")
    report = command("report", _report, "the figures with their uncertainty")
    report.add_argument("--format", choices=("md", "html", "json"), default="md")
    report.add_argument("--out", type=Path, metavar="FILE")
    out = command("export", _export, "every event, with what it was about")
    out.add_argument("--format", choices=FORMATS, default="csv")
    out.add_argument("--out", type=Path, metavar="FILE", required=True)
    out.add_argument(
        "--participants", action="store_true",
        help="with the participants' ids in a last column: not for publishing",
    )  # fmt: skip
    command("check", _check, "whether the study is whole: exit 1 with the reason where it is not")
    copy = command("copy", _copy, "a whole copy, also while a server has the study open")
    copy.add_argument("to", metavar="COPY.db", type=Path)
    join = command("merge", _merge, "add what other servers of the same study took")
    join.add_argument(
        "branches", metavar="BRANCH", type=Path, nargs="+",
        help="another file of the study, or .jsonl files of its mirror",
    )  # fmt: skip
    opening = command("reveal", _reveal, "once it is closed: what opens the preregistration")
    opening.add_argument("--out", type=Path, metavar="REVEAL.json", required=True)
    text = "whether a preregistration and its reveal fit: exit 1 with the reason where they do not"
    proof = commands.add_parser("verify", help=text, description=text)
    proof.add_argument("preregistration", metavar="PREREGISTRATION.json", type=Path)
    proof.add_argument("reveal", metavar="REVEAL.json", type=Path)
    proof.add_argument("--study", type=Path, metavar="STUDY.db", help="compare its pictures too")
    proof.set_defaults(run=_verify)
    text = "clips and raters that an effect needs, before there is a study"
    planned = commands.add_parser("plan", help=text, description=text)
    add_plan(planned)
    planned.set_defaults(run=plan)
    trial = command("simulate", _simulate, "let programs rate: the report will say so")
    trial.add_argument("--seed", type=int, default=0)
    trial.add_argument("--effect", type=float, default=0.7, help="planted in careful raters")
    return parser


def _invite(args: argparse.Namespace) -> int:
    with Study(args.study) as study:
        if args.organiser:
            print(link_of(args.url, "organise", study.renew_organiser()))
            return 0
        for code in study.invite(args.n):
            print(link_of(args.url, "rate", code))
        _warn_of_proposals(study)
    return 0


def _erase(args: argparse.Namespace) -> int:
    with Study(args.study) as study:
        for name in args.raters:
            print(f"{name} erased: {count(study.erase(name), 'event')}", flush=True)
    print("copies of the study, exports and reports made before still hold it: delete them, and"
          " erase it in other files of the study or merge this one into them")  # fmt: skip
    return 0


def _adjudicate(args: argparse.Namespace) -> int:
    with Study(args.study, write=not args.list) as study:
        found, left = open_disputes(study)
        clips = {i["number"]: i for i in study.items}
        for d in found:
            item, given = clips[d.item], "" if d in left else ", given to an adjudicator"
            print(f"item {d.item} {visible(item['clip'])}: {apart_text(d, study.scale)}{given}",
                  file=sys.stderr)  # fmt: skip
        print(f"{count(len(found), 'item')} disputed, {threshold_text(study.scale)}",
              file=sys.stderr)  # fmt: skip
        if not args.list:
            code, _ = appoint(study)
            print(link_of(args.url, "rate", code))
    return 0


def _warn_of_proposals(study: Study) -> None:
    undecided = list(study.confirmed().values()).count("")
    if undecided:
        print(f"{count(undecided, 'proposed known item')} not confirmed: raters who come now do not"
              " see them. Confirm them on the organiser's page first", file=sys.stderr)  # fmt: skip


def _recruit(args: argparse.Namespace) -> int:
    with Study(args.study) as study:
        if args.completion or args.back:
            study.complete_with(args.completion, args.back)
        code = study.recruit()
        _warn_of_proposals(study)
    page = f"rate?participant={args.participant.replace('%%', '%')}"
    print(link_of(args.url, page, code))
    return 0


def _status(args: argparse.Namespace) -> int:
    with Study(args.study, write=False) as study:
        now = progress(study)
    if args.json:
        print(json.dumps(now, ensure_ascii=False, indent=1))
        return 0
    s = now["study"]
    print(f"{s['state']}: {count(s['items'], 'item')}, {count(s['ratings'], unit_of(s))};"
          f" {rated_line(s)}")  # fmt: skip
    for r in now["raters"]:
        failed = "failed the screening question" if r["screened_out"] else ""
        marks = ", ".join(r.get("reasons", [])) or failed or ("revoked" if r["revoked"] else "")
        print(f"{r['rater']}  {r['done']}/{r['screens']}  {marks}".rstrip())
    for fork in now["forks"]:
        print(fork["text"])
    if now["half_width"] is not None:
        print(f"interval of the difference: ± {now['half_width']:.2f}")
    return 0


def _report(args: argparse.Namespace) -> int:
    with Study(args.study, write=False) as study:
        result = figures(study)
    if args.format == "json":
        text = json.dumps(result, ensure_ascii=False, indent=1) + "\n"
    else:
        text = markdown(result) if args.format == "md" else html_page(result)
    if args.out is None:
        print(text, end="")
        return 0
    try:
        args.out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise cannot_write(args.out, error) from error
    return 0


def _export(args: argparse.Namespace) -> int:
    with Study(args.study, write=False) as study:
        events = export(study, args.format, args.out, args.participants)
    print(f"{count(events, 'event')} written to {args.out}")
    return 0


def _check(args: argparse.Namespace) -> int:
    try:
        print(as_line(check_study(args.study)))
    except (StudyError, sqlite3.DatabaseError) as error:
        print(f"damaged: {visible(str(error))}", file=sys.stderr)
        return 1
    return 0


def _copy(args: argparse.Namespace) -> int:
    if args.to.exists():
        raise OptionError(f"{args.to.name[:200]!r} exists", "Choose another name")
    with Study(args.study, write=False) as study:
        study.copy_to(args.to)
    return 0


def _merge(args: argparse.Namespace) -> int:
    shards = [path for path in args.branches if path.suffix == ".jsonl"]
    with Study(args.study) as study:
        rows = read_shards(_bytes(path) for path in shards)
        for path in args.branches:
            if path not in shards:
                with Study(path, write=False) as other:
                    if other.preregistration_sha256 != study.preregistration_sha256:
                        raise OptionError(
                            f"{path.name[:200]!r} is another study", "Give a copy of the same one"
                        )
                    rows += read_rows(other)
        for line in merge(study, rows).lines():
            print(line)
    return 0


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise OptionError(
            f"{str(path)[:200]!r} cannot be read ({error.strerror})", "Give a file of the mirror"
        ) from error


def _reveal(args: argparse.Namespace) -> int:
    with Study(args.study) as study:
        reveal(study, args.out)
    print(f"{args.out} opens {preregistration_path(args.study).name}: publish both")
    return 0


def _verify(args: argparse.Namespace) -> int:
    text, revealed = read_json_text(args.preregistration), read_reveal(args.reveal)
    try:
        items = verify(text, revealed)
        if args.study is not None:
            with Study(args.study, write=False) as study:
                check_media(study, items)
    except StudyError as error:
        print(f"does not fit: {visible(str(error))}", file=sys.stderr)
        return 1
    pictures = "" if args.study is None else ", and the study holds their pictures"
    print(f"fits: {count(len(items), 'item')} as preregistered{pictures}")
    return 0


def _simulate(args: argparse.Namespace) -> int:
    with Study(args.study) as study:
        for number, habit in enumerate(simulate(study, args.seed, args.effect), 1):
            print(f"{number}: {habit}")
    return 0


URL = "http://127.0.0.1:7860"
HERE = Path(__file__).parent
PROPOSED, MAX_PROPOSED = 8, 50
READING = ("--frames", "--start", "--end", "--confidence")
"""Flags of the run that matter for masks alone."""
INSTRUCTIONS = {RATINGS: "instructions.md", PAIRS: "instructions_pairs.md"}
MAX_INSTRUCTIONS = 20_000


def add_create(create: argparse.ArgumentParser) -> None:
    """Adds the arguments of `create`."""
    traces = create.add_mutually_exclusive_group(required=True)
    traces.add_argument("--traces", nargs="+", type=Path, metavar="FILE.macd")
    traces.add_argument(
        "--examples", action="store_true", help="the shipped clips of a camera: as --clips"
    )
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
        "--screening", type=Path, metavar="FILE.json",
        help="one question before the first screen; who fails it rates nothing",
    )  # fmt: skip
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
        proposed = int(Number(0, MAX_PROPOSED, whole=True).read(args.propose, "propose") or 0)
    seed = secrets.randbits(32) if args.seed is None else args.seed
    Number(0, 2**63 - 1, whole=True).read(seed, "seed")
    gold, files = args.gold, args.traces
    folder = assets() / EVERYDAY / "examples" if args.examples else args.clips
    question = args.question or ("What is in the video?" if args.examples else "")
    jobs = jobs_of(folder, question) if folder else []
    if args.examples:
        gold = gold or folder / "gold.json"
    plan = StudyPlan(
        arms=tuple(a.strip() for a in args.arms.split(",")) if args.arms else (MACD, args.control),
        design=args.design,
        scale=args.scale,
        raters=args.raters,
        repeat=args.repeat,
        seed=seed,
        instructions=_instructions(args.instructions or HERE / INSTRUCTIONS[args.scale]),
        gold=tuple(read_gold(gold)) if gold else (),
        proposed=proposed,
        screening=read_screening(args.screening) if args.screening else None,
        by_hand=tuple(without_pixels(read_source(f)) for f in args.by_hand),
    )
    failed: list[LeftOut] = []
    sources = _traced(jobs, args, failed) if jobs else map(read_source, files)
    made = create_study(args.study, sources, plan, failed)
    print(f"{count(made.items, 'item')} of {len(jobs or files)} stay")
    _tell_left_out(made)
    _tell_checks(made, plan)
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


def _tell_checks(made: Created, plan: StudyPlan) -> None:
    """What raters will see of every item, and what that is enough for: before anybody is invited.

    Where a study has several other arms, a rater compares each with the first on a part of the
    items.
    """
    first, *others = plan.arms
    for x in made.checks:
        masks = "; ".join(
            f"{arm} shares {x.shared[arm]:.0%} of that, IoU {x.iou[arm]:.2f}" for arm in others
        )
        begin, end = x.times
        print(f"  {count(x.frames, 'frame')}, {begin:.1f} to {end:.1f} s; {first} hides"
              f" {x.hidden:.1%}; {masks}: {visible(x.name)}")  # fmt: skip
    for arm in others:
        shares = sorted(x.shared[arm] for x in made.checks)
        print(f"{arm} hides {shares[len(shares) // 2]:.0%} of what {first} hides, at the median;"
              f" {shares[0]:.0%} to {shares[-1]:.0%}")  # fmt: skip
    compared = made.items if plan.design == "single" else made.items // len(others)
    print(f"each rater sees {count(made.screens, 'screen')}; "
          + outlook(plan.scale, compared, plan.raters))  # fmt: skip


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
    called = f"the instructions {str(path)[:200]!r}"
    text = read_text(path, called, "Give a text file in UTF-8")
    return Text(MAX_INSTRUCTIONS).read(text, "instructions")


def link_of(url: str, page: str, code: str) -> str:
    """The code stands behind #, which browsers send to nobody."""
    return f"{url.rstrip('/')}/{page}#{code}"
