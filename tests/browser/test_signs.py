"""Small signs of the viewer: each says one thing, and the same on both sides."""

from dataclasses import replace

import numpy as np

from macd_studio.viewer import JS, bundle, constants, payload
from tests.browser.states import show, show_data, traced

STRIP = JS.parents[1] / "macd_ui" / "js" / "strip.js"
TALLY = STRIP.with_name("tally.js")


def test_values_are_written_as_they_are_and_told_apart(bare):
    text, heat, ranges = (bundle(JS / f"{name}.js") for name in ("text", "heat", "ranges"))
    named = bare.evaluate(f"[7, 9].map((id) => ({text}).candidateName('\\uFFFD', id))")
    assert named == ["� #7", "� #9"]  # two parts of letters are two candidates
    assert bare.evaluate(f"({text}).candidateName(' a', 7)") == "␣a"
    opaque = bare.evaluate(
        f"[[0.04, false], [-0.04, true], [1, false]].map((a) => ({heat}).opacityOf(...a))"
    )
    assert opaque == [0.2, 0.04, 1]  # most of a map of attention is far below its strongest cell
    # what has a sign has two colours: differences of every kind, and kinds that speak against
    signed = [["attention", "video"], ["attention", "difference"], ["gradient", "video"]]
    assert [
        bare.evaluate(f"([kind, view]) => ({heat}).Heat.prototype.signed.call({{ kind }}, view)", z)
        for z in signed
    ] == [False, True, True]
    alphas = bare.evaluate(
        f"(told) => ({ranges}).axesOf(told, {{ alpha: 20, beta: 1 }}).alphas", constants.constants()
    )
    assert [a for a in alphas if len(str(a)) > 8] == []
    usual = constants.constants()["flips"]["alphas"][-1]
    for end in (usual, usual + 0.25, 1.4 * usual, 2 * usual, 2.1 * usual):
        axis = bare.evaluate(
            f"([told, alpha]) => ({ranges}).axesOf(told, {{ alpha, beta: 1 }}).alphas",
            [constants.constants(), end],
        )
        assert end <= axis[-1] < end + usual


def test_a_draw_that_is_shown_again_counts_once(bare):
    counted = bare.evaluate(
        f"""() => {{
          const {{ Tally }} = {bundle(TALLY)}, kept = new Map();
          // an empty page has no storage of its own
          Object.defineProperty(window, "sessionStorage", {{ configurable: true, value: {{
            getItem: (key) => kept.get(key) ?? null, setItem: (key, text) => kept.set(key, text),
          }} }});
          const tally = new Tally();
          for (const seed of [1, 2, 1]) {{
            tally.load({{ seed, truth: "a dog", right: {{ macd: seed === 1 }}, titles: {{}} }});
          }}
          delete window.sessionStorage;
          return [...tally.rows.querySelectorAll("td")].map((cell) => cell.textContent);
        }}"""
    )
    assert counted == ["1", "1"]  # right and wrong


def test_a_short_clip_has_no_more_frames_than_pictures(bare):
    said = bare.evaluate(
        f"""() => {{
          const {{ Strip }} = {bundle(STRIP)};
          const pausing = [0, 0.4, 0.8, 1.2, 8, 8.4, 8.8]; // of a clip of 50 frames
          const many = Array.from({{ length: 24 }}, (_, i) => i);
          return [[0], [0, 0.5, 1], many, pausing].map((times) => {{
            const strip = new Strip(() => {{}}, () => {{}});
            const duration = times[times.length - 1] + 0.5;
            const pictures = times.map(() => "data:,");
            const count = times === pausing ? 50 : times.length;
            const size = [4, 3];
            strip.load({{ name: "a", duration, longest: 60, count, times, pictures, size }});
            const marked = strip.frames.querySelectorAll(".strip-sampled").length;
            return `${{marked}}: ${{strip.summary.textContent}}`;
          }});
        }}"""
    )
    assert said == [f"{n}: {n} evenly spaced {noun} of the whole clip." for n, noun in
                    ((1, "frame"), (3, "frames"), (8, "frames"), (3, "frames"))]  # fmt: skip


def test_frames_that_are_trimmed_away_are_picked_no_more(bare):
    chosen, said = bare.evaluate(
        f"""() => {{
          const {{ Strip }} = {bundle(STRIP)}, times = [0, 0.5, 1, 1.5, 2];
          let heard = null;
          const strip = new Strip((chosen) => {{ heard = chosen; }}, () => {{}});
          const pictures = times.map(() => "data:,");
          strip.load({{ name: "a", duration: 2.5, longest: 60, times, pictures, size: [4, 3] }});
          for (const i of [1, 4]) strip.pick(i);
          strip.trim(0, 1.2);
          return [heard, strip.summary.textContent];
        }}"""
    )
    assert chosen == {"end": 1.2, "at": [0.5]}
    assert said == "1 frame picked by hand of 0.00 s to 1.20 s."


def test_both_runs_are_drawn_alike_and_an_answer_reads_in_its_own_direction(bare):
    trace = traced(objects=3, steps=3)
    data = payload(trace)
    data["trace"]["answers"]["macd"]["text"] = "כן, יש כלב 3"
    data["trace"]["again"] = {"command": "macd v.mp4", "snippet": "run()", "link": ""}
    page = show_data(bare, data)
    directions = page.locator(".mv-outcome strong").evaluate_all(
        "(all) => all.map((e) => [getComputedStyle(e).direction, getComputedStyle(e).unicodeBidi])"
    )
    assert directions[-1] == ["rtl", "isolate"]
    page.locator(".mv-reproduce > summary").click()
    assert "run it where v.mp4 is" in page.locator(".mv-reproduce").inner_text()
    page.evaluate("viewer.panels.beside.show({ ...viewer.state.trace })")
    drawn = (
        """() => [...document.querySelectorAll(".mv-beside canvas")].map((c) => c.toDataURL())"""
    )
    page.wait_for_function(f"(({drawn})())[0].length > 2000")
    page.get_by_role("button", name="Levels", exact=True).click()
    mine, theirs = page.evaluate(drawn)
    assert mine == theirs  # no side has what the other lacks
    page.locator(".mv-flips > summary").click()
    page.wait_for_selector(".mv-axis:not(:empty)")  # drawn after the event that follows the click
    assert page.locator(".mv-axis").inner_text().startswith("The outlined cell is where you are")


def test_two_parts_of_letters_have_two_names_in_the_bars(bare):
    trace = traced(objects=3, steps=3)
    tokens = [replace(t, texts=("�",) * len(t.texts)) for t in trace.answers["macd"].tokens]
    macd = replace(trace.answers["macd"], tokens=tokens)
    page = show(bare, replace(trace, answers=trace.answers | {"macd": macd}))
    names = page.locator(".mv-bars-video .mv-bar-name").all_inner_texts()
    assert len(set(names)) == len(names) > 2
    pieces = page.locator(".mv-candidates .mv-piece").all_inner_texts()
    assert len(set(pieces)) == len(pieces) > 2


def test_the_frames_slider_ends_at_the_last_frame_and_a_speed_shortens_each(bare):
    trace = traced(objects=2, steps=3)
    page = show(bare, trace)
    scrub = page.get_by_label("Frame", exact=True)
    assert scrub.get_attribute("max") == str(len(trace.frames) - 1)
    speeds, stays = page.get_by_label("Speed", exact=True), {}
    for speed in ("0.5", "1", "2"):
        speeds.select_option(value=speed)
        stays[speed] = page.evaluate("window.viewer.stage.pause(0)")
    assert stays == {"0.5": 500, "1": 250, "2": 125}


def test_the_key_draws_each_level_as_the_picture_does(bare):
    """The lowest level has a dashed outline, the middle one lines, the highest crossed lines."""
    page = show(bare, traced(objects=2, steps=3))
    drawn = page.locator("[data-part=levels] li:has(> .mv-key)").evaluate_all(
        """(rows) => rows.map((row) => {
          const sign = getComputedStyle(row.querySelector(".mv-key"));
          const lines = sign.backgroundImage.split("repeating-linear-gradient").length - 1;
          return [parseFloat(row.textContent), sign.borderTopStyle, lines];
        })"""
    )
    assert drawn[:3] == [[0, "dashed", 0], [0.75, "solid", 1], [1, "solid", 2]]


def test_the_slider_shows_the_picture_of_its_frame(bare):
    trace = traced(objects=2, steps=3)
    frames = np.empty_like(trace.frames)
    frames[:] = np.array([40, 90, 140, 190], np.uint8).reshape(-1, 1, 1, 1)
    page = show(bare, replace(trace, frames=frames))
    page.get_by_role("button", name="Video", exact=True).click()
    corner = """() => { const c = document.querySelector("[data-part=picture]");
      return c.getContext("2d").getImageData(0.98 * c.width, 0.98 * c.height, 1, 1).data[0]; }"""
    for frame, gray in enumerate((40, 90, 140, 190)):
        page.get_by_label("Frame", exact=True).fill(str(frame))
        page.wait_for_function(f"(wanted) => Math.abs(({corner})() - wanted) < 4", arg=gray)


def test_a_token_without_a_second_view_has_no_map_of_alpha_and_beta(bare):
    data = payload(traced(objects=2, steps=3))
    data["trace"]["answers"]["macd"]["tokens"][1] |= {"others": [], "others_log_z": []}
    page = show_data(bare, data)
    tokens = page.locator(".mv-strip[data-method=macd] .mv-token")
    tokens.nth(0).click()
    assert page.locator(".mv-flips").is_visible()
    tokens.nth(1).click()
    assert page.locator(".mv-flips").is_hidden()


def test_a_token_looks_the_same_in_every_cell_of_the_map(bare):
    data = payload(traced(objects=2, steps=3))
    step = data["trace"]["answers"]["macd"]["tokens"][0]
    step["base"][:3], step["others"][0][:3] = [4.0, 3.8, 3.0], [6.0, 3.0, -6.0]
    page = show_data(bare, data)
    page.locator(".mv-strip[data-method=macd] .mv-token").first.click()
    page.locator(".mv-flips > summary").click()
    page.locator(".mv-flipmap > span").first.wait_for()
    looks = page.locator(".mv-flipmap > span").evaluate_all(
        """(cells) => cells.map((c) => [c.title.split(": ")[1], c.style.getPropertyValue("--object"),
          [...c.classList].find((name) => name.startsWith("mv-pattern"))].join())"""  # noqa: E501
    )
    names, colours, patterns = zip(*(look.split(",") for look in set(looks)), strict=True)
    assert len(looks) > len(names) > 1
    assert len(set(names)) == len(set(colours)) == len(set(patterns)) == len(names)
