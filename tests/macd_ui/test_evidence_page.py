"""A token's evidence as the page asks for it: measured in the line, joined, stopped, refused."""

from dataclasses import replace

import pytest

from macd_studio.core.errors import Cancelled, OptionError
from macd_studio.core.evidence.kinds import readings, readings_of, views_of
from macd_studio.core.evidence.options import EnoughOptions, EvidenceOptions
from macd_studio.core.evidence.run import evidence_events
from macd_studio.core.media.video import read_clip
from macd_studio.core.whatif.verdict import as_text, views_of_map
from macd_studio.core.whatif.workbench import Workbench
from macd_studio.macd_ui import runs, zerogpu
from macd_studio.macd_ui.actions import expected_s, known_costs, learn_measurement, plain_action
from macd_studio.macd_ui.estimate import Estimator, work_of_trace
from macd_studio.macd_ui.examples import examples
from macd_studio.macd_ui.forms import run_options
from macd_studio.macd_ui.handlers import make_handlers
from macd_studio.viewer import identity
from tests.core.test_thoughts import QUESTION, close_at, thinking, wrapped
from tests.macd_ui.test_page_parts import FIELDS


@pytest.fixture
def handlers(new_store, toyworld):
    made = make_handlers(new_store(lambda: toyworld), examples())
    made.store.sessions.open("me").show(made.view.first[1])
    return made


def asked(handlers, **options):
    trace = handlers.store.sessions.open("me").trace
    evidence = {"token": 1, "answer": "macd", "kinds": ["attention"], "lens": False} | options
    action = {"do": "evidence", "run": identity(trace), "evidence": evidence}
    return list(handlers.changes.act(action, "", None, "me"))


def test_what_is_measured_is_shown_and_kept_beside_what_was(handlers):
    updates = asked(handlers)
    told = [u["viewer"]["status"] for u in updates if "viewer" in u]
    assert any("attention" in s["message"] for s in told)
    assert told[-1] == told[-1] | {"running": False, "error": ""}
    (sent,) = updates[-1]["viewer"]["trace"]["evidence"]
    assert {m["kind"] for m in sent["maps"]} == {"attention"}
    assert set(updates[-1]["viewer"]["trace"]["evidence_ms"]) == {"attention"}  # was timed
    session = handlers.store.sessions.open("me")
    assert session.undo_stack == []  # a measurement is no change that could be undone
    track = session.trace.tracks[0].id
    updates = asked(handlers, kinds=["gradient"], lens=True)
    updates = asked(handlers, maps=False, knock_out=[str(track)])
    (sent,) = updates[-1]["viewer"]["trace"]["evidence"]
    assert {m["kind"] for m in sent["maps"]} == {"attention", "gradient"}
    assert [k["track"] for k in sent["knock_outs"]] == [track]
    assert sent["lens"] is not None
    pairs = {(a["view"], a["first"], a["second"]) for a in sent["agreement"]}
    assert pairs == {(v, "attention", "gradient") for v in ("video", "counterfactual")}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"token": 99}, "has no token 99"),
        ({"token": True}, "token"),
        ({"kinds": ["colour"]}, "no kind of evidence"),
        ({"maps": False, "knock_out": ["1"]}, "Nothing was measured"),
        ({"boxes": ["1,1,0,0"]}, "is not a box"),
        ({"answer": "vcd"}, "answer is"),
        ({"patches": "99x99"}, "Patches"),
    ],
)
def test_what_cannot_be_measured_is_refused_where_it_was_asked(handlers, options, words):
    *_, last = asked(handlers, **options)
    status = last["viewer"]["status"]
    assert words in status["error"]
    assert status["where"] == "evidence"
    assert handlers.store.sessions.open("me").trace.evidence == ()


def test_what_is_no_object_is_refused(handlers):
    trace = handlers.store.sessions.open("me").trace
    for evidence in (None, [], "x"):
        action = {"do": "evidence", "run": identity(trace), "evidence": evidence}
        *_, last = handlers.changes.act(action, "", None, "me")
        assert "not a change" in last["viewer"]["status"]["error"]
    with pytest.raises(OptionError):
        plain_action({"do": "evidence"})
    kept = plain_action({"do": "evidence", "evidence": {"token": 2, "low_memory": True, "x": 1}})
    assert kept == {"do": "evidence", "evidence": {"token": 2}}


def test_measuring_is_stopped_between_its_pieces(handlers, toyworld):
    trace = handlers.view.first[1]
    options = EvidenceOptions(kinds=("occlusion-grid",), patches="2x2", lens=False)
    bench = Workbench(trace, toyworld)
    events = evidence_events(bench, options, stopped=lambda: True)
    with pytest.raises(Cancelled):
        list(events)
    assert bench.trace is trace
    after = iter([False, True])  # the first batch of patches, then stop
    events = evidence_events(bench, options, stopped=lambda: next(after))
    assert "occlusion-grid" in next(events).message
    with pytest.raises(Cancelled):
        next(events)


def test_the_expected_time_is_that_of_the_readings_asked_for(handlers):
    trace, estimator = handlers.view.first[1], Estimator()
    work = work_of_trace(trace)
    action = {"do": "evidence", "evidence": {"kinds": ["occlusion"], "lens": False}}
    assert expected_s(estimator, work, trace, action) is None
    estimator.learn(work, trace)
    one = estimator.reading(work, 1)
    views = readings("occlusion", len(trace.tracks), len(trace.groups), 16)
    assert expected_s(estimator, work, trace, action) == pytest.approx(one * views)
    few, many = (EvidenceOptions(kinds=("occlusion-grid",), patches=p) for p in ("2x2", "4x4"))
    assert readings_of(many, 3, 4) > 3 * readings_of(few, 3, 4)
    both = replace(few, knock_out=("1", "2"))
    assert readings_of(both, 3, 4) == pytest.approx(readings_of(few, 3, 4) + 3)
    assert readings_of(replace(few, maps=False, lens=False), 3, 4) == 0


def test_times_beside_the_buttons_were_measured_on_this_server(handlers):
    trace, estimator = handlers.view.first[1], Estimator()
    estimator.learn(work_of_trace(trace), trace)  # a run alone says nothing of maps
    assert known_costs(estimator, trace) == {
        "controls": None, "choices": None, "evidence": None, "enough": None,
    }  # fmt: skip
    both = {"do": "evidence", "evidence": {"kinds": ["gradient", "attention"], "lens": True}}
    learn_measurement(estimator, trace, both, 3.0)
    costs = known_costs(estimator, trace)["evidence"]
    assert set(costs) == {"gradient", "attention", "lens"}
    assert sum(costs.values()) == pytest.approx(3000.0, abs=0.2)
    work = work_of_trace(trace)
    assert expected_s(estimator, work, trace, both) == pytest.approx(3.0)
    # a patch at a time: as many as a group is divided into
    grid = {
        "do": "evidence",
        "evidence": {"kinds": ["occlusion-grid"], "patches": "4x4", "lens": False},
    }
    learn_measurement(estimator, trace, grid, 8.0)
    assert known_costs(estimator, trace)["evidence"]["occlusion-grid"] == pytest.approx(500.0)
    learn_measurement(estimator, trace, {"do": "controls"}, 0.7)
    learn_measurement(estimator, trace, {"do": "occlusion"}, 0.6)
    assert known_costs(estimator, trace)["controls"] == 700.0
    assert estimator.change(work, "occlusion", len(trace.tracks)) == pytest.approx(0.6)
    assert estimator.change(work, "controls") == pytest.approx(0.7)
    other = replace(trace, backbone=replace(trace.backbone, name="another"))
    assert known_costs(estimator, other)["evidence"] is None
    knocked = {"do": "evidence", "evidence": {"kinds": ["gradient"], "knock_out": ["1"]}}
    learn_measurement(estimator, trace, knocked, 99.0)
    after = known_costs(estimator, trace)["evidence"]
    assert {kind: after[kind] for kind in costs} == costs


def tried(handlers):
    trace = handlers.store.sessions.open("me").trace
    return handlers.changes.act({"do": "choices", "run": identity(trace)}, "", None, "me")


def test_every_choice_is_streamed_kept_and_timed(handlers):
    trace, estimator = handlers.view.first[1], Estimator()
    views, work, action = views_of_map(trace), work_of_trace(trace), {"do": "choices"}
    assert expected_s(estimator, work, trace, action) is None
    estimator.learn(work, trace)
    expected = expected_s(estimator, work, trace, action)
    assert expected == pytest.approx(0.6 * views * estimator.reading(work, 1))
    job = zerogpu.ChangeJob(trace, action)  # what a shared GPU is asked for
    assert zerogpu.seconds_of_change(job) >= zerogpu.MIN_S
    updates = list(tried(handlers))
    told = [u["viewer"]["status"]["message"] for u in updates if "viewer" in u]
    subsets = views - 2 - len(trace.tracks)
    assert f"{subsets} of {subsets} subsets read" in told
    shown = updates[-1]["viewer"]["trace"]
    assert views == shown["choices_views"]
    assert shown["choices"]["verdict"] == as_text(handlers.store.sessions.open("me").trace)
    assert shown["choices_ms"] > 0  # was timed
    session = handlers.store.sessions.open("me")
    assert session.undo_stack == []
    after = session.trace
    assert after.choice_map is not None
    assert after.controls == trace.controls  # what was measured before stays
    learn_measurement(estimator, trace, action, 3.0)
    assert expected_s(estimator, work, trace, action) == pytest.approx(3.0)
    assert known_costs(estimator, trace)["choices"] == 3000.0


def test_trying_every_choice_is_stopped_between_batches(handlers):
    session = handlers.store.sessions.open("me")
    session.trace = replace(session.trace, choice_map=None)
    updates = tried(handlers)
    for update in updates:
        status = update.get("viewer", {}).get("status", {})
        if "subsets read" in status.get("message", ""):
            session.stop.set()
            break
    *_, last = updates
    assert last["viewer"]["status"]["error"] == ""
    assert "top" in last["viewer"]["status"]["message"]
    assert session.trace.choice_map is None


def looked_for(handlers, **options):
    trace = handlers.store.sessions.open("me").trace
    action = {"do": "enough", "run": identity(trace), "enough": {"token": 1, "spans": 1} | options}
    return list(handlers.changes.act(action, "", None, "me"))


def test_what_is_enough_is_streamed_shown_and_timed(handlers):
    updates = looked_for(handlers)
    sent = [u["viewer"]["trace"]["enough"] for u in updates if "trace" in u.get("viewer", {})]
    assert len(sent) > 1
    assert all(len(one) == 1 for one in sent)  # bounds, as they are found
    told = [u["viewer"]["status"]["message"] for u in updates if "viewer" in u]
    assert any("views read: keep" in message for message in told)
    *_, last = updates
    (one,) = last["viewer"]["trace"]["enough"]
    assert one["keep"]["given"]["same"]
    assert last["viewer"]["trace"]["enough_ms"] > 0
    session = handlers.store.sessions.open("me")
    assert session.undo_stack == []
    assert session.trace.enough[0].views == one["views"]
    *_, last = looked_for(handlers, search=False, keep=["background"])
    (again,) = last["viewer"]["trace"]["enough"]
    assert again["keep"] == one["keep"]
    assert len(again["asked"]) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"token": 99}, "has no token 99"),
        ({"keep": ["7:1-2"]}, "There is no piece 7"),
        ({"keep": ["x"]}, "is not a piece"),
        ({"search": False}, "Nothing is asked for"),
        ({"margin": float("nan")}, "margin"),
    ],
)
def test_what_cannot_be_looked_for_is_refused_in_its_panel(handlers, options, words):
    *_, last = looked_for(handlers, **options)
    status = last["viewer"]["status"]
    assert words in status["error"]
    assert status["where"] == "enough"
    assert handlers.store.sessions.open("me").trace.enough == ()


def test_only_options_of_the_page_are_taken():
    kept = plain_action({"do": "enough", "enough": {"token": 2, "budget": 10**5, "x": 1}})
    assert kept == {"do": "enough", "enough": {"token": 2}}
    with pytest.raises(OptionError):
        plain_action({"do": "enough", "enough": "x"})


def test_the_expected_time_of_a_search_is_that_of_the_views_it_may_read(handlers):
    assert views_of(EnoughOptions(), 1, 4) == 256  # two regions in four runs
    assert views_of(EnoughOptions(), 2, 4) == 2**6
    assert views_of(EnoughOptions(), 12, 4) == 512  # as far as the budget goes
    assert views_of(EnoughOptions(spans=4), 0, 2) == 4
    assert views_of(EnoughOptions(search=False, keep=("1",)), 3, 4) == 3
    trace, estimator = handlers.view.first[1], Estimator()
    work, action = work_of_trace(trace), {"do": "enough", "enough": {"spans": 1}}
    assert expected_s(estimator, work, trace, action) is None
    estimator.learn(work, trace)
    views = 2 ** (len(trace.tracks) + 1)
    expected = expected_s(estimator, work, trace, action)
    assert expected == pytest.approx(0.6 * views * estimator.reading(work, 1))
    looked_for(handlers)
    after = handlers.store.sessions.open("me").trace
    learn_measurement(estimator, trace, action, 2.0, after)
    assert known_costs(estimator, trace)["enough"] == pytest.approx(
        2000.0 / after.enough[0].views, abs=0.1
    )


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_model_that_thinks_runs_and_is_measured_behind_its_thought(
    monkeypatch, make_video, new_store
):
    """The page's own jobs: the run, then everything that is asked of a token of its answer."""
    lm, video = wrapped(*thinking("llava_onevision")), make_video()
    lm.info = replace(lm.info, name="own/one")
    form = FIELDS | {
        "video": str(video), "example": None, "question": QUESTION, "backbone": "own/one",
        "detector": "", "methods": ["vcd"], "frames": 4,
    }  # fmt: skip
    options = run_options(form)
    options = replace(options, decode=replace(options.decode, max_tokens=2))
    monkeypatch.setattr(runs, "run_options", lambda _: options)
    seen = read_clip(video, options.video)
    close_at(lm, 2, seen)
    store = new_store(lambda: lm)
    handlers = make_handlers(store, examples())
    *_, last = handlers.runs.run(form, "me")
    session = store.sessions.open("me")
    assert last["viewer"]["status"]["error"] == ""
    thought = session.trace.thought
    assert thought.closed
    assert thought.tokens[2] == lm.thought_marks[1]
    answers = {name: [t.token for t in a.tokens] for name, a in session.trace.answers.items()}
    assert {len(tokens) for tokens in answers.values()} == {2}
    # the answer begins behind the thought, whose reading a loop of its own does here
    encoded = lm.encode(seen, QUESTION)
    state, written = lm.prefill(encoded, encoded.video), []
    for _ in range(len(thought.tokens) + 2):
        written.append(int(state.logits[0].argmax()))
        state = lm.step(state, written[-1:])
    assert written[len(thought.tokens) :] == answers["baseline"]
    for action in (
        {"do": "evidence", "evidence": {"token": 1, "answer": "macd", "kinds": ["gradient"]}},
        {"do": "occlusion"},
        {"do": "controls"},
        {"do": "enough", "enough": {"token": 1}},
    ):
        asked = action | {"run": identity(session.trace)}
        *_, last = handlers.changes.act(asked, "own/one", None, "me")
        assert last["viewer"]["status"]["error"] == "", action
    first = answers["macd"][0]
    assert session.trace.evidence[-1].target.token == first
    assert session.trace.enough[-1].target.token == answers["baseline"][0]
    assert session.trace.thought == thought
    shown = last["viewer"]["trace"]
    assert shown["thought"]["text"] == thought.text
    assert not set(thought.tokens) & {t["token"] for t in shown["answers"]["macd"]["tokens"]}
