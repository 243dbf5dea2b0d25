"""Taking a run apart by hand, in the real page."""

import json
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from macd_studio.core.traces.bundle import load, save
from macd_studio.core.types import SEEN
from macd_studio.viewer import JS, bundle
from tests.browser.conftest import open_files
from tests.browser.test_page import canvas_pixels, run, upload
from tests.opening import EXAMPLE

SCRIPT = bundle(JS / "rescore.js", JS / "tokens.js")


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
    canvas = page.locator("[data-part=picture]")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    at = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in (start, end)]
    page.mouse.move(*at[0])
    page.mouse.down()
    page.mouse.move(*at[1], steps=8)
    page.mouse.up()


def name_new_object(page, name):
    page.get_by_label("Name of the new object").fill(name)
    page.keyboard.press("Enter")


@pytest.mark.long
def test_levels_names_and_objects_change_by_hand(page, toy_mp4, tmp_path):
    upload(page, toy_mp4)
    run(page)
    open_what_if(page)
    page.locator(".mv-object").first.click()
    before = levels(page)
    other = "1 masked" if before[0] == "0" else "0 kept"
    page.locator(".mv-edit-object").get_by_role("button", name=other).click()
    settled(page, 1)
    assert levels(page)[0] == other[0]
    assert levels(page)[1:] == before[1:]
    assert page.locator(".mv-former").count() == 1

    page.get_by_label("Name of the object", exact=True).fill("wolf")
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
    name_new_object(page, "lamp")
    settled(page, 4)
    assert page.locator(".mv-object").count() == 3
    page.locator(".mv-whatif select[aria-label='Merge with']").select_option(label="3 lamp")
    settled(page, 5)
    assert page.locator(".mv-object").count() == 2
    page.locator(".mv-whatif").get_by_role("button", name="Drop").click()
    settled(page, 6)
    assert page.locator(".mv-object").count() == 1

    with page.expect_download() as download:
        open_files(page).click("#save")
    saved = tmp_path / "changed.macd"
    download.value.save_as(saved)
    kinds = [edit.kind for edit in load(saved).edits]
    assert kinds == ["level", "label", "brush", "add", "merge", "drop"]

    for left in range(5, -1, -1):
        page.get_by_role("button", name="Undo").click()
        settled(page, left)
    assert levels(page) == before
    assert page.locator(".mv-object-name").first.inner_text().startswith("dog")
    for count in (1, 2):
        page.get_by_role("button", name="Redo").click()
        settled(page, count)
    assert levels(page)[0] == other[0]
    assert page.locator(".mv-object-name").first.inner_text().startswith("wolf")


def click_at(page, x, y):
    canvas = page.locator("[data-part=picture]")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    page.mouse.click(box["x"] + x * box["width"], box["y"] + y * box["height"])


def segment_at(page, x, y):
    """Clicks a place with the tool, and waits for the object that is there."""
    before = page.locator(".mv-object").count()
    page.get_by_role("button", name="Segment", exact=True).click()
    click_at(page, x, y)
    settled(page, 1 + page.locator(".mv-edits li").count())
    assert page.locator(".mv-object").count() == before + 1


@pytest.mark.long
def test_a_click_finds_an_object_and_follows_it(page, tmp_path):
    """By colour, as no weights are there; named, masked, undone, saved, and told where it fails."""
    page.wait_for_selector(".mv-token")
    known = load(EXAMPLE)
    low, high = known.tracks[0].boxes[0, :2], known.tracks[0].boxes[0, 2:]
    x, y = map(float, (low + high) / 2)
    open_what_if(page)
    segment_at(page, x, y)
    new = page.locator(".mv-object").last
    assert new.get_attribute("aria-pressed") == "true"
    page.get_by_label("Name of the object", exact=True).fill("kite")
    page.keyboard.press("Enter")
    settled(page, 2)
    other = "0 kept" if levels(page)[-1] == "1" else "1 masked"
    page.locator(".mv-edit-object").get_by_role("button", name=other).click()
    settled(page, 3)
    assert levels(page)[-1] == other[0]
    with page.expect_download() as download:
        open_files(page).click("#save")
    download.value.save_as(tmp_path / "clicked.macd")
    saved = load(tmp_path / "clicked.macd")
    assert [e.kind for e in saved.edits] == ["point", "label", "level"]
    point = saved.edits[0]
    assert (point.frame, point.segmenter) == (0, "grabcut")
    np.testing.assert_allclose(point.points[0], (x, y), atol=0.01)
    track = saved.tracks[-1]
    assert track.label == "kite"
    assert track.state[0] == SEEN
    assert track.outlines[0] is not None
    assert (track.boxes[0, :2] < (x, y)).all()
    assert (track.boxes[0, 2:] > (x, y)).all()
    for left in (2, 1, 0):
        page.get_by_role("button", name="Undo").click()
        settled(page, left)
    assert page.locator(".mv-object").count() == len(known.tracks)


def test_objects_come_from_a_file_and_go_into_one(page, toy_mp4, tmp_path):
    """A file of tracks takes the detector's place; what the page shows is saved as COCO."""
    known = load(EXAMPLE).clip
    size = [known.width, known.height]
    times, box = [0.0, 1.0, 2.0], [0.25, 0.25, 0.75, 0.5]
    track = {"id": 1, "label": "kite", "confidence": 1.0, "boxes": [box] * 3}
    path = tmp_path / "kite.json"
    path.write_text(json.dumps({"format": "macd-tracks", "version": 1, "size": size,
                                "times": times, "tracks": [track]}))  # fmt: skip
    upload(page, toy_mp4)
    page.click("#settings button >> nth=0")
    page.set_input_files("#tracks input[type=file]", path)
    page.locator("#tracks").get_by_text(".json").first.wait_for()  # the name stands in two parts
    run(page)
    assert page.locator(".mv-object-name").all_inner_texts()[0].startswith("kite")
    assert page.locator(".mv-object").count() == 1
    with page.expect_download() as download:
        page.get_by_label("Save objects as …").select_option("tracks-coco")
    assert download.value.suggested_filename == "toy-tracks-coco.json"
    saved = json.loads(download.value.path().read_text())
    assert [c["name"] for c in saved["categories"]] == ["kite"]
    width, height = (saved["images"][0][side] for side in ("width", "height"))
    drawn = np.array(saved["annotations"][0]["bbox"]) / (width, height, width, height)
    np.testing.assert_allclose(drawn, [0.25, 0.25, 0.5, 0.25], atol=0.02)


@pytest.mark.long
def test_moved_alpha_is_decoded_on(page):
    """The first example is one that MACD repairs: at α = 0 the answer is the baseline's again."""
    page.wait_for_selector(".mv-token")
    said = page.locator(".mv-strip[data-method=baseline] .mv-token").all_inner_texts()
    page.locator(".mv-live input").first.focus()
    page.keyboard.press("Home")
    page.get_by_role("button", name="Continue decoding from here").click()
    page.wait_for_selector(".mv-former")
    assert page.locator(".mv-strip[data-method=macd] .mv-token").all_inner_texts() == said
    assert "same answer" in page.locator(".mv-verdict").first.inner_text()


@pytest.mark.long
def test_each_object_can_be_measured(page, tmp_path):
    page.wait_for_selector(".mv-token")
    plain = save(replace(load(EXAMPLE), occlusion=None), tmp_path / "plain.macd")
    with page.expect_file_chooser() as chooser:
        open_files(page).click("#open")
    chooser.value.set_files(plain)
    page.get_by_role("button", name="Measure each object").click()
    page.wait_for_selector(".mv-occlusion table")
    said = page.locator(".mv-occlusion").inner_text()
    assert "upported" in said
    assert page.locator(".mv-occlusion tbody tr").count() == page.locator(".mv-object").count()
    bars = page.locator(".mv-occlusion .mv-diff > span")
    widths = bars.evaluate_all("bars => bars.map(bar => parseFloat(bar.style.width))")
    assert max(widths) == 50  # the largest change reaches an end, of whatever sign
    page.locator(".mv-strip[data-method=baseline] .mv-token").first.click()
    effects = page.locator(".mv-effect").all_inner_texts()
    ranks = sorted(int(e.rsplit("rank ", 1)[1].rstrip(")")) for e in effects)
    assert ranks == list(range(1, len(effects) + 1))


@pytest.mark.long
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
    assert [t.strip() for t in shown] == told[-len(shown) :]
    assert told[:8] == ["0", "0.003", "0.03", "0.2", "0.4", "0.6", "0.8", "1"]  # every other β
    assert told[8:14] == [str(alpha) for alpha in range(6)]
    assert page.locator(".mv-ticks-down span").all_inner_texts() == told[:8]
    assert page.locator(".mv-ticks-across span").all_inner_texts() == told[8:14]
    page.locator(".mv-flipmap > span").nth(5 * 41 + 16).click()  # β 0.1, α 2
    assert page.locator(".mv-live output").all_inner_texts() == ["2.00", "0.10"]
    assert "mv-here" in page.locator(".mv-flipmap > span").nth(5 * 41 + 16).get_attribute("class")


def test_a_head_that_reaches_below_what_is_stored_gives_upper_bounds(bare):
    step = {
        "index": 0, "token": 0, "base": [3.0, 2.0, -4.0], "others": [[2.0, 2.0, 2.0]],
        "base_log_z": 4.0, "candidates": [0, 1, 2], "texts": ["a", "b", "c"], "weights": None,
    }  # fmt: skip

    def shown(beta, head="probability", **depth):
        given = json.dumps(step | depth)
        return bare.evaluate(
            f"(() => {{ const {{ rescore, candidateRow }} = {SCRIPT};\n const step = {given};"
            f" const {{ rows, exact }} = rescore(step, 1, {beta}, '{head}');"
            " const place = { chosen: true, widest: 1, before: 1, after: 1, exact };"
            " return [exact, candidateRow(rows[0], step, place).innerText.includes('≤')]; })()"
        )

    deep = {"floor": 1.5, "complete": False}
    assert shown(0.5, **deep) == [True, False]
    assert shown(0.1, **deep) == [False, True]  # the head ends at 3 + log 0.1 = 0.7
    assert shown(0.5, "raw", **deep) == [True, False]
    assert shown(0.4, "raw", **deep) == [False, True]
    assert shown(0, floor=None, complete=True) == [True, False]
    assert shown(0.5, floor=None, complete=False) == [False, True]
    assert shown(1.5, **deep) == [True, False]  # the base argmax alone
