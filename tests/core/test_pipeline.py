import threading
import time
from dataclasses import replace

import pytest

from macd_studio.core.backbones.load import DOMAINS
from macd_studio.core.embedded import DRAWN, EVERYDAY
from macd_studio.core.errors import Cancelled, QuestionError
from macd_studio.core.media.video import read_clip
from macd_studio.core.objects.truth import OUTSIDE
from macd_studio.core.options import AscentOptions, RunOptions, VideoOptions
from macd_studio.core.report.summary import as_json, as_table, as_text
from macd_studio.core.run.pipeline import NO_ANSWER, NO_TRACKS, run
from macd_studio.core.run.state import STAGES
from macd_studio.core.system.shipped import assets
from macd_studio.core.traces.bundle import load
from macd_studio.core.types import Progress
from tests.fakes import BoxDetector, ByteLM


def drive(video, lm=None, detector=None, question="is there a dog?", options=None, **how):
    lm, detector = lm or ByteLM(), detector or BoxDetector()
    options = options or RunOptions(video=VideoOptions(frames=4))
    return list(run(video, question, lambda: lm, lambda: detector, options, **how))


@pytest.fixture
def video(make_video):
    return make_video()


def test_a_whole_run_ends_with_a_whole_trace(video):
    events = drive(video)
    order = [e.stage for e in events]
    assert [s for s in dict.fromkeys(order)] == [*STAGES, "done"]
    trace = events[-1].trace
    assert trace.status == "complete"
    assert [t.label for t in trace.tracks] == ["dog", "ball"]
    assert trace.frames.shape == (4, 48, 64, 3)
    assert trace.steps[0].gradient.all()
    assert set(trace.answers) == {"baseline", "macd"}
    assert trace.counterfactual.loss is not None
    assert set(trace.timings_ms) >= set(STAGES)
    spent, macd = trace.timings_ms, trace.answers["macd"]
    assert macd.ms > spent["ascent"] + spent["views"]
    assert trace.options.ascent.steps == 1


def test_events_show_results_as_they_come(video):
    seen = [e.trace for e in drive(video) if e.trace is not None]
    assert any(t.tracks and not t.steps for t in seen)
    assert any(t.steps and not t.answers for t in seen)
    assert any(t.answers and not t.answers["baseline"].finished for t in seen)


def test_masks_alone_need_no_answer(video):
    events = drive(video, options=RunOptions(video=VideoOptions(frames=4), masks_only=True),
                   methods=["vcd"])  # fmt: skip
    trace = events[-1].trace
    assert trace.status == "complete"
    assert trace.answers == {}
    assert trace.steps[0].gradient.all()
    assert trace.counterfactual.loss is not None
    assert NO_ANSWER in trace.warnings
    assert "decode" not in [e.stage for e in events]


def test_what_a_model_was_trained_on_is_said_of_the_model_and_not_of_the_clip():
    """It stands in the JSON of every run, of clips of its own kind too."""
    for domain, _ in DOMAINS.values():
        assert "this clip" not in domain
    for path in sorted((assets() / "everyday").rglob("*.macd")):
        trace = load(path)
        assert trace.backbone.domain == DOMAINS[EVERYDAY][0]
        assert not trace.outside_domain


@pytest.mark.parametrize("title", ["", DRAWN])
@pytest.mark.parametrize("of", ["", DRAWN])
def test_a_model_says_where_a_clip_is_not_of_its_kind(video, title, of):
    """of: the title of the clips that the model was trained on."""
    lm = ByteLM()
    lm.info = replace(lm.info, domain="it knows another kind", domain_title=of)
    clip = replace(read_clip(video, VideoOptions(frames=4)), title=title)
    trace = drive(lambda: clip, lm)[-1].trace
    outside = title != of
    assert set(trace.answers) == {"baseline", "macd"}
    assert trace.outside_domain == outside
    assert ("it knows another kind" in trace.warnings) == outside
    assert as_json(trace)["badge"] == (OUTSIDE if outside else "")
    assert (OUTSIDE in as_text(trace)) == (OUTSIDE in as_table(trace)) == outside


@pytest.mark.parametrize(
    ("chosen", "note"),
    [
        ({}, ""),
        ({"end": 60}, ""),
        ({"end": 1}, "0 to 1 s of 2.0 s were analysed, and nothing else"),
        ({"start": 0.5}, "0.5 to 2 s of 2.0 s were analysed, and nothing else"),
    ],
)
def test_a_run_tells_which_part_of_a_clip_it_read(video, chosen, note):
    trace = drive(video, ByteLM(), options=RunOptions(video=VideoOptions(frames=4, **chosen)))[
        -1
    ].trace
    assert [w for w in trace.warnings if "were analysed" in w] == ([note] if note else [])


@pytest.mark.parametrize("stage", ["detect", "ascent", "decode"])
def test_stopping_keeps_what_there_is(video, stage):
    reached = []

    def cancelled():
        return reached.count(stage) > 0

    lm, detector = ByteLM(), BoxDetector()
    options = RunOptions(video=VideoOptions(frames=4), ascent=AscentOptions(steps=3))
    last = None
    for event in run(video, "is it?", lambda: lm, lambda: detector, options, cancelled=cancelled):
        reached.append(event.stage)
        last = event
    assert last.stage == "done"
    assert last.trace.status == f"stopped: {stage}"
    assert bool(last.trace.tracks) == (stage != "detect")


def test_no_detections_leave_the_frame_mask_and_say_so(video):
    trace = drive(video, detector=BoxDetector(boxes=()))[-1].trace
    assert NO_TRACKS in trace.warnings
    assert len(trace.counterfactual.frame_level) == 2
    assert set(trace.answers) == {"baseline", "macd"}


def test_bad_questions_fail_before_anything_is_read():
    with pytest.raises(QuestionError):
        drive("/nowhere.mp4", question="  ")


@pytest.mark.parametrize(("kind", "said"), [("base", "plain video"), ("exact", None)])
def test_an_approximate_gradient_is_told(video, kind, said):
    options = RunOptions(video=VideoOptions(frames=4), ascent=AscentOptions(gradient=kind))
    trace = drive(video, options=options)[-1].trace
    assert trace.status == "complete"
    told = [w for w in trace.warnings if "approximate" in w]
    assert len(told) == (said is not None)
    assert said is None or said in told[0]
    assert trace.options.ascent.gradient == kind
    assert ("≈ gradient" in as_text(trace)) == (said is not None)


def slow(progress, seconds=1.2):
    """A backbone that takes its time, and says so."""

    def load():
        progress.begin("Downloading it")
        for i in range(10):
            time.sleep(seconds / 10)
            if progress.stopped:
                raise Cancelled("stopped", "x")
            progress.fraction = (i + 1) / 10
        return ByteLM()

    return load


def test_a_slow_load_tells_how_far_it_is(video):
    progress = Progress()
    events = list(
        run(video, "is there?", slow(progress), BoxDetector, RunOptions(), loading=progress)
    )
    told = [e.fraction for e in events if e.message == "Downloading it"]
    assert len(told) >= 2
    assert told == sorted(told)
    assert 0 < told[-1] < 1
    assert events[-1].trace.status == "complete"


@pytest.mark.long
def test_a_slow_load_can_be_stopped_and_fails_as_itself(video):
    began, progress, stop = time.monotonic(), Progress(), threading.Event()
    events = []
    for event in run(
        video, "is there?", slow(progress, 30), BoxDetector, RunOptions(), loading=progress,
        cancelled=stop.is_set,
    ):  # fmt: skip
        events.append(event)
        if event.message == "Downloading it":
            stop.set()
    assert time.monotonic() - began < 15
    assert progress.stopped
    assert events[-1].trace.status == "stopped: load"
    assert events[-1].trace.tracks

    def broken():
        time.sleep(0.4)
        raise QuestionError("it broke", "x")

    with pytest.raises(QuestionError, match="it broke"):
        list(run(video, "is there?", broken, BoxDetector, RunOptions()))
