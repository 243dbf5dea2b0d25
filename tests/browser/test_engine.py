"""The embedded model in the browser against the model in Python: the same changes of the same runs.

The site lies on a plain file server, with the headers that let the runtime use threads.
"""

import functools
import http.server
import json
import os
import threading

import numpy as np
import pytest

from macd_studio.core.backbones import load_backbone
from macd_studio.core.run.pipeline import run
from macd_studio.core.system.shipped import shipped
from macd_studio.core.traces.bundle import load
from macd_studio.core.whatif.workbench import Workbench, read_edit
from macd_studio.evals.benchmarks.toyworld_crossed import random_item
from macd_studio.macd_ui.engine import (
    ABOUT,
    FETCHED,
    NOTICE,
    SCRIPTS,
    Engine,
    EngineError,
    make,
    run_file,
)
from macd_studio.macd_ui.examples import SHIPPED
from macd_studio.macd_ui.gallery.site import Site, write_site
from macd_studio.macd_ui.learn.site import Site as Course
from macd_studio.macd_ui.learn.site import write_site as write_course
from macd_studio.toyworld.clips import write_mp4
from macd_studio.viewer.payload import payload
from tests.fakes import BoxDetector
from tests.patience import PATIENCE_MS
from tests.samples import sampled

CLOSE = 1e-4
ROUNDING = 8
"""How many times the rounding of PyTorch itself two ways to compute in float32 may differ."""
SLOPE = 2e-5
SLOPE_SHARE = 1e-4
"""How far slopes may differ: absolute, or as a share of the largest one of the step."""
KINK = 0.03
"""The share of the largest slope that may move between equal masks, see `assert_slopes`."""
QUESTIONS, FEW = range(200), (0,)
EXAMPLES = sorted(path.stem for path in SHIPPED.glob("*.macd"))
EXAMPLE = "repaired"
ASK = """
(() => {
  const { engine, trace, constants } = JSON.parse(document.getElementById("trace").textContent);
  const folder = new URL(engine.folder, document.baseURI).href;
  const worker = new Worker(`${folder}worker.js`);
  let shown = "";
  window.openTrace = (trace, constants, run) => {
    shown = run;
    worker.postMessage({ folder, run, trace, constants });
  };
  window.ask = (action) => new Promise((resolve) => {
    worker.onerror = (event) => resolve({ status: { error: `worker: ${event.message}` } });
    worker.onmessage = ({ data: { run, answer } }) => {
      if (run === shown && !answer.status.running) resolve(answer);
    };
    worker.postMessage({ run: shown, action });
  });
  openTrace(trace, constants, new URL(engine.run, document.baseURI).href);
})()
"""
TOLD = """
window.told = [];
new MutationObserver(() => told.push(document.querySelector(".mv-where").textContent))
  .observe(document.querySelector(".mv-where"), { childList: true });
"""


class Handler(http.server.SimpleHTTPRequestHandler):
    """A file server whose pages may share memory between threads."""

    def end_headers(self):
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def engine():
    """The model for browsers; it is built once in a checkout, which fetches its runtime."""
    try:
        return make(shipped("backbone").parents[2] / "runs" / "browser-model")
    except EngineError as error:
        if os.environ.get("MACD_REQUIRE_BROWSER"):
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What the server has: a gallery, and a course in a folder of it."""
    return tmp_path_factory.mktemp("engine") / "out"


@pytest.fixture(scope="module")
def site(engine, folder):
    """Address of a gallery of one example, and the name of that run."""
    gallery = Site([SHIPPED / f"{EXAMPLE}.macd"], engine=engine)
    assert write_site(gallery, folder) == []
    handler = functools.partial(Handler, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/", gallery.runs[0].name
        server.shutdown()


@pytest.fixture(scope="module")
def opened(browser, site):
    """A page of the run; what it asks of others, and errors, fail the tests."""
    address, name = site
    context = browser.new_context(reduced_motion="reduce", viewport={"width": 1440, "height": 1000})
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    problems, asked = [], []
    page.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda e: problems.append(str(e)))
    context.on("request", lambda r: asked.append(r.url))
    page.goto(f"{address}t/{name}.html")
    page.wait_for_selector(".mv-token")
    yield page, asked
    strangers = [u for u in asked if not u.startswith((address, "data:", "blob:"))]
    context.close()
    assert not problems
    assert not strangers


@pytest.fixture(scope="module")
def alone(opened):
    """The same page with a worker to ask, whose model is loaded and that has no network.

    The files that an earlier worker loaded are in the browser's store.
    """
    page, asked = opened
    page.evaluate(ASK)
    assert "trace" in page.evaluate("ask({ do: 'occlusion' })")
    page.context.set_offline(True)
    assert len([u for u in asked if "weights.bin" in u]) == 1
    return page


def test_the_first_change_loads_the_model_and_tells_how_far_it_is(opened):
    page, asked = opened
    assert not [u for u in asked if "/engine/" in u], "the page loads a model before a change"
    page.locator(".mv-whatif summary").click()
    where = page.locator(".mv-where")
    assert "13 MB" in where.inner_text()
    page.locator(".mv-root").focus()
    page.keyboard.press("1")
    page.evaluate(TOLD)
    level = page.locator(".mv-edit-object .mv-segments button[aria-pressed=false]").first
    chosen = level.inner_text()
    level.click()
    page.wait_for_selector(".mv-edits li")
    assert page.evaluate(
        "told.some((text) => /^Loading the model: .* of 1\\d\\.\\d MB$/.test(text))"
    )
    page.locator(f".mv-edit-object button[aria-pressed=true]:has-text('{chosen}')").wait_for()
    page.get_by_role("button", name="Undo").click()
    page.wait_for_selector(".mv-edits li", state="detached")
    assert len([u for u in asked if "weights.bin" in u]) == 1


def show(page, trace):
    """Gives the worker another run."""
    page.evaluate(
        "([{ trace, constants }, run]) =>"
        " openTrace(trace, constants, URL.createObjectURL(new Blob([run])))",
        [payload(trace), run_file(trace).content.decode()],
    )


def logits(step, tokens, key):
    row = step["others"][0] if key == "others" else step[key]
    return np.array([dict(zip(step["candidates"], row, strict=True))[int(t)] for t in tokens])


@pytest.fixture(scope="module")
def exact(toyworld):
    """The embedded model in float64."""
    model = load_backbone("toyworld", "cpu")
    model.model.double()
    return model


def allowed(toyworld, exact, trace):
    """How far logits of this clip may differ: CLOSE, or more where the model amplifies rounding."""
    encoded = toyworld.encode_frames(trace.model_frames, trace.question)
    own = toyworld.prefill(encoded, encoded.video).logits
    better = exact.prefill(encoded, encoded.video.double()).logits
    return max(CLOSE, ROUNDING * float((own - better).abs().max()))


def assert_slopes(there, here):
    """Equal but for rounding; or moved from one object to another, within `KINK` of the largest.

    Where two faded masks are as strong as each other, the next rounding decides whose a pixel is.
    """
    largest = float(np.abs(here).max(initial=0))
    if there != pytest.approx(here.tolist(), abs=max(SLOPE, SLOPE_SHARE * largest)):
        assert there == pytest.approx(here.tolist(), abs=KINK * largest)
        assert there.sum() == pytest.approx(here.sum(), abs=KINK * largest / 10)


def assert_agree(found, expected, close=CLOSE):
    """What the browser answered, and the trace of the workbench: levels and answers are equal.

    close: how far logits and losses may differ.
    """
    levels = expected.counterfactual
    assert [t["label"] for t in found["tracks"]] == [t.label for t in expected.tracks]
    assert found["final"]["level"] == levels.level.tolist()
    assert found["final"]["frame_level"] == levels.frame_level.tolist()
    for name in ("base_loss", "loss"):
        assert found["final"][name] == pytest.approx(getattr(levels, name), abs=close)
    assert len(found["steps"]) == len(expected.steps)
    for there, here in zip(found["steps"], expected.steps, strict=True):
        for name in ("strength", "gradient", "frame_strength", "frame_gradient"):
            assert_slopes(np.array(there[name]), getattr(here, name))
    answer, own = found["answers"]["macd"], expected.answers["macd"]
    assert (answer["text"], answer["finished"]) == (own.text, own.finished)
    for there, here in zip(answer["tokens"], own.tokens, strict=True):
        assert (there["token"], there["text"]) == (here.token, here.text)
        assert np.abs(logits(there, here.candidates, "base") - here.base).max() < close
        assert np.abs(logits(there, here.candidates, "others") - here.others[0]).max() < close
        assert there["base_log_z"] == pytest.approx(here.base_log_z, abs=close)
    whole = payload(expected)["trace"]
    assert set(whole) <= set(found)  # the answer has the same form
    for name in ("evidence", "enough", "shared"):
        assert found[name] == whole[name]
    sent = whole["answers"]["macd"]
    assert (set(answer), set(answer["tokens"][0])) == (set(sent), set(sent["tokens"][0]))
    assert answer["constant"] == sent["constant"]
    assert answer["right"] == sent["right"]
    views = [answer["second_views"], json.loads(json.dumps(sent["second_views"]))]
    assert views[0][0]["view"] == views[1][0]["view"]


def edits_of(trace):
    """A change of every kind that the trace takes, in an order in which each does something."""
    ids = [t.id for t in trace.tracks]
    yield {"kind": "add", "label": "drawn", "box": [0.1, 0.15, 0.4, 0.5]}
    if ids:
        yield {"kind": "level", "track": ids[0], "level": 0.5}
        seen = int(np.flatnonzero(trace.tracks[0].state)[0])
        x0, y0, x1, y1 = (float(z) for z in trace.tracks[0].boxes[seen])
        stroke = [[(x0 + x1) / 2, (y0 + y1) / 2], [x1, y1]]
        brush = {"kind": "brush", "track": ids[0], "frame": seen, "points": stroke}
        yield brush | {"radius": 0.1, "erase": False}
        yield brush | {"radius": 0.05, "erase": True}
        yield {"kind": "label", "track": ids[0], "label": "renamed"}
    yield {"kind": "frames", "track": 0, "level": 0.5}
    if len(ids) > 1:
        yield {"kind": "merge", "track": ids[0], "other": ids[1]}
    if ids:
        yield {"kind": "drop", "track": ids[0]}


def compare(page, bench, edits, close=CLOSE):
    for edit in edits:
        list(bench.change(read_edit(edit, bench.trace)))
        answer = page.evaluate("(edit) => ask({ do: 'edit', edit })", edit)
        assert not answer["status"]["error"], edit
        assert_agree(answer["trace"], bench.trace, close)


@pytest.mark.parametrize("seed", sampled(QUESTIONS, FEW))
def test_a_new_question_gets_the_same_logits_levels_and_answers(
    alone, toyworld, exact, tmp_path, seed
):
    """Two boxes lie where they fall: finding objects is not what a browser does."""
    world, item = random_item(38_000 + seed)
    clip = tmp_path / "clip.mp4"
    write_mp4(world.spec(item.clip), clip)
    low = np.random.default_rng(seed).uniform(0, 0.6, (2, 2))
    sides = np.random.default_rng(seed + 1).uniform(0.15, 0.4, (2, 2))
    boxes = [tuple(float(z) for z in box) for box in np.concatenate([low, low + sides], 1)]
    objects = BoxDetector((("dog", 0.9, boxes[0]), ("cup", 0.7, boxes[1])))
    *_, last = run(clip, item.question, lambda: toyworld, lambda: objects)
    trace = last.trace
    show(alone, trace)
    bench = Workbench(trace, toyworld)
    new = max((t.id for t in trace.tracks), default=0) + 1
    close = allowed(toyworld, exact, trace)
    compare(alone, bench, [{"kind": "add", "label": "drawn", "box": [0.2, 0.2, 0.6, 0.7]}], close)
    before = bench.trace
    compare(alone, bench, [{"kind": "level", "track": new, "level": 0.5}], close)
    alone.evaluate("ask({ do: 'undo' })")  # what is read next is behind the masks of before
    again = Workbench(before, toyworld)
    again.redecode(3.0, 0.2)
    rule = {"do": "redecode", "method": "macd", "alpha": 3.0, "beta": 0.2}
    assert_agree(alone.evaluate("(action) => ask(action)", rule)["trace"], again.trace, close)


@pytest.mark.long
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_change_and_measurement_of_an_example_is_the_servers(alone, toyworld, name):
    trace = load(SHIPPED / f"{name}.macd")
    show(alone, trace)
    bench = Workbench(trace, toyworld)
    bench.measure_controls()
    found = alone.evaluate("ask({ do: 'controls' })")["trace"]["controls"]
    expected = payload(bench.trace)["trace"]["controls"]
    assert found["constant"] == pytest.approx(expected["constant"], abs=CLOSE)
    same = ("index", "macd", "baseline", "outcomes")
    assert {k: found[k] for k in same} == {k: expected[k] for k in same}

    compare(alone, bench, edits_of(trace))
    bench.redecode(3.0, 0.2)
    rule = {"do": "redecode", "method": "macd", "alpha": 3.0, "beta": 0.2}
    assert_agree(alone.evaluate("(action) => ask(action)", rule)["trace"], bench.trace)
    bench.measure_occlusion()
    found = alone.evaluate("ask({ do: 'occlusion' })")["trace"]["occlusion"]
    expected = payload(bench.trace)["trace"]["occlusion"]
    for key in ("loss_change", "odds_change", "gradient"):
        assert found[key] == pytest.approx(expected[key], abs=2 * CLOSE)
    assert (found["verdict"], found["correlation"]) == pytest.approx(
        (expected["verdict"], expected["correlation"])
    )
    before = alone.evaluate("ask({ do: 'undo' })")["trace"]
    assert before["redo"]
    assert alone.evaluate("ask({ do: 'redo' })")["trace"]["answers"] != before["answers"]
    refused = alone.evaluate("ask({ do: 'evidence', evidence: {} })")["status"]
    assert refused["error"].startswith("This needs the app")


NO_MEMORY = """
self.ort = { env: { wasm: {} }, InferenceSession: {
  create() { throw new RangeError("Array buffer allocation failed"); } } };
"""
CASES = {
    "no WebAssembly": "This browser cannot run the model",
    "no connection": "The model could not be loaded. Check the connection",
    "no memory": "There is not enough memory for the model.",
}


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_where_no_model_can_run_the_page_says_so_and_shows_what_is_saved(new_tab, site, case):
    (address, name), page = site, new_tab()
    if case == "no WebAssembly":
        page.add_init_script("delete globalThis.WebAssembly")
    elif case == "no memory":
        script = {"body": NO_MEMORY, "content_type": "text/javascript"}
        page.context.route("**/ort.js", lambda route: route.fulfill(**script))
    elif case == "no connection":
        page.context.route("**/weights.bin*", lambda route: route.abort())
    page.goto(f"{address}t/{name}.html")
    page.locator(".mv-whatif summary").click()
    if case == "no WebAssembly":
        assert CASES[case] in page.locator(".mv-where").inner_text()
        assert page.locator(".mv-whatif button:visible").count() == 0
    else:
        page.locator(".mv-root").focus()
        page.keyboard.press("1")
        for _ in range(2):  # the controls can be used again
            page.locator(".mv-edit-object button[aria-pressed=false]:enabled").first.click()
            page.get_by_text(CASES[case]).wait_for()
            assert page.locator(".mv-edits li").count() == 0
    assert page.locator(".mv-token").count() > 1


def test_a_page_on_disk_says_that_no_model_runs_there(new_tab, tmp_path):
    """Nothing of the model is read there, so that empty files stand for it."""
    model, out = tmp_path / "model", tmp_path / "out"
    model.mkdir()
    for name in (*SCRIPTS, *FETCHED, NOTICE):
        (model / name).touch()
    listed = [{"name": name, "bytes": 0} for name in FETCHED]
    (model / ABOUT).write_text(json.dumps({"files": listed}))
    gallery = Site([SHIPPED / f"{EXAMPLE}.macd"], engine=Engine(model))
    assert write_site(gallery, out) == []
    page = new_tab(f"{out.as_uri()}/t/{gallery.runs[0].name}.html")
    page.locator(".mv-whatif summary").click()
    assert "This page was opened from disk" in page.locator(".mv-where").inner_text()
    assert page.locator(".mv-whatif button:visible").count() == 0
    assert page.locator(".mv-token").count() > 1


@pytest.mark.long
def test_the_course_asks_for_a_prediction_before_a_change(new_tab, engine, site, folder):
    write_course(Course(folders=[SHIPPED], engine=engine), folder / "course")
    page = new_tab(f"{site[0]}course/index.html#05-contrast", strict=site[0])
    page.locator(".ln-options input").first.check()
    page.locator(".ln-sure input").first.check()
    page.locator(".ln-main-button").click()
    step = page.locator(".ln-step").filter(
        has=page.locator(".ln-task", has_text="Predict a change")
    )
    step.locator(".mv-root").focus()
    page.keyboard.press("1")
    levels = step.locator(".mv-edit-object .mv-segments button")
    before = step.locator(".mv-edit-object button[aria-pressed=true]").inner_text()
    for answer, edits in (("Do not change it", 0), ("It stays", 1)):
        levels.and_(page.locator("[aria-pressed=false]:enabled")).first.click()
        step.get_by_text("Predict first: MACD now answers").wait_for()
        assert step.locator(".mv-edits li").count() == 0
        assert step.locator(".ln-finished").count() == 0
        step.get_by_role("button", name=answer).click()
        step.locator(".mv-edit-object .mv-segments button:enabled").first.wait_for()
        page.wait_for_function(
            "([n]) => document.querySelectorAll('.mv-edits li').length === n", arg=[edits]
        )
    assert step.locator(".mv-edit-object button[aria-pressed=true]").inner_text() != before
    told = step.locator(".ln-result").inner_text()
    same = told.startswith("The answer stays")
    assert told.endswith("You guessed right." if same else "You guessed otherwise.")
    step.locator(".ln-finished").wait_for()
