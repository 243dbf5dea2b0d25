"""docs/paper-tables.md: what the doctor says of the paper's own tables.

`python -m evals.paper.paper_page` prints it; nothing but what follows from the printed figures.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from macd_studio.core.pages.blocks import as_markdown
from macd_studio.evals.paper.doctor import METRICS, Diagnosis, Printed, Unmatched, always_yes
from macd_studio.evals.paper.published import (
    FOLDER,
    PublishedRow,
    PublishedTable,
    coincidences,
    diagnose,
    disagreements,
    findings,
    read_table,
)
from macd_studio.evals.paper.query_types import markdown as agreement
from macd_studio.evals.paper.query_types import read as read_labels
from macd_studio.evals.printing.figures import table

CONVENTIONS: tuple[tuple[str, Unmatched, Printed], ...] = (
    ("unmatched as no, rounded", "no", "rounded"),
    ("unmatched as no, rounded or cut off", "no", "rounded-or-truncated"),
    ("unmatched as wrong, rounded", "wrong", "rounded"),
    ("unmatched as wrong, rounded or cut off", "wrong", "rounded-or-truncated"),
)
PAPER = (
    'Xiao and Zhou, "MACD: Model-Aware Contrastive Decoding via Counterfactual Data for'
    ' Video-LLMs", ICML 2026, LaTeX source'
)
FIRST = ("main", "ablation", "sweep", "detector", "learning_rate", "continuous", "latency")


def tables() -> dict[str, PublishedTable]:
    """Every table that ships, by name."""
    return {path.stem: read_table(path) for path in sorted(FOLDER.glob("*.csv"))}


def misfits(rows: Sequence[PublishedRow]) -> list[int]:
    """For each of CONVENTIONS how many rows fit no counts."""
    return [
        sum(_fits_none(diagnose(row, unmatched, printed)) for row in rows)
        for _, unmatched, printed in CONVENTIONS
    ]


def _fits_none(diagnosis: Diagnosis | None) -> bool:
    return diagnosis is not None and not diagnosis.possible


def page() -> str:
    """The whole page as Markdown."""
    return as_markdown(_page(tables()))


def _page(published: dict[str, PublishedTable]) -> Iterator[str]:
    main = published["main"].rows
    counts = misfits(main)
    yes = always_yes(193, 137)
    yield "# The paper's tables, put to the metric doctor"
    yield (
        "Which printed figures some confusion matrix of the stated size can give, and where tables"
        " differ. Nothing here says why: a typing error, an averaged run, another number of"
        f" questions or another scorer would look alike. The tables are of {PAPER}"
        " ([evals/paper/published_tables](../evals/paper/published_tables));"
        " `python -m evals.paper.paper_page` writes this page, and"
        " `python -m evals doctor --table FILE.csv` does the same for any table."
    )
    yield "## Conventions"
    yield (
        "An answer that is neither yes nor no counts as wrong (EventHallusion's scorer) or as no;"
        " figures, with the decimals of the paper's source, are rounded, or may be cut off. Where"
        " no number of yes answers is stated, every number was tried. Rows of the main table on"
        f" EventHallusion ({len(main)} rows, 193 questions, 137 answered yes) that fit no counts:"
    )
    fits = ([c[0], f"{n} of {len(main)}"] for c, n in zip(CONVENTIONS, counts, strict=True))
    yield table(["convention", "rows that fit none"], fits)
    always = [r for r in main if _never(r)]
    yield f"Under every convention {len(always)} do not fit."
    yield (
        f"Always yes gets accuracy {yes['accuracy']:.1f} and F1 {yes['f1']:.1f} there, in %; a"
        " figure is called more only by more than its rounding. An earlier file of the benchmark's"
        " authors has these totals ([benchmarks.md](benchmarks.md#eventhallusion))."
    )
    for name in [n for n in FIRST if n in published]:
        yield from _table(published[name])
    yield from _held_together(published)
    yield "## Query types"
    yield (
        "The paper does not say how it sorted questions. Here a rule does (`evals/paper/ours.py`)."
        " One reader labelled 60 distinct questions of EventHallusion and POPE, a seeded draw from"
        " each, without the rule's labels ([query-types.csv](query-types.csv));"
        " `python -m evals.paper.query_types`, Cohen's kappa with its 95 % BCa bootstrap interval"
        " over questions:"
    )
    yield agreement(read_labels()[1])
    yield (
        "The rule finds few of the questions that the reader calls reasoning-heavy, so our rows by"
        " reasoning depth are no check of the paper's."
    )
    yield "## Figures that cannot be, or cannot all be"
    yield "\n".join(f"- {finding}" for finding in findings(published))


def _never(row: PublishedRow) -> bool:
    return all(_fits_none(diagnose(row, u, p)) for _, u, p in CONVENTIONS)


def _short(row: PublishedRow) -> str:
    parts = (row.labels.get(c, "") for c in ("model", "part", "method", "setting"))
    return " ".join(p for p in parts if p)


def _table(published: PublishedTable) -> Iterator[str]:
    rows = [r for r in published.rows if diagnose(r) is not None]
    if not rows:
        return
    metrics = [m for m in METRICS if any(m in r.figures for r in rows)]
    yield f"## {published.name.replace('_', ' ')}"
    yield published.source.removeprefix(f"{PAPER}, ")
    lines = []
    for row in rows:
        diagnoses = [diagnose(row, u, p) for _, u, p in CONVENTIONS]
        strictest = diagnoses[0]
        assert strictest is not None
        if strictest.notes or any(map(_fits_none, diagnoses)):
            fits = [c[0] for c, d in zip(CONVENTIONS, diagnoses, strict=True) if not _fits_none(d)]
            cells = [_short(row), *(_figure(row.figures.get(m, "–")) for m in metrics)]
            lines.append([*cells, "; ".join(fits) or "none", "; ".join(strictest.notes) or "–"])
    if lines:
        yield table(["row", *metrics, "fits under", "notes"], lines)
    unlisted = " and are not listed" if 0 < len(lines) < len(rows) else ""
    fitting = f"{len(rows) - len(lines)} of {len(rows)} rows fit under every convention{unlisted}."
    yield f"{fitting} {_above(rows, metrics)}".strip()


def _above(rows: Sequence[PublishedRow], metrics: Sequence[str]) -> str:
    """Which rows print more than answering yes every time gets."""
    told: list[str] = []
    for metric in (m for m in ("accuracy", "f1") if m in metrics):
        known = [(r, d.over_always_yes[metric]) for r in rows
                 if (d := diagnose(r)) and metric in d.over_always_yes]  # fmt: skip
        if known:
            above = "; ".join(_short(r) for r, over in known if over) or "none"
            told.append(f"{'In' if told else 'More than always yes in'} {metric}: {above}.")
    return " ".join(told)


def _figure(text: str) -> str:
    """At most six decimals; the data has them all."""
    whole, point, places = text.partition(".")
    return f"{whole}{point}{places[:6]}{'…' if len(places) > 6 else ''}"


def _held_together(published: dict[str, PublishedTable]) -> Iterator[str]:
    rows = [row for one in published.values() for row in one.rows]
    yield "## Tables compared with each other"
    yield (
        "Rows with the same benchmark, backbone and method, in settings that the paper calls the"
        " same or does not distinguish, whose figures differ after rounding:"
    )
    whole = [r for r in rows if not {r.labels.get("part"), r.labels.get("setting")} - {None, ""}]
    differing = (
        [*map(_named, pair), "; ".join(
            f"{metric} {' and '.join(_figure(row.figures[metric]) for row in pair)}"
            for metric in c.metrics
        )]
        for c in disagreements(whole, ("benchmark", "model", "method"))
        for pair in [(c.first, c.second)]
    )  # fmt: skip
    yield table(["first", "second", "they print"], differing)
    base = [
        r
        for r in rows
        if r.labels.get("benchmark") == "EventHallusion"
        and r.labels.get("method") == "Baseline"
        and r.labels.get("model") in ("", "Qwen2.5-VL-3B")
        and not r.labels.get("part")
        and "accuracy" in r.figures
    ]
    yield (
        "Plain decoding on EventHallusion, where the backbone is Qwen2.5-VL-3B or is not named: "
        + "; ".join(f"{_percent(r)} in {r.table}{_setting(r)}" for r in base)
        + "."
    )
    yield "Rows under different names that print the same figures:"
    same = coincidences(rows, ("benchmark",), "method")
    equal = ([_named(c.first), _named(c.second), ", ".join(c.metrics)] for c in same)
    yield table(["first", "second", "metrics"], equal)


def _named(row: PublishedRow) -> str:
    return f"{row.table}: {_short(row)}"


def _percent(row: PublishedRow) -> str:
    share = 100 if row.unit == "share" else 1
    return f"{share * float(row.figures['accuracy']):.1f} %"


def _setting(row: PublishedRow) -> str:
    setting = row.labels.get("setting")
    return f" ({setting})" if setting else ""


if __name__ == "__main__":
    sys.stdout.write(page())
