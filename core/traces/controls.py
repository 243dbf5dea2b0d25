"""The comparison with controls in a trace file: plain values of the manifest."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from macd_studio.core.types import ControlOutcome, ControlReport


def restore_controls(row: dict[str, Any] | None) -> ControlReport | None:
    """The report from its row, which `core.traces.schema` has checked; None where there is none."""
    if row is None:
        return None
    names = [one.name for one in fields(ControlOutcome)]
    outcomes = tuple(ControlOutcome(*(outcome[n] for n in names)) for outcome in row["outcomes"])
    report_fields = {one.name: row[one.name] for one in fields(ControlReport)}
    return ControlReport(**report_fields | {"outcomes": outcomes})
