"""Writes figures from a report into pages, between markers: `python -m evals.commands.render`.

A marker is `<!-- figures:NAME -->`, then what is written, then `<!-- /figures -->`; in a line of
prose as well as around a table. NAME is the kind of figure and where it stands, with slashes:
`change/co-occurrence/macd`. `--check` only says which pages are out of date.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import get_args

from macd_studio.commands import need_checkout
from macd_studio.commands import parser as command_line
from macd_studio.core.errors import MacdError, OptionError
from macd_studio.core.options import Fill
from macd_studio.core.validation import shown
from macd_studio.evals.commands.detectors import markdown as detectors_table
from macd_studio.evals.printing.figures import Report, area, change, logits, percent, points, table
from macd_studio.evals.printing.report import honest_table, load
from macd_studio.evals.studies import (
    captions,
    choice_readings,
    enough,
    evidence,
    headroom,
    real_methods,
    registered,
    selection,
)
from macd_studio.evals.studies.headroom import gain_text

ROOT = Path(__file__).resolve().parents[2]
REPORT = ROOT / "docs" / "toyworld-results"
PAGES = (
    "README.md",
    "docs/why.md",
    "docs/evidence.md",
    "docs/results.md",
    "docs/toyworld.md",
    "docs/registration.md",
    "docs/registration-everyday.md",
)
MARKER = re.compile(r"(<!-- figures:([^\n]+?) -->)(.*?)(<!-- /figures -->)", re.S)


def _of(report: Report, regime: str, method: str = "baseline") -> Report:
    figures: Report = report["regimes"][regime]["methods"][method]
    return figures


def _fills_table(report: Report) -> str:
    """Each fill against true removal, and what methods gain with it; see docs/why.md."""
    rows = []
    for fill, part in report["fills"].items():
        views = report["redrawn"]["views"]
        methods = part["regimes"]["options"]["methods"]
        gains = [gain_text(methods[name]) for name in ("macd", "random-mask", "mask-all")]
        equal = change(methods["macd"]["equal"][0])
        behind = [percent(views[fill][key]) for key in ("false_yes", "answers_as_redrawn")]
        nothing = logits(views[f"{fill} over nothing"]["over_redrawn"])
        rows.append([fill, logits(views[fill]["over_redrawn"]), nothing, *behind, *gains, equal])
    heads = ["fill", "margin over the redrawn clip", "over nothing", "false yes, %",
             "answers as of the redrawn clip, %", "MACD", "random places", "every object masked",
             "MACD at α 1, β 0.1"]  # fmt: skip
    return table(heads, rows)


def _place(report: Report, training: str, what: str) -> str:
    """Of a registered row of `choice_readings`."""
    told = next(row for row in report["rows"] if row["training"] == training)
    makers: dict[str, Callable[[], str]] = {
        "place": lambda: percent(told["place"]),
        "holm": lambda: f"{told['holm']:.2g}",
        "said": lambda: str(told["verdict"]),
        "over": lambda: change(told["over"]),
        "n": lambda: f"{told['n']:,}",
        "clips": lambda: f"{told['clips']:,}",
        "oracle": lambda: percent(report["oracle"][training]["place"]),
        "oracle-over": lambda: change(report["oracle"][training]["over"]),
    }
    return makers[what]()


def _part(name: str, make: Callable[..., str]) -> tuple[str, Callable[..., str]]:
    """A figure of one part of a report, which it may lack."""
    return name, lambda report, *where: make(report[name], *where)


KINDS: dict[str, tuple[str, Callable[..., str]]] = {
    "table": ("regimes", honest_table),
    "questions": _part("regimes", lambda r, regime: str(r[regime]["n"])),
    "change": _part("regimes", lambda r, regime, m: change(r[regime]["methods"][m]["delta"])),
    "right": ("regimes", lambda r, regime, m: percent(_of(r, regime, m)["right"])),
    "yes-no": ("regimes", lambda r, regime, m, name: points(_of(r, regime, m)["yes_no"][name])),
    "gradient": ("regimes", lambda r, level: area(r["gradient_auc"][level]["auc"])),
    "crossed-table": _part("crossed", headroom.markdown),
    "crossed-right": _part("crossed", lambda r, regime: percent(_of(r, regime)["right"])),
    "crossed-n": _part("crossed", lambda r, regime: str(r["regimes"][regime]["n"])),
    "crossed": _part("crossed", lambda r, regime, method: gain_text(_of(r, regime, method))),
    "crossed-over": _part(
        "crossed", lambda r, regime, method, other: gain_text(_of(r, regime, method)["over"][other])
    ),
    "judges": _part(
        "selection",
        lambda r, regime: "can" if r["regimes"][regime]["can_judge_selection"] else "cannot",
    ),
    "selection-table": _part("selection", selection.markdown),
    "selection-n": _part("selection", lambda r, regime: str(r["regimes"][regime]["n"])),
    "selection": _part(
        "selection",
        lambda r, regime, what: change(r["regimes"][regime][what]["delta"]),
    ),
    "registered-table": _part("registered", registered.markdown),
    "registered-n": _part("registered", lambda r: f"{r['n']:,}"),
    "registered-right": _part("registered", lambda r: percent(r["baseline"])),
    "registered-gain": _part("registered", lambda r, name: change(r["gains"][name])),
    "registered-placement": _part("registered", lambda r, end: points(r["one_placement"][end])),
    "registered": _part("registered", lambda r, row: change(r["rows"][int(row)]["delta"])),
    "real-n": _part("real", lambda r, what: str(r[what])),
    "real-methods": _part("real", real_methods.method_table),
    "real-differences": _part("real", real_methods.difference_table),
    "real-map": _part("real", real_methods.map_sentence),
    "real-right": _part("real", lambda r, name: percent(r["settings"][0]["right"][name])),
    "real-oracle": _part("real", lambda r: change(r["settings"][0]["oracle"]["delta"])),
    "real": _part(
        "real", lambda r, setting, name: change(r["settings"][int(setting)]["over"][name]["delta"])
    ),
    "registered-said": _part("registered", lambda r, row: r["rows"][int(row)]["verdict"]),
    "search-table": _part("search", headroom.search_table),
    "places-table": _part("places", choice_readings.markdown),
    "place": _part("places", _place),
    "captions-table": _part("captions", captions.markdown),
    "captions": _part("captions", lambda r, what: str(r[what])),
    "fills-table": ("fills", _fills_table),
    "redrawn": _part("redrawn", lambda r, view: logits(r["views"][view]["over_redrawn"])),
    "redrawn-yes": _part("redrawn", lambda r, view: percent(r["views"][view]["false_yes"])),
    "plate": _part("redrawn", lambda r, what: logits(r["plate_by_motion"][what]["over_redrawn"])),
    "plate-n": _part("redrawn", lambda r, what: str(r["plate_by_motion"][what]["n"])),
    "former-redrawn": _part(
        "former_redrawn", lambda r, view: logits(r["views"][view]["over_redrawn"])
    ),
    "former-redrawn-yes": _part(
        "former_redrawn", lambda r, view: percent(r["views"][view]["false_yes"])
    ),
    "evidence-n": _part("evidence", lambda r, what: str(r[what])),
    "evidence-table": _part("evidence", evidence.map_table),
    "evidence-token": _part("evidence", evidence.token_table),
    "enough-n": _part("enough", lambda r, what: str(r[what])),
    "enough": _part("enough", lambda r, what: percent(r[what])),
    "enough-size": _part("enough", lambda r, what: enough.size_text(r[what])),
    "enough-random": _part("enough", lambda r: enough.score_text(r["random"])),
    "enough-table": _part("enough", enough.curve_table),
    "detectors-table": _part("detectors", detectors_table),
    "seed": _part("seeds", lambda r, seed, regime, method: gain_text(_of(r[seed], regime, method))),
    "seed-right": _part("seeds", lambda r, seed, regime: percent(_of(r[seed], regime)["right"])),
    "seed-redrawn": _part(
        "seeds", lambda r, seed, view: logits(r[seed]["redrawn"]["views"][view]["over_redrawn"])
    ),
    "seed-registered": _part(
        "seeds", lambda r, seed, row: change(r[seed]["registered"]["rows"][int(row)]["delta"])
    ),
    "seed-said": _part(
        "seeds", lambda r, seed, row: r[seed]["registered"]["rows"][int(row)]["verdict"]
    ),
}
"""Kind of figure → the part of a report that it is from, and how it is taken from the report and
the rest of the marker's name."""
NOT_MEASURED = "not measured"


def rendered(text: str, report: Report) -> str:
    """The page with every marker's figures as the report has them.

    What the run did not measure, another method or a part of newer reports, is said to be so.
    Raises OptionError for an unknown name, or markers that do not pair up.
    """
    if text.count("<!-- figures:") != text.count("<!-- /figures -->"):
        raise OptionError("the markers of the page do not pair up", "Close each figures marker")

    def write(mark: re.Match[str]) -> str:
        kind, *where = mark[2].split("/")
        part, _ = KINDS.get(kind, ("", str))
        unknown = kind == "change" and len(where) > 1 and where[1] not in report["methods"]
        if part and (part not in report or unknown):
            return f"{mark[1]}{NOT_MEASURED}{mark[4]}"
        try:
            value = KINDS[kind][1](report, *where)
        except (KeyError, TypeError, IndexError, StopIteration):
            raise OptionError(
                f"the report has no figures {shown(mark[2])}",
                f"Name one of {', '.join(KINDS)} with its regime and method",
            ) from None
        inner = f"\n\n{value}\n\n" if value.startswith("|") else value
        return f"{mark[1]}{inner}{mark[4]}"

    return MARKER.sub(write, text)


BESIDE = {
    "crossed": "crossed.json",
    "search": "search.json",
    "registered": "registered.json",
    "real": "../everyday-results/methods.json",
    "selection": "selection.json",
    "places": "places.json",
    "captions": "captions.json",
    "redrawn": "redrawn.json",
    "former_redrawn": "redrawn-former.json",
    "detectors": "detectors.json",
    "evidence": "../evidence.json",
    "enough": "../enough.json",
}
"""Part of a report → the file beside it that holds it, where there is one."""


def with_files(report: Report, folder: Path) -> Report:
    """The report with what other commands stored in its folder: see BESIDE.

    seeds: by its number each other training whose figures lie in a folder `seed-NUMBER`.
    """
    parts = {name: folder / file for name, file in BESIDE.items()}
    read = {
        name: json.loads(path.read_text(encoding="utf-8"))
        for name, path in parts.items()
        if path.is_file()
    }
    fills = {path.stem: json.loads(path.read_text()) for path in folder.glob("fills/*.json")}
    named = {fill: fills[fill] for fill in get_args(Fill) if fill in fills}
    seeds = {path.name.removeprefix("seed-"): _training(path) for path in folder.glob("seed-*")}
    beside = {"fills": named, "seeds": seeds}
    return report | read | {name: part for name, part in beside.items() if part}


def _training(folder: Path) -> Report:
    """A report of `evals.studies.headroom`, with those of `redrawn` and `registered` beside it."""
    report: Report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    names = ("redrawn", "registered")
    return report | {n: json.loads((folder / f"{n}.json").read_text("utf-8")) for n in names}


def main(argv: list[str] | None = None) -> int:
    """Renders the pages, or checks them; 1 where a page was or is out of date."""
    need_checkout("evals.commands.render")
    parser = command_line("evals.commands.render", __doc__)
    parser.add_argument("--report", type=Path, default=REPORT, help="folder with a report.json")
    parser.add_argument("--check", action="store_true", help="write nothing")
    args = parser.parse_args(argv)
    late = 0
    try:
        report = with_files(load(args.report), args.report)
        for name in PAGES:
            path = ROOT / name
            before = path.read_text(encoding="utf-8")
            after = rendered(before, report)
            if before != after:
                late += 1
                print(f"{name} {'is out of date' if args.check else 'was written'}")
                if not args.check:
                    path.write_text(after, encoding="utf-8")
    except MacdError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 1 if late and args.check else 0


if __name__ == "__main__":
    raise SystemExit(main())
