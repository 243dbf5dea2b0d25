"""A clip's partner in the form: contrasted with, refused where it means nothing, and let go."""

from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from macd_studio.core.run import pipeline
from macd_studio.core.run.spec import RunSpec
from macd_studio.macd_ui import zerogpu
from macd_studio.macd_ui.handlers import make_handlers
from macd_studio.toyworld.clips import drawn_clip
from tests.macd_ui.test_form import FORM

DRAWN = FORM | {"backbone": "toyworld", "frames": 4}
REAL = FORM | {"backbone": "a/model", "detector": "grid", "frames": 4}


@pytest.fixture
def store(store, monkeypatch):
    monkeypatch.setattr("macd_studio.macd_ui.session_view.offered", lambda settings: None)
    return store


@pytest.fixture
def handlers(store):
    return make_handlers(store, [])


@pytest.fixture
def partner(toy_mp4, store):
    """A drawn clip among the uploads."""
    path = store.uploads.folder / "partner.mp4"
    path.write_bytes(toy_mp4.read_bytes())
    return str(path)


def asked(handlers, clip, form, **more):
    """The form's values with a clip that was uploaded."""
    list(handlers.form.upload(str(clip), None, "me"))
    return form | {"video": str(clip)} | more


def error_of(handlers, values):
    *_, last = handlers.runs.run(values, "me")
    return last["viewer"]["status"]["error"]


def test_a_run_holds_the_partners_view_and_the_form_asks_for_just_that(handlers, store, make_video):
    partner = str(make_video("other.mp4"))
    values = asked(handlers, make_video(), REAL, counterpart=partner)
    list(handlers.runs.run(values, "me"))
    session = store.sessions.open("me")
    assert set(session.trace.answers) == {"baseline", "macd", "pair"}
    (second,) = session.trace.answers["pair"].second_views
    assert second.view.as_dict()["file"] == "other.mp4"
    assert len(second.shown) == 4
    renamed = Path(partner).with_name("renamed.mp4")
    renamed.write_bytes(Path(partner).read_bytes())
    notes = [handlers.form.edit_form(values | {"counterpart": p}, "me")["note"]["text"]
             for p in (partner, str(renamed), None)]  # fmt: skip
    assert notes[:2] == ["", ""]  # a partner is known by its content
    assert "partner clip none instead of other.mp4" in notes[2]


def test_a_partner_that_means_nothing_is_refused_before_the_device(
    handlers, store, toy_mp4, make_video, partner, tmp_path
):
    words = tmp_path / "words.mp4"
    words.write_text("no video")
    picture = tmp_path / "picture.png"
    Image.new("RGB", (96, 96)).save(picture)
    store.models.backbone = None  # nobody gets as far
    values = asked(handlers, toy_mp4, DRAWN)
    for file, says in (
        (words, "The partner clip: the file is not a readable video"),
        (tmp_path / "gone.mp4", "The server no longer has the partner clip"),
    ):
        error = error_of(handlers, values | {"counterpart": str(file)})
        assert says in error, error
    real = asked(handlers, make_video(), DRAWN, counterpart=partner)
    other = real | {"backbone": "a/model", "counterpart": str(picture)}
    assert "4 frames of this clip stand against 1 of its partner" in error_of(handlers, other)
    longer = str(make_video("longer.mp4", frames=144))
    error = error_of(handlers, other | {"counterpart": longer})
    assert "Frame 4 of this clip is seen at 1.75 s, that of its partner at 10.5 s" in error


@pytest.mark.parametrize("leave", ["cleared", "replaced"])
def test_the_partner_goes_with_its_clip(handlers, store, toy_mp4, make_video, partner, leave):
    values = asked(handlers, toy_mp4, DRAWN, counterpart=partner)
    handlers.form.edit_form(values, "me")
    held = store.uploads._held
    assert Path(partner).resolve() in held
    path = {"cleared": None, "replaced": str(make_video())}[leave]
    updates = list(handlers.form.upload(path, None, "me"))
    assert updates[0]["counterpart"] is None
    session = store.sessions.open("me")
    assert not session.form.values.get("counterpart")
    assert Path(partner).resolve() not in held


def test_another_partner_takes_the_place_of_the_first(handlers, store, toy_mp4, partner):
    values = asked(handlers, toy_mp4, DRAWN, counterpart=partner)
    second = Path(partner).with_name("second.mp4")
    second.write_bytes(Path(partner).read_bytes())
    handlers.form.edit_form(values, "me")
    handlers.form.edit_form(values | {"counterpart": str(second)}, "me")
    assert set(store.uploads._held) & {Path(partner).resolve(), second.resolve()} == {
        second.resolve()
    }


def test_a_shared_gpu_is_given_the_partner_too(toy_spec, monkeypatch):
    clip = drawn_clip(toy_spec, "a.mp4", "0" * 64)
    given = []
    monkeypatch.setattr(pipeline, "run", lambda *_, **how: given.append(how["counterpart"]) or [])
    for partner in (replace(clip, name="b.mp4"), None):
        list(zerogpu._run_in_worker(zerogpu.RunJob(clip, RunSpec("?"), counterpart=partner)))
    assert given[0]().name == "b.mp4"
    assert given[1] is None


def test_a_clip_that_is_its_own_partner_stays_when_the_partner_goes(handlers, store, partner):
    """Gradio keeps equal uploads in one file."""
    held = store.uploads._held
    values = asked(handlers, partner, DRAWN, counterpart=partner)
    handlers.form.edit_form(values, "me")
    handlers.form.edit_form(values | {"counterpart": None}, "me")
    assert held[Path(partner).resolve()] == {"me"}
    handlers.form.edit_form(values, "me")
    list(handlers.form.upload(None, None, "me"))
    assert Path(partner).resolve() not in held


def test_a_clip_that_was_opened_as_a_trace_stays(handlers, store, partner):
    asked(handlers, partner, DRAWN)
    *_, last = handlers.form.open_trace(partner, "me")
    assert last["viewer"]["status"]["error"]
    assert Path(partner).resolve() in store.uploads._held


def test_no_former_partner_stays_in_memory(handlers, store, make_video):
    values = asked(handlers, make_video(), REAL)
    others = [str(make_video(f"other{i}.mp4")) for i in range(3)]
    for other in others:
        list(handlers.runs.run(values | {"counterpart": other}, "me"))
        kept = {clip.name for clip in store.sessions.open("me").cache.frames()}
        assert kept == {Path(values["video"]).name, Path(other).name}
