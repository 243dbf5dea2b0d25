"""Taking a run apart by hand, in the real page."""

import json
from xml.etree import ElementTree

import pytest

from core.traces.bundle import load
from tests.browser.test_page import canvas_pixels, run, upload

pytestmark = pytest.mark.browser


def open_what_if(page):
    page.wait_for_selector(".mv-token")
    page.locator(".mv-whatif > summary").click()


def settled(page, changes):
    page.wait_for_function(
        "(n) => document.querySelectorAll('.mv-edits li').length === n"
        " && !document.querySelector('.mv-whatif .mv-segments button').disabled",
        arg=changes,
    )


def levels(page):
    return [t.split()[0] for t in page.locator(".mv-object .mv-level").all_inner_texts()]


def drag(page, start, end):
    canvas = page.locator(".mv-stage .mv-canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    at = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in (start, end)]
    page.mouse.move(*at[0])
    page.mouse.down()
    page.mouse.move(*at[1], steps=8)
    page.mouse.up()


def test_levels_names_and_objects_change_by_hand(page, toy_mp4, tmp_path):
    upload(page, toy_mp4)
    run(page)
    open_what_if(page)
    page.locator(".mv-object").first.click()
    before = levels(page)
    other = "1 hide" if before[0] == "0" else "0 leave"
    page.locator(".mv-whatif .mv-edit").first.get_by_role("button", name=other).click()
    settled(page, 1)
    assert levels(page)[0] == other[0]
    assert levels(page)[1:] == before[1:]
    assert page.locator(".mv-former").count() == 1

    page.locator(".mv-whatif input[type=text]").fill("wolf")
    page.keyboard.press("Enter")
    settled(page, 2)
    assert page.locator(".mv-object-name").first.inner_text().startswith("wolf")

    # a brush stroke changes the picture, and moves with the object
    page.get_by_role("button", name="Soft masks").click()
    masks = canvas_pixels(page)
    page.get_by_role("button", name="Draw mask").click()
    drag(page, (0.5, 0.5), (0.6, 0.6))
    settled(page, 3)
    assert canvas_pixels(page) != masks
    page.get_by_role("button", name="Draw mask").click()

    page.get_by_role("button", name="Add object").click()
    drag(page, (0.05, 0.05), (0.3, 0.3))
    settled(page, 4)
    assert page.locator(".mv-object").count() == 3
    page.locator(".mv-whatif select[aria-label='Merge with']").select_option(label="3 drawn")
    settled(page, 5)
    assert page.locator(".mv-object").count() == 2
    page.locator(".mv-whatif").get_by_role("button", name="Drop").click()
    settled(page, 6)
    assert page.locator(".mv-object").count() == 1

    with page.expect_download() as download:
        page.click("#save")
    saved = tmp_path / "changed.macd"
    download.value.save_as(saved)
    kinds = [e["kind"] for e in load(saved).options["edits"]]
    assert kinds == ["level", "label", "brush", "add", "merge", "drop"]

    for left in range(5, -1, -1):
        page.locator(".mv-whatif > .mv-button").click()
        settled(page, left)
    assert levels(page) == before
    assert page.locator(".mv-object-name").first.inner_text().startswith("dog")


def test_moved_alpha_is_decoded_on(page):
    """The first example is one that MACD repairs: at α = 0 the answer is the baseline's again."""
    page.wait_for_selector(".mv-token")
    said = page.locator(".mv-strip[data-method=baseline] .mv-token").all_inner_texts()
    page.locator(".mv-live input").first.focus()
    page.keyboard.press("Home")
    page.get_by_role("button", name="Decode on from there").click()
    page.wait_for_selector(".mv-former")
    assert page.locator(".mv-strip[data-method=macd] .mv-token").all_inner_texts() == said
    assert "same answer" in page.locator(".mv-verdict").first.inner_text()


def test_each_object_can_be_measured(page):
    page.wait_for_selector(".mv-token")
    page.get_by_role("button", name="Measure each object").click()
    page.wait_for_selector(".mv-ledger table")
    said = page.locator(".mv-ledger").inner_text()
    assert "upported" in said
    assert page.locator(".mv-ledger tbody tr").count() == page.locator(".mv-object").count()
    page.locator(".mv-strip[data-method=baseline] .mv-token").first.click()
    effects = page.locator(".mv-effect").all_inner_texts()
    ranks = sorted(int(e.rsplit("rank ", 1)[1].rstrip(")")) for e in effects)
    assert ranks == list(range(1, len(effects) + 1))


def test_the_flips_are_those_of_the_core(bare):
    import numpy as np

    from core.decoding.contrast import flip_points
    from macd_ui.viewer.component import script

    rng = np.random.default_rng(1)
    for beta in (0.0, 0.1, 0.6):
        base, counter = rng.normal(size=(2, 40)) * 3
        step = {
            "base": base.tolist(), "counter": counter.tolist(), "base_log_z": 5.0,
            "candidates": list(range(40)), "texts": ["x"] * 40,
        }  # fmt: skip
        found = bare.evaluate(
            f"(() => {{ {script()}\n return flipPoints({json.dumps(step)}, {beta})"
            ".map((p) => [p.alpha, p.row.id]); })()"
        )
        own = flip_points(base, counter, beta)
        assert [k for _, k in found] == [k for _, k in own]
        np.testing.assert_allclose([a for a, _ in found], [a for a, _ in own], atol=1e-9)


def test_the_flip_map_opens(page):
    page.wait_for_selector(".mv-token")
    page.locator(".mv-strip[data-method=macd] .mv-token").first.click()
    page.locator(".mv-flips > summary").click()
    page.wait_for_selector(".mv-flipmap > span")
    assert page.locator(".mv-flipmap > span").count() == 41 * 15
    assert page.locator(".mv-flipmap .mv-here").count() == 1
    assert " from α " in page.locator(".mv-flips .mv-note").inner_text()
    with page.expect_download() as download:
        page.locator(".mv-flips").get_by_role("button", name="Save SVG").click()
    root = ElementTree.parse(download.value.path()).getroot()
    shapes = [e for e in root if e.tag.endswith("rect")]
    shown = page.locator(".mv-flips .mv-legend > span").all_inner_texts()
    assert len(shapes) == 41 * 15 + 1 + len(shown)
    told = [e.text.strip() for e in root if e.tag.endswith("text")]
    assert [t.strip() for t in shown] == told[2:]


@pytest.mark.parametrize("outline", [False, True])
def test_the_browser_draws_masks_as_the_core_does(bare, outline):
    import numpy as np

    from core.masking.masks import draw_masks
    from core.options import MaskOptions
    from core.types import SEEN, Stroke, Track
    from macd_ui.viewer.component import script

    strokes = (
        Stroke(np.array([[0.2, 1.4], [0.9, 1.1]], np.float32), 0.08),
        Stroke(np.array([[0.5, 0.5]], np.float32), 0.1, True),
    )
    box = np.array([[0.2, 0.3, 0.5, 0.6]], np.float32)
    line = np.array([[0.5, 0.0], [1.0, 0.7], [0.6, 0.5], [0.1, 1.0]], np.float32)
    small = 0.3 * line + np.float32(1.1)
    outlines = ((line, small),) if outline else ()
    track = Track(1, "dog", 0.9, box, np.full(1, SEEN, np.int8), 1, strokes, outlines)
    own = draw_masks([track], 1, (48, 64), MaskOptions()).objects[0, 0]
    trace = {
        "size": [64, 48],
        "mask": vars(MaskOptions()),
        "tracks": [{
            "boxes": box.tolist(), "confidence": 0.9,
            "outlines": [[r.tolist() for r in o] for o in outlines],
            "brush": [{"points": s.points.tolist(), "radius": s.radius, "erase": s.erase}
                      for s in strokes],
        }],
    }  # fmt: skip
    found = bare.evaluate(
        f"(() => {{ {script()}\n return Array.from(frameMasks({json.dumps(trace)}, 0).objects[0]);"
        "})()"
    )
    np.testing.assert_allclose(np.reshape(found, (48, 64)), own, atol=1e-5)


@pytest.mark.parametrize("fusion", ["max", "confidence", "average", "or"])
@pytest.mark.parametrize("frame_mask", ["outside", "whole"])
def test_the_browser_joins_masks_as_the_core_does(bare, fusion, frame_mask):
    import numpy as np

    from core.masking.masks import combine_masks, draw_masks
    from core.options import MaskOptions
    from core.types import SEEN, Track
    from macd_ui.viewer.component import script

    boxes = np.array([[0.1, 0.2, 0.5, 0.6], [0.3, 0.4, 0.9, 0.8]], np.float32)
    state = np.full(1, SEEN, np.int8)
    tracks = [Track(i, "dog", 0.9 - 0.5 * i, b[None], state, 1) for i, b in enumerate(boxes)]
    options = MaskOptions(fusion=fusion, frame_mask=frame_mask)
    masks, level, frame_level = draw_masks(tracks, 1, (48, 64), options), [1.0, 0.3], 0.4
    own = combine_masks(masks, level, [frame_level], [[0]], [0.9, 0.4], options)
    trace = {
        "size": [64, 48],
        "mask": vars(options),
        "tracks": [{"boxes": t.boxes.tolist(), "confidence": t.confidence} for t in tracks],
    }
    found = bare.evaluate(
        f"(() => {{ {script()}\n const trace = {json.dumps(trace)};"
        f" return Array.from(unionMask(trace, frameMasks(trace, 0), {level}, {frame_level}));"
        "})()"
    )
    np.testing.assert_allclose(np.reshape(found, (48, 64)), own[0], atol=1e-5)


def test_a_head_that_reaches_below_what_is_stored_gives_upper_bounds(bare):
    from macd_ui.viewer.component import script

    step = {
        "index": 0, "token": 0, "base": [3.0, 2.0, -4.0], "counter": [2.0, 2.0, 2.0],
        "base_log_z": 4.0, "candidates": [0, 1, 2], "texts": ["a", "b", "c"],
    }  # fmt: skip

    def shown(beta, head="probability", **depth):
        given = json.dumps(step | depth)
        return bare.evaluate(
            f"(() => {{ {script()}\n const step = {given};"
            f" const found = rescore(step, 1, {beta}, '{head}');"
            " const row = Tokens.prototype.row.call({}, found.rows[0], true, true, 1, step, [1, 1],"
            " found.exact); return [found.exact, row.innerText.includes('≤')]; })()"
        )

    deep = {"floor": 1.5, "complete": False}
    assert shown(0.5, **deep) == [True, False]
    assert shown(0.1, **deep) == [False, True]  # the head ends at 3 + log 0.1 = 0.7
    assert shown(0.5, "raw", **deep) == [True, False]
    assert shown(0.4, "raw", **deep) == [False, True]
    assert shown(0, floor=None, complete=True) == [True, False]
    assert shown(0.5, floor=None, complete=False) == [False, True]
    assert shown(1.5, **deep) == [True, False]  # the base argmax alone
