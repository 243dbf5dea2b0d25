"""What the viewer asks of the server: its actions, how they are checked, computed and timed.

The same in this process and in one that was lent a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any

from macd_studio.core.errors import OptionError
from macd_studio.core.evidence.kinds import (
    KINDS,
    LENS,
    curve_readings,
    readings,
    readings_of,
    views_of,
)
from macd_studio.core.evidence.options import (
    EvidenceOptions,
    read_enough_options,
    read_evidence_options,
)
from macd_studio.core.measurements import RANDOM_MASKS, VIEWS
from macd_studio.core.records import Edit
from macd_studio.core.types import Trace
from macd_studio.core.validation import shown
from macd_studio.core.whatif.verdict import views_of_map
from macd_studio.macd_ui.estimate import Estimator, Work, work_of_trace

if TYPE_CHECKING:
    from macd_studio.core.run.state import Event
    from macd_studio.core.whatif.workbench import Workbench


FEW_KINDS = 2
"""Kinds of maps that are ticked at first."""
VIEW = 0.6
"""Readings of a view among many in a batch, which share frames."""
PLACES = {
    "edit": "whatif",
    "point": "whatif",
    "undo": "whatif",
    "redo": "whatif",
    "redecode": "tokens",
    "occlusion": "occlusion",
    "controls": "controls",
    "choices": "choices",
    "evidence": "evidence",
    "enough": "enough",
}
"""Action → the part of the page where it is made, and where its error is shown."""
NO_CHANGE = OptionError("this is not a change that can be made", "Reload the page")


def action_of_point(action: Mapping[str, Any], segmenter: str) -> dict[str, Any]:
    """A click on an object as the change by hand that adds it, seen by that segmenter."""
    chosen = {name: action.get(name) for name in ("frame", "points", "label")}
    edit = {"kind": "point", **chosen, "segmenter": segmenter}
    return {"do": "edit", "run": action.get("run"), "edit": edit}


def plain_action(action: Mapping[str, Any]) -> dict[str, Any]:
    """The action with what it needs and nothing else; raises OptionError for what is no number.

    Also for evidence that cannot be asked for; an edit is read where it meets its trace.
    """
    what = str(action["do"])
    if what == "evidence":
        return {"do": what, "evidence": evidence_of(action)}
    if what == "enough":
        raw = action.get("enough")
        if not isinstance(raw, Mapping):
            raise NO_CHANGE
        chosen = {name: raw[name] for name in ENOUGH if name in raw}
        read_enough_options(chosen)
        return {"do": what, "enough": chosen}
    if what == "redecode":
        values = {name: _finite(action.get(name)) for name in ("alpha", "beta")}
        return {"do": what, "method": _name(action.get("method", "macd"))} | values
    return {"do": what, "edit": action["edit"]} if what == "edit" else {"do": what}


EVIDENCE = (
    "token", "answer", "against", "kinds", "layers", "patches", "knock_out", "boxes",
    "knock_out_layers", "maps", "lens", "curves",
)  # fmt: skip
"""Options of evidence that the page sets; the others stay as they are."""
ENOUGH = ("token", "same", "margin", "spans", "boxes", "search", "keep")
"""Likewise of what is enough."""


def evidence_of(action: Mapping[str, Any]) -> dict[str, Any]:
    """The options of evidence in an action. Raises OptionError where they cannot be read."""
    raw = action.get("evidence")
    if not isinstance(raw, Mapping):
        raise NO_CHANGE
    chosen = {name: raw[name] for name in EVIDENCE if name in raw}
    read_evidence_options(chosen)
    return chosen


def _name(value: Any) -> str:
    """An answer's name, of which nothing else is known."""
    if not isinstance(value, str):
        raise NO_CHANGE
    return value


def _finite(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise OptionError(f"{shown(value)} is not a number", "Move the sliders of α and β")
    try:
        return float(value)
    except OverflowError:
        raise OptionError(f"{shown(value)} is too large", "Move the sliders of α and β") from None


MEASUREMENTS = ("occlusion", "controls", "choices", "evidence", "enough")
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
    from macd_studio.core.evidence.enough import enough_events
    from macd_studio.core.evidence.run import evidence_events
    from macd_studio.core.run.state import Event

    if edit is not None:
        yield from bench.change(edit)
        return
    match action["do"]:
        case "evidence":
            options = read_evidence_options(action["evidence"])
            yield from evidence_events(bench, options, join=True, stopped=stopped)
            return
        case "enough":
            yield from enough_events(bench, read_enough_options(action["enough"]), stopped)
            return
        case "choices":
            yield from bench.choice_events(stopped)
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
        tracks, groups = len(trace.tracks), len(trace.groups)
        parts = _parts(options, tracks, groups)
        known = [estimator.measured(work, f"evidence {k}", units) for k, units in parts.items()]
        if known and None not in known:
            return sum(s for s in known if s is not None)
        return estimator.reading(work, readings_of(options, tracks, groups))
    if what == "enough":
        views = views_of(
            read_enough_options(action["enough"]), len(trace.tracks), len(trace.groups)
        )
        return _batched(estimator, work, what, views)
    if what == "choices":
        return _batched(estimator, work, what, views_of_map(trace))
    kind = str(action["edit"].get("kind")) if what == "edit" else what
    if what == "redecode" and action["method"] != "macd":
        kind = "level"  # as after one: another second view is read, and an answer decoded
    seconds = estimator.change(work, kind, len(trace.tracks))
    if kind != "point" or seconds is None:
        return seconds
    followed = estimator.measured(work, point_stage(action["edit"]), 1)
    return None if followed is None else seconds + followed


def _batched(estimator: Estimator, work: Work, what: str, views: int) -> float | None:
    """Seconds of reading so many views in batches; from a run's own views where none was timed."""
    timed = estimator.measured(work, what, views)
    return estimator.reading(work, VIEW * views) if timed is None else timed


def point_stage(edit: Mapping[str, Any]) -> str:
    """Under what the time is kept that following an object takes."""
    return f"point {edit.get('segmenter')}"


def learn_measurement(
    estimator: Estimator,
    trace: Trace,
    action: Mapping[str, Any],
    seconds: float,
    after: Trace | None = None,
) -> None:
    """Learns from a measurement that ended; a change by hand is no measurement.

    trace, after: as it was before, and is now. action: as `plain_action` gives it. Evidence of
    several kinds is shared out among them by what each is expected to take.
    """
    work, tracks, what = work_of_trace(trace), len(trace.tracks), str(action["do"])
    if what == "occlusion":
        estimator.learn_action(work, what, tracks, seconds)
    elif what == "controls":
        estimator.learn_action(work, what, RANDOM_MASKS + 3, seconds)
    elif what == "choices":
        estimator.learn_action(work, what, views_of_map(trace), seconds)
    elif what == "enough" and after is not None and action["enough"].get("search", True):
        estimator.learn_action(work, what, after.enough[-1].views, seconds)
    elif what == "evidence":
        options = read_evidence_options(action["evidence"])
        if options.knock_out or options.boxes:
            return  # an answer is decoded too, of a length that nobody knows
        parts = _parts(options, tracks, len(trace.groups))
        for kind, units in parts.items():
            share = seconds * units / sum(parts.values())
            estimator.learn_action(work, f"evidence {kind}", units, share)


def known_costs(estimator: Estimator, trace: Trace) -> dict[str, Any]:
    """What the measurements that were timed on this server will take, in milliseconds.

    controls: of the comparison with random masks, None where it is not known; choices: of reading
    every subset, likewise. evidence: by kind of
    map, "occlusion-grid" of one patch in each frame group; None without any. enough: of one view.
    """
    work, tracks, groups = work_of_trace(trace), len(trace.tracks), len(trace.groups)
    units = {kind: readings(kind, tracks, groups, 1) for kind in KINDS}
    units["lens"] = len(VIEWS) * LENS
    units["curves"] = curve_readings(FEW_KINDS)
    evidence = {k: _ms(estimator.measured(work, f"evidence {k}", n)) for k, n in units.items()}
    known = {kind: ms for kind, ms in evidence.items() if ms is not None}
    controls = _ms(estimator.measured(work, "controls", RANDOM_MASKS + 3))
    enough = _ms(estimator.measured(work, "enough", 1))
    choices = _ms(estimator.measured(work, "choices", views_of_map(trace)))
    return {
        "controls": controls, "choices": choices, "evidence": known or None, "enough": enough,
    }  # fmt: skip


def _parts(options: EvidenceOptions, tracks: int, groups: int) -> dict[str, float]:
    """Readings of a view by kind of map that is asked for, and of the lens."""
    rows, columns = options.patch_grid()
    parts = {k: readings(k, tracks, groups, rows * columns) for k in options.chosen_kinds}
    parts |= {"lens": len(VIEWS) * LENS} if options.lens else {}
    return parts | ({"curves": curve_readings(len(options.chosen_kinds))} if options.curves else {})


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(1000 * seconds, 1)
