"""Many objects, masks that weaken each other, and the pictures of a run that goes on."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from macd_studio.core.masking.masks import combine_masks, draw_masks
from macd_studio.core.records import DetectorRecord
from macd_studio.viewer import JS, bundle, payload, status
from tests.browser.states import show, show_data, traced

LABELS = """() => {
  const plot = document.querySelector("[data-plot=objects]"), frame = plot.getBoundingClientRect();
  const shown = [...plot.querySelectorAll(".mv-line-label:not([hidden])")].map((label) => {
    const box = label.querySelector("text").getBoundingClientRect();
    const line = plot.querySelector(`.mv-line-group[data-track="${label.dataset.label}"] .mv-line-whole`);
    const end = line.getAttribute("points").split(" ").at(-1).split(",").map(Number);
    const [from] = label.querySelector("polyline").getAttribute("points").split(" ").map(
      (point) => point.split(",").map(Number));
    return {
      name: label.textContent, top: box.top, bottom: box.bottom,
      inside: box.left >= frame.left && box.right <= frame.right && box.top >= frame.top - 1
        && box.bottom <= frame.bottom + 1,
      joined: Math.hypot(from[0] - end[0], from[1] - end[1]) < 1,
      colours: new Set([line, label.querySelector("polyline")].map((e) => getComputedStyle(e).stroke)
        .concat(getComputedStyle(label.querySelector("rect")).fill)).size,
    };
  });
  return shown.sort((a, b) => a.top - b.top);
}"""  # noqa: E501


@pytest.mark.parametrize(
    ("width", "scheme"), [(1440, "light"), pytest.param(390, "dark", marks=pytest.mark.long)]
)
def test_labels_of_many_lines_are_joined_to_them_and_the_rest_come_on_demand(bare, width, scheme):
    page = show(bare, traced(), width, scheme)
    some = page.evaluate(LABELS)
    assert 5 <= len(some) < 14
    final = traced().counterfactual.level
    masked = {str(k + 1) for k in np.flatnonzero(final)}
    assert masked <= {label["name"].split()[0] for label in some}  # what is masked is named
    hidden = next(k for k in range(14) if str(k + 1) not in {z["name"].split()[0] for z in some})
    page.locator(".mv-object").nth(hidden).hover()
    pointed = page.evaluate(LABELS)
    assert len(pointed) == len(some) + 1
    assert pointed[-1]["name"].startswith(f"{hidden + 1} ")
    page.get_by_role("button", name="All 14 labels").click()
    page.mouse.move(0, 0)
    every = page.evaluate(LABELS)
    assert len(every) == 14
    for shown in (some, pointed, every):
        assert all(z["inside"] and z["joined"] and z["colours"] == 1 for z in shown)
        assert all(b["top"] >= a["top"] + 8 for a, b in pairwise(shown))


def test_overlapping_masks_say_how_far_they_weaken_each_other(bare):
    trace = traced(objects=3, steps=3)
    boxes = trace.tracks[0].boxes
    tracks = (
        trace.tracks[0],
        replace(trace.tracks[1], boxes=boxes + np.float32([0.04, 0, 0.04, 0])),
        trace.tracks[2],
    )
    level = np.array([1.0, 0.0, 1.0])
    final = replace(trace.counterfactual, level=level)
    trace = replace(trace, tracks=tracks, counterfactual=final)
    page = show(bare, trace)
    frames = len(trace.times)
    page.wait_for_function(f"window.viewer.stage.overlaps.frames.length === {frames}")
    width, height = page.evaluate("window.viewer.state.trace.size")
    alone = draw_masks(tracks, frames, (height, width), replace(trace.mask, overlap="raw")).objects[
        0, 0
    ]
    union = combine_masks(
        draw_masks(tracks, frames, (height, width), trace.mask), level, final.frame_level,
        trace.groups, [t.confidence for t in tracks], trace.mask,
    )[0]  # fmt: skip
    mean = float(union[alone >= 0.5].mean())
    assert 0.3 < mean < 0.9
    name = "shares pixels with 2 ball"
    cell = page.locator("[data-track='0'] [data-frame='0']")
    covers = f"its mask covers {100 * mean:.1f} % there, as it {name}"
    assert covers in cell.get_attribute("title")
    assert page.locator("[data-track='2'] .mv-weak, [data-track='1'] .mv-weak").count() == 0
    key = page.locator(".mv-levels-key li:visible").last.inner_text()
    assert key == f"masks that overlap are weaker: down to {100 * mean:.1f} %"
    plain = show(bare, traced(objects=3, steps=3))
    plain.wait_for_function(f"window.viewer.stage.overlaps.frames.length === {frames}")
    assert plain.locator(".mv-weak").count() == 0
    assert "masks that overlap" not in plain.locator(".mv-levels-key").inner_text()


def test_masks_that_overlap_are_looked_for_in_the_run_on_show_alone(bare):
    """Not in the rest of one whose place another took meanwhile."""
    trace = traced(objects=2, steps=3)
    first, second = trace.tracks
    tracks = (first, replace(second, boxes=first.boxes + np.float32([0.04, 0, 0.04, 0])))
    final = replace(trace.counterfactual, level=np.array([1.0, 0.0]))
    found = bare.evaluate(
        f"""(loaded) => {{
          const {{ Overlaps }} = {bundle(JS / "overlap.js")}, works = [], found = [];
          window.requestIdleCallback = (work) => works.push(work);
          const state = {{ loaded, running: false }};
          const overlaps = new Overlaps(state, (frame) => found.push(frame));
          overlaps.load();
          works.pop()();
          state.loaded = {{ ...loaded, final: null }};
          overlaps.load();
          works.pop()();
          return [found, overlaps.frames, works.length];
        }}""",
        payload(replace(trace, tracks=tracks, counterfactual=final))["trace"],
    )
    assert found == [[0], [], 0]


@pytest.mark.parametrize("twice", [False, True])
def test_few_shared_pixels_weaken_no_mask(bare, twice):
    """Where strength is applied twice, what counts is the level's square."""
    trace = traced(objects=2, steps=3)
    first, second = trace.tracks
    mask = replace(trace.mask, strength_twice=twice)
    final = replace(trace.counterfactual, level=np.array([0.75, 0.75]))
    found = {}
    for name, shift in (("few", 0.38), ("many", 0.04)):
        boxes = np.float32([[0.1, 0.1, 0.5, 0.5]] * len(trace.times))
        tracks = (
            replace(first, boxes=boxes),
            replace(second, boxes=boxes + np.float32([shift, 0, shift, 0])),
        )
        made = replace(trace, tracks=tracks, mask=mask, counterfactual=final)
        found[name] = bare.evaluate(
            f"""(trace) => {{
              const {{ weakened }} = {bundle(JS / "overlap.js")};
              const {{ frameMasks, levelsAt }} = {bundle(JS / "masks.js")};
              return weakened(trace, frameMasks(trace, 0), levelsAt(trace, 0));
            }}""",
            payload(made)["trace"],
        )
    assert found["few"] == [None, None]
    assert all(weak["mean"] < 0.75 ** (1 + twice) - 0.05 for weak in found["many"])
    assert [weak["others"] for weak in found["many"]] == [[1], [0]]


PICTURE = """() => {
  const canvas = document.querySelector("[data-part=picture]");
  const { data } = canvas.getContext("2d").getImageData(0, canvas.height - 4, canvas.width, 1);
  return data.filter((value, i) => i % 4 === 3 && value > 0).length / canvas.width;
}"""


def test_a_run_that_goes_on_shows_its_frames_and_boxes(bare):
    """The run is called otherwise once its detector is known; its pictures are not sent again."""
    trace = traced(objects=3, steps=3)
    bare_run = replace(
        trace, tracks=(), steps=(), counterfactual=None, answers={}, detector=DetectorRecord()
    )
    page = show_data(bare, payload(bare_run, status("detect", 0, "Looking", running=True)))
    assert page.evaluate(PICTURE) == 1
    page.evaluate("viewer.state.set({ frame: 2 })")
    found = replace(bare_run, tracks=trace.tracks[:2], detector=trace.detector)
    more = payload(found, status("detect", 0.5, "2 of 4", running=True), frames=False)
    assert more["trace"]["run"] != page.evaluate("window.viewer.state.trace.run")
    page.evaluate("(data) => window.viewer.update(data)", more)
    assert page.evaluate(PICTURE) == 1
    assert page.evaluate("viewer.state.frame") == 2  # whoever looks at a frame stays there
    assert page.locator(".mv-object").count() == 2
