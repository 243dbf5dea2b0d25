"""A change or a measurement that the viewer asked for, as events; and how long it will take.

The same in this process and in one that was lent a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any

from core.evidence.cost import readings_of
from core.evidence.options import read_evidence_options
from core.types import Edit, Trace
from macd_ui.actions import NO_CHANGE
from macd_ui.estimate import Estimator, Work

if TYPE_CHECKING:
    from core.pipeline import Event
    from core.whatif.workbench import Workbench

MEASUREMENTS = ("occlusion", "controls", "evidence")
"""Actions that add to a trace and change no answer: there is nothing to undo."""


def change_events(
    bench: Workbench,
    action: Mapping[str, Any],
    edit: Edit | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> Generator[Event, None, None]:
    """Makes the change on the bench; the last event holds its new trace.

    action: as `macd_ui.actions.plain_action` gives it. edit: of an action "edit". stopped: whether
    it is not needed any more. Raises MacdError.
    """
    from core.evidence.run import evidence_events
    from core.pipeline import Event

    if edit is not None:
        yield from bench.change(edit)
        return
    match action["do"]:
        case "evidence":
            options = read_evidence_options(action["evidence"])
            yield from evidence_events(bench, options, join=True, stopped=stopped)
            return
        case "redecode":
            bench.redecode(action["alpha"], action["beta"], action["method"])
        case "controls":
            bench.measure_controls()
        case "occlusion":
            bench.measure_occlusion()
        case _:
            raise NO_CHANGE
    yield Event("done", 1.0, "complete", bench.trace)


def expected_s(
    estimator: Estimator, work: Work, trace: Trace, action: Mapping[str, Any]
) -> float | None:
    """Seconds that an action will take; None where no such run was timed. Raises OptionError."""
    what = str(action["do"])
    if what == "evidence":
        options = read_evidence_options(action["evidence"])
        return estimator.reading(work, readings_of(options, len(trace.tracks), len(trace.groups)))
    kind = str(action["edit"].get("kind")) if what == "edit" else what
    if what == "redecode" and action["method"] != "macd":
        kind = "level"  # as after one: another second view is read, and an answer decoded
    return estimator.change(work, kind, len(trace.tracks))
