"""The choice map of a trace → what the page says of it beside its values."""

from __future__ import annotations

from typing import Any

from macd_studio.core.measurements import ChoiceMap, rank
from macd_studio.core.methods import masked_answer
from macd_studio.core.types import Trace
from macd_studio.core.whatif.verdict import (
    as_text,
    giving_macd_token,
    layer_of,
    map_sentence,
    marks_of,
    views_of_map,
)


def choices_payload(trace: Trace) -> dict[str, Any] | None:
    """The verdict as text and, of each half of the map, ranks, marks and a sentence.

    None where no map was measured. The half with MACD's frame mask comes first, where there is one.
    Subsets are named by their place in the map.
    """
    found = trace.choice_map
    if found is None:
        return None
    halves = [frames for frames in (True, False) if found.layer(frames)]
    return {"verdict": as_text(trace), "layers": [_half(trace, found, on) for on in halves]}


def _half(trace: Trace, found: ChoiceMap, frames: bool) -> dict[str, Any]:
    layer, chosen = layer_of(trace, frames)
    places = [n for n, subset in enumerate(found.subsets) if subset.frames == frames]
    marked = None if chosen is None else places[layer.index(chosen)]
    return {
        "frames": frames,
        "places": places,
        "ranks": [rank(subset, layer) for subset in layer],
        "macd": marked,
        "same": [places[layer.index(one)] for one in giving_macd_token(trace, layer)],
        "marks": {
            name: places[layer.index(point)]
            for name, ids in marks_of(trace).items()
            if (point := found.of(ids, frames)) is not None
        },
        "sentence": map_sentence(trace, frames),
    }


def views_to_map(trace: Trace) -> int | None:
    """How many views a map of this trace would read; None where it cannot be measured."""
    ids = {"baseline", masked_answer(trace)}
    able = ids <= set(trace.answers) and all(trace.answers[name].tokens for name in ids)
    able = able and trace.status == "complete" and trace.options.decode.search == "greedy"
    able = able and not any(answer.thought is not None for answer in trace.answers.values())
    if not able or not trace.tracks or trace.backbone.is_recorded or trace.counterfactual is None:
        return None
    return views_of_map(trace)
