"""The form: a filmstrip, frames that are chosen, models that follow the clip, random draws."""

import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from macd_studio.core.cli.reproduce import command
from macd_studio.core.embedded import DRAWN
from macd_studio.core.errors import MacdError, OptionError
from macd_studio.core.media.video import PUBLIC_SERVER
from macd_studio.core.options import RunOptions, VideoOptions
from macd_studio.macd_ui import random_clips, runs
from macd_studio.macd_ui.clips import PICTURES, SIDE, digest, smaller
from macd_studio.macd_ui.examples import Example
from macd_studio.macd_ui.examples import examples as find_examples
from macd_studio.macd_ui.forms import form_values, run_options
from macd_studio.macd_ui.handlers import make_handlers
from macd_studio.macd_ui.models import Machine, Models, offered
from macd_studio.macd_ui.random_clips import RandomClip
from macd_studio.macd_ui.session_view import joined, tally_of
from macd_studio.macd_ui.settings import ServerSettings, check_limits, read_settings
from macd_studio.toyworld.clips import TITLE, write_frames
from tests.core.test_frames_of_clips import coded
from tests.fakes import BoxDetector, ByteLM
from tests.macd_ui.test_page_parts import FIELDS

FORM = FIELDS | {
    "example": None,
    "question": "is it?",
    "backbone": "toyworld",
    "detector": "",
    "methods": [],
}
FAST = Machine("cuda", 80.0, 100.0)
SLOW = Machine("cpu", 16.0, 0.02)


class NarrowLM(ByteLM):
    """Trained on drawn clips only."""

    def __init__(self):
        super().__init__()
        self.info = replace(self.info, domain="drawn clips only", domain_title=DRAWN)


@pytest.fixture
def store(store, monkeypatch):
    monkeypatch.setattr(store.models, "backbone", lambda name, *_: NarrowLM())
    monkeypatch.setattr("macd_studio.macd_ui.session_view.offered", lambda settings: None)
    return store


@pytest.fixture
def handlers(store):
    return make_handlers(store, [])


def test_chips_follow_the_question_until_they_are_edited(handlers, store):
    def chips(question, words, detector="grounding-dino"):
        return handlers.form.words(question, detector, words, "me")["words"]

    first = chips("Is there a dog?", [])
    assert (first["value"], first["visible"]) == (["dog"], True)
    assert chips("Is there a dog?", ["dog"], "yolo11n")["visible"] is False
    assert chips("Is there an owl?", ["dog"])["value"] == ["owl"]
    edited = chips("Is there an elk?", ["owl", "smoke"])
    assert (edited["value"], edited["choices"]) == (["owl", "smoke"], ["elk"])
    assert chips("Is there an elk?", [])["value"] == ["elk"]


def test_the_chips_are_what_a_detector_of_words_is_asked_for():
    asked = FORM | {"words": ["smoke plume", "elk."], "detector": "grounding-dino"}
    assert run_options(asked).detect.prompt == "smoke plume. elk"
    assert run_options(asked | {"detector": "yolo11n"}).detect.prompt == ""
    assert run_options(asked | {"words": None}).detect.prompt == ""
    for bad in (["x" * 101], ["a"] * 21, "dog", [1], ["a\0"]):
        with pytest.raises(MacdError):
            run_options(asked | {"words": bad})


def test_an_example_has_its_own_objects(store, make_video, tmp_path):
    example = Example("t", "is it?", "", make_video(), None, "yes")
    handlers = make_handlers(store, [example])
    session = store.sessions.open("me")
    session.form.values["tracks"] = "cups.json"
    assert handlers.form.choose(0, "me")["tracks"] is None
    assert not session.form.values.get("tracks")


def test_the_strip_of_an_archive_of_pictures_follows_their_rate(handlers, tmp_path):
    path = tmp_path / "frames.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for i in range(50):
            archive.writestr(f"{i:03d}.png", coded(i))
    *_, shown = handlers.form.upload(str(path), None, "me")
    assert shown["strip"]["duration"] == pytest.approx(2.0)
    *_, shown = handlers.form.set_rate(10, "me")
    assert shown["strip"]["duration"] == pytest.approx(5.0)
    *_, shown = handlers.form.set_rate(None, "me")
    assert shown["strip"] == {}


def test_a_file_that_was_changed_has_another_hash(tmp_path):
    file, seen = tmp_path / "v.mp4", []
    for content in (b"one", b"two!", b"three"):
        file.write_bytes(content)
        assert digest(str(file)) == hashlib.sha256(content).hexdigest()
        seen.append(digest(str(file)))
    file.unlink()
    assert digest(str(file)) == ""
    assert len(set(seen)) == 3


def test_an_uploaded_clip_shows_its_filmstrip(handlers, store, make_video, monkeypatch):
    limits = []
    monkeypatch.setattr(store, "read_limits", PUBLIC_SERVER)
    monkeypatch.setattr(
        "macd_studio.macd_ui.handlers.read_filmstrip",
        lambda *how: limits.append(how[4]) or read_filmstrip(*how),
    )
    from macd_studio.macd_ui.clips import read_filmstrip

    clip = str(make_video(frames=48, size=(640, 480)))
    first, last = handlers.form.upload(clip, None, "me")
    assert first["strip"] == {"reading": "v.mp4"}
    assert limits == [PUBLIC_SERVER]  # of a run of strangers
    strip = last["strip"]
    assert len(strip["pictures"]) == len(strip["times"]) == PICTURES
    assert strip["duration"] == pytest.approx(4.0, abs=0.1)
    assert strip["pictures"][0].startswith("data:image/webp;base64,")
    (closer,) = handlers.form.choose_range({"start": 1.0, "end": 2.0, "anything": "else"}, "me")
    assert 1 <= closer["strip"]["times"][0] < closer["strip"]["times"][-1] <= 2
    (gone,) = handlers.form.upload(None, None, "me")
    assert gone["strip"] == gone["sampling"] == {}
    assert list(handlers.form.choose_range({"start": 1.0}, "me")) == []  # there is no clip any more


@pytest.mark.parametrize("chosen", [{"start": "1"}, {"start": 3, "end": 1}, {"start": 99}])
def test_a_strip_that_cannot_be_read_says_so_beside_the_clip(handlers, make_video, chosen):
    list(handlers.form.upload(str(make_video()), None, "me"))
    (out,) = handlers.form.choose_range(chosen, "me")
    assert out["viewer"]["status"]["where"] == "clip"
    assert out["viewer"]["status"]["error"]


def test_a_clip_that_is_no_video_is_refused_at_upload(handlers, tmp_path):
    broken = tmp_path / "x.mp4"
    broken.write_bytes(b"no video at all")
    *_, last = handlers.form.upload(str(broken), None, "me")
    assert "not a readable video" in last["viewer"]["status"]["error"]
    assert last["viewer"]["status"]["where"] == "clip"


def test_nobody_is_told_to_run_a_clip_that_cannot_be_read(store, tmp_path, make_video):
    handlers = make_handlers(store, find_examples())
    broken = tmp_path / "x.mp4"
    broken.write_bytes(b"no video at all")
    *_, last = handlers.form.upload(str(broken), None, "me")
    assert last["note"] == {"text": "", "other": []}
    first, *_ = handlers.form.upload(str(make_video()), None, "me")
    assert "v.mp4" in first["note"]["other"]
    list(handlers.form.choose_range({"start": 99}, "me"))  # a bad range is no bad clip
    assert "v.mp4" in handlers.view.note(store.sessions.open("me"))["note"]["other"]


def test_a_strip_of_a_clip_that_was_replaced_is_dropped(handlers, store, make_video):
    reading = handlers.form.upload(str(make_video("a.mp4")), None, "me")
    next(reading)
    store.sessions.open("me").form.video = "another.mp4"
    assert list(reading) == []


def test_small_pictures_keep_their_shape_and_colours():
    frame = np.zeros((720, 1280, 3), np.uint8)
    frame[:, 640:] = 200
    small = smaller(frame, SIDE)
    assert small.shape == (120, 213, 3)
    assert set(np.unique(small[:, :100])) == {0}
    assert set(np.unique(small[:, 110:])) == {200}
    assert smaller(small, SIDE) is small
    assert smaller(np.zeros((2, 1280, 3), np.uint8), SIDE).shape == (1, 213, 3)


def test_what_is_chosen_on_the_strip_becomes_options():
    assert run_options(FORM | {"sampling": {}}) == RunOptions()
    chosen = {"start": 0.5, "end": 1.5, "at": [0.6, 1.2]}
    video = run_options(FORM | {"sampling": chosen}).video
    assert video == VideoOptions(start=0.5, end=1.5, at=(0.6, 1.2))


@pytest.mark.parametrize(
    "chosen",
    [3, "x", [1], {"frames": 3}, {"max_megabytes": 9}, {"at": "1"}, {"at": [2, 1]},
     {"start": None}, {"at": [1.0] * 300}, {"end": float("nan")}],
)  # fmt: skip
def test_a_bad_choice_of_frames_is_refused(chosen):
    with pytest.raises(OptionError):
        run_options(FORM | {"sampling": chosen})


def test_a_public_server_bounds_picked_frames_too():
    many = tuple(float(i) for i in range(33))
    with pytest.raises(OptionError, match=r"video\.frames is 33"):
        check_limits(RunOptions(video=VideoOptions(at=many)))
    check_limits(RunOptions(video=VideoOptions(at=many[:32])))


def test_picked_frames_are_run_recorded_and_reproduced(handlers, make_video):
    sampling = {"at": [0.3, 1.1, 1.7], "start": 0.2}
    values = FORM | {"video": str(make_video()), "sampling": sampling}
    *_, last = handlers.runs.run(values, "me")
    assert last["viewer"]["trace"]["times"] == pytest.approx([3 / 12, 13 / 12, 20 / 12], abs=1e-4)
    trace = handlers.store.sessions.open("me").trace
    assert trace.options.video.at == (0.3, 1.1, 1.7)
    assert "--at 0.3,1.1,1.7" in command(trace)


@pytest.fixture
def loaded(store, monkeypatch):
    """Names of the backbones and detectors that were loaded."""
    names = []
    for kind, model in (("backbone", NarrowLM), ("detector", BoxDetector)):
        load = lambda name, *_, make=model: names.append(name) or make()  # noqa: E731
        monkeypatch.setattr(store.models, kind, load)
    return names


def drawn_file(folder):
    path = folder / "drawn.mp4"
    write_frames(np.zeros((12, 48, 64, 3), np.uint8), path, 12, {"title": TITLE})
    return str(path)


def test_models_follow_the_clip(handlers, store, make_video, tmp_path, loaded):
    auto = FORM | {"backbone": "auto", "detector": "auto"}
    clip = str(make_video())
    list(handlers.form.upload(clip, None, "me"))
    *_, last = handlers.runs.run(auto | {"video": clip}, "me")
    assert loaded == ["yolo11n", "everyday"]
    assert set(last["viewer"]["trace"]["answers"]) == {"baseline", "macd"}
    assert store.sessions.open("me").models == ("everyday", "yolo11n")
    assert last["note"]["text"] == ""
    loaded.clear()
    list(handlers.form.upload(drawn_file(tmp_path), None, "me"))
    list(handlers.runs.run(auto | {"video": drawn_file(tmp_path)}, "me"))
    assert loaded == ["toyworld", "toyworld"]
    loaded.clear()
    chosen = auto | {"video": clip, "backbone": "org/Model", "detector": "d-fine"}
    list(handlers.runs.run(chosen, "me"))
    assert loaded == ["d-fine", "org/Model"]


def test_a_model_of_drawings_answers_a_real_clip_with_its_badge(handlers, make_video, loaded):
    *_, last = handlers.runs.run(FORM | {"video": str(make_video()), "detector": "grid"}, "me")
    assert set(last["viewer"]["trace"]["answers"]) == {"baseline", "macd"}
    assert last["viewer"]["trace"]["badge"] == "demo model, outside its training data"


def test_the_form_says_what_the_embedded_model_knows(handlers, store, make_video, tmp_path):
    *_, shown = handlers.form.upload(str(make_video()), None, "me")
    assert "80 everyday things" in shown["knows"]["text"]
    assert "what that misses, neither knows" in shown["knows"]["text"]
    other = handlers.form.choose_model("toyworld", "me")
    assert "means nothing" in other["knows"]["warning"]
    foreign = handlers.form.choose_model("org/Model", "me")["knows"]
    assert foreign == {
        "models": "Model: org/Model. Objects are found by yolo11n.",
        "warning": "",
        "text": "",
    }
    handlers.form.choose_model("auto", "me")
    *_, shown = handlers.form.upload(drawn_file(tmp_path), None, "me")
    assert shown["knows"]["models"] == (
        "Model: toyworld. Objects are found by toyworld. Both were chosen to fit the clip."
    )


def test_reset_leaves_the_clip_and_its_question(handlers, store, make_video):
    clip = str(make_video())
    list(handlers.form.upload(clip, None, "me"))
    session = store.sessions.open("me")
    session.form.question = "Is there a dog?"
    session.form.values |= {"alpha": 3.0, "methods": ["vcd"], "sampling": {"start": 0.1}}
    handlers.form.choose_model("org/Model", "me")
    out = handlers.form.reset("me")
    assert (out["alpha"], out["methods"], out["backbone"]) == (1.0, [], "auto")
    assert session.form.values["sampling"] == {"start": 0.1}
    assert (session.form.video, session.form.question) == (clip, "Is there a dog?")
    assert session.form.backbone == "auto"
    assert not {"question", "video"} & set(out)


def test_a_run_of_another_clip_is_named(handlers, store, make_video, tmp_path):
    run, clip = str(make_video()), drawn_file(tmp_path)
    list(handlers.form.upload(run, None, "me"))
    list(handlers.runs.run(FORM | {"video": run, "detector": "grid"}, "me"))
    session = store.sessions.open("me")
    assert handlers.view.note(session)["note"]["other"] == []
    list(handlers.form.upload(clip, None, "me"))
    names = [Path(run).name, Path(clip).name]
    assert handlers.view.note(session)["note"]["other"] == names


def test_a_public_page_offers_what_ships(monkeypatch):
    public = ServerSettings(public=True)
    assert public.backbones == ("auto", "toyworld", "everyday")
    assert public.detectors == ("auto", "yolo11n", "toyworld", "grid", "motion")
    assert offered(public, FAST) is None


def test_a_detector_that_was_just_typed_stays(handlers, store, make_video):
    """The page tells of it by another event, which may come after that of the clip."""
    own, clip = "/models/own.pt", str(make_video())
    first, last = handlers.form.upload(clip, own, "me")
    assert first.get("detector", own) == own
    assert "detector" not in last
    assert store.sessions.open("me").form.values["detector"] == own


def test_an_example_is_answered_and_its_truth_is_known(store, make_video):
    example = Example("t", "is it?", "", make_video(), None, "yes")
    handlers = make_handlers(store, [example])
    handlers.form.choose(0, "me")
    *_, last = handlers.runs.run(FORM | {"video": None, "example": 0}, "me")
    assert last["viewer"]["trace"]["answers"]
    assert last["viewer"]["trace"]["truth"] == "yes"
    *_, last = handlers.runs.run(FORM | {"video": None, "example": 0, "question": "what?"}, "me")
    assert last["viewer"]["trace"]["truth"] == ""


def test_a_draw_runs_with_its_truth_and_is_counted(handlers, store, make_video, monkeypatch):
    monkeypatch.setattr(store.models, "backbone", lambda name, *_: ByteLM())

    def drawn(seed, folder):
        path = make_video(f"draw-{seed}.mp4")
        return RandomClip(seed, str(path), "Is there a dog in the video?", "no")

    monkeypatch.setattr(runs, "draw_clip", drawn)
    values = FORM | {"video": None}
    updates = list(handlers.runs.draw(values, "me"))
    form = next(u for u in updates if "question" in u)
    assert form["question"] == "Is there a dog in the video?"
    trace = store.sessions.open("me").trace
    assert trace.truth == "no"
    tally = updates[-1]["tally"]
    assert trace.clip.name == f"draw-{tally['seed']}.mp4"
    assert set(tally["right"]) == {"baseline", "macd", "yes-bias"}
    assert tally["titles"]["yes-bias"] == "Constant on yes (+1)"
    video = store.sessions.open("me").random_clip.video
    again = values | {"video": video, "question": trace.question}
    assert list(handlers.runs.run(again, "me"))[-1]["viewer"]["trace"]["truth"] == "no"
    clip = store.sessions.open("me").random_clip
    assert tally_of(replace(trace, status="stopped: decode"), clip) == {}
    *_, last = handlers.runs.run(again | {"question": "Is there a cup in the video?"}, "me")
    assert last["viewer"]["trace"]["truth"] == ""


@pytest.mark.long
def test_a_seed_draws_the_same_clip_again(tmp_path):
    one, two, other = (random_clips.draw_clip(seed, tmp_path) for seed in (7, 7, 8))
    assert (one.question, one.truth) == (two.question, two.truth)
    assert (one.question, one.truth) != (other.question, other.truth)
    assert Path(one.video).read_bytes() == Path(two.video).read_bytes()
    from macd_studio.core.media.video import read_clip
    from macd_studio.evals.benchmarks.toyworld_crossed import random_item

    cell = random_item(7)[1].id
    same = next(seed for seed in range(8, 9999) if random_item(seed)[1].id == cell)
    again = random_clips.draw_clip(same, tmp_path)  # the same cell of another world
    assert Path(one.video).read_bytes() != Path(again.video).read_bytes()
    assert read_clip(one.video).title == TITLE == DRAWN


def test_nobody_chooses_the_seed_of_a_draw():
    assert len({random_clips.fresh_seed() for _ in range(20)}) > 15
    assert random_clips.can_draw()


def test_a_real_model_that_fits_is_offered():
    best = offered(ServerSettings(), FAST)
    assert (best.title, best.detector) == ("Qwen2-VL 7B and RT-DETR R50", "rt-detr")
    for fact in ("8.3 B", "80 GB of memory", "Apache-2.0", "downloads 16.6 GB"):
        assert fact in best.facts
    assert "estimated" not in best.facts  # a time that nothing here has taken
    small = offered(ServerSettings(), SLOW)
    assert small.backbone == "HuggingFaceTB/SmolVLM2-256M-Video-Instruct"
    assert small.detector in ("yolo11n", "rt-detr")
    assert offered(ServerSettings(), replace(SLOW, memory_gb=0.5)) is None
    tight = replace(SLOW, memory_gb=2.0)  # float32 on a CPU takes twice what a GPU takes
    assert offered(ServerSettings(), tight) is None
    assert offered(ServerSettings(), replace(tight, device="cuda")) is not None


def test_a_public_page_offers_only_what_its_operator_listed():
    public = ServerSettings(public=True)
    assert offered(public, FAST) is None
    hub_id = "Qwen/Qwen2-VL-2B-Instruct"
    listed = replace(public, backbones=("toyworld", hub_id), detectors=("toyworld", "d-fine"))
    assert (offered(listed, FAST).backbone, offered(listed, FAST).detector) == (hub_id, "d-fine")
    own = replace(listed, backbones=("toyworld", "me/own"))
    assert offered(own, FAST).backbone == "me/own"


def test_updates_of_one_widget_are_joined():
    label, state = ({"__type__": "update", k: v} for k, v in (("value", "Run"), ("visible", True)))
    assert joined({"run": label}, {"run": state, "note": 1}) == {
        "run": {"__type__": "update", "value": "Run", "visible": True}, "note": 1
    }  # fmt: skip
    assert joined({"strip": {"a": 1}}, {"strip": {}})["strip"] == {}


def test_weights_of_the_page_s_models_can_lie_off_the_device(monkeypatch, capsys):
    from macd_studio.core import backbones

    asked = []
    monkeypatch.setattr(backbones, "load_backbone", lambda name, **how: asked.append((name, how)))
    for words, env in ((["--offload"], {}), ([], {"MACD_OFFLOAD": "1"})):
        assert read_settings(words, env).offload
    assert not read_settings([], {}).offload
    store = Models("as-is", offload=True)
    store.backbone("a/b")
    store.backbone("toyworld")
    (real, how), (embedded, plain) = asked
    assert (real, how["offload"], embedded) == ("a/b", True, "toyworld")
    assert "offload" not in plain
    with pytest.raises(SystemExit):
        read_settings(["--offload", "--weights", "nf4"], {})
    assert "offload" in capsys.readouterr().err


def test_an_own_clip_begins_with_the_defaults_and_no_question(store, make_video):
    """Nothing of the example stays; what the visitor typed or chose does."""
    handlers = make_handlers(store, find_examples())
    examples = handlers.view.examples
    at = next(
        i for i, e in enumerate(examples) if e.trace and e.load_trace().options.ascent.steps > 1
    )
    shown = handlers.form.choose(at, "me")
    steps = examples[at].load_trace().options.ascent.steps
    assert shown["steps"] == steps
    first, *_ = handlers.form.upload(str(make_video("own.mp4")), None, "me")
    assert "question" not in first  # what is typed meanwhile is not overwritten
    assert first["strip"]["forget"] == examples[at].question
    assert first["steps"] == 1
    usual = form_values() | {"methods": []}
    sent = {name for name in usual if name in first}
    assert sent == {name for name, value in usual.items() if shown[name] != value}
    form = handlers.store.sessions.open("me").form
    assert form.example is None
    assert {name: form.values[name] for name in usual} == usual

    handlers.form.choose(at, "she")
    session = handlers.store.sessions.open("she")
    session.form.question = "Is there a zebra?"
    session.form.values = dict(session.form.values) | {"alpha": 2.5}
    first, *_ = handlers.form.upload(str(make_video("other.mp4")), None, "she")
    assert not {"question", "alpha", "steps"} & set(first)
