"""Clips of every shape on the real page, from the upload to a change of the reopened file."""

import numpy as np
import pytest

from macd_studio.core.embedded import EMBEDDED
from macd_studio.core.traces.bundle import load
from macd_studio.core.types import SEEN
from tests.browser.conftest import open_files
from tests.browser.test_page import run, upload
from tests.browser.test_whatif import drag, name_new_object, open_what_if, settled
from tests.zoo import ZOO, make_zoo

NAMES = [
    pytest.param(name, marks=pytest.mark.long)
    for name in (
        "9x16.mp4", "odd.mp4", "wide-pixels-rotated.mp4", "30-objects.mp4",
        "0-objects.mp4",
    )
]  # fmt: skip

WATCH = """(question) => {
  window.shapes = [];
  const look = () => {
    const canvas = document.querySelector('[data-part=picture]');
    if (document.querySelector('.mv-question').textContent === question) {
      const box = canvas.getBoundingClientRect();
      const shown = (box.width / box.height).toFixed(2);
      const seen = JSON.stringify([canvas.width, canvas.height, shown]);
      if (window.shapes.at(-1) !== seen) window.shapes.push(seen);
    }
    requestAnimationFrame(look);
  };
  look();
}"""
"""Notes every shape that the canvas takes while the run's question is on show."""


def check_shapes(page, aspect):
    """The picture may grow where the form folds away; it never takes another shape."""
    shapes = page.evaluate("window.shapes.map(JSON.parse)")
    assert shapes
    for width, height, shown in shapes:
        assert width / height == pytest.approx(aspect, rel=0.01)
        assert float(shown) == pytest.approx(aspect, abs=0.02)


def shape(page):
    return page.evaluate(
        "() => { const c = document.querySelector('[data-part=picture]');"
        " const box = c.getBoundingClientRect();"
        " return [c.width / c.height, box.width / box.height]; }"
    )


def click_at(page, x, y):
    canvas = page.locator("[data-part=picture]")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    canvas.click(position={"x": x * box["width"], "y": y * box["height"]})


def picked(page):
    return page.evaluate(
        "[...document.querySelectorAll('.mv-object')]"
        ".findIndex((o) => o.getAttribute('aria-pressed') === 'true')"
    )


def save(page, path):
    with page.expect_download() as download:
        open_files(page).click("#save")
    download.value.save_as(path)
    return load(path)


def set_level(page, row, level):
    part = (".mv-edit-object", ".mv-edit-frames")[row]
    page.locator(part).get_by_role("button", name=level).click()


@pytest.mark.parametrize("name", NAMES)
def test_the_whole_way_keeps_the_clips_shape(page, tmp_path, name):
    clip, question = ZOO[name], f"Is there a cup in {name}?"
    make_zoo(tmp_path, [name])
    page.wait_for_selector(".mv-token")
    upload(page, tmp_path / name)
    page.click("#settings button >> nth=0")
    page.locator("#detector textarea, #detector input").first.fill(EMBEDDED)
    page.evaluate(WATCH, question)
    run(page, question)
    check_shapes(page, clip.aspect)
    trace = save(page, tmp_path / "first.macd")
    objects = len(trace.tracks)
    assert bool(objects) == bool(clip.objects)
    assert page.locator(".mv-object").count() == objects
    assert not objects or trace.tracks[0].state[0] == SEEN

    # each object is picked by clicks near its box's corners, on the clip and on the model's frames
    height, width = trace.model_frames.size
    x0, y0, x1, y1 = trace.model_frames.content

    def within(k, share, view):
        """A place on the canvas by its share of the way from a box's first corner to its last."""
        low, high = trace.tracks[k].boxes[0, :2], trace.tracks[k].boxes[0, 2:]
        x, y = map(float, low + share * (high - low))
        if view == "clip":
            return x, y
        return (x0 + x * (x1 - x0)) / width, (y0 + y * (y1 - y0)) / height

    for view in ("clip", "model"):
        for k, track in enumerate(trace.tracks[:4]):
            if track.state[0] != SEEN:
                continue
            for share in (0.06, 0.94):
                click_at(page, *within(k, share, view))
                assert picked(page) == k, (view, share)
                click_at(page, *within(k, share, view))
                assert picked(page) == -1
        page.get_by_role("button", name="As the model sees it").click()
        wanted = width / height if view == "clip" else clip.aspect
        np.testing.assert_allclose(shape(page), wanted, rtol=0.01)

    open_what_if(page)
    changes = 0
    if objects:
        page.locator(".mv-object").first.click()
        set_level(page, 0, "0 kept" if trace.counterfactual.level[0] else "1 masked")
        settled(page, changes := changes + 1)
        page.get_by_role("button", name="Draw mask").click()
        page.get_by_role("button", name="As the model sees it").click()
        drag(page, within(0, 0.3, "model"), within(0, 0.8, "model"))
        page.get_by_role("button", name="As the model sees it").click()
        settled(page, changes := changes + 1)
        page.get_by_role("button", name="Draw mask").click()
    else:
        assert "No objects were found" in page.locator(".mv-rail").inner_text()
        assert not page.locator(".mv-occlusion").is_visible()
        set_level(page, 1, "0 kept" if trace.counterfactual.frame_level[0] else "1 masked")
        settled(page, changes := changes + 1)
        page.get_by_role("button", name="Add object").click()
        drag(page, (0.5, 0.5), (0.9, 0.9))
        name_new_object(page, "drawn")
        settled(page, changes := changes + 1)

    saved = save(page, tmp_path / "second.macd")
    assert len(saved.edits) == changes
    np.testing.assert_allclose(shape(page), clip.aspect, rtol=0.01)
    if clip.objects:
        (stroke,) = saved.tracks[0].brush
        np.testing.assert_allclose(stroke.points[[0, -1]], [[0.3, 0.3], [0.8, 0.8]], atol=0.03)
