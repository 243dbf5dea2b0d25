"""What a figure says of its own protocol, in one vocabulary, and a printed one beside ours."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from macd_studio.core.statistics import Interval, wilson
from macd_studio.core.text.words import count
from macd_studio.evals.paper.doctor import Claim, audit_metrics
from macd_studio.evals.protocol.figure import Figure
from macd_studio.evals.protocol.inputs import STATED
from macd_studio.evals.statistics.intervals import clustered_share

NOT_STATED = "not stated"


def statements(figure: Figure) -> dict[str, str]:
    """Of STATED what the figure says; what it does not say is left out."""
    said = {"over": figure.over, **figure.said}
    if figure.parser.judge is not None:
        said["rule"] = figure.parser.name
    if figure.protocol is None:
        return {n: said[n] for n in STATED if said.get(n)}
    setting = figure.protocol.setting
    options = setting.get("options", {})
    video, decode = (options.get(z, {}) for z in ("video", "decode"))
    model: Mapping[str, Any] = next(iter(figure.protocol.models), {})
    method = figure.protocol.methods.get(figure.method, {})
    own = {
        "model": model.get("name"),
        "frames": None if setting.get("fps") else len(video.get("at", ())) or video.get("frames"),
        "fps": setting.get("fps"),
        "size": setting.get("side"),
        "fit": video.get("fit"),
        "prompts": "" if figure.drawn else "published" if setting.get("published") else "bare",
        "dtype": model.get("dtype"),
        "device": model.get("device"),
        "seed": options.get("seed"),
        "search": decode.get("search"),
        "temperature": decode.get("temperature") if decode.get("search") == "sample" else None,
        "max_tokens": decode.get("max_tokens"),
        "alpha": method.get("alpha"),
        "beta": method.get("beta"),
        "transformers": model.get("versions", {}).get("transformers"),
        "torch": model.get("versions", {}).get("torch"),
    }
    said |= {n: _text(v) for n, v in own.items() if v is not None and v != ""}
    return {n: said[n] for n in STATED if said.get(n)}


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def stated_rows(first: Figure, second: Figure) -> list[list[str]]:
    """[name, of the first, of the second, whether they differ] of what either says."""
    one, other = statements(first), statements(second)
    rows = []
    for name in STATED:
        if name not in one and name not in other:
            continue
        a, b = one.get(name, NOT_STATED), other.get(name, NOT_STATED)
        known = NOT_STATED not in (a, b)
        rows.append([name, a, b, "–" if not known else "yes" if not same(a, b) else "no"])
    return rows


def same(a: str, b: str) -> bool:
    """Whether two values say the same, 8 and 8.0 alike."""
    try:
        return math.isclose(float(a), float(b), rel_tol=1e-9)
    except ValueError:
        return a.strip().lower() == b.strip().lower()


def printed_difference(ours: Figure, printed: Figure) -> tuple[float, Interval, list[str]]:
    """Our figure in percent, and printed − ours in points with an interval; and notes.

    The interval takes both as independent samples of questions (MOVER of each one's own), as
    nothing is known of single answers of the printed one.
    """
    assert printed.stated is not None
    accuracy, n = printed.stated
    verdicts = [ours.verdict(ours.texts.get(i), item) for i, item in ours.items.items()]
    right = [r for r, counted in verdicts if counted or ours.over == "all"]
    names = [i for i, v in zip(ours.items, verdicts, strict=True) if v[1] or ours.over == "all"]
    own = clustered_share(right, [ours.clusters.get(i, i) for i in names])  # type: ignore[arg-type]
    other = wilson(round(accuracy / 100 * n), n)
    change = accuracy / 100 - own[0]
    low = change - math.hypot(other[0] - other[1], own[2] - own[0])
    high = change + math.hypot(other[2] - other[0], own[0] - own[1])
    notes = _notes(len(right), 100 * own[0], accuracy, n)
    return 100 * own[0], (100 * change, 100 * low, 100 * high), notes


def _notes(ours: int, own: float, accuracy: float, n: int) -> list[str]:
    notes = []
    decimals = max((len(f"{accuracy:.10g}".partition(".")[2])), 0)
    audit = audit_metrics(Claim(n=n, accuracy=accuracy, decimals=decimals))
    if not audit.possible:
        notes.append(f"No number of right answers of {count(n, 'question')} gives {accuracy:g} %.")
    if n != ours:
        most = 100 * abs(n - ours) / max(n, ours)
        notes.append(
            f"The printed figure is over {n:,} questions, ours over {ours:,}: other questions alone"
            f" can move a figure by up to {most:.1f} points."
        )
    return notes
