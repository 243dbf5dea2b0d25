"""What the form asks for beside what is shown: after runs, changes, reloads and opened files."""

import json
from dataclasses import replace

from macd_studio.core.records import Edit
from macd_studio.core.run.spec import RunSpec
from macd_studio.core.system.shipped import assets
from macd_studio.core.traces.bundle import save
from macd_studio.macd_ui.forms import SETTINGS, RunRequest, difference, differing, run_options
from macd_studio.macd_ui.serving.identity import COOKIE, browser_key
from macd_studio.viewer import identity
from tests.macd_ui.test_jobs import values
from tests.macd_ui.test_page_parts import BROWSER, FIELDS, get

KINDS = [row["kind"] for row in json.loads((assets() / "examples" / "index.json").read_text())]
SHORT, LEVELS = KINDS.index("background"), KINDS.index("levels")
"""Examples with one step, as the form begins, and with ten."""


def test_form_and_trace_agree_or_the_page_says_so(handlers, store, make_video, tmp_path):
    assert handlers.form.visit(None, "me")["note"]["text"] == ""
    other = handlers.view.examples[SHORT]
    *_, out = handlers.form.open_trace(str(other.trace), "me")
    assert (out["example"], out["question"], out["video"]) == (SHORT, other.question, None)
    assert out["note"]["text"] == ""
    assert out["viewer"]["trace"]["question"] == other.question

    def asked(question, **more):
        form = {**FIELDS, "methods": [], "backbone": "toyworld", "detector": "toyworld"}
        return handlers.form.edit_form(
            {**form, "example": SHORT, "question": question, **more}, "me"
        )

    out = asked("Is there a cup?")
    assert f"Shown: {other.video.name}" in out["note"]["text"]
    assert "Is there a cup?" in out["note"]["text"]
    assert asked(f" {other.question} ")["note"]["text"] == ""
    out = asked(other.question, alpha=2.5, methods=["vcd"], detector="yolo11n")["note"]["text"]
    assert out == (
        "The form differs from what is shown: Run would use detector yolo11n instead of toyworld,"
        " also VCD, α contrast strength 2.5 instead of 1."
    )
    assert "cannot be run: alpha is empty" in asked(other.question, alpha=None)["note"]["text"]
    assert asked(other.question)["note"]["text"] == ""

    video = make_video("own.mp4")
    out = next(handlers.form.upload(str(video), None, "me"))
    assert out["example"] is None
    assert "Run would analyse own.mp4" in out["note"]["text"]
    *_, last = handlers.runs.run(values(video, question=other.question), "me")
    assert last["note"]["text"] == ""

    store.sessions.open("me").browser = browser_key(BROWSER[COOKIE])
    saved = tmp_path / "own.macd"
    saved.write_bytes(get(store, last["viewer"]["files"]["trace"]).content)
    out = next(handlers.form.upload(None, None, "me"))
    assert "upload it, or choose an example" in out["note"]["text"]
    handlers.form.choose(1, "me")
    *_, out = handlers.form.open_trace(str(saved), "me")
    assert (out["example"], out["video"]) == (None, None)
    assert "upload it, or choose an example" in out["note"]["text"]

    name = handlers.view.examples[1].name
    out = handlers.form.visit(name, "new")
    assert (out["example"], out["note"]["text"]) == (1, "")
    assert "no example" in handlers.form.visit("nowhere", "newer")["viewer"]["status"]["message"]


def test_a_tab_that_was_reloaded_keeps_the_trace_that_it_has_opened(handlers):
    form, other = handlers.form, handlers.view.examples[SHORT]
    list(form.open_trace(str(other.trace), "me"))
    session = handlers.store.sessions.open("me")
    held, before = session.form, session.current
    for name in (None, handlers.view.examples[1].name):
        assert set(form.visit(name, "me")) == {"note"}
        assert (session.form, session.current) == (held, before)
        assert session.form is held
    assert "no example" not in str(form.visit("nowhere", "me"))


def test_a_run_that_a_reloaded_tab_restores_has_its_clip_in_the_form(handlers, store, make_video):
    example, (own, other) = handlers.view.examples[SHORT], map(make_video, ("own.mp4", "other.mp4"))
    other.write_bytes(own.read_bytes() + b" ")  # another clip
    folder = own.parent

    def restored(trace, key, browser):
        file = save(trace, folder / f"{key}.macd")
        store.sessions.open(key, browser=browser)
        *_, last = opened = list(handlers.form.open_trace(str(file), key))
        return opened[0], last

    asked = replace(example.load_trace(), question="is it?")
    out, _ = restored(asked, "example", "b")
    assert (out["example"], out["video"], out["note"]["text"]) == (SHORT, None, "")
    assert out["viewer"]["trace"]["again"]["link"] == ""  # which leads to another question

    store.sessions.open("left", browser="b")
    list(handlers.runs.run(values(own), "left"))
    trace = store.sessions.open("left").trace
    store.sessions.leave("left")
    for key, browser in (("stranger", "another"), ("program", "")):
        out, _ = restored(trace, key, browser)
        assert (out["example"], out["video"]) == (None, None)
        assert "The form does not hold this clip" in out["note"]["text"]
    assert restored(trace, "same", "b")[0]["video"] == str(own)
    out, last = restored(trace, "reloaded", "b")
    assert (out["example"], out["video"]) == (None, str(own))
    assert last["strip"]["name"] == own.name
    store.sessions.forget("left")
    *_, ran = handlers.runs.run(values(out["video"]), "reloaded")
    assert ran["viewer"]["trace"]["clip"] == own.name

    list(handlers.form.upload(str(other), None, "reloaded"))
    store.sessions.forget("same")
    out, _ = restored(trace, "reloaded", "b")
    assert out["video"] is None


def test_a_file_that_is_opened_over_its_own_clip_keeps_it(handlers, store, make_video, tmp_path):
    uploads = store.uploads.folder
    own = make_video().rename(uploads / "own.mp4")
    list(handlers.runs.run(values(own), "me"))
    file = save(store.sessions.open("me").trace, tmp_path / "own.macd")
    out = next(handlers.form.open_trace(str(file), "me"))
    assert out["video"] == str(own)
    store.uploads.settle_s = 0
    store.uploads.sweep()
    assert own.exists()


def test_a_link_to_a_run_opens_it_or_says_that_it_is_not_here(handlers):
    example = handlers.view.examples[SHORT]
    run = identity(example.load_trace())
    out = handlers.form.visit(f"run:{run} 1", "new")
    assert out["example"] == SHORT
    assert out["viewer"]["trace"]["run"] == run
    out = handlers.form.visit("run:0123456789abcdef 2", "new")
    assert out["viewer"]["status"]["where"] == "open"
    assert "is not here" in out["viewer"]["status"]["error"]
    assert "trace" not in out["viewer"]  # what is shown stays
    assert "example" not in out


def test_choosing_an_example_takes_all_its_settings(handlers, tmp_path):
    odd = FIELDS | {
        "alpha": 7.0, "steps": 3, "fill": "blur", "swept": True, "low_memory": True, "seed": 5,
        "methods": ["vcd"], "backbone": "another", "detector": "yolo11n", "video": None,
        "sampling": {"start": 1.0}, "question": "?",
    }  # fmt: skip
    for i, example in enumerate(handlers.view.examples):
        handlers.form.edit_form(odd | {"example": i}, "me")
        out = handlers.form.choose(i, "me")
        assert out["note"]["text"] == ""
        trace = example.load_trace()
        form = {name: out[name] for name in SETTINGS}
        assert differing(trace.options, run_options(form | {"sampling": out["sampling"]})) == []
        assert set(out["methods"]) == set(trace.answers) - {"baseline", "macd"}
        assert (out["backbone"], out["detector"]) == ("auto", "auto")
    assert {"steps": 10, "tau": 0.005}.items() <= handlers.form.choose(LEVELS, "me").items()
    # an opened file: its settings, and no model that is loaded for it
    handlers.form.edit_form(odd | {"example": 0}, "me")
    trace = handlers.view.examples[LEVELS].load_trace()
    ascent = replace(trace.options.ascent, r0=0.5)
    path = save(replace(trace, options=replace(trace.options, ascent=ascent)), tmp_path / "a.macd")
    *_, out = handlers.form.open_trace(str(path), "me")
    assert (out["steps"], out["backbone"], out["detector"]) == (10, "another", "yolo11n")
    told = out["note"]["text"]
    assert "backbone another instead of toyworld" in told
    assert "ascent.r0 0.75 instead of 0.5" in told
    assert "alpha" not in told


def test_a_run_and_a_change_by_hand_are_compared_with_the_form(handlers, make_video):
    asked = values(make_video())
    *_, last = handlers.runs.run(asked, "me")
    assert last["note"]["text"] == ""
    session = handlers.store.sessions.open("me")
    session.trace = replace(session.trace, edits=(Edit("level", track=1),))
    text = handlers.form.edit_form(asked, "me")["note"]["text"]
    assert text.endswith("Run would leave out the changes made by hand.")


def test_the_difference_ignores_names_and_blanks():
    shown = RunRequest("a.mp4", "1", RunSpec("why?"))
    assert difference(None, shown) == ""
    assert difference(shown, RunRequest("b.mp4", "1", RunSpec(" why? "))) == ""
    assert "b.mp4" in difference(shown, RunRequest("b.mp4", "2", RunSpec("why?")))
    assert "no question" in difference(shown, RunRequest("a.mp4", "1", RunSpec("")))
    assert len(difference(shown, RunRequest("a.mp4", "1", RunSpec("x" * 2000)))) < 300


def test_after_a_restart_the_form_holds_the_question_alone(handlers):
    kept = handlers.form.visit("unasked:Is there a red cup? 1", "early")
    assert kept["question"] == "Is there a red cup?"
    assert not kept.get("viewer", {}).get("status", {}).get("error")
    out = handlers.form.visit("forgotten:Is there a red cup? 1", "new")
    assert out["question"] == "Is there a red cup?"
    assert out["viewer"]["status"]["where"] == "form"
    assert "only the question is left" in out["viewer"]["status"]["error"]


def test_after_a_reload_the_form_holds_what_the_stopped_run_asked(handlers, store, make_video):
    def come_back(question, key="new", browser="mine"):
        store.sessions.open(key, browser=browser)
        return handlers.form.visit(f"stopped:{question} 1", key)

    own = make_video().rename(store.uploads.folder / "own.mp4")
    before = store.sessions.open("old", browser="mine")
    handlers.runs._take_form(before, values(own, question="Is there a red cup?", alpha=2.5))
    assert "video" not in come_back("Is there a red cup?", "early")  # that tab is still open
    store.sessions.leave("old")
    out = come_back("Is there a red cup?")
    assert (out["video"], out["question"], out["alpha"]) == (str(own), "Is there a red cup?", 2.5)
    assert out["strip"]["wanted"]
    assert out["viewer"]["status"]["where"] == "form"
    assert "stopped the run that asked “Is there a red cup?”" in out["viewer"]["status"]["error"]
    assert store.sessions.find("new").form.video == str(own)
    for asked, browser in (("Is there a blue cup?", "mine"), ("Is there a red cup?", "another")):
        other = come_back(asked, f"of {browser}", browser)
        assert "video" not in other
        assert "stopped the run that asked" in other["viewer"]["status"]["error"]
