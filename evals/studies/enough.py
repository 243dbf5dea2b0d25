"""What is enough, and which maps are faithful, on the toy world.

`python -m evals.studies.enough --n 300`.

Right answers about an object that is there, one question a clip, regimes in turn, drawn boxes: of
those that change when everything is hidden, the smallest set of pieces that keeps the answer, and
the smallest whose removal changes it; whether they hold the asked object. Hallucinated answers, yes
about what is not there or the name of it: how often nothing of the video is enough. For the right
ones also insertion and deletion by each kind of map. Writes docs/enough.json, of which
`evals.commands.render` fills docs/evidence.md. Rows are kept in `runs/` and not measured again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from macd_studio.commands import need_checkout
from macd_studio.commands import parser as command_line
from macd_studio.core.backbones import LocalLM, load_backbone
from macd_studio.core.decoding.answers import decode
from macd_studio.core.evidence.case import EvidenceCase
from macd_studio.core.evidence.curves import measure_curves
from macd_studio.core.evidence.enough import PieceReader
from macd_studio.core.evidence.kinds import find_kind
from macd_studio.core.evidence.options import EnoughOptions, EvidenceOptions
from macd_studio.core.evidence.search import Best, Bounds
from macd_studio.core.measurements import RANDOM_ORDER, Target
from macd_studio.core.options import RunOptions
from macd_studio.core.rules import Plain
from macd_studio.core.text.numbers import with_interval
from macd_studio.core.views.context import MethodContext
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.benchmarks.toyworld import ToyWorld
from macd_studio.evals.printing.figures import percent, table
from macd_studio.evals.statistics.intervals import clustered_share
from macd_studio.evals.statistics.stats import bootstrap_ratio
from macd_studio.evals.studies import evidence
from macd_studio.evals.studies.evidence import (
    KINDS,
    PATCHES,
    TITLES,
    asked_items,
    in_turn,
    read_rows,
)
from macd_studio.evals.studies.shared import Row, kept

FIGURES = evidence.DOCS / "enough.json"


def measure_item(lm: LocalLM, benchmark: ToyWorld, item: Item) -> Row:
    """What the model says by itself; of a right or hallucinated answer, what is enough for it."""
    tracks = benchmark.true_tracks(item.clip)
    encoded = lm.encode(benchmark.clip(item.clip), item.question)
    context = MethodContext(lm, encoded, tracks, RunOptions())
    steps = list(decode(lm, context.base, [], Plain(), context.options.decode))
    tokens = [s.token for s in steps]
    said = lm.text([t for t in tokens if t not in lm.end_tokens]).lower()
    row: Row = {"id": item.id, "clip": item.clip, "regime": item.regime, "said": said}
    row["right"] = said == item.truth.lower()
    row["hallucinated"] = is_hallucinated(benchmark, item, said)
    there = item.about in benchmark.present(item.clip)
    if not row["hallucinated"] and not (row["right"] and there):
        return row
    target = Target("baseline", 0, tokens[0], steps[0].text)
    reader = PieceReader(context, EnoughOptions(), target, tokens)
    everything = (1 << len(reader.pieces)) - 1
    whole, nothing = reader.read([everything, 0])
    row["empty"] = nothing.same
    if not whole.same or (row["right"] and nothing.same):
        return row
    *_, bounds = reader.search()
    asked = next((t.id for t in tracks if t.label == item.about), None)
    row |= _sets(reader, bounds, asked)
    if row["right"]:
        row["curves"] = _curves(lm, context, target)
    return row


def is_hallucinated(benchmark: ToyWorld, item: Item, said: str) -> bool:
    """Whether an answer says of something that it is there, and it is not."""
    present = benchmark.present(item.clip)
    if item.truth.lower() == "no":
        return said == "yes" and item.about not in present
    return said in benchmark.nouns and said not in present


def _sets(reader: PieceReader, bounds: Bounds, asked: int | None) -> Row:
    def one(best: Best) -> Row | None:
        if best.chosen is None:
            return None
        chosen = [p for i, p in enumerate(reader.pieces) if best.chosen >> i & 1]
        return {
            "size": best.size,
            "alike": best.alike,
            "certified": best.certified(len(reader.pieces)),
            "asked": asked is not None and any(p.track == asked for p in chosen),
            "background": any(p.track is None for p in chosen),
        }

    return {
        "pieces": len(reader.pieces),
        "views": bounds.read,
        "keep": one(bounds.keep),
        "remove": one(bounds.remove),
    }


def _curves(lm: LocalLM, context: MethodContext, target: Target) -> dict[str, float]:
    """Score of each kind of map, and the mean of random orders."""
    rival = lm.next_logits(context.base)[0].ranked(2)[1]
    against = Target("baseline", 0, target.token, target.text, rival, lm.token_text(rival))
    options = EvidenceOptions(kinds=KINDS, patches=PATCHES, sanity=False)
    views = {"video": context.encoded.video}
    layers = tuple(range(lm.depth))
    case = EvidenceCase(context, against, (), views, options, layers)
    maps = {k: find_kind(k).measure(case, "video").values.astype(np.float32) for k in KINDS}
    alone = EvidenceCase(context, target, (), views, options, layers)
    curves = measure_curves(alone, maps)
    out = {kind: round(score, 6) for kind, score, _ in curves.scores()}
    random = [insertion - deletion for deletion, insertion in curves.areas()[RANDOM_ORDER]]
    return out | {RANDOM_ORDER: round(float(np.mean(random)), 6)}


def run(n: int, hallucinated: int, screen: int) -> Path:
    """Measures until there are n right answers that need the video, and so many hallucinated ones.

    Of at most `screen` questions each. Returns the file of rows.
    """
    benchmark = ToyWorld()
    path = rows_file(benchmark)

    def start() -> Callable[[Item], Row]:
        lm = load_backbone("toyworld", "cpu")
        return lambda item: measure_item(lm, benchmark, item)

    for pool, needed, is_one in (
        (asked_items(benchmark, screen), n, needs_video),
        (absent_items(benchmark, screen), hallucinated, lambda row: bool(row["hallucinated"])),
    ):
        found = 0
        for row in kept(path, ((item.id, item) for item in pool), start, "id"):
            found += is_one(row)
            if found >= needed:
                break
    return path


def rows_file(benchmark: ToyWorld) -> Path:
    """Where the rows of these weights, questions and options are kept."""
    return Path("runs") / "enough" / f"{evidence.fingerprint(benchmark)}.jsonl"


def needs_video(row: Row) -> bool:
    """Whether it is a right answer that changes when everything is hidden."""
    return bool(row["right"] and row.get("empty") is False and row.get("keep"))


def absent_items(benchmark: ToyWorld, n: int) -> list[Item]:
    """n questions about what is not there."""
    asked = benchmark.items("test", n)
    absent = [i for i in asked if not i.about or i.about not in benchmark.present(i.clip)]
    return in_turn(absent, n)


def figures(rows: Sequence[Row], key: str) -> dict[str, Any]:
    """What the page shows: shares and means with 95 % intervals over clips."""
    right = [r for r in rows if needs_video(r)]
    asked = [r for r in rows if r["right"] and "empty" in r]
    wrong = [r for r in rows if r["hallucinated"]]
    removed = [r for r in right if r["remove"]]
    scored = [r for r in right if "curves" in r]
    best = [max(KINDS, key=lambda k: r["curves"][k]) for r in scored]
    return {
        "fingerprint": key,
        "right": len(asked),
        "needs_video": len(right),
        "without_video": _share(asked, [r["empty"] for r in asked]),
        "keep_asked": _share(right, [r["keep"]["asked"] for r in right]),
        "keep_others": sum(not r["keep"]["asked"] for r in right),
        "keep_background_alone": sum(
            r["keep"]["background"] and not r["keep"]["asked"] for r in right
        ),
        "keep_background": _share(right, [r["keep"]["background"] for r in right]),
        "keep_size": _quantiles([r["keep"]["size"] for r in right]),
        "keep_certified": _share(right, [r["keep"]["certified"] for r in right]),
        "remove": len(removed),
        "remove_asked": _share(removed, [r["remove"]["asked"] for r in removed]),
        "remove_size": _quantiles([r["remove"]["size"] for r in removed]),
        "views": _quantiles([r["views"] for r in right]),
        "hallucinated": len(wrong),
        "hallucinated_empty": _share(wrong, [bool(r["empty"]) for r in wrong]),
        "scored": len(scored),
        "curves": {
            kind: {
                "score": _mean(scored, [r["curves"][kind] for r in scored]),
                "over_random": _mean(
                    scored, [r["curves"][kind] - r["curves"][RANDOM_ORDER] for r in scored]
                ),
                "best": _share(scored, [b == kind for b in best]),
            }
            for kind in KINDS
        },
        "random": _mean(scored, [r["curves"][RANDOM_ORDER] for r in scored]),
    }


def _share(rows: Sequence[Row], hits: Sequence[bool]) -> list[float] | None:
    """In shares: estimate, lower and upper end; None without rows."""
    if not rows:
        return None
    return [round(float(x), 5) for x in clustered_share(np.array(hits), [r["clip"] for r in rows])]


def _mean(rows: Sequence[Row], values: Sequence[float]) -> list[float] | None:
    if not rows:
        return None
    ends = bootstrap_ratio(np.array(values), np.ones(len(rows)), [r["clip"] for r in rows])
    return [round(float(x), 5) for x in ends]


def _quantiles(values: Sequence[int]) -> list[float] | None:
    """Median, and the 5th and 95th percentile."""
    if not values:
        return None
    return [float(x) for x in np.percentile(values, [50, 5, 95])]


def size_text(ends: Sequence[float]) -> str:
    """A median with the 5th and 95th percentile.

    >>> size_text([2.0, 1.0, 2.0])
    '2 pieces in the median (1 to 2 in 90 %)'
    """
    middle, low, high = ends
    return f"{middle:g} pieces in the median ({low:g} to {high:g} in 90 %)"


def score_text(ends: Sequence[float]) -> str:
    """Area under insertion less that under deletion, with its interval."""
    return with_interval(ends, "+.3f", 1)


def curve_table(report: dict[str, Any]) -> str:
    """The score of each kind of map, over random orders, and how often it is the best."""
    return table(
        ["map", "score", "over random orders", "most faithful, %"],
        [
            [TITLES[kind], score_text(one["score"]), score_text(one["over_random"]),
             percent(one["best"])]
            for kind, one in report["curves"].items()
        ],
    )  # fmt: skip


def main() -> None:
    """Measures, and writes the figures."""
    need_checkout("evals.studies.enough")
    parser = command_line("evals.studies.enough", __doc__)
    parser.add_argument(
        "--n", type=int, default=300, help="right answers that need the video (default: 300)"
    )
    parser.add_argument(
        "--hallucinated", type=int, default=100, help="of them to look for (default: 100)"
    )
    parser.add_argument(
        "--screen", type=int, default=3000, help="questions to look in (default: 3000)"
    )
    args = parser.parse_args()
    path = run(args.n, args.hallucinated, args.screen)
    FIGURES.write_text(json.dumps(figures(read_rows(path), path.stem), indent=1) + "\n")


if __name__ == "__main__":
    main()
