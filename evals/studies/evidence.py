"""How much of an evidence map lies where the truth is: `python -m evals.studies.evidence --n 500`.

Questions of the toy world about an object that is there; the map is of the model's own first token
against the best other one; its share inside the asked object's drawn box is compared with the box's
share of the frames, which is what a map that knows nothing has. Writes docs/evidence.json, of which
`evals.commands.render` fills docs/evidence.md. Wrong answers are rare, so further questions are
answered without measuring, and those answered wrong are measured too, until there are enough.
Questions that were measured already with the same weights and options are taken from `runs/`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from macd_studio.commands import need_checkout
from macd_studio.commands import parser as command_line
from macd_studio.core.backbones import LocalLM, load_backbone
from macd_studio.core.evidence.case import EvidenceCase
from macd_studio.core.evidence.kinds import Measured, find_kind, rank_correlation, shares
from macd_studio.core.evidence.options import EvidenceOptions
from macd_studio.core.measurements import VIEWS, Target
from macd_studio.core.options import RunOptions
from macd_studio.core.system.shipped import shipped
from macd_studio.core.types import LOST
from macd_studio.core.views.context import MethodContext
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.benchmarks.toyworld import ToyWorld
from macd_studio.evals.printing.figures import area, change, percent, table
from macd_studio.evals.statistics.stats import bootstrap_ratio
from macd_studio.evals.studies.shared import Row, kept, lines_of
from macd_studio.parts import ROOT

KINDS = ("gradient", "attention", "occlusion", "occlusion-grid")
DOCS = ROOT / "docs"
FIGURES = DOCS / "evidence.json"
ROWS = Path("runs") / "evidence"
PATCHES = "3x3"


def in_turn(items: Sequence[Item], n: int) -> list[Item]:
    """n of the questions that are no captions, regimes in turn, one question a clip."""
    by_regime: dict[str, list[Item]] = {}
    clips = set()
    for item in items:
        if item.clip not in clips and item.kind != "caption":
            clips.add(item.clip)
            by_regime.setdefault(item.regime, []).append(item)
    turns = zip_longest(*by_regime.values())
    return [item for turn in turns for item in turn if item is not None][:n]


def asked_items(benchmark: ToyWorld, n: int) -> list[Item]:
    """n questions about an object that is there."""
    asked = benchmark.items("test", n)
    return in_turn([i for i in asked if i.about and i.about in benchmark.present(i.clip)], n)


def measure_item(lm: LocalLM, benchmark: ToyWorld, item: Item) -> Row:
    """Shares, peaks and sanity of every kind under both views."""
    tracks = benchmark.true_tracks(item.clip)
    encoded = lm.encode(benchmark.clip(item.clip), item.question)
    context = MethodContext(lm, encoded, tracks, RunOptions())
    counterfactual = context.counterfactual(context.options.mask)
    masks = context.masks(context.options.mask)
    counter = context.composite(masks, counterfactual.level, counterfactual.frame_level)
    best, second = lm.next_logits(context.base)[0].ranked(2)
    target = Target("baseline", 0, best, lm.token_text(best), second, lm.token_text(second))
    options = EvidenceOptions(kinds=KINDS, patches=PATCHES)
    views = dict(zip(VIEWS, (encoded.video, counter), strict=True))
    case = EvidenceCase(context, target, (), views, options, tuple(range(lm.depth)))
    asked = next(t for t in tracks if t.label == item.about)
    seen = asked.state != LOST
    inside = np.concatenate(
        [case.region(box)[:1] if ok else np.zeros((1, *case.grid))
         for box, ok in zip(asked.boxes, seen, strict=True)]
    )  # fmt: skip
    measured = {(k, v): find_kind(k).measure(case, v) for k in KINDS for v in VIEWS}
    return {
        "id": item.id,
        "clip": item.clip,
        "regime": item.regime,
        "level": item.level,
        "right": lm.text([best]).lower() == item.truth.lower(),
        "area": float(inside.mean()),
        "shares": {f"{k} {v}": shares(m.values, inside[None])[0][0]
                   for (k, v), m in measured.items()},
        "peaks": {f"{k} {v}": _peak(m, inside) for (k, v), m in measured.items()},
        "sanity": {f"{k} {v}": _sanity(m) for (k, v), m in measured.items()},
    }  # fmt: skip


def _peak(measured: Measured, inside: np.ndarray[Any, Any]) -> bool:
    """Whether the cell of largest magnitude lies in the box by half or more."""
    top = int(np.abs(measured.values).argmax())
    return bool(inside.ravel()[top] >= 0.5)


def _sanity(measured: Measured) -> float | None:
    assert measured.random is not None
    parts = measured.values if measured.parts is None else measured.parts
    return rank_correlation(parts, measured.random)


def answers_right(lm: LocalLM, benchmark: ToyWorld, item: Item) -> bool:
    """Whether the model's own first token is the truth."""
    encoded = lm.encode(benchmark.clip(item.clip), item.question)
    best = lm.next_logits(lm.prefill(encoded, encoded.video))[0].best()
    return lm.text([best]).lower() == item.truth.lower()


def run(n: int, wrong: int = 0, screen: int = 0) -> Path:
    """Measures what is missing of n questions; returns the file of rows.

    Of up to `screen` further ones those answered wrong, until there are `wrong` of them in all; one
    that is answered right is only noted.
    """
    benchmark = ToyWorld()
    path = rows_file(benchmark)
    pool = enumerate(asked_items(benchmark, n + screen))

    def start() -> Callable[[tuple[Item, bool]], Row]:
        lm = load_backbone("toyworld", "cpu")

        def make(task: tuple[Item, bool]) -> Row:
            item, always = task
            if not always and answers_right(lm, benchmark, item):
                return {"right": True}
            return measure_item(lm, benchmark, item)

        return make

    found = 0
    wanted = ((item.id, (item, i < n)) for i, item in pool)
    for done, row in enumerate(kept(path, wanted, start, "id"), 1):
        found += not row["right"]
        if done >= n and found >= wrong:
            break
    return path


def rows_file(benchmark: ToyWorld) -> Path:
    """Where the rows of these weights, questions and options are kept."""
    return ROWS / f"{fingerprint(benchmark)}.jsonl"


def read_rows(path: Path) -> list[Row]:
    """The rows of a file; none where it is not there."""
    return list(lines_of(path))


def fingerprint(benchmark: ToyWorld) -> str:
    """Of the weights, the questions and the way of measuring."""
    digest = hashlib.sha256(benchmark.fingerprint().encode())
    for file in sorted(shipped("backbone").glob("*.safetensors")):
        digest.update(file.read_bytes())
    digest.update(f"{KINDS} {PATCHES} {RunOptions()}".encode())
    return digest.hexdigest()[:16]


def figures(rows: Sequence[Row], key: str, n: int) -> dict[str, Any]:
    """What the page shows, from the rows: means with 95 % intervals over clips.

    n: how many questions were measured whatever the answer; of those after them, only wrong ones.
    """
    asked = len(rows)
    first, further = rows[:n], [r for r in rows[n:] if not r["right"]]
    rows = [r for r in [*first, *further] if "shares" in r]
    out: dict[str, Any] = {"questions": len(rows), "asked": asked, "n": n, "fingerprint": key}
    out["table"] = []
    for right in (True, False):
        judged = [r for r in rows if r["right"] is right]
        out["right" if right else "wrong"] = len(judged)
        out["area_right" if right else "area_wrong"] = _mean(judged, [r["area"] for r in judged])
        for kind in KINDS:
            for view in VIEWS:
                name = f"{kind} {view}"
                in_box = [r["shares"][name] for r in judged]
                lead = [s - r["area"] for s, r in zip(in_box, judged, strict=True)]
                out["table"].append({
                    "kind": kind, "view": view, "right": right,
                    "share": _mean(judged, in_box), "lead": _mean(judged, lead),
                    "peak": _mean(judged, [float(r["peaks"][name]) for r in judged]),
                })  # fmt: skip
    out["sanity"] = {f"{k} {v}": _known(rows, f"{k} {v}") for k in KINDS for v in VIEWS}
    return out


def _mean(rows: Sequence[Row], values: Sequence[float]) -> list[float] | None:
    """Mean, lower and upper end; None without rows."""
    if not rows:
        return None
    clips = [r["clip"] for r in rows]
    ends = bootstrap_ratio(np.array(values), np.ones(len(rows)), clips)
    return [round(float(x), 5) for x in ends]


def _known(rows: Sequence[Row], name: str) -> list[float] | None:
    """The mean correlation over the rows that have one."""
    measured = [r for r in rows if r["sanity"][name] is not None]
    return _mean(measured, [r["sanity"][name] for r in measured])


TITLES = {
    "gradient": "input × gradient",
    "attention": "attention, mean over layers",
    "occlusion": "occlusion by object",
    "occlusion-grid": "occlusion by 3×3 patches",
}
VIEW_TITLES = {"video": "V", "counterfactual": "V_d"}


def map_table(report: dict[str, Any]) -> str:
    """Share, lead and peak of each map under each view, of right and of wrong answers."""
    words = {True: "right", False: "wrong"}
    rows = [["the box itself", "–"]]
    rows[0] += [z for w in words.values() for z in (percent(report[f"area_{w}"]), "–", "–")]
    for kind in KINDS:
        for view in VIEWS:
            told = [next(r for r in report["table"]
                         if (r["kind"], r["view"], r["right"]) == (kind, view, right))
                    for right in words]  # fmt: skip
            cells = [z for r in told for z in (percent(r["share"]), _lead(r["lead"]),
                                               percent(r["peak"]))]  # fmt: skip
            rows.append([TITLES[kind], VIEW_TITLES[view], *cells])
    heads = [f"{z}, {w}" for w in words.values() for z in ("share", "lead", "peak")]
    return table(["map", "view", *heads], rows)


def token_table(report: dict[str, Any]) -> str:
    """Each map's correlation with that for a head of random weights."""
    return table(["map", "V", "V_d"], [
        [TITLES[kind], *(area(report["sanity"][f"{kind} {view}"]) for view in VIEWS)]
        for kind in KINDS
    ])  # fmt: skip


def _lead(ends: Sequence[float] | None) -> str:
    return change(ends, ends is not None and (ends[1] > 0 or ends[2] < 0))


def main() -> None:
    """Measures, and writes the figures."""
    need_checkout("evals.studies.evidence")
    parser = command_line("evals.studies.evidence", __doc__)
    parser.add_argument("--n", type=int, default=500, help="questions (default: 500)")
    parser.add_argument(
        "--wrong", type=int, default=100, help="wrong answers to look for (default: 100)"
    )
    parser.add_argument(
        "--screen", type=int, default=3000, help="further questions to look in (default: 3000)"
    )
    args = parser.parse_args()
    path = run(args.n, args.wrong, args.screen)
    report = figures(read_rows(path), path.stem, args.n)
    FIGURES.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
