"""Searches drawn clips for the opening example, and counts what every clip came to.

`python -m toyworld.example_search`: clip number n is drawn from the seed and n alone. The baseline
reads each; where it errs the whole pipeline runs, and where MACD repairs the answer the controls
run too. Every WATCHED-th clip that the baseline answers right runs as well, so that spoiled answers
are counted. Of the repairs that meet every other criterion DRAWS fresh random masks of two kinds
are read. The rows are added block by block to a file, and a search that was stopped goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

import numpy as np
import torch

from macd_studio.commands import need_checkout
from macd_studio.commands import parser as command_line
from macd_studio.core.backbones import LocalLM, load_backbone
from macd_studio.core.masking.controls import OBJECTS, PLACE, draw_control
from macd_studio.core.objects.detect import Detector, load_detector
from macd_studio.core.objects.truth import is_right
from macd_studio.core.run.pipeline import run
from macd_studio.core.system.shipped import assets
from macd_studio.core.types import Trace
from macd_studio.core.views.table import hidden_pixels_of
from macd_studio.core.whatif.controls import count_same
from macd_studio.core.whatif.workbench import Workbench
from macd_studio.parts import ROOT
from macd_studio.toyworld.clips import drawn_clip, write_mp4
from macd_studio.toyworld.example_draws import SEED, Case, searched_case
from macd_studio.toyworld.example_truth import in_sight, one_object_each, tracked_throughout

BLOCK = 50
CLIPS = 5450
"""An hour and more on one core."""
PRESET = "veryfast"
"""Of x264, as for the clips that a page draws."""
WATCHED = 40
"""Of the clips that the baseline answers right, one in so many runs."""
DRAWS = 200
"""Fresh random masks of each kind for a repair that meets every other criterion."""
FEW = 1 / 3
"""The largest share of random masks that may do what MACD does."""
SMALL_CONSTANT = 0.3
"""Logits, as in `core.whatif.verdict`."""
COUNTS = assets() / "examples" / "search.json"
PAGE = ROOT / "docs" / "toyworld.md"
BEGIN, END = "<!-- search for the opening example -->", "<!-- end of the search -->"
Row = dict[str, Any]

CRITERIA: dict[str, Callable[[Row], bool]] = {
    "each track is one true object throughout": lambda row: row["one-object"],
    "every object is tracked on every frame": lambda row: row["throughout"],
    "the asked object is in sight": lambda row: row["in-sight"],
    "an object is masked, and the query loss rises": lambda row: row["masks"] and row["raised"],
    "mask-all does not do the same": lambda row: not row["mask-all"],
    "reversed signs do not do the same": lambda row: not row["reversed"],
    "a blank video does not do the same": lambda row: not row["blank"],
    "at most a third of 20 random masks do": lambda row: row["random"] <= FEW * row["draws"],
    "no constant below 0.3 logits does": lambda row: abs(row["constant"]) >= SMALL_CONSTANT,
}
"""What a repair must meet before further masks are drawn for it, by its row."""
DRAWN: dict[str, Callable[[Row], bool]] = {
    f"at most a third of {DRAWS} {name} masks do": lambda row, name=name: row[name] <= FEW * DRAWS
    for name in (PLACE, OBJECTS)
}
"""What it must meet of these."""


def _trace(case: Case, lm: LocalLM, detector: Detector, file: Path | None = None) -> Trace:
    """With the default options. file: the clip as a video; None: as it is drawn."""
    clip = file or (lambda: drawn_clip(case.spec, "search", "0" * 64))
    *_, last = run(clip, case.question, lambda: lm, lambda: detector)
    assert last.trace is not None
    return replace(last.trace, truth=case.truth)


@torch.no_grad()
def baseline_is_right(case: Case, lm: LocalLM) -> bool:
    """Whether the baseline's first token is the truth, which is one word in these questions."""
    clip = drawn_clip(case.spec, "search", "0" * 64, dense=1)
    encoded = lm.encode(clip, case.question)
    best = lm.next_logits(lm.prefill(encoded, encoded.video[None]))[0].best()
    return bool(is_right(lm.text([best]), case.truth))


def describe_repair(case: Case, trace: Trace, lm: LocalLM) -> Row:
    """The figures that CRITERIA and DRAWN read; those of DRAWN only where CRITERIA hold."""
    made = trace.counterfactual
    assert made is not None
    bench = Workbench(trace, lm)
    report = bench.measure_controls().controls
    assert report is not None
    same = {o.name: o.same for o in report.outcomes}
    random, draws = report.random()
    row: Row = {
        "one-object": one_object_each(trace.tracks, case.spec),
        "throughout": tracked_throughout(trace.tracks, case.spec),
        "in-sight": in_sight(case.spec, case.asked),
        "masks": bool(made.level.any()),
        "raised": (made.loss or 0.0) > (made.base_loss or 0.0),
        "mask-all": same.get("mask-all", False),
        "reversed": same.get("reversed", False),
        "blank": same["blank"],
        "random": random,
        "draws": draws,
        "constant": round(report.constant, 3),
        "frames": int((made.frame_level > 0).sum()),
    }
    if all(holds(row) for holds in CRITERIA.values()):
        row |= drawn_again(bench, trace.options.seed)
    return row


def drawn_again(bench: Workbench, seed: int) -> Row:
    """How many of DRAWS masks of each kind do what MACD does; none of those the trace holds."""
    trace, context = bench.trace, bench.context
    assert trace.counterfactual is not None
    hidden = hidden_pixels_of(context, trace.counterfactual)
    seeds = np.random.SeedSequence([seed, DRAWS]).generate_state(DRAWS)
    found: Row = {}
    for name in (PLACE, OBJECTS):
        masks = (draw_control(name, hidden, int(own)) for own in seeds)
        drawn = [mask for mask in masks if mask is not None]
        answers = trace.answers["baseline"], trace.answers["macd"]
        found[name] = count_same(context, *answers, drawn)
    return found


@dataclass(frozen=True)
class Searcher:
    """The models of a search."""

    lm: LocalLM
    detector: Detector

    def look(self, index: int) -> Row | None:
        """What clip number `index` came to; None where the baseline is right and nothing ran."""
        case = searched_case(index)
        if baseline_is_right(case, self.lm):
            if index % WATCHED:
                return None
            trace = _trace(case, self.lm, self.detector)
            spoiled = not is_right(trace.answers["macd"].text, case.truth)
            return {"n": index, "baseline": True, "macd": not spoiled}
        trace = _trace(case, self.lm, self.detector)
        right = bool(is_right(trace.answers["macd"].text, case.truth))
        row: Row = {"n": index, "baseline": False, "macd": right}
        if right:
            row |= describe_repair(case, trace, self.lm)
        return row

    def holds(self, index: int) -> bool:
        """Whether MACD repairs clip number `index` also where it is read from a file."""
        case = searched_case(index)
        with TemporaryDirectory() as folder:
            file = Path(folder) / "clip.mp4"
            write_mp4(case.spec, file, PRESET)
            answers = _trace(case, self.lm, self.detector, file).answers
        right = [is_right(answers[name].text, case.truth) for name in ("baseline", "macd")]
        return right == [False, True]

    def block(self, first: int) -> Row:
        """The line of BLOCK clips from number `first`."""
        looked = (self.look(n) for n in range(first, first + BLOCK))
        return {"from": first, "rows": [row for row in looked if row is not None]}


def lines_of(path: Path) -> Iterator[Row]:
    """The whole lines of a file so far; a line that a kill cut off is left out."""
    if path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
            if line.endswith("\n"):
                yield json.loads(line)


def meets(row: Row) -> bool:
    """Whether a repair meets every criterion, those of its further masks included."""
    return all(holds(row) for holds in CRITERIA.values()) and all(
        holds(row) for holds in DRAWN.values()
    )


def repairs_of(lines: Sequence[Row]) -> list[Row]:
    """The rows of the clips that MACD repairs."""
    return [row for line in lines for row in line["rows"] if "draws" in row]


def summary(lines: Sequence[Row], held: Sequence[int]) -> Row:
    """What ships of a search: see docs/page.md.

    clips: drawn; errs, repairs: of these; watched: of the clips that the baseline answers right,
    those that ran; spoils: of the watched; any_mask: repairs that more than half of the random
    masks give too. failed: by criterion, of the repairs; those of DRAWN are of the repairs that
    meet all of CRITERIA. chosen_from: numbers of those that meet everything. numbers: of the
    repairs that hold where the clip is read from a file, `held`.
    """
    rows = [row for line in lines for row in line["rows"]]
    errs, watched = ([r for r in rows if r["baseline"] is right] for right in (False, True))
    repairs = repairs_of(lines)
    drawn = [r for r in repairs if PLACE in r]
    return {
        "seed": SEED,
        "clips": BLOCK * len(lines),
        "errs": len(errs),
        "repairs": len(repairs),
        "watched": len(watched),
        "spoils": sum(not r["macd"] for r in watched),
        "any_mask": sum(2 * r["random"] > r["draws"] for r in repairs),
        "failed": {name: sum(not holds(r) for r in repairs) for name, holds in CRITERIA.items()}
        | {name: sum(not holds(r) for r in drawn) for name, holds in DRAWN.items()},
        "chosen_from": [r["n"] for r in drawn if meets(r)],
        "numbers": [r["n"] for r in repairs if r["n"] in held],
    }


def as_table(counts: Row) -> str:
    """The counts of a search, without those by criterion, as the lines of docs/toyworld.md."""
    errs, repairs = counts["errs"], counts["repairs"]
    rows = [
        ("drawn", counts["clips"]),
        ("the model errs", errs),
        ("of these MACD repairs", repairs),
        ("of the repairs hold where the clip is read from a file", len(counts["numbers"])),
        ("in so many repairs more than half of 20 random masks do the same", counts["any_mask"]),
        ("repairs that meet everything", len(counts["chosen_from"])),
        ("right answers that were tried", counts["watched"]),
        ("of these MACD spoils", counts["spoils"]),
    ]
    return "\n".join(("| clips | n |", "|---|---|", *(f"| {name} | {n:,} |" for name, n in rows)))


def write_counts(counts: Row, page: Path = PAGE) -> None:
    """The counts beside the examples, and as a table in docs/toyworld.md."""
    COUNTS.write_text(json.dumps(counts) + "\n", encoding="utf-8")
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    text = f"{before}{BEGIN}\n{as_table(counts)}\n{END}{after}"
    page.write_text(text, encoding="utf-8")


def main() -> None:
    """Command line."""
    need_checkout("toyworld.example_search")
    parser = command_line("toyworld.example_search", __doc__)
    parser.add_argument("--clips", type=int, default=CLIPS, help="the search stops after these")
    parser.add_argument(
        "--minutes", type=float, default=inf, help="and after these, to go on later"
    )
    parser.add_argument("--rows", type=Path, default=Path("runs/example-search.jsonl"))
    args = parser.parse_args()
    args.rows.parent.mkdir(parents=True, exist_ok=True)
    began, lines, files = monotonic(), list(lines_of(args.rows)), args.rows.with_suffix(".files")
    searcher = Searcher(load_backbone("toyworld", "cpu"), load_detector("toyworld"))
    while BLOCK * len(lines) < args.clips and monotonic() - began < 60 * args.minutes:
        line = searcher.block(BLOCK * len(lines))
        with args.rows.open("a", encoding="utf-8") as rows:
            rows.write(json.dumps(line) + "\n")
        lines.append(line)
    lines = lines[: args.clips // BLOCK]
    read = {row["n"]: row["holds"] for row in lines_of(files)}
    for number in (row["n"] for row in repairs_of(lines) if row["n"] not in read):
        read[number] = searcher.holds(number)
        with files.open("a", encoding="utf-8") as rows:
            rows.write(json.dumps({"n": number, "holds": read[number]}) + "\n")
    write_counts(summary(lines, [number for number, holds in read.items() if holds]))


if __name__ == "__main__":
    main()
