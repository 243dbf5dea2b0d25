"""What differs between trainings, and between fills of the masks.

`python -m evals.studies.trainings NAME=FOLDER … --out FILE` merges reports of
`evals.studies.headroom` into one JSON file, the key NAME for each, with what
`evals.studies.redrawn`, `evals.studies.habits` and `evals.studies.registered` wrote beside them
(`redrawn.json`, `draws.json`, `registered.json`).
Tables of such files are written into pages by `evals.commands.render`.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from macd_studio.commands import parser as command_line
from macd_studio.core.errors import MacdError, OptionError
from macd_studio.core.text.numbers import number
from macd_studio.core.text.words import visible
from macd_studio.core.validation import shown
from macd_studio.evals.printing.figures import change, logits, percent, points, table, title
from macd_studio.evals.studies.first_token import VIDEO
from macd_studio.evals.studies.headroom_tables import ACCURATE, CONSTANT
from macd_studio.evals.studies.one_mask import TITLES

Reports = dict[str, dict[str, Any]]
"""Name → a report of `evals.studies.headroom`, all of the same regimes and methods; with parts
BESIDE."""
BESIDE = ("redrawn", "draws", "registered")
"""Reports of other commands that a folder may hold, and their key in a training's report."""
VIEWS = {
    "as it is": "companion in view",
    **{fill: f"masked, {fill}" for fill in ("mean", "black", "blur", "noise")},
    "mean over nothing": "patch over nothing, mean",
}
"""View of `evals.studies.redrawn` → its words; margin of "yes" over that of the clip drawn
without it."""
DRAWS = {"wrong": "wrong", "by_habit": "wrong by a habit", "repaired": "repaired by MACD",
         "harmed": "spoilt by MACD"}  # fmt: skip
"""Share of `evals.studies.habits` → its words."""


def merge(named: Sequence[str]) -> Reports:
    """The reports of arguments NAME=FOLDER, see `aligned`, without the paths of this machine.

    Raises OptionError where a folder has no report.
    """
    reports: Reports = {}
    for argument in named:
        name, equals, folder = argument.partition("=")
        if not name or not equals or not (Path(folder) / "report.json").is_file():
            raise OptionError(
                f"no report is at {shown(argument)}",
                "Give NAME=FOLDER, a folder that evals.studies.headroom wrote",
            )
        reports[name] = of_folder(Path(folder)) | {"backbone": name}
    return aligned(reports)


def of_folder(folder: Path) -> dict[str, Any]:
    """A folder's report, and what lies beside it."""
    parts = {part: folder / f"{part}.json" for part in BESIDE}
    beside = {part: _read(file) for part, file in parts.items() if file.is_file()}
    return _read(folder / "report.json") | beside


def aligned(reports: Reports) -> Reports:
    """Reports with the regimes and methods that all of them have.

    Raises OptionError where they have no regime in common, or are of different questions.
    """
    first = next(iter(reports.values()))
    methods = [m for m in first["methods"] if all(m in r["methods"] for r in reports.values())]
    common = [r for r in first["regimes"] if all(r in one["regimes"] for one in reports.values())]
    if not common:
        raise OptionError(
            "the reports have no regime in common",
            "Run evals.studies.headroom for all with the same --regimes",
        )
    out = {
        name: report
        | {"methods": methods, "regimes": {regime: report["regimes"][regime] for regime in common}}
        for name, report in reports.items()
    }
    for name, report in out.items():
        if _questions(report) != _questions(next(iter(out.values()))):
            raise OptionError(
                f"{name} was asked other questions than the first one",
                "Run evals.studies.headroom for all with the same --regimes, --n and --split",
            )
    return out


def _read(path: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return report


def _questions(report: dict[str, Any]) -> tuple[Any, ...]:
    counts = {name: (part["n"], part["tuned_on"]) for name, part in report["regimes"].items()}
    return report["benchmark"], report["boxes"], counts


def _interval(report: dict[str, Any], regime: str, method: str) -> list[float]:
    figures = report["regimes"][regime]["methods"][method]
    interval: list[float] = figures["right" if method == VIDEO else "delta"]
    return interval


def spread_table(reports: Reports, *, deviation: bool = False) -> str:
    """Regimes and methods down, reports across: the baseline in %, the others as its change.

    deviation: a last column with the standard deviation over the reports, in points.
    """
    first = next(iter(reports.values()))
    rows = []
    for regime in first["regimes"]:
        told = first["regimes"][regime]["methods"]
        constants = [c for c in (CONSTANT, ACCURATE) if c in told]
        for method in (VIDEO, *constants, *first["methods"]):
            ends = [_interval(report, regime, method) for report in reports.values()]
            cells = [(percent if method == VIDEO else change)(one) for one in ends]
            if deviation:
                cells.append(points(statistics.stdev(one[0] for one in ends)))
            rows.append([regime, title(method), *cells])
    return table(["regime", "method", *reports, *(["SD"] if deviation else [])], rows)


def bars_table(reports: Reports) -> str:
    """Masks against true removal and random draws down, reports across; "–" if not measured."""

    def found(part: str, group: str, key: str) -> list[Any]:
        return [report.get(part, {}).get(group, {}).get(key) for report in reports.values()]

    rows = []
    for view, words in VIEWS.items():
        told = found("redrawn", "views", view)
        cells = (
            f"{logits(one['over_redrawn'])}; {percent(one['false_yes'])}" if one else "–"
            for one in told
        )
        rows.append([f'{words}, logits; false "yes", %', *cells])
    for key, words in DRAWS.items():
        cells = (percent(one) if one else "–" for one in found("draws", "shares", key))
        rows.append([f"random draws: {words}, %", *cells])
    return table(["", *reports], rows)


def registered_rows(reports: Reports) -> str:
    """The rows of `evals.studies.registered` at the registered α, β down, reports across."""
    told = [report["registered"] for report in reports.values()]
    rows = []
    for same in zip(*(one["rows"] for one in told), strict=True):
        if same[0]["pair"] == told[0]["rows"][0]["pair"]:
            said = [change(list(row["delta"])) for row in same]
            if same[0]["registered"]:
                said = [f"{z}, {row['verdict']}" for z, row in zip(said, same, strict=True)]
            rows.append([TITLES[same[0]["over"]], *said])
    return table(["MACD over", *reports], rows)


def spread(reports: Reports, regime: str, method: str) -> str:
    """Lowest and highest of the reports: "−0.3 to +2.1", the baseline without a sign."""
    values = [100 * _interval(report, regime, method)[0] for report in reports.values()]
    sign = "" if method == VIDEO else "+"
    low, high = (number(v, f"{sign}.1f") for v in (min(values), max(values)))
    return f"{low} to {high}"


def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = command_line("evals.studies.trainings", __doc__)
    parser.add_argument("named", nargs="+", metavar="NAME=FOLDER")
    parser.add_argument("--out", type=Path, required=True, help="a JSON file")
    args = parser.parse_args(argv)
    try:
        reports = merge(args.named)
    except MacdError as error:
        print(f"error: {visible(str(error))}", file=sys.stderr)
        return 2
    args.out.write_text(json.dumps(reports, indent=1) + "\n", encoding="utf-8")
    print(spread_table(reports, deviation=len(reports) > 1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
