"""A token's evidence on an exported page: what is drawn is what the trace holds."""

import json
from dataclasses import replace

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe

from macd_studio.core.measurements import (
    Agreement,
    Curve,
    Curves,
    Enough,
    Evidence,
    EvidenceMap,
    Given,
    KnockOut,
    Lens,
    Piece,
    Smallest,
    Target,
)
from macd_studio.core.records import CAPABILITIES
from macd_studio.macd_ui.examples import examples
from macd_studio.viewer import JS, bundle, payload, standalone
from tests.browser.states import show, show_data, traced
from tests.patience import PATIENCE_MS

ROWS, COLUMNS = 6, 8


def known_maps(trace):
    """Frame t: one cell speaks for the token, one half as much against it; V_d: nothing."""
    values = np.zeros((len(trace.frames), ROWS, COLUMNS), np.float32)
    for t in range(len(values)):
        values[t, 1, t % COLUMNS] = 2.0
        values[t, 4, t % COLUMNS] = -1.0
    return {"video": values, "counterfactual": np.zeros_like(values)}


def with_evidence():
    """The first example, with evidence whose every number is known."""
    trace = examples()[0].load_trace()
    step = trace.answers["macd"].tokens[0]
    other = trace.answers["baseline"].tokens[0]
    tracks, groups = len(trace.tracks), len(trace.groups)
    maps = tuple(
        EvidenceMap(kind, view, values * sign, (0.25,) * tracks, 0.25, (1 / groups,) * groups, 0.5)
        for kind, sign in (("gradient", 1), ("attention", 0.01))
        for view, values in known_maps(trace).items()
    )
    maps = (*maps[:2], *(replace(m, values=np.abs(m.values)) for m in maps[2:]))
    one = Evidence(
        target=Target("macd", 0, step.token, step.text, other.token, other.text),
        score=(1.5, -2.25),
        layers=(0, 1, 2, 3),
        maps=maps,
        agreement=(Agreement("video", "gradient", "attention", 0.75),),
        knock_outs=(
            KnockOut(trace.tracks[0].id, None, (0, 3), 4, "cat", "none", (1, 0), (0.9, 0.1)),
        ),
        lens=Lens((0.1, 0.2, 0.4, 0.8), (0.1, 0.1, 0.2, 0.3)),
        curves=Curves(
            (0.0, 0.5, 1.0),
            (
                Curve("gradient", (1.0, 0.5, 0.0), (0.0, 1.0, 1.0)),
                Curve("random", (1.0, 1.0, 0.0), (0.0, 0.5, 1.0)),
                Curve("random", (1.0, 1.0, 1.0), (0.0, 0.0, 1.0)),
            ),
        ),
    )  # fmt: skip
    return replace(trace, evidence=(one,), enough=(known_enough(trace),))


def known_enough(trace):
    """An object is enough in the first half; hiding the background changes the answer."""
    step, groups = trace.answers["baseline"].tokens[0], len(trace.groups)
    half = groups // 2
    runs = ((0, half - 1), (half, groups - 1))
    first = trace.tracks[0].id
    pieces = tuple(Piece(track, None, run) for track in (first, None) for run in runs)
    return Enough(
        target=Target("baseline", 0, step.token, step.text),
        same="answer", margin=0.0, fill="mean", pieces=pieces,
        whole=Given((0, 1, 2, 3), "none", True, 0.75, 1.5),
        nothing=Given((), "bus", False, 0.25, -1.5),
        keep=Smallest((0,), 1, 1, Given((0,), "none", True, 0.5, 0.5)),
        remove=Smallest((2, 3), 1, 1, Given((0, 1), "dog", False, 0.25, -0.5)),
        views=12, budget=512,
    )  # fmt: skip


@pytest.fixture
def opened(new_tab, tmp_path):
    """Opens the trace as an exported page."""
    path = tmp_path / "trace.html"
    path.write_text(standalone(with_evidence()), encoding="utf-8")

    def open_(hash_=""):
        page = new_tab(strict="file:", offline=True, viewport={"width": 1440, "height": 1000})
        page.goto(path.as_uri() + hash_)
        page.wait_for_selector(".mv-token")
        return page

    return open_


def unfold(page):
    """By the keyboard."""
    page.locator(".mv-evidence > summary").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".mv-heats canvas")
    page.wait_for_function("() => document.querySelector('.mv-stage canvas').width > 0")


def difference(page, row, column):
    """How far the map moves the picture's colour in the middle of a cell: red, green, blue."""
    return page.evaluate(
        """([y, x]) => {
          const canvas = document.querySelector(".mv-stage canvas");
          const at = () => canvas.getContext("2d")
            .getImageData(x * canvas.width, y * canvas.height, 1, 1).data.slice(0, 3);
          const toggle = [...document.querySelectorAll(".mv-evidence button")]
            .find((b) => b.textContent === "On the picture");
          const on = [...at()];
          toggle.click();
          const off = [...at()];
          toggle.click();
          return on.map((v, i) => v - off[i]);
        }""",
        [(row + 0.5) / ROWS, (column + 0.5) / COLUMNS],
    )


def drawn_difference(page, row, column):
    """The same where the map covers something, once it is drawn."""
    for _ in range(PATIENCE_MS // 20):
        if any(found := difference(page, row, column)):
            return found
        page.wait_for_timeout(20)
    return found


def test_the_map_stands_where_its_cells_are_and_moves_with_the_frame(opened):
    page = opened()
    page.locator(".mv-root").focus()
    page.keyboard.press("b")  # boxes and levels would hide it
    page.keyboard.press("v")
    unfold(page)
    page.locator(".mv-root").focus()
    for frame in (0, 1, 2):
        strong = drawn_difference(page, 1, frame)
        weak = difference(page, 4, frame)
        assert max(map(abs, strong)) > 20
        assert max(map(abs, weak)) > 5
        assert strong[2] - strong[0] > 0 > weak[2] - weak[0]  # blue speaks for it, orange against
        assert difference(page, 1, (frame + 3) % COLUMNS) == [0, 0, 0]
        page.keyboard.press("ArrowRight")
    # nothing under V_d; the difference is all of V
    page.get_by_role("button", name="V_d", exact=True).click()
    assert difference(page, 1, 3) == [0, 0, 0]
    page.get_by_role("button", name="V − V_d").click()
    assert max(map(abs, difference(page, 1, 3))) > 20
    # less opacity, less colour
    page.get_by_label("Opacity of the map").focus()
    page.keyboard.press("Home")
    assert max(map(abs, difference(page, 1, 3))) < 40


@pytest.mark.long
def test_figures_beside_the_map_are_those_of_the_trace(opened):
    page = opened()
    unfold(page)
    page.locator(".mv-evidence").get_by_text("its lead over").first.wait_for()
    said = page.locator(".mv-evidence").inner_text()
    for part in ("its lead over", "is 1.50 given V and −2.25 given V_d", "25.0 %",
                 "Most faithful for this token: Input × gradient", "−0.750 to −0.250", "+0.250",
                 "+0.50 under V", "+0.75 under V", "→ “none”", "90.0 % → 10.0 %", "layers 1–4",
                 "against to 2.0 for the token"):  # fmt: skip
        assert part in said, part
    assert "0.800" in page.locator(".mv-lens svg").last.get_attribute("aria-label")
    told = page.locator(".mv-lens svg").first.get_attribute("aria-label")
    assert "1.00 0.50 0.00 as cells are hidden, 0.00 1.00 1.00 as they are shown" in told
    assert page.locator(".mv-evidence-ask").is_hidden()  # no server
    # a row of frames leads to them, one of an object chooses it
    page.get_by_role("button", name="frames 5–6").focus()
    page.keyboard.press("Enter")
    assert "frame 5 of 8" in page.locator(".mv-stage .mv-caption").inner_text()
    assert page.locator(".mv-evidence tr.mv-top th").inner_text() == "frames 5–6"
    page.locator(".mv-evidence .mv-link").first.focus()
    page.keyboard.press("Enter")
    assert page.locator(".mv-object[aria-pressed=true]").count() == 1
    # another kind has its own colours
    page.get_by_label("Kind of map").select_option("attention")
    assert "0 to 0.020" in page.locator(".mv-ends").inner_text()
    # another token: what is missing is said
    page.get_by_role("button", name="End tokens").click()
    page.locator(".mv-strip[data-method=macd] .mv-token").nth(1).click()
    assert "holds nothing of" in page.locator(".mv-evidence").inner_text()


@pytest.mark.long
def test_the_address_holds_what_is_chosen(opened):
    page = opened()
    assert "#" not in page.url  # nothing was chosen yet
    page.locator(".mv-root").focus()
    for key in ("2", "ArrowRight", "ArrowRight", "m", "j"):
        page.keyboard.press(key)
    page.get_by_label("α", exact=True).focus()
    page.keyboard.press("End")
    page.wait_for_function("() => location.hash.includes('alpha=5')")
    address = page.url

    def chosen():
        return page.evaluate(
            """() => [
              document.querySelector(".mv-stage .mv-caption").textContent,
              [...document.querySelectorAll(".mv-object")].map((o) => o.ariaPressed),
              [...document.querySelectorAll(".mv-token")].map((t) => t.ariaPressed),
              [...document.querySelectorAll(".mv-layers button")].map((t) => t.ariaPressed),
              [...document.querySelectorAll(".mv-live output")].map((o) => o.textContent),
            ]"""
        )

    before = chosen()
    assert "frame 3 of 8" in before[0]
    assert before[1].count("true") == 1
    assert before[4][0] == "5.00"
    page = opened(hash_="#" + address.split("#")[1])
    page.wait_for_function(
        "() => document.querySelector('.mv-caption').textContent.includes('frame 3')"
    )
    assert chosen() == before
    for hostile in ("#run=x&frame=3", "#frame=-1&object=99&token=1e9", "#%E0%A4%A&alpha=NaN"):
        page = opened(hash_=hostile)
        assert "frame 1 of 8" in page.locator(".mv-stage .mv-caption").inner_text()
    run = address.split("run=")[1].split("&")[0]
    page = opened(hash_=f"#run={run}&frame=99&object=x&of=toString&token=2&layers=boxes&beta=7")
    assert "frame 1 of 8" in page.locator(".mv-stage .mv-caption").inner_text()


def test_what_is_kept_of_a_map_is_bounded_however_close_the_zoom(bare):
    kept = bare.evaluate(
        """() => {
      const { Heat } = heats();
      const cells = new Uint8Array(new Int16Array(40 * 4).fill(9).buffer);
      const values = btoa(String.fromCharCode(...cells));
      const map = { kind: "gradient", view: "video", grid: [2, 2], scale: 1, values };
      const evidence = { extent: [0, 0, 1, 1], strongest: { gradient: 9 }, maps: [map] };
      const heat = new Heat(evidence, "gradient");
      const context = document.createElement("canvas").getContext("2d");
      for (let frame = 0; frame < 40; frame++) {
        for (const w of [240, 1280, 12800]) {
          heat.paint(context, "video", frame, 1, { x: 0, y: 0, w, h: w / 2 });
        }
      }
      return [...heat.cache.values()].map((c) => c.width * c.height);
    }""".replace("heats()", bundle(JS / "heat.js")),
    )
    assert 10 < len(kept) < 80
    assert max(kept) == 1280 * 640
    assert sum(kept) <= 16e6


def shade(page, x, y):
    """How much darker a place of the picture is than without the set on show, in greys."""
    return page.evaluate(
        """([x, y]) => {
          const canvas = document.querySelector(".mv-stage canvas");
          const at = () => canvas.getContext("2d")
            .getImageData(x * canvas.width, y * canvas.height, 1, 1).data.slice(0, 3)
            .reduce((sum, v) => sum + v, 0) / 3;
          const toggle = [...document.querySelectorAll(".mv-enough button")]
            .find((b) => b.textContent === "On the picture");
          const on = at();
          toggle.click();
          const off = at();
          toggle.click();
          return off - on;
        }""",
        [x, y],
    )


def test_what_is_hidden_from_the_model_is_dimmed_in_picture_and_lanes(opened):
    trace = with_evidence()
    page = opened()
    page.locator(".mv-root").focus()
    page.keyboard.press("b")
    page.keyboard.press("v")
    page.locator(".mv-enough > summary").focus()
    page.keyboard.press("Enter")
    found = page.locator(".mv-enough")
    found.get_by_text("certified: no smaller set").wait_for()
    assert "“dog”" in found.inner_text()
    page.wait_for_function("() => document.querySelector('.mv-stage canvas').width > 0")
    x0, y0, x1, y1 = trace.tracks[0].boxes[0]
    middle = float(x0 + x1) / 2, float(y0 + y1) / 2
    away = next(
        (x, y) for x in (0.02, 0.98) for y in (0.02, 0.98)
        if not any(
            b[0] - 0.1 < x < b[2] + 0.1 and b[1] - 0.1 < y < b[3] + 0.1
            for t in trace.tracks for b in t.boxes[:1]
        )
    )  # fmt: skip
    page.locator(".mv-root").focus()
    for _ in range(PATIENCE_MS // 20):
        if shade(page, *away) > 20:
            break
        page.wait_for_timeout(20)
    assert shade(page, *away) > 20  # of the first half the background is hidden, not the object
    assert abs(shade(page, *middle)) < 4
    lane = page.locator(".mv-lane[data-track='0'] .mv-cell")
    half = trace.groups[len(trace.groups) // 2][0]
    assert "mv-piece-shown" in lane.nth(0).get_attribute("class")
    assert "mv-piece-hidden" in lane.nth(half).get_attribute("class")
    strip = page.locator(".mv-frame-level")
    assert "mv-piece-hidden" in strip.nth(0).get_attribute("class")
    found.get_by_role("button", name="All", exact=True).click()
    assert shade(page, *away) == 0
    assert "mv-piece-shown" in strip.nth(0).get_attribute("class")
    assert "75.0 %" in page.locator(".mv-enough-answer").inner_text()
    ticks = found.locator("input[type=checkbox]")
    assert ticks.evaluate_all("(all) => all.map((one) => one.checked)") == [True] * 4
    ticks.nth(3).click()
    assert page.locator(".mv-enough-answer").inner_text() == (
        "The model has not read this set yet."
    )
    assert not found.get_by_role("button", name="Read these alone").is_visible()  # no server
    assert not Axe().run(page).response["violations"]


def test_what_the_model_cannot_do_is_shown_as_unavailable(bare):
    trace = traced()
    backbone = replace(trace.backbone, lacks=("gradient", "attention"))
    why = {n: f"Not with this model: {CAPABILITIES[n]}." for n in (*backbone.lacks, "knock-out")}
    page = show(bare, replace(trace, backbone=backbone))
    page.locator("details.mv-evidence > summary").click()
    box = page.locator(".mv-evidence-ask input[type=checkbox]")
    box.first.wait_for()
    states = {b.get_attribute("value"): (b.is_disabled(), b.is_checked()) for b in box.all()}
    assert states["gradient"] == states["attention"] == (True, False)
    assert not states["occlusion"][0]
    for kind, name in (("gradient", "gradient"), ("attention", "attention")):
        label = page.locator(f".mv-evidence-ask label:has(input[value={kind}])")
        assert label.get_attribute("title") == why[name]
    out = page.get_by_role("button", name="Knock out the region")
    assert out.is_disabled()
    assert out.get_attribute("title") == why["knock-out"]
    # it stays so after something was computed
    page.evaluate("for (const now of [true, false]) window.viewer.panels.evidence.busy(now)")
    assert page.locator(".mv-evidence-ask input[value=gradient]").is_disabled()
    # changes by hand need an ascent
    page.locator("details.mv-whatif > summary").click()
    assert page.locator(".mv-where").inner_text() == why["gradient"]
    assert page.locator(".mv-whatif button:visible").count() == 0
    # another trace brings them back
    page.evaluate(f"window.viewer.update({json.dumps(payload(trace))})")
    assert page.locator(".mv-evidence-ask input[value=gradient]").is_enabled()
    assert page.locator(".mv-whatif button:visible").count() > 0


def test_a_region_stays_with_the_clip_that_it_is_a_place_in(new_tab):
    first, other = (payload(examples()[k].load_trace()) for k in (0, 1))
    page = show_data(new_tab(), first)
    region = page.locator("[aria-label^='Region, ']")  # hidden where nothing can be measured
    region.evaluate("(field) => { field.value = '0.1,0.2,0.5,0.9'; }")
    another = first | {"trace": first["trace"] | {"run": "another question", "frames": []}}
    page.evaluate("(next) => window.viewer.update(next)", another)
    assert region.input_value() == "0.1,0.2,0.5,0.9"
    page.evaluate("(next) => window.viewer.update(next)", other)
    assert region.input_value() == ""
