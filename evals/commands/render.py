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
from macd_studio.evals.printing.figures import (
    Report,
    area,
    change,
    logits,
    percent,
    points,
    survives,
    table,
)
from macd_studio.evals.printing.report import auroc_table, honest_table
from macd_studio.evals.printing.report_files import load
from macd_studio.evals.studies.captions import markdown as captions_table
from macd_studio.evals.studies.choice_test import choice_cell, choice_table, size_table
from macd_studio.evals.studies.control_masks import made_by, overlap_table
from macd_studio.evals.studies.control_masks import markdown as controls_table
from macd_studio.evals.studies.headroom_tables import gain_text, search_table
from macd_studio.evals.studies.headroom_tables import markdown as headroom_table
from macd_studio.evals.studies.one_mask import markdown as one_mask_tables
from macd_studio.evals.studies.registered import markdown as registered_table
from macd_studio.evals.studies.selection import JUDGED, PLAIN
from macd_studio.evals.studies.selection import markdown as selection_table
from macd_studio.evals.studies.trainings import BESIDE as ALONGSIDE
from macd_studio.evals.studies.trainings import (
    aligned,
    bars_table,
    of_folder,
    registered_rows,
    spread,
    spread_table,
)

ROOT = Path(__file__).resolve().parents[2]
REPORT = ROOT / "docs" / "toyworld-results"
PAGES = (
    "README.md",
    "docs/why.md",
    "docs/rating.md",
    "docs/results.md",
    "docs/toyworld.md",
    "docs/registration.md",
)
MARKER = re.compile(r"(<!-- figures:([^\n]+?) -->)(.*?)(<!-- /figures -->)", re.S)


def _method(report: Report, regime: str, method: str) -> Report:
    figures: Report = report["regimes"][regime]["methods"][method]
    return figures


def _pair(report: Report, regime: str, method: str, against: str) -> str:
    cells = report["paired"][regime]
    cell = next(c for c in cells if (c["method"], c["against"]) == (method, against))
    return change(cell["delta"], survives(cell))


def _ranking(report: Report, regime: str, method: str) -> str:
    cell = report["auroc"][regime][method]
    if "delta" in cell:
        return change(cell["delta"], survives(cell))
    return percent(cell["auroc"])


def _crossed(report: Report, part: str, regime: str, method: str) -> Report:
    figures: Report = report[part]["regimes"][regime]["methods"][method]
    return figures


def _chosen(regime: Report, choice: str, null: str) -> Report:
    """A choice over a null, at the registered α and β, as the method is."""
    wanted = (PLAIN, choice, null)
    return next(c for c in regime["choices"] if (c["setting"], c["choice"], c["null"]) == wanted)


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


def _choice(report: Report, who: str, what: str) -> str:
    """Of the choice of "macd" or of the "oracle" at the registered α, β with MACD's frame mask."""
    told = report["settings"][0][who]
    makers: dict[str, Callable[[], str]] = {
        "over": lambda: change(told["over"]),
        "place": lambda: percent(told["place"]),
        "p": lambda: f"{told['p']:.2g}",
        "size": lambda: f"{100 * told['size']:.1f}",
        "place-size": lambda: f"{100 * told['place_size']:.1f}",
        "place-p": lambda: f"{told['place_p']:.2g}",
        "n": lambda: str(told["n"]),
    }
    return makers[what]()


KINDS: dict[str, Callable[..., str]] = {
    "table": honest_table,
    "auroc-table": auroc_table,
    "questions": lambda r, regime: str(r["regimes"][regime]["n"]),
    "right": lambda r, regime, method: percent(_method(r, regime, method)["right"]),
    "change": lambda r, regime, method: change(_method(r, regime, method)["delta"]),
    "level-change": lambda r, regime, level, method: change(
        r["regimes"][regime]["levels"][level]["methods"][method]["delta"]
    ),
    "yes-no": lambda r, regime, method, name: points(_method(r, regime, method)["yes_no"][name]),
    "margin-auroc": lambda r, regime, method: (
        f"{_method(r, regime, method)['yes_no']['margin_auroc']:.3f}".removeprefix("0")
    ),
    "asked-yes": lambda r, regime: points(_method(r, regime, "baseline")["yes_no"]["always_yes"]),
    "caption": lambda r, method, name: change(_method(r, "captions", method)[name]),
    "alpha": lambda r, method: f"{r['contrasts'][method][0]:g}",
    "gradient": lambda r, level: area(r["gradient_auc"][level]["auc"]),
    "share": lambda r, regime, method: percent(_method(r, regime, method)["constant"]["share"]),
    "remains": lambda r, regime, method: change(_method(r, regime, method)["constant"]["remains"]),
    "auroc": _ranking,
    "paired": _pair,
    "ranked": lambda r, method, regime, level: area(r["ranking"][method][regime][level]["auc"]),
    "constant-free": lambda r, regime, method: change(
        r["constant_free"][regime]["methods"][method]["delta"]
    ),
    "crossed-table": lambda r: headroom_table(r["crossed"]),
    "crossed-right": lambda r, regime: percent(_crossed(r, "crossed", regime, "baseline")["right"]),
    "crossed-n": lambda r, regime: str(r["crossed"]["regimes"][regime]["n"]),
    "crossed": lambda r, regime, method: gain_text(_crossed(r, "crossed", regime, method)),
    "crossed-over": lambda r, regime, method, other: gain_text(
        _crossed(r, "crossed", regime, method)["over"][other]
    ),
    "judges": lambda r, regime: (
        "can" if r["selection"]["regimes"][regime]["can_judge_selection"] else "cannot"
    ),
    "selection-table": lambda r: selection_table(r["selection"]),
    "selection-n": lambda r, regime: str(r["selection"]["regimes"][regime]["n"]),
    "selection": lambda r, regime, what: change(
        r["selection"]["regimes"][regime]["settings"][JUDGED][what]["delta"]
    ),
    "selection-over": lambda r, regime, choice, null: change(
        _chosen(r["selection"]["regimes"][regime], choice, null)["delta"]
    ),
    "one-mask-table": lambda r: one_mask_tables(r["one_mask"]),
    "one-mask-n": lambda r: str(r["one_mask"]["n"]),
    "one-mask": lambda r, name: change(r["one_mask"]["cross_fitted"]["gain"][name]["delta"]),
    "one-mask-over": lambda r, name: change(
        r["one_mask"]["cross_fitted"]["macd_over"][name]["delta"]
    ),
    "agreement-table": lambda r: registered_table(r["agreement"], r["agreement"]["against"]),
    "registered-table": lambda r: registered_table(r["registered"]),
    "registered-n": lambda r: f"{r['registered']['n']:,}",
    "registered": lambda r, row: change(list(r["registered"]["rows"][int(row)]["delta"])),
    "registered-said": lambda r, row: r["registered"]["rows"][int(row)]["verdict"],
    "controls-table": lambda r: controls_table(r["controls"]),
    "controls-overlap": lambda r: overlap_table(r["controls"]),
    "controls-by": lambda r: made_by(r["controls"]),
    "controls-n": lambda r: str(len(r["controls"]["clips"])),
    "former": lambda r, regime, method: gain_text(_crossed(r, "search", regime, method)),
    "search-table": lambda r: search_table(r["search"]),
    "choice-table": lambda r: choice_table(r["choices"]),
    "choice-sizes": lambda r: size_table(r["choices"]),
    "choice-n": lambda r: str(r["choices"]["n"]),
    "choice": lambda r, who, what: _choice(r["choices"], who, what),
    "choice-refused": lambda r, who, clips: percent(choice_cell(r["choices"], who, clips)["p"]),
    "choice-refused-places": lambda r, who, clips: percent(
        choice_cell(r["choices"], who, clips)["place_p"]
    ),
    "captions-table": lambda r: captions_table(r["captions"]),
    "captions": lambda r, what: str(r["captions"][what]),
    "fills-table": _fills_table,
    "fills": lambda r, fill, method: gain_text(
        r["fills"][fill]["regimes"]["options"]["methods"][method]
    ),
    "redrawn": lambda r, view: logits(r["redrawn"]["views"][view]["over_redrawn"]),
    "plate": lambda r, what: logits(r["redrawn"]["plate_by_motion"][what]["over_redrawn"]),
    "plate-n": lambda r, what: str(r["redrawn"]["plate_by_motion"][what]["n"]),
    "redrawn-yes": lambda r, view: percent(r["redrawn"]["views"][view]["false_yes"]),
    "former-redrawn": lambda r, view: logits(r["former_redrawn"]["views"][view]["over_redrawn"]),
    "former-redrawn-yes": lambda r, view: percent(r["former_redrawn"]["views"][view]["false_yes"]),
    "draws": lambda r, what: percent(r["draws"]["shares"][what]),
    "detectors-table": lambda r: detectors_table(r["detectors"]),
    "seeds-table": lambda r: spread_table(r["seeds"]),
    "seeds-bars": lambda r: bars_table(r["seeds"]),
    "seeds-registered": lambda r: registered_rows(r["seeds"]),
    "seeds": lambda r, regime, method: spread(r["seeds"], regime, method),
    "seed": lambda r, seed, regime, method: gain_text(_crossed(r["seeds"], seed, regime, method)),
    "seed-registered": lambda r, seed, row: change(
        list(r["seeds"][seed]["registered"]["rows"][int(row)]["delta"])
    ),
    "seed-said": lambda r, seed, row: r["seeds"][seed]["registered"]["rows"][int(row)]["verdict"],
    "seed-over": lambda r, seed, regime, method, other: gain_text(
        _crossed(r["seeds"], seed, regime, method)["over"][other]
    ),
}
"""Kind of figure → how it is taken from a report and the rest of the marker's name."""


SECTIONS = {
    "auroc": "auroc",
    "paired": "paired",
    "ranked": "ranking",
    "share": "constants",
    "remains": "constants",
    "constant-free": "constant_free",
    "crossed-table": "crossed",
    "crossed-right": "crossed",
    "crossed-n": "crossed",
    "crossed": "crossed",
    "crossed-over": "crossed",
    "judges": "selection",
    "selection-table": "selection",
    "selection-n": "selection",
    "selection": "selection",
    "selection-over": "selection",
    "one-mask-table": "one_mask",
    "one-mask-n": "one_mask",
    "one-mask": "one_mask",
    "one-mask-over": "one_mask",
    "agreement-table": "agreement",
    "registered-table": "registered",
    "registered-n": "registered",
    "registered": "registered",
    "registered-said": "registered",
    "controls-table": "controls",
    "controls-overlap": "controls",
    "controls-by": "controls",
    "controls-n": "controls",
    "former": "search",
    "search-table": "search",
    "choice-table": "choices",
    "choice-sizes": "choices",
    "choice-n": "choices",
    "choice": "choices",
    "choice-refused": "choices",
    "choice-refused-places": "choices",
    "captions-table": "captions",
    "captions": "captions",
    "fills-table": "fills",
    "fills": "fills",
    "redrawn": "redrawn",
    "redrawn-yes": "redrawn",
    "plate": "redrawn",
    "plate-n": "redrawn",
    "former-redrawn": "former_redrawn",
    "former-redrawn-yes": "former_redrawn",
    "draws": "draws",
    "detectors-table": "detectors",
    "seeds-table": "seeds",
    "seeds-bars": "seeds",
    "seeds-registered": "seeds",
    "seeds": "seeds",
    "seed": "seeds",
    "seed-over": "seeds",
    "seed-registered": "seeds",
    "seed-said": "seeds",
}
"""Kind of figure → the part of a report that it is from, where a report may lack it."""
METHOD_AT = {
    "change": 1,
    "right": 1,
    "auroc": 1,
    "share": 1,
    "remains": 1,
    "ranked": 0,
    "paired": 1,
}
"""Kind of figure → position of its method in the rest of the name."""
NOT_MEASURED = "not measured"
SHIPPED_SEED = "123"
"""The seed of the training that ships."""


def rendered(text: str, report: Report) -> str:
    """The page with every marker's figures as the report has them.

    What the run did not measure, another method or a part of newer reports, is said to be so.
    Raises OptionError for an unknown name, or markers that do not pair up.
    """
    if text.count("<!-- figures:") != text.count("<!-- /figures -->"):
        raise OptionError("the markers of the page do not pair up", "Close each figures marker")

    def write(mark: re.Match[str]) -> str:
        kind, *where = mark[2].split("/")
        at = METHOD_AT.get(kind)
        unknown = at is not None and at < len(where) and where[at] not in report["methods"]
        if SECTIONS.get(kind, "regimes") not in report or unknown:
            return f"{mark[1]}{NOT_MEASURED}{mark[4]}"
        try:
            value = KINDS[kind](report, *where)
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
    "one_mask": "one-mask.json",
    "controls": "controls.json",
    "agreement": "agreement.json",
    "registered": "registered.json",
    "selection": "selection.json",
    "choices": "choices.json",
    "captions": "captions.json",
    "redrawn": "redrawn.json",
    "former_redrawn": "redrawn-former.json",
    "draws": "draws.json",
    "detectors": "detectors.json",
}
"""Part of a report → the file beside it that holds it, where there is one."""


def with_files(report: Report, folder: Path) -> Report:
    """The report with what other commands stored in its folder: see BESIDE.

    seeds: of the shipped training, and of those whose figures lie in folders `seed-NUMBER`.
    """
    parts = {name: folder / file for name, file in BESIDE.items()}
    read = {
        name: json.loads(path.read_text(encoding="utf-8"))
        for name, path in parts.items()
        if path.is_file()
    }
    fills = {path.stem: json.loads(path.read_text()) for path in folder.glob("fills/*.json")}
    named = {fill: fills[fill] for fill in get_args(Fill) if fill in fills}
    others = {path.name.removeprefix("seed-"): of_folder(path) for path in folder.glob("seed-*")}
    seeds = {}
    if others and "crossed" in read:
        shipped = read["crossed"] | {part: read[part] for part in ALONGSIDE if part in read}
        seeds = {"seeds": aligned({SHIPPED_SEED: shipped} | others)}
    return report | read | ({"fills": named} if named else {}) | seeds


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
