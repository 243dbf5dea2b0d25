"""Names that are long, or read from right to left: whole, in order, and within the picture."""

from dataclasses import replace

import pytest

from macd_studio.viewer import JS, bundle
from tests.browser.states import show, traced
from tests.browser.test_layout import CUT
from tests.samples import sampled

DOG, TROLLEY = "כלב", "عربة تسوق 5"
NAMES = (
    "refrigerated double-door beverage display cabinet with sliding glass doors",
    "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft",
    "شخص يرتدي سترة حمراء طويلة ويقف بجانب الرفوف البيضاء في المتجر الكبير",
    DOG, TROLLEY, "cup",
)  # fmt: skip
QUESTION = "האם יש כלב בסרטון?"
START, END = "\u2068", "\u2069"
"""First strong isolate, and its end."""
DRAWN = """() => {
  const texts = [], { prototype } = CanvasRenderingContext2D, { fillText } = prototype;
  prototype.fillText = function (text, x, ...rest) {
    texts.push([text, x, x + this.measureText(text).width, this.canvas.width]);
    return fillText.call(this, text, x, ...rest);
  };
  window.viewer.stage.draw();
  prototype.fillText = fillText;
  return texts;
}"""
"""What is written on the picture: its text, where it begins and ends, and the picture's width."""


def named(trace):
    tracks = [
        replace(t, label=NAMES[k % len(NAMES)] if k < 6 else t.label)
        for k, t in enumerate(trace.tracks)
    ]
    return replace(trace, tracks=tuple(tracks), question=QUESTION)


@pytest.mark.parametrize("width", sampled([390, 1440], [390]))
def test_long_names_cut_nothing_and_stay_within_the_picture(bare, width):
    page = show(bare, named(traced()), width)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert page.evaluate(CUT) == []
    for k, name in enumerate(NAMES):
        page.evaluate("(track) => window.viewer.state.set({ track })", k)
        texts = page.evaluate(DRAWN)
        assert texts
        assert all(0 <= start and end <= width for _, start, end, width in texts)
        chosen = next(text for text, *_ in texts if text.startswith(f"{k + 1} "))
        assert name[:4] in chosen
        assert ("…" in chosen) == (len(name) > 40)
        assert page.locator(".mv-object bdi").nth(k).inner_text() == name
        assert name in page.locator(".mv-lane-name").nth(k).get_attribute("title")
    lanes = page.locator(".mv-lane").all()
    assert max(lane.bounding_box()["height"] for lane in lanes) < 36  # two lines


def test_names_from_right_to_left_leave_numbers_beside_them_in_order(bare):
    page = show(bare, named(traced()), 1440)
    at = [page.locator(".mv-object").nth(k) for k in (3, 4)]
    for row in at:  # the confidence stands after the name
        name, after = (row.locator(part).bounding_box() for part in ("bdi", "small"))
        assert after["x"] >= name["x"] + name["width"] - 1
    assert page.locator(".mv-lane-name").nth(3).inner_text() == f"4 {START}{DOG}{END}"
    # the question's mark stands at its end, which is on the left
    marks = page.evaluate(
        """() => {
          const text = document.querySelector(".mv-question").firstChild;
          const range = document.createRange();
          return [0, text.length - 1].map((i) => {
            range.setStart(text, i);
            range.setEnd(text, i + 1);
            return range.getBoundingClientRect().left;
          });
        }"""
    )
    assert marks[1] < marks[0]


SAID = {
    "trackName({ id: 4, label })": f"4 {START}{DOG}{END}",
    "laneText(label, 0, 'seen', false)": f"{START}{DOG}{END}, frame 1: seen",
    "editText([], { kind: 'box', label })": f"added {START}{DOG}{END}",
    "maskedText({ tracks: [{ id: 1, label }], final: { level: [1], frame_level: [] }, groups: [],"
    " times: [0], levels: [{ name: 'kept', value: 0 }, { name: 'partly masked', value: 0.5 },"
    " { name: 'masked', value: 1 }] })": f"The {START}{DOG}{END} was masked.",
}


@pytest.mark.parametrize("call", SAID)
def test_sentences_isolate_names_from_right_to_left(bare, call):
    code = (
        f"(label) => ({bundle(*sorted((JS / 'strings').glob('*.js')), JS / 'happened.js')}).{call}"
    )
    assert bare.evaluate(code, DOG) == SAID[call]
    assert bare.evaluate(code, "dog") == SAID[call].replace(f"{START}{DOG}{END}", "dog")


@pytest.mark.parametrize("detector", ["toyworld", "grid"])
def test_regions_without_a_class_are_not_told_to_lack_a_name(bare, detector):
    trace = replace(traced(), question="Is there a zebra in the video?")
    trace = replace(trace, detector=replace(trace.detector, name=detector))
    told = show(bare, trace).locator(".mv-headline").inner_text()
    assert ("No object is called “zebra”" in told) == (detector == "toyworld")
