"""Runs and changes of the page in forked workers, under a stand-in for ZeroGPU."""

import importlib
import math
import pickle
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from macd_studio.core.embedded import EMBEDDED
from macd_studio.core.errors import BackboneNotFound
from macd_studio.core.media.video import read_clip
from macd_studio.core.objects import detect
from macd_studio.core.options import AscentOptions, RunOptions, VideoOptions
from macd_studio.core.run.spec import RunSpec
from macd_studio.macd_ui import zerogpu
from macd_studio.macd_ui.estimate import Work
from macd_studio.macd_ui.examples import examples
from macd_studio.macd_ui.forms import form_values
from macd_studio.macd_ui.handlers import make_handlers
from macd_studio.macd_ui.models import try_out
from macd_studio.macd_ui.settings import ServerSettings, read_settings
from macd_studio.macd_ui.store import Store
from macd_studio.macd_ui.zerogpu import MAX_S, MIN_S, allowance, declared
from tests.fakes import BoxDetector, ByteLM
from tests.patience import PATIENCE_S
from tests.vllm_server import NAME, FakeVLLM, opened
from tests.zero_gpu import FakeSpaces

FIELDS = form_values() | {
    "steps": 2, "frames": 4, "methods": ["vcd"], "tracks": None,
    "backbone": "toyworld", "detector": "toyworld",
}  # fmt: skip
OPTIONS = RunOptions(video=VideoOptions(frames=4), ascent=AscentOptions(steps=2))


class SlowLM(ByteLM):
    """Reads a question slowly, but for the first few readings."""

    def __init__(self, quick):
        super().__init__()
        self.quick, self.readings = quick, 0

    def query_logits(self, *given, **more):
        self.readings += 1
        if self.readings > self.quick:
            time.sleep(PATIENCE_S)
        return super().query_logits(*given, **more)


pytestmark = pytest.mark.usefixtures("reader_process")  # a fork takes no threads along


@pytest.fixture
def fake(monkeypatch):
    """The stand-in, in the place of `spaces` in a freshly imported module."""
    fake = FakeSpaces()
    monkeypatch.setitem(sys.modules, "spaces", fake.module())
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    importlib.reload(zerogpu)
    zerogpu.MODELS.update({("backbone", "toyworld"): ByteLM(),
                           ("detector", "toyworld"): BoxDetector()})  # fmt: skip
    yield fake
    monkeypatch.undo()
    importlib.reload(zerogpu)
    assert not zerogpu.active()


@pytest.fixture
def clip(make_video):
    return read_clip(make_video(), OPTIONS.video)


def job_of(clip, **models):
    models = {"backbone": "toyworld", "detector": "toyworld"} | models
    return zerogpu.RunJob(clip, RunSpec("Is there a dog?", OPTIONS, ("vcd",), **models))


def never():
    return False


def test_a_run_comes_back_whole_from_a_forked_process(fake, clip):
    threaded = torch.randn(600, 600)
    assert (threaded @ threaded).shape == (600, 600)  # a child that uses these threads would hang
    events = list(zerogpu.run(job_of(clip), never))
    assert fake.processes == 1
    trace = events[-1].trace
    assert events[-1].stage == "done"
    assert trace.status == "complete"
    assert set(trace.answers) == {"baseline", "macd", "vcd"}
    assert trace.frames is clip.frames
    assert trace.model_frames.pixels.shape[0] == 4
    assert len(trace.steps) == 2
    assert zerogpu.MODELS["backbone", "toyworld"].__dict__.get("readings", 0) == 0
    from macd_studio.core.run.pipeline import run  # and the same as here

    here = list(run(lambda: clip, "Is there a dog?", ByteLM, BoxDetector, OPTIONS, methods=["vcd"]))
    assert {n: a.text for n, a in here[-1].trace.answers.items()} == {
        n: a.text for n, a in trace.answers.items()
    }
    for name, answer in here[-1].trace.answers.items():
        for mine, theirs in zip(trace.answers[name].second_views, answer.second_views, strict=True):
            np.testing.assert_array_equal(mine.shown, theirs.shown)
    np.testing.assert_allclose(trace.steps[1].gradient, here[-1].trace.steps[1].gradient)


@pytest.mark.long
def test_frames_cross_once(fake, clip):
    trace = list(zerogpu.run(job_of(clip), never))[-1].trace
    pictures = [
        trace.model_frames.pixels,
        *(trace.answers[n].second_views[0].shown for n in ("macd", "vcd")),
    ]
    for picture in pictures:
        assert sum(picture.tobytes() in content for content in fake.sent) == 1


@pytest.mark.long
def test_nothing_that_a_worker_changes_comes_back(fake, clip):
    model = SlowLM(quick=10**6)
    zerogpu.MODELS["backbone", "toyworld"] = model
    assert list(zerogpu.run(job_of(clip), never))[-1].trace.status == "complete"
    assert model.readings == 0


@pytest.mark.long
def test_a_run_longer_than_it_declared_keeps_what_it_has(fake, clip):
    zerogpu.MODELS["backbone", "toyworld"] = SlowLM(quick=1)
    fake.scale = 3 / zerogpu.seconds_of_run(job_of(clip))
    events = list(zerogpu.run(job_of(clip), never))
    trace = events[-1].trace
    assert trace.status == "stopped: ascent"
    assert "taken away before the end" in trace.warnings[0]
    assert len(trace.steps) == 1
    assert trace.frames is clip.frames


def test_without_quota_the_visitor_hears_why(fake, clip):
    fake.quota_s = 3
    with pytest.raises(zerogpu.GpuError, match="quota does not cover") as told:
        list(zerogpu.run(job_of(clip), never))
    assert "Log in to Hugging Face" in str(told.value)
    assert "<a>" not in str(told.value)
    assert fake.processes == 0


@pytest.mark.long
def test_a_stopped_run_keeps_what_it_has(fake, clip):
    events = []
    for event in zerogpu.run(job_of(clip), lambda: bool(events) and events[-1].stage == "ascent"):
        events.append(event)
    assert events[-1].stage == "done"
    assert events[-1].trace.status == "stopped: ascent"
    assert events[-1].trace.frames is clip.frames


def test_errors_keep_their_words(fake, clip):
    with pytest.raises(BackboneNotFound, match="was not loaded when the Space started"):
        list(zerogpu.run(job_of(clip, backbone="other/model"), never))
    broken = ByteLM()
    broken.encode_frames = None
    zerogpu.MODELS["backbone", "toyworld"] = broken
    trace = list(zerogpu.run(job_of(clip), never))[-1].trace
    assert trace.status.startswith("stopped")
    assert "TypeError" in trace.warnings[0]  # all that spaces tells


def test_the_stand_in_refuses_what_is_on_a_gpu(fake):
    def task(job):
        yield np.zeros(3)
        yield {"deep": [torch.zeros(3)]}
        yield {"deep": [torch.zeros(3, device="meta")]}

    stream = fake.gpu(task, duration=lambda job: 5)(1)
    assert next(stream).shape == (3,)
    assert next(stream)["deep"][0].shape == (3,)
    with pytest.raises(Exception, match="PicklingError"):
        next(stream)


def test_jobs_are_plain(fake, clip):
    job = job_of(clip)
    again = pickle.loads(pickle.dumps(job))
    assert again.spec == job.spec
    np.testing.assert_array_equal(again.clip.frames, clip.frames)


@pytest.fixture
def page(fake, new_store):
    """The page's handlers on a public Space with shared GPUs."""
    store = new_store(public=True, gpu_quota=True)
    zerogpu.load_models(store)
    return make_handlers(store, []), store, fake


def form(make_video, **more):
    return FIELDS | {"example": None, "video": str(make_video()), "question": "Is it?"} | more


def act(handlers, session, what, backbone="toyworld", **more):
    from macd_studio.viewer import identity

    action = {"do": what, "run": identity(session.trace)} | more
    updates = handlers.changes.act(action, backbone, None, session.key)
    return [u["viewer"] for u in updates if "viewer" in u]


@pytest.mark.long
def test_the_page_runs_and_changes_the_embedded_models_in_workers(fake):
    store = Store(settings=ServerSettings(public=True, gpu_quota=True))
    try:
        zerogpu.load_models(store)
        try_out(
            store.models.backbone("toyworld"), store.models.detector("toyworld")
        )  # with threads, here
        _check_run_and_changes(make_handlers(store, examples()), store, fake)
    finally:
        store.close()


def _check_run_and_changes(handlers, store, fake):
    small = next(i for i, e in enumerate(handlers.view.examples) if e.name == "small")
    values = FIELDS | {"example": small, "video": None, "question": "Is there a bike in the video?"}
    shown = [u["viewer"] for u in handlers.runs.run(values, "tab") if "viewer" in u]
    session = store.sessions.open("tab")
    waiting = [v["status"]["message"] for v in shown if "GPU" in v["status"]["message"]]
    assert waiting == [f"Waiting for a GPU · about {fake.declared[0]} s of your GPU quota"]
    assert session.trace.status == "complete"
    assert shown[-1]["status"]["error"] == ""
    assert len(shown[-1]["trace"]["frames"]) == 4
    first = session.trace
    forked = fake.processes
    level = {"kind": "level", "track": first.tracks[0].id,
             "level": 0.0 if first.counterfactual.level[0] else 1.0}  # fmt: skip
    assert act(handlers, session, "edit", edit=level)[-1]["status"]["error"] == ""
    assert session.trace is not first
    assert session.trace.edits[0].level == level["level"]
    assert session.trace.frames is first.frames
    assert act(handlers, session, "occlusion")[-1]["status"]["error"] == ""
    assert session.trace.occlusion is not None
    again = act(handlers, session, "redecode", alpha=2.0, beta=0.1)[-1]
    assert again["status"]["error"] == ""
    assert session.trace.answers["macd"].alpha == 2.0
    assert fake.processes == forked + 3
    act(handlers, session, "undo")
    act(handlers, session, "undo")
    assert session.trace is first


def test_what_another_server_computes_borrows_no_gpu(fake, clip):
    """Its run is this process's own, whose detector has no GPU."""
    devices = []
    models = SimpleNamespace(
        backbone=lambda name, loading: ByteLM(),
        detector=lambda name, loading, device: devices.append(device) or BoxDetector(),
    )
    assert zerogpu.borrows("toyworld")
    trace = list(zerogpu.run_events(models, job_of(clip, backbone=NAME), never))[-1].trace
    assert trace.status == "complete"
    assert devices == ["cpu"]
    assert (fake.processes, fake.declared) == (0, [])
    list(zerogpu.run_events(models, job_of(clip), never))
    assert (fake.processes, len(devices)) == (1, 1)


@pytest.mark.long
def test_a_backbone_that_a_server_holds_borrows_no_gpu(fake, toyworld, monkeypatch):
    """Runs and changes compute in the page's process, whose detector has no GPU; no quota goes."""
    server, far = FakeVLLM(toyworld), []
    settings = ServerSettings(public=True, gpu_quota=True, backbones=(EMBEDDED, NAME))
    store = Store(settings=settings)
    load, devices = store.models.get, []

    def get(key, loading):
        if key == ("backbone", NAME):
            far.append(opened(server))
            return load(key, far.pop)
        return load(key, loading)

    monkeypatch.setattr(store.models, "get", get)
    monkeypatch.setattr(detect, "load_detector", lambda name, device, *_: (
        devices.append(device) or BoxDetector((("dog", 0.9, (0.1, 0.1, 0.4, 0.5)),))
    ))  # fmt: skip
    try:
        zerogpu.load_models(store)
        assert server.requests == []
        assert ("backbone", NAME) not in zerogpu.MODELS
        devices.clear()
        # as `spaces` has it outside a worker: there seems to be a GPU, and there is none
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        handlers = make_handlers(store, examples())
        small = next(i for i, e in enumerate(handlers.view.examples) if e.name == "small")
        asked = {"example": small, "video": None, "question": "Is there a bike in the video?",
                 "backbone": NAME, "frames": 2, "frame_mask": "off", "gradient": "difference",
                 "steps": 1, "max_tokens": 2, "methods": []}  # fmt: skip
        assert handlers.form.cost(FIELDS | asked, "tab") == {"cost": {"text": ""}}
        shown = list(handlers.runs.run(FIELDS | asked, "tab"))
        session = store.sessions.open("tab")
        assert session.trace.status == "complete"
        assert session.trace.backbone.server
        assert not any("GPU" in u["viewer"]["status"]["message"] for u in shown if "viewer" in u)
        answered = len(server.requests)
        changed = act(handlers, session, "occlusion", backbone=NAME)[-1]
        assert changed["status"]["error"] == ""
        assert len(server.requests) > answered
    finally:
        store.close()
    assert set(devices) == {"cpu"}
    assert (fake.processes, fake.declared) == (0, [])


@pytest.mark.long
def test_the_next_run_declares_what_the_last_one_took(page, make_video):
    handlers, _, fake = page
    list(handlers.runs.run(form(make_video), "tab"))
    list(handlers.runs.run(form(make_video), "other"))
    assert len(fake.declared) == 2
    assert fake.declared[1] < fake.declared[0], "the first one could only be allowed for"


@pytest.mark.long
def test_a_page_without_quota_stays_usable(page, make_video):
    handlers, store, fake = page
    fake.quota_s = 0
    last = list(handlers.runs.run(form(make_video), "tab"))[-1]
    assert "quota does not cover" in last["viewer"]["status"]["error"]
    fake.quota_s = 10_000
    list(handlers.runs.run(form(make_video), "tab"))
    trace = store.sessions.open("tab").trace
    assert trace.status == "complete"
    fake.quota_s = 0
    list(handlers.runs.run(form(make_video), "tab"))
    assert store.sessions.open("tab").trace is trace


def test_the_cost_is_shown_before_a_run(page):
    handlers, store, _ = page

    def seconds(**more):
        text = handlers.form.cost(FIELDS | more, "tab")["cost"]["text"]
        assert text.startswith("A run takes about ")
        return int(text.split("about ")[1].split(" s")[0])

    usual = seconds()
    assert store.sessions.find("tab") is None  # an event that knows whose the tab is makes it
    assert seconds(methods=["vcd", "tcd", "sid"]) > usual
    assert seconds(backbone="Qwen/Qwen2-VL-2B-Instruct", frames=32, steps=20) > usual
    assert handlers.form.cost(FIELDS | {"steps": -1}, "tab") == {"cost": {"text": ""}}


def test_what_is_declared_follows_frames_steps_and_methods():
    work = Work("Qwen/Qwen2-VL-2B-Instruct", "toyworld", 8, 40, steps=1, max_tokens=16)
    for more in ({"frames": 16}, {"steps": 4}, {"methods": ("vcd",)}, {"max_tokens": 64},
                 {"dense_frames": 400}, {"width": 4}):  # fmt: skip
        assert allowance(replace(work, **more)) > allowance(work)
    reads = allowance(replace(work, frames=16)) - allowance(work)
    assert reads == pytest.approx(zerogpu.READ_S * 2.2 * (2 + zerogpu.GRADIENT_READS) * 8)
    assert declared(work, 10.0) == math.ceil(zerogpu.START_S + 15.0)
    assert declared(work, 0.01) == MIN_S
    assert declared(work, 1e6) == MAX_S
    other = replace(work, backbone="somebody/unknown")
    assert allowance(other) > allowance(work)


@pytest.mark.parametrize(("thinks", "tokens"), [(True, 3 * 200), (False, 0)])
def test_what_is_declared_counts_thoughts_of_a_model_that_thinks(monkeypatch, thinks, tokens):
    work = Work("somebody/model", "toyworld", 8, 40, max_tokens=16)
    model = SimpleNamespace(thinks=thinks)
    monkeypatch.setitem(zerogpu.MODELS, ("backbone", "somebody/model"), model)
    longer = allowance(replace(work, max_thought=200, thoughts=3)) - allowance(work)
    assert longer == pytest.approx(zerogpu.TOKEN_S * tokens)
    unknown = replace(work, backbone="nobody/none")
    assert allowance(replace(unknown, max_thought=200)) == allowance(unknown)


def test_elsewhere_nothing_of_it_is_used(monkeypatch):
    monkeypatch.delenv("SPACES_ZERO_GPU", raising=False)
    assert not zerogpu.active()
    assert not read_settings([], {"SPACE_ID": "a/b"}).gpu_quota
    assert read_settings([], {"SPACE_ID": "a/b", "SPACES_ZERO_GPU": "true"}).gpu_quota
    assert zerogpu.gpu_run is zerogpu._run_in_worker
