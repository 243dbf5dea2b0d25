"""What the page is made of, without a browser."""

import json
from dataclasses import replace

import numpy as np
import pytest

from macd_studio.core.errors import OptionError
from macd_studio.core.figures.style import COLOURS
from macd_studio.core.options import RunOptions
from macd_studio.core.records import Edit
from macd_studio.core.report.summary import as_text
from macd_studio.core.traces.bundle import save
from macd_studio.core.validation import Choice, Flag, Number, rule_within
from macd_studio.macd_ui.examples import examples
from macd_studio.macd_ui.files import routes
from macd_studio.macd_ui.forms import SETTINGS, form_values, run_options
from macd_studio.macd_ui.handlers import make_handlers
from macd_studio.macd_ui.panels import viewer_component
from macd_studio.macd_ui.serving.identity import COOKIE, browser_key, new_cookie
from macd_studio.macd_ui.session import Session
from macd_studio.macd_ui.session_view import plot
from macd_studio.macd_ui.store import Store
from macd_studio.viewer import JS, bundle, payload, status
from tests.core.test_bundle import make_trace

FIELDS = form_values() | {"methods": ["vcd", "tcd"], "tracks": None}
HOSTILE = "<img src=x onerror=alert(1)>${alert(2)}{{alert(3)}}`\\</script>"


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    return make_trace(tmp_path_factory.mktemp("t"))


BROWSER = {COOKIE: new_cookie()}


def get(store, address, found=(), cookies=BROWSER):
    """A download as a browser asks for it."""
    from starlette.applications import Starlette
    from starlette.testclient import TestClient

    app = Starlette(routes=routes(store, list(found)))
    return TestClient(app, cookies=cookies).get(f"/{address}")


def test_the_forms_defaults_are_the_cores():
    assert run_options(FIELDS) == RunOptions()
    assert set(FIELDS) >= set(SETTINGS)
    defaults = {name: setting.default for name, setting in SETTINGS.items()}
    assert run_options(FIELDS | defaults) == RunOptions()
    assert None not in defaults.values()  # an empty field of numbers comes back as 0


def test_every_setting_reaches_its_option():
    for setting in SETTINGS.values():
        match rule_within(setting.rule):
            case Choice(among=among):
                other = True if setting.word else among[-1]
            case Flag():
                other = True
            case Number(high=high, whole=whole):
                other = min(high, 7) if whole else min(high, 0.55)
        found = run_options(FIELDS | {setting.name: other}).as_dict()
        owner = found[setting.part] if setting.part else found
        assert owner[setting.field] == (setting.word or other)
        assert owner != RunOptions().as_dict().get(setting.part)


@pytest.mark.parametrize(
    "change",
    [
        {"alpha": None},
        {"alpha": float("nan")},
        {"steps": 1.5},
        {"beta": "1"},
        {"frames": -1},
        {"frame_mask": "whole"},
        {"fill": "pink"},
        {"seed": -1},
    ],
)
def test_bad_fields_say_what_to_type(change):
    with pytest.raises(OptionError):
        run_options(FIELDS | change)


def test_the_payload_is_strict_json_and_complete(trace):
    out = payload(trace, status("ascent", 0.5, "step 1", done=("video",), running=True))
    again = json.loads(json.dumps(out, allow_nan=False))
    shown = again["trace"]
    assert shown["size"] == [64, 48]
    assert len(shown["frames"]) == len(shown["times"]) == 4
    assert shown["frames"][0].startswith("data:image/webp;base64,")
    token = shown["answers"]["macd"]["tokens"][0]
    assert len(token["candidates"]) == len(token["base"]) == len(token["others"][0])
    depths = ((-np.inf, None, True), (np.inf, None, False), (0.5, 0.5, False))
    for floor, told, complete in depths:
        macd = trace.answers["macd"]
        first = replace(macd.tokens[0], floor=floor)
        out = payload(replace(trace, answers={"macd": replace(macd, tokens=(first,))}))
        token = json.loads(json.dumps(out, allow_nan=False))["trace"]["answers"]["macd"]["tokens"][
            0
        ]
        assert (token["floor"], token["complete"]) == (told, complete)
    lost = replace(trace.tracks[0], boxes=np.full((4, 4), np.nan), state=np.zeros(4, np.int8))
    shown = payload(replace(trace, tracks=(lost,)))["trace"]
    assert shown["tracks"][0]["boxes"] == [None] * 4
    assert payload(trace, frames=False)["trace"]["frames"] == []


def test_the_template_has_no_placeholder_that_could_run_data():
    viewer = viewer_component()
    assert viewer.html_template == '<div class="mv-host"></div>'
    assert "mountPage({ element, props, trigger, watch })" in viewer.js_on_load
    for script in (viewer.js_on_load, bundle(JS / "standalone.js")):
        assert "innerHTML" not in script
        assert "insertAdjacentHTML" not in script


def test_figures(trace):
    figure = trace.figure("strengths")
    assert [d.type for d in figure.data] == ["scatter", "scatter", "heatmap"]
    assert figure.data[2].z[0][-1] == pytest.approx(trace.counterfactual.frame_margin[0])
    assert "only the sign" in figure.layout.xaxis2.title.text
    twice = replace(trace, steps=trace.steps * 2)
    assert [d.type for d in twice.figure("strengths").data][2:] == ["heatmap", "scatter"]
    without = replace(trace, steps=(), counterfactual=None)
    assert plot(Session(plot_open=True), without) == {"plot": None}
    assert plot(Session(plot_open=True), trace)["plot"] == figure
    assert plot(Session(), trace) == {}
    hostile = replace(trace, tracks=(replace(trace.tracks[0], label=HOSTILE), trace.tracks[1]))
    assert "<img" not in hostile.figure("strengths").to_json().encode().decode("unicode_escape")


def test_a_run_streams_and_can_be_saved_and_reopened(store, make_video):
    handlers = make_handlers(store, [])
    values = FIELDS | {
        "video": str(make_video("odd name <b>.mp4")), "example": None, "question": "is it?",
        "backbone": "", "detector": "",
    }  # fmt: skip
    store.sessions.open("me", browser=browser_key(BROWSER[COOKIE]))
    updates = list(handlers.runs.run(values, "me"))
    stages = [u["viewer"]["status"]["stage"] for u in updates]
    assert stages[0] == "video"
    assert stages[-1] == "done"
    assert updates[0]["run"]["interactive"] is False
    assert updates[-1]["run"]["interactive"] is True
    shown = updates[-1]["viewer"]["trace"]
    assert list(shown["answers"]) == ["baseline", "macd", "vcd", "tcd"]
    assert shown["shared"]["base prefill"] >= 1
    address = updates[-1]["viewer"]["files"]["trace"]
    assert address.partition("?")[0].endswith("/odd_name_b_.macd")
    answer = get(store, address)
    assert answer.headers["content-disposition"] == 'attachment; filename="odd_name_b_.macd"'
    saved = make_video("x.mp4").with_name("saved.macd")
    saved.write_bytes(answer.content)
    opened, *_ = handlers.form.open_trace(str(saved), "me")
    assert opened["viewer"]["trace"]["run"] == updates[-1]["viewer"]["trace"]["run"]
    page = get(store, updates[-1]["viewer"]["files"]["page"])
    assert page.text.startswith("<!doctype html>")
    assert not page.headers["content-type"].startswith("text/html")
    store.sessions.forget("me")
    gone = get(store, address)
    assert (gone.status_code, "no longer keeps" in gone.text) == (404, True)


@pytest.mark.long
def test_a_second_click_starts_no_second_job(store, make_video):
    handlers = make_handlers(store, [])
    values = FIELDS | {
        "video": str(make_video()), "example": None, "question": "is it?", "backbone": "",
        "detector": "",
    }  # fmt: skip
    first = handlers.runs.run(values, "me")
    next(first)
    (second,) = list(handlers.runs.run(values, "me"))
    assert "already" in second["viewer"]["status"]["message"]
    handlers.form.stop("me")
    last = list(first)[-1]
    assert "topped" in last["viewer"]["status"]["message"]
    assert list(handlers.runs.run(values, "me"))[-1]["viewer"]["status"]["message"] == ""


def test_a_damaged_trace_is_told(store, tmp_path):
    (tmp_path / "x.macd").write_bytes(b"nothing")
    (out,) = make_handlers(store, []).form.open_trace(str(tmp_path / "x.macd"), "me")
    assert "is not a trace" in out["viewer"]["status"]["error"]


def test_examples_are_whole_and_paint_first(monkeypatch, tmp_path, trace):
    found = examples()
    assert len(found) >= 3
    for e in found:
        assert e.question
        assert e.truth
        assert e.trace is not None
        assert e.video.stat().st_size < 1_000_000
    store = Store()
    handlers = make_handlers(store, found)
    shown = handlers.view.first_paint()
    assert handlers.form.unfold_plot(True, "me")["plot"] is not None
    assert handlers.form.unfold_plot(False, "me") == {}
    store.close()
    assert shown["files"]["trace"] == f"files/example/{found[0].name}.macd"
    assert shown["files"]["of"] == "example"
    assert shown["trace"]["answers"]
    save(trace, tmp_path / "mine.macd")
    (tmp_path / "mine.mp4").write_bytes(b"x")
    (tmp_path / "index.json").write_text(
        '[{"title": "mine", "question": "q", "video": "mine.mp4"}, {"title": "gone", '
        '"question": "q", "video": "gone.mp4"}]'
    )
    monkeypatch.setenv("MACD_EXAMPLES_DIR", str(tmp_path))
    assert [e.title for e in examples()[len(found) :]] == ["mine"]


@pytest.mark.parametrize("action", [None, 3, {}, {"do": "undo"}, {"do": "explode", "run": "x"}])
def test_actions_that_are_none_are_refused(store, action):
    (told,) = make_handlers(store, examples()).changes.act(action, "", None, "me")
    assert told["viewer"]["status"]["error"]


def test_redo_comes_back_to_what_undo_left_until_something_else_is_changed(store, trace):
    handlers = make_handlers(store, [])
    session = store.sessions.open("me")
    names = ("wolf", "fox", "cat")
    first, second, third = (
        replace(trace, edits=tuple(Edit("label", track=1, label=n) for n in names[: i + 1]))
        for i in range(3)
    )
    session.show(trace)

    def ask(what):
        action = {"do": what, "run": payload(session.trace, frames=False)["trace"]["run"]}
        (shown,) = handlers.changes.act(action, "", None, "me")
        assert not shown["viewer"]["status"]["error"]
        view = shown["viewer"]["trace"]
        return [edit["label"] for edit in view["edits"]], view["redo"], "previous" in view

    assert ask("redo") == ([], False, False)
    session.change(first)
    session.change(second)
    assert ask("undo") == (["wolf"], True, True)
    assert ask("undo") == ([], True, False)
    assert ask("undo") == ([], True, False)  # there is nothing before
    assert ask("redo") == (["wolf"], True, True)
    assert ask("redo") == (["wolf", "fox"], False, True)
    ask("undo")
    session.change(third)
    assert ask("redo") == (["wolf", "fox", "cat"], False, True)


def test_twenty_objects_have_colours_of_their_own_in_viewer_and_plot(trace):
    assert len(set(COLOURS)) == len(COLOURS) >= 20
    shown = [track["colour"] for track in payload(trace)["trace"]["tracks"]]
    lines = trace.figure("strengths").data[: len(shown)]
    assert [line.line.color for line in lines] == shown == list(COLOURS[: len(shown)])


def test_a_gradient_of_zero_is_told_apart_in_text_and_plot(trace):
    step = replace(trace.steps[0], gradient=np.array([0.0, 1e-9]))
    told = as_text(replace(trace, steps=(step,)))
    assert "0 exactly" in told
    assert "+1.00e-09" in told
    ends = str(replace(trace, steps=(step,)).figure("strengths").to_dict())
    assert ends.count("stays at r0") == 1
