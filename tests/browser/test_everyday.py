"""A clip of a camera in a browser: its objects have names, and it is answered."""

import av
import numpy as np
import pytest

from macd_studio.core.system.shipped import assets
from tests.browser.test_page import run, upload


@pytest.fixture(scope="module")
def portrait(tmp_path_factory):
    """The middle of a real clip, higher than wide and large, as a phone records it."""
    path = tmp_path_factory.mktemp("phone") / "VID_20261127.mp4"
    with av.open(str(assets() / "everyday" / "examples" / "classroom.mp4")) as source:
        shown = [f.to_ndarray(format="rgb24")[:, 0:152] for f in source.decode(video=0)][::2]
    with av.open(str(path), "w") as target:
        stream = target.add_stream("libx264", rate=8)
        stream.width, stream.height, stream.pix_fmt = 608, 1080, "yuv420p"
        for picture in shown:
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
            target.mux(stream.encode(frame.reformat(608, 1080)))
        target.mux(stream.encode())
    return path


def answers_of(page):
    return {
        method: page.locator(f".mv-strip[data-method={method}]").inner_text()
        for method in ("baseline", "macd")
    }


def test_a_phone_s_clip_is_found_and_answered(page, portrait):
    upload(page, portrait)
    page.locator("#knows").get_by_text("Model: everyday").wait_for()
    assert page.locator("#run").inner_text() == "Run"
    run(page, "Is there a person in the video?")
    names = page.locator(".mv-object").all_inner_texts()
    assert any("person" in name or "chair" in name for name in names), names
    page.wait_for_selector(".mv-strip[data-method=macd] .mv-token")
    for text in answers_of(page).values():
        assert "yes" in text or "no" in text
    assert not page.locator(".mv-badge").is_visible()
    assert page.locator("[data-part=model]").inner_text() == "Model: everyday"


@pytest.mark.long
def test_words_that_the_model_does_not_know_are_named(page, portrait):
    upload(page, portrait)
    run(page, "Is there a unicorn in the video?")
    assert "unicorn" in page.locator(".mv-badge").inner_text()
