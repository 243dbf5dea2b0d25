"""A file asks for no more work on a shared server than a run there may."""

from dataclasses import replace

import numpy as np
import pytest

from macd_studio.core.errors import OptionError
from macd_studio.core.traces.bundle import save
from macd_studio.macd_ui.handlers import make_handlers
from macd_studio.macd_ui.jobs import check_pixels, check_size
from macd_studio.macd_ui.settings import LIMITS, ServerSettings
from macd_studio.macd_ui.store import Store
from tests.opening import TRACE


def frames_of(side, count=8):
    return np.zeros((count, side, side, 3), np.uint8)


def with_model_frames(side):
    read = replace(TRACE.model_frames, pixels=frames_of(side), content=(0, 0, side, side))
    blind = {
        name: replace(a, second_views=tuple(replace(z, shown=None) for z in a.second_views))
        for name, a in TRACE.answers.items()
    }
    return replace(TRACE, model_frames=read, answers=blind)


def decoding(**changes):
    decode = replace(TRACE.options.decode, **changes)
    return replace(TRACE, options=replace(TRACE.options, decode=decode))


@pytest.mark.parametrize(
    ("trace", "says"),
    [
        (replace(TRACE, frames=frames_of(16, LIMITS["video.frames"] + 1)), "frames: 33"),
        (replace(TRACE, tracks=TRACE.tracks[:1] * 41), "objects: 41"),
        (decoding(max_tokens=257), r"decode\.max_tokens: 257"),
        (decoding(beams=9), r"decode\.beams: 9"),
    ],
)
def test_what_a_run_may_not_ask_for_is_not_computed_from_a_file(trace, says):
    with pytest.raises(OptionError, match=says):
        check_size(trace)
    check_size(TRACE)


def test_a_model_is_given_no_more_pixels_than_by_its_processor(tmp_path):
    """One step over frames of 1536 pixels a side takes gigabytes, which no clock would stop."""
    path = tmp_path / "large.macd"
    save(with_model_frames(768), path)
    store = Store(settings=ServerSettings(public=True))
    try:
        handlers = make_handlers(store, [])
        *_, shown = handlers.form.open_trace(str(path), "me")
        action = {"do": "controls", "run": shown["viewer"]["trace"]["run"]}
        *_, ended = handlers.changes.act(action, "", "", "me")
        assert "768×768 pixels, more than toyworld" in ended["viewer"]["status"]["error"]
        lm = store.models.backbone("toyworld")
        check_pixels(TRACE, lm)
        with pytest.raises(OptionError):
            check_pixels(with_model_frames(144), lm)
    finally:
        store.close()
