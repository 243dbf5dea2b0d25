"""A report's tables and its sections, as lines of Markdown. Prints what is there."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from macd_studio.evals.failures import failures_line
from macd_studio.evals.figures import (
    SIGNIFICANT,
    Report,
    area,
    cell,
    change,
    number,
    percent,
    points,
    survives,
    title,
)
from macd_studio.evals.objects import objects_note
from macd_studio.evals.scoring.show import as_cell


def honest_table(report: Report, methods: Sequence[str] | None = None) -> list[str]:
    """The table: regimes across, methods down; baseline in percent, the others as change."""
    regimes = report["regimes"]
    lines = [
        "| method | α, β | " + " | ".join(regimes) + " |",
        "|---|---|" + "---|" * len(regimes),
    ]
    for method in methods or report["methods"]:
        cells = [cell(part["methods"][method]) for part in regimes.values()]
        lines.append(f"| {title(method)} | {_pair(report, method)} | " + " | ".join(cells) + " |")
    counts = [f"{part['n']} ({part['clips']})" for part in regimes.values()]
    lines.append("| *questions (clips)* | | " + " | ".join(counts) + " |")
    return lines


def auroc_table(report: Report, methods: Sequence[str] | None = None) -> list[str]:
    """AUROC of the yes-no margin, which no constant changes; the others as change, in points."""
    regimes = report.get("auroc", {})
    if not regimes:
        return []
    lines = ["| method | " + " | ".join(regimes) + " |", "|---|" + "---|" * len(regimes)]
    for method in methods or report["methods"]:
        cells = []
        for part in regimes.values():
            f = part.get(method)
            if f is None:
                cells.append("–")
            elif method == "yes-bias":
                cells.append("0 by design")
            elif "delta" in f:
                cells.append(change(f["delta"], survives(f)))
            else:
                cells.append(percent(f["auroc"]))
        if set(cells) != {"–"}:
            lines.append(f"| {title(method)} | " + " | ".join(cells) + " |")
    return lines


README_METHODS = ("baseline", "yes-bias", "random-mask", "vcd", "macd")


def readme_tables(report: Report) -> list[str]:
    """At most five rows: right answers, and below them the ranking that no constant changes."""
    methods = [m for m in README_METHODS if m in report["methods"]]
    ranking = auroc_table(report, methods)
    head = "AUROC of the yes-no margin, %, and its change in points:"
    return [*honest_table(report, methods), *(["", head, "", *ranking] if ranking else [])]


def _pair(report: Report, method: str) -> str:
    """α and β, or δ of the tuned constant on yes."""
    if method == "yes-bias" and "constants" in report:
        return f"δ {report['constants'].get('yes', 0.0):+g}".replace("-", "−")
    pair = report["contrasts"].get(method)
    return f"{pair[0]:g}, {pair[1]:g}" if pair else "–"


def sections(report: Report) -> Iterator[str]:
    """Every line of the report."""
    yield f"# {report['benchmark']}: where contrast helps, and where it hurts"
    yield ""
    if failed := failures_line(report.get("failures")):
        yield f"**{as_cell(failed)}**"
        yield ""
    yield (
        "Baseline: right answers in %. Others: change against the baseline on the same questions,"
        f" in points. Intervals are 95 %, from {report['resamples']} resamples of whole clips;"
        " where nothing changed they are the exact bound for that many clips. Bold: significant (p"
        f" < {SIGNIFICANT}) after Holm's correction over the table, by an exact sign test on whole"
        " clips. Regimes are never pooled. Captions count as right where nothing is named that is"
        " not there."
    )
    yield ""
    yield from honest_table(report)
    yield ""
    yield from _about(report)
    yield ""
    yield "![Change against the baseline by regime and method](change.svg)"
    if any(part["levels"] for part in report["regimes"].values()):
        yield ""
        yield "![Right answers by evidence](evidence.svg)"
    if is_calibrated(report):
        yield ""
        yield "![Share right by the probability of the answer](reliability.svg)"
    yield from _shift_free(report)
    yield from _constants(report)
    yield from _constant_free(report)
    yield from _paired(report)
    yield from _objects(report)
    yield from _levels(report)
    yield from _breakdown(report)
    yield from _yes_no(report)
    yield from _captions(report)
    yield from _calibration(report)
    yield from _left_out(report)
    yield from _errors(report)


def _about(report: Report) -> Iterator[str]:
    fit = f" Frames: fit {report['fit']}." if "fit" in report else ""
    yield (
        f"Boxes: {report['boxes']}. α and β: {report['how_chosen']}. Split: {report['split']},"
        f" seed {report['seed']}.{fit} {report['machine']}."
    )
    if "constants" in report:
        others = {w: c for w, c in report["constants"].items() if w != "yes"}
        words = ", ".join(f"{w} {c:+g}" for w, c in sorted(others.items())).replace("-", "−")
        yield ""
        yield (
            "The tuned constant is the control: δ on “yes”, and a constant for each other answer"
            f" word ({words or 'none helps'}), chosen on the same questions as α and β, of"
            f" {report['grid']['constant']} values against {report['grid']['alpha_beta']} pairs. It"
            " does not look at the video."
        )
    if note := objects_note(report.get("objects", {"none": 0}), report["methods"]):
        yield ""
        yield note
    if "made_by" in report:
        by = report["made_by"]
        yield ""
        yield f"Made by version {by['version']}, code {by['code']}; rows: `rows.jsonl.gz`."


def _shift_free(report: Report) -> Iterator[str]:
    if not report.get("auroc"):
        return
    yield ""
    yield "## What a constant cannot change: the ranking of yes-no answers"
    yield ""
    yield (
        "AUROC of the margin of “yes” over “no”, in %; others as change in points. Bold after"
        " Holm's correction over this table, by the spread of the resamples."
    )
    yield ""
    yield from auroc_table(report)


def _constants(report: Report) -> Iterator[str]:
    """Would a bias do the same?"""
    rows = [
        (regime, method, f)
        for regime, part in report["regimes"].items()
        for method, f in part["methods"].items()
        if "constant" in f and method != "yes-bias" and survives(f) and f["delta"][0] > 0
    ]
    if not any("constant" in f for p in report["regimes"].values() for f in p["methods"].values()):
        return
    yield ""
    yield "## Would a bias do the same?"
    yield ""
    yield (
        "For every gain that is significant: constants on the baseline's scores that give each"
        " answer exactly as often as the method does, without a second view. Share: their gain over"
        " the method's. Remains: the method's gain less theirs, in points."
    )
    yield ""
    if not rows:
        yield "No method has a significant gain."
        return
    yield "| regime | method | gain | a constant's | δ on yes | share | remains |"
    yield "|---|---|---|---|---|---|---|"
    for regime, method, f in rows:
        c = f["constant"]
        delta = "–" if c["delta_on_yes"] is None else f"{c['delta_on_yes']:+.2f}"
        share = "–" if c["share"] is None else f"{percent(c['share'])} %"
        yield (
            f"| {regime} | {title(method)} | {change(c['gain'])} | {change(c['constant_gain'])} |"
            f" {delta.replace('-', '−')} | {share} | {change(c['remains'])} |"
        )


def _constant_free(report: Report) -> Iterator[str]:
    table = report.get("constant_free", {})
    if not table:
        return
    yield ""
    yield "## Words, choices and order: where no constant helps"
    yield ""
    yield (
        "Questions that are not answered by yes or no. A regime's own constants, one for each"
        " answer word, tuned on its own questions of the choose split: where they gain less than a"
        " point, a method's gain is not a shift."
    )
    yield ""
    names = [f"{r} (n = {p['n']})" for r, p in table.items()]
    yield "| method | " + " | ".join(names) + " |"
    yield "|---|" + "---|" * len(table)
    for method in report["methods"]:
        if method != "yes-bias":
            cells = [cell(p["methods"].get(method, {"n": 0})) for p in table.values()]
            yield f"| {title(method)} | " + " | ".join(cells) + " |"
    yield "| *its own constants* | " + " | ".join(change(p["gain"]) for p in table.values()) + " |"
    yield (
        "| *do constants help?* | "
        + " | ".join("yes" if p["helps"] else "no" for p in table.values())
        + " |"
    )


def _paired(report: Report) -> Iterator[str]:
    table = {r: cells for r, cells in report.get("paired", {}).items() if cells}
    if not table:
        return
    yield ""
    yield "## Method against method"
    yield ""
    yield (
        "Change from the second method to the first on the questions that both answer, in points;"
        " bold after Holm's correction over this whole table."
    )
    yield ""
    pairs = list(dict.fromkeys((c["method"], c["against"]) for z in table.values() for c in z))
    yield "| first | against | " + " | ".join(table) + " |"
    yield "|---|---|" + "---|" * len(table)
    for pair in pairs:
        cells = []
        for regime in table.values():
            f = next((c for c in regime if (c["method"], c["against"]) == pair), None)
            cells.append("–" if f is None else change(f["delta"], survives(f)))
        yield f"| {title(pair[0])} | {title(pair[1])} | " + " | ".join(cells) + " |"


def _objects(report: Report) -> Iterator[str]:
    """Does the gradient find the asked object?"""
    if "ranking" not in report and report["gradient_auc"]:
        yield ""
        yield "## Does the gradient find the asked object?"
        yield ""
        yield "| evidence | pairs | AUC [95 %] |"
        yield "|---|---|---|"
        for level, f in report["gradient_auc"].items():
            yield f"| {level or 'all'} | {f['pairs']} | {area(f['auc'])} |"
    if not report.get("ranking"):
        return
    yield ""
    yield "## Which object comes first?"
    yield ""
    yield (
        "AUC: P(the asked object ranks above another of its clip), by the gradient or by the"
        " measured change of the answer's distribution; .50 is chance. First: share of clips in"
        " which the asked object comes first, beside drawing lots. Agrees: share of clips in which"
        " it puts first what the measurement puts first."
    )
    yield ""
    yield "| ranked by | regime | evidence | pairs | AUC | first, % | lots, % | agrees, % |"
    yield "|---|---|---|---|---|---|---|---|"
    for method, regimes in report["ranking"].items():
        for regime, levels in regimes.items():
            for level, f in levels.items():
                agrees = "–" if f["agrees"] is None else percent(f["agrees"])
                yield (
                    f"| {title(method)} | {regime} | {level} | {f['pairs']} | {area(f['auc'])} |"
                    f" {percent(f['first'])} | {points(f['chance'])} | {agrees} |"
                )


def _levels(report: Report) -> Iterator[str]:
    yield ""
    yield "## By evidence"
    for regime, part in report["regimes"].items():
        if part["levels"]:
            yield ""
            yield f"### {regime}"
            yield ""
            groups = {k: (v["n"], v["methods"]) for k, v in part["levels"].items()}
            yield from _by_group(report, groups)


def _by_group(report: Report, groups: dict[str, tuple[int, dict[str, Any]]]) -> Iterator[str]:
    yield "| method | " + " | ".join(f"{k} (n = {n})" for k, (n, _) in groups.items()) + " |"
    yield "|---|" + "---|" * len(groups)
    for method in report["methods"]:
        cells = [cell(methods.get(method, {"n": 0})) for _, methods in groups.values()]
        yield f"| {title(method)} | " + " | ".join(cells) + " |"


def _breakdown(report: Report) -> Iterator[str]:
    if not report.get("breakdown"):
        return
    yield ""
    yield "## By the asked object"
    for regime, properties in report["breakdown"].items():
        for name, groups in properties.items():
            yield ""
            yield f"### {regime}: {name}"
            yield ""
            yield from _by_group(report, {k: (v["n"], v["methods"]) for k, v in groups.items()})


def _yes_no(report: Report) -> Iterator[str]:
    columns = ("accuracy", "balanced", "precision", "recall", "f1", "yes_rate", "false_yes")
    numbers = ("d_prime", "criterion", "margin_auroc", "margin_d_prime")
    for regime, part in report["regimes"].items():
        rows = {m: f["yes_no"] for m, f in part["methods"].items() if "yes_no" in f}
        if not rows:
            continue
        yield ""
        yield f"### {regime}: yes/no questions only (n = {next(iter(rows.values()))['n']})"
        yield ""
        heads = [c.replace("_", "-") for c in columns]
        heads += ["d′", "criterion c", "margin AUROC", "margin d′", "unmatched", "McNemar p"]
        yield "| method | " + " | ".join(heads) + " |"
        yield "|---|" + "---|" * len(heads)
        one_class = next(iter(rows.values()))["always_yes"] in (0, 1)
        for method, f in rows.items():
            p = part["methods"][method].get("p")
            hidden = ("precision", "recall", "f1", "balanced") if one_class else ()
            cells = ["–" if c in hidden else points(f[c]) for c in columns]
            cells += [number(f.get(name, math.nan)) for name in numbers]
            cells.append(f"{f['unmatched']:.0f}")
            cells.append("–" if p is None else f"{p:.2g}")
            yield f"| {title(method)} | " + " | ".join(cells) + " |"
        line = next(iter(rows.values()))["always_yes"]
        weak = [title(m) for m, f in rows.items() if f["accuracy"] <= line]
        yield ""
        yield f"Answering yes every time gets {points(line)} here. " + (
            f"Not better than that: {', '.join(weak)}." if weak else "Every method beats that."
        )
    yield ""
    yield (
        "d′ = z(hits) − z(false alarms) and c = −½·(z(hits) + z(false alarms)) of the answers, with"
        " the log-linear correction (count + ½)/(n + 1); c < 0 leans towards “yes”. Margin d′ ="
        " √2·z(AUROC), which no constant changes."
    )
    yield ""
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
    yield ""
    yield "## Calibration"
    yield ""
    yield (
        "Expected calibration error of the probability of the given answer under the method's own"
        " scores, ten equal bins, in points (lower is better)."
    )
    yield ""
    yield "| method | reads | " + " | ".join(regimes) + " |"
    yield "|---|---|" + "---|" * len(regimes)
    for method in report["methods"]:
        cells = [
            points(z[method]["calibration"]["ece"]) if "calibration" in z.get(method, {}) else "–"
            for z in regimes.values()
        ]
        yield f"| {title(method)} | {_reads(report, method)} | " + " | ".join(cells) + " |"
    yield ""
    yield (
        "Reads: what a method takes in prompts read, alone: the video is 1, a second or a measured"
        " view 1, an ascent step 2 (forward and back); a token of the answer is small beside them."
    )


def _reads(report: Report, method: str) -> str:
    parts = [p["methods"][method] for p in report["regimes"].values()]
    reads = [(f["reads"], f["n"]) for f in parts if f.get("reads") is not None and f["n"]]
    total = sum(n for _, n in reads)
    return f"{sum(r * n for r, n in reads) / total:.1f}" if total else "–"


def _left_out(report: Report) -> Iterator[str]:
    counts = {
        (regime, method): f["left_out"]
        for regime, part in report["regimes"].items()
        for method, f in part["methods"].items()
        if f.get("left_out")
    }
    if counts:
        yield ""
        yield "Left out, because the method does not apply to the question: " + ", ".join(
            f"{n} of {title(m)} in {r}" for (r, m), n in counts.items()
        )


def _captions(report: Report) -> Iterator[str]:
    for regime, part in report["regimes"].items():
        rows = {m: f for m, f in part["methods"].items() if "chair_i" in f}
        if not rows:
            continue
        yield ""
        yield f"### {regime}: CHAIR (n = {part['n']})"
        yield ""
        yield "| method | CHAIR_i % (lower is better) | change | recall % | change |"
        yield "|---|---|---|---|---|"
        for method, f in rows.items():
            cells = [percent(f["chair_i"]), _change(f, "chair_i_delta")]
            cells += [percent(f["recall"]), _change(f, "recall_delta")]
            yield f"| {title(method)} | " + " | ".join(cells) + " |"


def _change(figures: dict[str, Any], name: str) -> str:
    return change(figures[name]) if name in figures else "–"


def _errors(report: Report) -> Iterator[str]:
    failed = {
        (regime, method): f["errors"]
        for regime, part in report["regimes"].items()
        for method, f in part["methods"].items()
        if f["errors"]
    }
    if failed:
        yield ""
        yield "Answers that failed, and count as wrong: " + ", ".join(
            f"{n} of {title(m)} in {r}" for (r, m), n in failed.items()
        )
