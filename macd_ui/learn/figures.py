"""The figures of the lessons' text: `python -m macd_ui.learn.figures` writes figures.json.

From docs/toyworld-results/report.json and from the paper's main table, put to the metric doctor.
The file holds the values that the chapters name by their keys; a test holds it to its sources. Run
it after a chapter names another one, or the report was made again.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import numpy as np

from macd_studio.commands import need_checkout
from macd_studio.core.text.numbers import number, with_interval
from macd_studio.macd_ui.learn.chapters import CHAPTERS, HERE, Value, placeholders

FILE = HERE / "figures.json"
RESULTS = HERE.parents[1] / "docs" / "toyworld-results"
TABLE = "main"
ROWS = (
    "EventHallusion, Qwen3-VL-2B, Baseline",
    "EventHallusion, Qwen3-VL-2B, VCD",
    "EventHallusion, Qwen2.5-VL-3B, MACD",
    "EventHallusion, Qwen3-VL-2B, MACD",
)
"""Of the paper's table, by their labels: one of each verdict."""
PRINTED = ("precision", "recall", "f1", "accuracy")
UNCLEAR = 0.005
"""A change of AUROC below this is called none."""


@cache
def figures() -> dict[str, Any]:
    """The committed file: {"values": {key: text or number of a wording}, "table": […]}."""
    content: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return content


def compute() -> dict[str, Any]:
    """The file's content, from its sources."""
    report = json.loads((RESULTS / "report.json").read_text(encoding="utf-8"))
    values = report_values(report) | table_values()
    named = set[str]().union(*map(placeholders, CHAPTERS.rglob("*.toml")))
    return {
        "values": {key: value for key, value in values.items() if key in named},
        "table": table_rows(),
        "changes": changes(report),
        "paired": {
            regime: [round(100 * x, 2) for x in against["random-mask"]]
            for regime, against in paired(report).items()
            if "random-mask" in against
        },
    }


def report_values(report: dict[str, Any]) -> dict[str, Value]:
    """`report.REGIME.METHOD.FIGURE`, and `report.auc.LEVEL`; see each line below."""
    values: dict[str, Value] = {}
    for regime, row in report["regimes"].items():
        name = regime.replace(" ", "-")
        values[f"report.{name}.n"] = str(row["n"])
        methods = row["methods"]
        for method, figure in methods.items():
            key = f"report.{name}.{method}"
            values[f"{key}.right"] = percent(figure["right"][0])
            values[f"{key}.count"] = f"{_count(row, method):.0f}"
            if "delta" in figure:
                values[f"{key}.delta"] = change(figure["delta"])
                values[f"{key}.sign"] = sign(figure["delta"])
                values[f"{key}.repaired"] = str(figure["repaired"])
                values[f"{key}.spoiled"] = str(figure["spoiled"])
            both = figure.get("yes_no") or {}
            for part in ("yes_rate", "false_yes", "recall"):
                if both.get(part) is not None:
                    values[f"{key}.{part}"] = percent(both[part])
            auroc = both.get("margin_auroc")
            base = (methods["baseline"].get("yes_no") or {}).get("margin_auroc")
            if auroc is not None and base is not None:
                values[f"{key}.auroc"] = f"{auroc:.3f}"
                moved = auroc - base
                values[f"{key}.ranking"] = 2 if abs(moved) < UNCLEAR else int(moved < 0)
                if "delta" in figure:  # 0: more is right, and nothing is ranked better
                    gained = sign(figure["delta"]) == 0
                    values[f"{key}.shift"] = int(not (gained and moved < UNCLEAR))
            if both.get("always_yes") is not None:
                values[f"report.{name}.yes-share"] = percent(both["always_yes"])
        for other, delta in paired(report).get(regime, {}).items():
            values[f"report.{name}.paired.{other}"] = change(delta)
            if other in methods:  # whole answers, so that what is printed adds up
                more = _count(row, "macd") - _count(row, other)
                values[f"report.{name}.more.{other}"] = signed(more, 0)
            if other == "random-mask":
                values[f"report.{name}.against-random"] = sign(delta)
    for level, row in report["gradient_auc"].items():
        middle = row["auc"][0]
        values[f"report.auc.{level}"] = with_interval(row["auc"], ".2f", 1)
        values[f"report.auc.{level}.pairs"] = str(row["pairs"])
        values[f"report.auc.{level}.bin"] = 0 if middle < 0.6 else 1 if middle <= 0.85 else 2
    values["report.faint-chance"] = int(report["gradient_auc"]["faint"]["auc"][1] > 0.5)
    return values


def _count(row: dict[str, Any], method: str) -> float:
    """How many questions of a regime a method answers rightly."""
    count: float = row["n"] * row["methods"][method]["right"][0]
    return float(np.round(count))


METHODS = (
    "macd", "macd-swept", "vcd", "mask-all", "random-place", "random-objects",
    "random-mask", "random-average-2", "random-average-4",
    "random-average-8", "reversed", "blank",
)  # fmt: skip
"""Those that are compared on the page, in its order."""


def changes(report: dict[str, Any]) -> dict[str, dict[str, list[float]]]:
    """Regime → method → its change against the baseline and the interval, in points."""
    return {
        regime: {
            name: [round(100 * x, 2) for x in row["methods"][name]["delta"]]
            for name in METHODS
            if name in row["methods"]
        }
        for regime, row in report["regimes"].items()
    }


def paired(report: dict[str, Any]) -> dict[str, dict[str, list[float]]]:
    """Regime → control → MACD's right answers minus the control's on the same questions, in shares.

    With the interval over clips of that difference; {} for a report that does not compare in pairs.
    """
    return {
        regime: {c["against"]: c["delta"] for c in cells if c["method"] == "macd"}
        for regime, cells in report.get("paired", {}).items()
    }


def table_rows() -> list[dict[str, Any]]:
    """The rows a reader judges, with the doctor's verdict: 0 impossible, 1 no better than
    answering yes every time, 2 neither, and how many answers of its example are neither.
    """
    from macd_studio.evals.paper.doctor import audit_metrics
    from macd_studio.evals.paper.published import FOLDER, read_table

    published = {row.name: row for row in read_table(FOLDER / f"{TABLE}.csv").rows}
    rows = []
    for name in ROWS:
        row = published[name]
        claim = row.claim("wrong", "rounded")
        assert claim is not None
        audit = audit_metrics(claim)
        verdict = 0 if not audit.possible else 1 if audit.beats_always_yes is False else 2
        rows.append({
            "name": name.partition(", ")[2],
            "figures": {m: _cut(row.figures[m]) for m in PRINTED},
            "verdict": verdict,
            "possible": audit.possible,
            "example": list(audit.example) if audit.example else None,
            "neither": claim.n - sum(audit.example) if audit.example and claim.n else 0,
        })  # fmt: skip
    return rows


def table_values() -> dict[str, Value]:
    """What answering yes every time gets in that table, and its totals."""
    from macd_studio.evals.paper.doctor import always_yes
    from macd_studio.evals.paper.published import FOLDER, read_table

    row = next(r for r in read_table(FOLDER / f"{TABLE}.csv").rows if r.name == ROWS[0])
    assert row.n is not None
    assert row.positives is not None
    line = always_yes(row.n, row.positives)
    return {
        "table.n": str(row.n),
        "table.positives": str(row.positives),
        "table.negatives": str(row.n - row.positives),
        "table.yes.accuracy": f"{line['accuracy'] / 100:.4f}",
        "table.yes.f1": f"{line['f1'] / 100:.4f}",
    }


def percent(share: float, digits: int = 1) -> str:
    """A share as percent.

    >>> percent(0.703)
    '70.3 %'
    >>> percent(0.997, 0), percent(0.001, 0)
    ('more than 99 %', 'less than 1 %')
    """
    if not digits and 0 < share < 0.005:
        return "less than 1 %"
    if not digits and 0.995 <= share < 1:
        return "more than 99 %"
    return f"{100 * share:.{digits}f} %"


def change(delta: list[float]) -> str:
    """A change in shares with its interval, as points.

    >>> change([0.078, 0.059, 0.098])
    '+7.8 [5.9, 9.8]'
    """
    return with_interval(delta, "+.1f")


def sign(delta: list[float]) -> int:
    """0: the interval lies above zero, 1: below, 2: it holds zero.

    >>> sign([1, 0.5, 2]), sign([-1, -2, -0.5]), sign([1, -0.5, 2])
    (0, 1, 2)
    """
    _, low, high = delta
    return 0 if low > 0 else 1 if high < 0 else 2


def _cut(text: str) -> str:
    """A printed figure with at most four decimals, as its readers are shown it."""
    return text if len(text) <= 6 else f"{float(text):.4f}"


def signed(x: float, digits: int = 2) -> str:
    """A number with its sign.

    >>> signed(-0.5)
    '−0.50'
    """
    return number(x, f"+.{digits}f")


def as_text(content: dict[str, Any]) -> str:
    """The file's text, a list of numbers on one line."""
    text = json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    return re.sub(r"\[[^][{}]*\]", lambda found: " ".join(found[0].split()), text)


if __name__ == "__main__":
    need_checkout("macd_ui.learn.figures")
    FILE.write_text(as_text(compute()), encoding="utf-8")
    print(f"{FILE}: {len(figures()['values'])} values")
