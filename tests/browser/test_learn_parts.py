"""Parts of the course by themselves: what they say and draw, and what the course says."""

import json

import pytest

from macd_studio.macd_ui.learn.chapters import HERE
from macd_studio.macd_ui.learn.figures import figures
from macd_studio.macd_ui.learn.lessons import quiz
from macd_studio.viewer.bundle import bundle


@pytest.fixture
def page(new_tab):
    return new_tab(offline=True)


def lock(page, course, chapter):
    """Opens a chapter and locks in its prediction."""
    page.goto(f"{course}#{chapter}")
    form = page.locator("form.ln-predict").first
    form.locator(".ln-options input").first.check()
    form.locator(".ln-sure input").first.check()
    form.locator(".ln-main-button").click()


def test_what_a_former_version_kept_is_completed_and_what_is_damaged_left_out(bare):
    script = f"""(kept) => {{
      const localStorage = {{ getItem: () => kept, setItem: (_, text) => (kept = text) }};
      const {{ Store }} = {bundle(HERE / "js" / "store.js")};
      const store = new Store("e");
      store.choose("task", [2]);
      return JSON.parse(kept);
    }}"""
    answers = {"one": {"choice": 1, "right": True, "confidence": 0.5, "at": "then"}}
    former = {"edition": "e", "at": "two", "done": {"one": True}, "answers": answers, "name": "N"}
    whole = {key: former[key] for key in ("edition", "at", "done", "answers")}
    empty = {"edition": "e", "at": "", "done": {}, "answers": {}}
    added = {"chosen": {"task": [2]}, "hands": False}
    for kept, known in (
        (former, whole), ({**former, "edition": "another"}, empty), ({**former, "done": []}, empty)
    ):  # fmt: skip
        assert bare.evaluate(script, json.dumps(kept)) == known | added


def test_what_needs_a_model_is_left_out_with_its_text(page, course):
    lock(page, course, "05-contrast")
    step = page.locator(".ln-step").filter(has=page.locator(".mv-root")).nth(1)
    step.get_by_text("No model runs in this copy").wait_for()
    assert step.locator(".ln-task").count() == 0
    assert step.locator(".ln-prose").inner_text().startswith("In this part the masks")
    assert "change the masks yourself" not in page.inner_text("main")


def test_the_chapter_stays_in_the_address(page, course):
    """Whatever is chosen in its viewers, so that a copied course opens it."""
    lock(page, course, "04-lean")
    page.locator(".mv-object").first.click()
    page.locator(".ln-finished").first.wait_for()
    page.wait_for_timeout(600)  # a viewer writes after a quarter of a second
    assert page.url == f"{course}#04-lean"


def test_an_interval_is_written_alike_in_text_and_chart(page, course):
    lock(page, course, "07-honest")
    told = figures()["values"]["report.co-occurrence.paired.random-mask"]
    paired = page.locator(".ln-result", has_text="MACD minus random masks")
    paired.wait_for()
    assert told.replace(" [", " points [") in paired.inner_text()


def test_parts_are_counted_as_they_are_seen(page, course):
    """One that waits for a task is not missed by who goes from heading to heading."""
    lock(page, course, "04-lean")
    headings = page.locator(".ln-step:visible > h2")
    shown = headings.all_inner_texts()
    assert shown == [f"Part {i + 1} of {len(shown)}" for i in range(len(shown))]
    asked = page.locator(".ln-step").nth(2)
    asked.locator(".ln-lean input").first.check()
    asked.get_by_role("button", name="Show what was measured").click()
    more = headings.all_inner_texts()
    assert more == [f"Part {i + 1} of {len(shown) + 1}" for i in range(len(shown) + 1)]


def test_predictions_that_are_kept_back_are_not_nothing(page, course):
    page.goto(f"{course}#results")
    page.get_by_text("Nothing yet.").wait_for()
    lock(page, course, "00-before")
    page.goto(f"{course}#results")
    page.get_by_text("after chapter 8. Each further").wait_for()
    assert page.get_by_text("Nothing yet.").count() == 0


TOKEN = {
    "base": [2.0, 1.0, -1.0, -20.0], "others": [[3.0, 1.0, -40.0, 30.0]],
    "candidates": [0, 1, 2, 3], "texts": ["yes", "no", "far", "low"], "base_log_z": 2.4,
    "token": 0, "repeats": None,
}  # fmt: skip
"""“yes” and “no” cross at α = 1; the two others, which β leaves out, leave the plot."""
MOUNT = """([widget, roles, token]) => {
  const macd = { text: "yes", beta: 0.1, alpha: 1, tokens: [token], second_views: [] };
  const trace = { truth: "no", times: [0], frames: [""], answers: { macd, baseline: macd } };
  const root = document.body.appendChild(document.createElement("div"));
  const data = Object.fromEntries(roles.map(([role]) => [`part-${role}`, { payload: { trace } }]));
  const parts = Object.fromEntries(roles.map(([role, question]) => [role, { question }]));
  const step = { settings: { roles: roles.map(([role]) => role), lines: true, beta: true } };
  (%s)[widget]({ root, step, data, course: { parts }, say: (name) => name, done: () => {} });
  const found = {
    lines: [...root.querySelectorAll("polyline")].map((l) => l.getAttribute("points")),
    flips: [...root.querySelectorAll(".ln-flip")].map((c) =>
      [c.cx.baseVal.value, c.cy.baseVal.value]),
    options: [...root.querySelectorAll("option")].map((o) => o.textContent),
  };
  root.remove();
  return found;
}"""


def mounted(bare, widget, roles, token):
    script = bundle(HERE / "js" / "contrast.js")
    bare.set_viewport_size(
        {"width": 1280, "height": 900}
    )  # what stands in a plot follows its width
    return bare.evaluate(MOUNT % script, [widget, roles, token])


def test_a_line_of_scores_ends_where_it_leaves_the_plot(bare):
    """A line that was bent to the border would cross others where no scores are equal."""
    found = mounted(bare, "contrast", [["one", "Which?"]], TOKEN)

    def place(alpha, value):  # the scores are drawn from −2 to 2
        return pytest.approx((66 + 428 * alpha / 5, 220 - 208 * (value + 2) / 4), abs=0.06)

    yes, no, far, low = ([tuple(map(float, xy.split(","))) for xy in line.split()]
                         for line in found["lines"])  # fmt: skip
    assert yes == [place(0, 0.5), place(5, -2)]
    assert no == [place(0, -0.5), place(5, 2)]
    assert far == [place(0.5 / 39.5, -2), place(4.5 / 39.5, 2)]  # −2.5 + 39.5 α
    assert low == []
    assert found["flips"] == [place(1, 0)]


def test_a_flip_is_marked_where_its_lines_cross(bare):
    """Also where neither of the two best of the plain view wins."""
    rising = TOKEN | {"base": [2.0, 1.0, 0.0, -20.0], "others": [[3.0, 1.0, -2.0, 30.0]]}
    ((x, y),) = mounted(bare, "contrast", [["one", "Which?"]], rising)["flips"]
    assert x == pytest.approx(66 + 428 * (2 / 3) / 5)
    assert y == pytest.approx(220 - 208 * (1 / 6 + 2) / 13)  # from −2 to 11


def test_clips_with_the_same_question_are_numbered(bare):
    roles = [["one", "A hat?"], ["two", "Which?"], ["three", "A hat?"]]
    for widget in ("contrast", "bias"):
        found = mounted(bare, widget, roles, TOKEN)["options"]
        assert found == ["A hat? (1)", "Which?", "A hat? (2)"]


def test_a_clip_of_the_quiz_stops_at_the_frame_that_is_asked_for(bare):
    """And its timer ends with the chapter."""
    played = bare.evaluate(
        f"""(item) => {{
          const {{ mountQuiz }} = {bundle(HERE / "js" / "quiz.js")}, timers = [];
          window.setInterval = (work) => timers.push(work);
          window.clearInterval = (n) => {{ delete timers[n - 1]; }};
          const run = () => {{ timers.forEach((work) => work()); return timers.flat().length; }};
          const root = document.body, state = {{ answers: {{}} }}, say = (name) => name;
          const course = {{ glossary: {{}} }}, quiz = {{ before: [item] }}, changed = () => {{}};
          mountQuiz({{ root, quiz, set: "before", course, store: {{ state }}, say, changed }});
          const play = root.querySelector(".ln-player button");
          const slider = root.querySelector(".ln-player input");
          play.click();
          const going = [run(), slider.value];
          slider.value = "4";
          slider.dispatchEvent(new Event("input"));
          const asked = [run(), slider.value];
          play.click();
          root.replaceChildren();
          return [...going, ...asked, run()];
        }}""",
        quiz()["before"][0],
    )
    assert played == [1, "2", 0, "4", 0]


def test_a_file_of_data_that_did_not_come_is_asked_for_again(bare):
    said = bare.evaluate(
        f"""async () => {{
          const {{ load, receive }} = {bundle(HERE / "js" / "load.js")};
          receive();
          const failed = await load("a").catch((error) => error.message); // there is no such file
          const again = load("a");
          window.macdLearn("a", 3);
          return [failed, await again];
        }}"""
    )
    assert said == ["data/a.js cannot be loaded", 3]


def test_what_a_step_speaks_of_is_open_to_who_comes_first(new_tab, course):
    page = new_tab(offline=True, folds="")
    lock(page, course, "04-lean")
    page.locator(".mv-spot .mv-object, .mv-object.mv-spot").first.click()
    page.locator(".ln-finished").first.wait_for()
    kept = "localStorage.getItem('macd-open')"
    assert not page.evaluate(kept)  # the page of a run stays as its reader has left it
    why = page.locator(".mv-fold-why > summary").first
    why.click()
    why.click()
    page.wait_for_function(f"{kept} === 'why'")
