"""Figures → Markdown, JSON, pictures and one HTML page. Prints what is there; computes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from macd_studio.core.pages.blocks import as_markdown
from macd_studio.core.text.numbers import DASH, number
from macd_studio.evals.printing.figures import (
    SIGNIFICANT,
    Report,
    area,
    as_cell,
    cell,
    certified_section,
    change,
    clamped_section,
    open_row,
    open_section,
    page,
    percent,
    points,
    survives,
    table,
    title,
)
from macd_studio.evals.running.contrasts import CONSTANT
from macd_studio.evals.running.output import failures_line, objects_note
from macd_studio.evals.statistics.stats import MIN_DIFFERING


def honest_table(report: Report) -> str:
    """The table: regimes across, methods down; baseline in percent, the others as change."""
    regimes = report["regimes"]
    rows = [
        [
            title(m, report),
            _pair(report, m),
            *(cell(part["methods"][m]) for part in regimes.values()),
        ]
        for m in report["methods"]
    ]
    counts = [f"{part['n']} ({part['clips']})" for part in regimes.values()]
    rows.append(["*questions (clips)*", "", *counts])
    return table(["method", "α, β", *regimes], rows)


def auroc_table(report: Report) -> str:
    """AUROC of the yes-no margin, which no constant changes; the others as change, in points."""
    regimes = report.get("auroc", {})
    rows = []
    for method in report["methods"]:
        cells = [_auroc_cell(method, part.get(method)) for part in regimes.values()]
        if set(cells) != {"–"}:
            rows.append([title(method, report), *cells])
    return table(["method", *regimes], rows)


def _auroc_cell(method: str, figures: dict[str, Any] | None) -> str:
    if figures is None:
        return "–"
    if method == CONSTANT:
        return "0 by design"
    if "delta" in figures:
        return change(figures["delta"], survives(figures))
    return percent(figures["auroc"])


def _pair(report: Report, method: str) -> str:
    """α and β, or δ of the tuned constant on yes."""
    if method == CONSTANT and "constants" in report:
        return f"δ {number(report['constants'].get('yes', 0.0), '+g')}"
    pair = report["contrasts"].get(method)
    return f"{pair[0]:g}, {pair[1]:g}" if pair else "–"


def sections(report: Report, *, details: bool = True) -> Iterator[str]:
    """Every block of the report. details: with what `markdown` leaves to report.html."""
    yield f"# {report['benchmark']}: where contrast helps, and where it hurts"
    if failed := failures_line(report.get("failures")):
        yield f"**{as_cell(failed)}**"
    yield (
        "Baseline: right answers in %. Others: change against the baseline on the same questions,"
        f" in points. Intervals are 95 %, over clips (docs/intervals.md; of ratios from"
        f" {report['resamples']} resamples of whole clips). Bold: significant (p"
        f" < {SIGNIFICANT}) after Holm's correction over the table, by an exact sign-flip test on"
        f" whole clips; comparisons in which fewer than {MIN_DIFFERING} clips differ are no tests."
        " Regimes are never pooled. Captions count as right where nothing is named that is not"
        " there."
    )
    yield honest_table(report)
    yield from _about(report)
    yield "![Change against the baseline by regime and method](change.svg)"
    if any(part["levels"] for part in report["regimes"].values()):
        yield "![Right answers by evidence](evidence.svg)"
    if is_calibrated(report):
        yield "![Share right by the probability of the answer](reliability.svg)"
    yield from _shift_free(report)
    yield from _constants(report)
    if details:
        yield from _constant_free(report)
    yield from _paired(report, details)
    yield from _objects(report, details)
    if details:
        yield from _levels(report)
        yield from _breakdown(report)
        yield from _yes_no(report)
        yield from _captions(report)
        yield from _calibration(report)
    yield from _open(report, details)
    if not details:
        yield (
            "Yes/no questions alone, all others with constants of their own, tables by evidence and"
            " by properties of the asked object, CHAIR of captions, calibration, further pairs of"
            " methods, and what a contrast could change are in `report.html` (`python -m evals"
            " report FOLDER --again`) and in `report.json`."
        )
    out = "Left out, because the method does not apply to the question"
    yield from _counted(report, "left_out", out)
    yield from _counted(report, "errors", "Answers that failed, and count as wrong")


def _about(report: Report) -> Iterator[str]:
    fit = f" Frames: fit {report['fit']}." if "fit" in report else ""
    yield (
        f"Boxes: {report['boxes']}. α and β: {report['how_chosen']}. Split: {report['split']},"
        f" seed {report['seed']}.{fit} {report['machine']}."
    )
    if "constants" in report:
        others = {w: c for w, c in report["constants"].items() if w != "yes"}
        words = ", ".join(f"{w} {number(c, '+g')}" for w, c in sorted(others.items()))
        yield (
            "The tuned constant is the control: δ on “yes”, and a constant for each other answer"
            f" word ({words or 'none helps'}), chosen on the same questions as α and β, of"
            f" {report['grid']['constant']} values against {report['grid']['alpha_beta']} pairs. It"
            " does not look at the video."
        )
    if note := objects_note(report.get("objects", {"none": 0}), report["methods"]):
        yield note
    if "made_by" in report:
        by = report["made_by"]
        yield f"Made by version {by['version']}, code {by['code']}; rows: `rows.jsonl.gz`."


def _shift_free(report: Report) -> Iterator[str]:
    if not report.get("auroc"):
        return
    yield "## What a constant cannot change: the ranking of yes-no answers"
    yield (
        "AUROC of the margin of “yes” over “no”, in %; others as change in points. Bold after"
        " Holm's correction over this table."
    )
    yield auroc_table(report)


def _constants(report: Report) -> Iterator[str]:
    """Would a bias do the same?"""
    rows = [
        (regime, method, f)
        for regime, part in report["regimes"].items()
        for method, f in part["methods"].items()
        if "constant" in f and method != CONSTANT and survives(f) and f["delta"][0] > 0
    ]
    if not any("constant" in f for p in report["regimes"].values() for f in p["methods"].values()):
        return
    yield "## Would a bias do the same?"
    if not rows:
        yield "No method has a significant gain."
        return
    yield (
        "For every gain that is significant: constants on the baseline's scores that give each"
        " answer exactly as often as the method does, without a second view. Share: their gain over"
        " the method's. Remains: the method's gain less theirs, in points."
    )
    cells = []
    for regime, method, f in rows:
        c = f["constant"]
        delta = number(c["delta_on_yes"], "+.2f")
        share = DASH if c["share"] is None else f"{percent(c['share'])} %"
        gains = (change(c["gain"]), change(c["constant_gain"]))
        cells.append([regime, title(method, report), *gains, delta, share, change(c["remains"])])
    heads = ["regime", "method", "gain", "a constant's", "δ on yes", "share", "remains"]
    yield table(heads, cells)


def _constant_free(report: Report) -> Iterator[str]:
    regimes = report.get("constant_free", {})
    if not regimes:
        return
    yield "## Words, choices and order: where no constant helps"
    yield (
        "Questions without yes or no. Constants for each answer word are tuned on each regime's"
        " questions of the choose split: where they gain less than a point, a method's gain is not"
        " a shift."
    )
    parts = regimes.values()
    rows = [
        [title(m, report), *(cell(p["methods"].get(m, {"n": 0})) for p in parts)]
        for m in report["methods"]
        if m != CONSTANT
    ]
    rows.append(["*its own constants*", *(change(p["gain"]) for p in parts)])
    rows.append(["*do constants help?*", *("yes" if p["helps"] else "no" for p in parts)])
    yield table(["method", *(f"{r} (n = {p['n']})" for r, p in regimes.items())], rows)


def _paired(report: Report, details: bool) -> Iterator[str]:
    """Method against method. details: also other pairs than of MACD and a control."""
    regimes = {r: cells for r, cells in report.get("paired", {}).items() if cells}
    if not regimes:
        return
    yield "## Method against method"
    yield (
        "Change from the second method to the first on the questions that both answer, in points;"
        " bold after Holm's correction over every pair."
    )
    by_pair = {
        regime: {(c["method"], c["against"]): change(c["delta"], survives(c)) for c in cells}
        for regime, cells in regimes.items()
    }
    pairs = dict.fromkeys(
        (first, against)
        for cells in by_pair.values()
        for first, against in cells
        if details or (first.startswith("macd") and against in (CONSTANT, *CONTROLS))
    )
    yield table(
        ["first", "against", *regimes],
        ([*map(title, pair), *(c.get(pair, "–") for c in by_pair.values())] for pair in pairs),
    )


def _objects(report: Report, details: bool) -> Iterator[str]:
    """Does the gradient find the asked object? details: also by evidence."""
    if "ranking" not in report and report["gradient_auc"]:
        yield "## Does the gradient find the asked object?"
        found = report["gradient_auc"].items()
        rows = [[level or "all", f["pairs"], area(f["auc"])] for level, f in found]
        yield table(["evidence", "pairs", "AUC [95 %]"], rows)
    if not report.get("ranking"):
        return
    yield "## Which object comes first?"
    yield (
        "AUC: P(the asked object ranks above another of its clip), by the gradient or by the"
        " measured change of the answer's distribution; .50 is chance. First: share of clips in"
        " which the asked object comes first; lots: by chance. Agrees: share of clips in which the"
        " measurement puts the same object first."
    )
    of = ["ranked by", "regime", *(["evidence"] if details else [])]
    rows = []
    for method, regimes in report["ranking"].items():
        for regime, levels in regimes.items():
            for level, f in levels.items():
                if level != "all" and not details:
                    continue
                shares = (percent(f["first"]), points(f["chance"]))
                agrees = percent(f["agrees"])
                names = (title(method, report), regime, level)[: len(of)]
                rows.append([*names, f["pairs"], area(f["auc"]), *shares, agrees])
    yield table([*of, "pairs", "AUC", "first, %", "lots, %", "agrees, %"], rows)


def _levels(report: Report) -> Iterator[str]:
    yield "## By evidence"
    for regime, part in report["regimes"].items():
        if part["levels"]:
            yield f"### {regime}"
            groups = {k: (v["n"], v["methods"]) for k, v in part["levels"].items()}
            yield _by_group(report, groups)


def _by_group(report: Report, groups: dict[str, tuple[int, dict[str, Any]]]) -> str:
    rows = (
        [title(m, report), *(cell(methods.get(m, {"n": 0})) for _, methods in groups.values())]
        for m in report["methods"]
    )
    return table(["method", *(f"{k} (n = {n})" for k, (n, _) in groups.items())], rows)


def _breakdown(report: Report) -> Iterator[str]:
    if not report.get("breakdown"):
        return
    yield "## By the asked object"
    for regime, properties in report["breakdown"].items():
        for name, groups in properties.items():
            yield f"### {regime}: {name}"
            yield _by_group(report, {k: (v["n"], v["methods"]) for k, v in groups.items()})


def _yes_no(report: Report) -> Iterator[str]:
    columns = ("accuracy", "balanced", "precision", "recall", "f1", "yes_rate", "false_yes")
    numbers = ("d_prime", "criterion", "margin_auroc", "margin_d_prime")
    for regime, part in report["regimes"].items():
        rows = {m: f["yes_no"] for m, f in part["methods"].items() if "yes_no" in f}
        if not rows:
            continue
        yield f"### {regime}: yes/no questions only (n = {next(iter(rows.values()))['n']})"
        heads = [c.replace("_", "-") for c in columns]
        heads += ["d′", "criterion c", "margin AUROC", "margin d′", "unmatched", "McNemar p"]
        lines = []
        one_class = next(iter(rows.values()))["always_yes"] in (0, 1)
        for method, f in rows.items():
            p = part["methods"][method].get("p")
            hidden = ("precision", "recall", "f1", "balanced") if one_class else ()
            cells = ["–" if c in hidden else points(f[c]) for c in columns]
            cells += [number(f.get(name), ".3f") for name in numbers]
            cells.append(f"{f['unmatched']:.0f}")
            cells.append("–" if p is None else f"{p:.2g}")
            lines.append([title(method, report), *cells])
        yield table(["method", *heads], lines)
        line = next(iter(rows.values()))["always_yes"]
        weak = [title(m, report) for m, f in rows.items() if f["accuracy"] <= line]
        yield f"Answering yes every time gets {points(line)} here. " + (
            f"Not better than that: {', '.join(weak)}." if weak else "Every method beats that."
        )
    yield (
        "d′ = z(hits) − z(false alarms) and c = −½·(z(hits) + z(false alarms)) of the answers, with"
        " the log-linear correction (count + ½)/(n + 1); c < 0 leans towards “yes”. Margin d′ ="
        " √2·z(AUROC), which no constant changes."
    )
    yield (
        "McNemar's exact p is over all questions of the regime, and takes questions of one clip for"
        " independent; what is bold elsewhere rests on the test over clips."
    )


def is_calibrated(report: Report) -> bool:
    """Whether it has probabilities of answers."""
    return any(
        "calibration" in f for p in report["regimes"].values() for f in p["methods"].values()
    )


def _calibration(report: Report) -> Iterator[str]:
    if not is_calibrated(report):
        return
    regimes = {
        r: p["methods"]
        for r, p in report["regimes"].items()
        if any("calibration" in f for f in p["methods"].values())
    }
    yield "## Calibration"
    yield (
        "Expected calibration error of the probability of the given answer under the method's own"
        " scores, ten equal bins, in points (lower is better)."
    )
    rows = []
    for method in report["methods"]:
        errors = (z.get(method, {}).get("calibration") for z in regimes.values())
        cells = ["–" if e is None else points(e["ece"]) for e in errors]
        rows.append([title(method, report), *cells])
    yield table(["method", *regimes], rows)


def _open(report: Report, details: bool) -> Iterator[str]:
    """What a server certified; details: also how much a contrast could change, and its cost."""
    rows = []
    for method in report["methods"] if details else ():
        parts = [p["methods"][method] for p in report["regimes"].values()]
        if known := [f["open"] for f in parts if "open" in f]:
            rows.append(open_row(title(method, report), known, _reads(report, method)))
    yield from open_section(rows)
    if rows:
        yield (
            "Reads: what a method takes in prompts read, alone: the video is 1, a second or a"
            " measured view 1, an ascent step 2 (forward and back); a token of the answer is small"
            " beside them."
        )
    regimes = report["regimes"].values()
    told = {m: [p["methods"][m] for p in regimes] for m in report["methods"]}
    yield from certified_section(
        {
            title(m, report): [f["certified"] for f in of if "certified" in f]
            for m, of in told.items()
        }
    )
    yield from clamped_section(report)


def _reads(report: Report, method: str) -> str:
    parts = [p["methods"][method] for p in report["regimes"].values()]
    reads = [(f["reads"], f["n"]) for f in parts if f.get("reads") is not None and f["n"]]
    total = sum(n for _, n in reads)
    return f"{sum(r * n for r, n in reads) / total:.1f}" if total else "–"


def _counted(report: Report, name: str, what: str) -> Iterator[str]:
    """How many answers have a property, by method and regime; nothing where none has."""
    counts = [
        f"{f[name]} of {title(method, report)} in {regime}"
        for regime, part in report["regimes"].items()
        for method, f in part["methods"].items()
        if f.get(name)
    ]
    if counts:
        yield f"{what}: {', '.join(counts)}"


def _captions(report: Report) -> Iterator[str]:
    for regime, part in report["regimes"].items():
        rows = {m: f for m, f in part["methods"].items() if "chair_i" in f}
        if not rows:
            continue
        yield f"### {regime}: CHAIR (n = {part['n']})"
        heads = ["method", "CHAIR_i % (lower is better)", "change", "recall %", "change"]
        lines = []
        for method, f in rows.items():
            invented = (percent(f["chair_i"]), change(f.get("chair_i_delta")))
            lines.append(
                [
                    title(method, report),
                    *invented,
                    percent(f["recall"]),
                    change(f.get("recall_delta")),
                ]
            )
        yield table(heads, lines)


CONTROLS = ("random-place", "random-mask", "random-objects", "mask-all")
SHOWN_BY_LEVEL = (
    "baseline",
    CONSTANT,
    "vcd",
    "macd",
    "macd-measured",
    "random-place",
    "random-objects",
    "random-mask",
    "mask-all",
)


def markdown(report: Report) -> str:
    """The report without the details of `sections`."""
    return as_markdown(sections(report, details=False))


def write(report: Report, out: Path) -> None:
    """report.json, report.md and report.html in a folder."""
    from macd_studio.evals.running.output import write_json

    write_json(out / "report.json", report)
    (out / "report.md").write_text(markdown(report), encoding="utf-8")
    drawn = pictures(report)
    for name, picture in drawn.items():
        (out / f"{name}.svg").write_text(picture + "\n", encoding="utf-8")
    whole = page(report["benchmark"], sections(report), list(drawn.values()))
    (out / "report.html").write_text(whole, encoding="utf-8")


def pictures(report: Report) -> dict[str, str]:
    """Name → SVG of the report's plots."""
    from macd_studio.evals.printing.plots import by_level, forest, reliability

    drawings = {"change": forest(report)}
    shown = tuple(m for m in SHOWN_BY_LEVEL if m in report["methods"])
    if any(part["levels"] for part in report["regimes"].values()):
        drawings["evidence"] = by_level(report, shown)
    if is_calibrated(report):
        drawings["reliability"] = reliability(report, shown)
    return drawings


def load(out: Path) -> Report:
    """The report of a folder."""
    report: Report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    return report
