"""A list of clips recorded on real architectures with random weights, interrupted and shown."""

import json
from dataclasses import replace
from hashlib import sha256

import pytest

from macd_studio.core.errors import OptionError, QuestionError
from macd_studio.core.options import RunOptions, VideoOptions
from macd_studio.core.traces.bundle import load
from macd_studio.macd_ui.examples import examples_in
from macd_studio.macd_ui.gallery.record import LONGEST, main, read_list, record
from macd_studio.macd_ui.gallery.site import Site, write_site
from tests.fakes import BoxDetector, ByteLM
from tests.families import tiny

OPTIONS = RunOptions(video=VideoOptions(frames=4))


@pytest.fixture
def listed(tmp_path, make_video):
    """A list of two questions about one clip and one about another."""
    make_video("a clip.mp4")
    make_video("other.mp4", frames=12)
    about = {"licence": "CC BY 4.0", "source": "https://example.org/clip"}
    rows = [
        about | {"video": "a clip.mp4", "question": "Is there a cat?", "answer": "no",
                 "title": "A red half", "credit": "example | .org"},
        about | {"video": "a clip.mp4", "question": "Is there a dog?"},
        about | {"video": "other.mp4", "question": "Is there a cat?"},
    ]  # fmt: skip
    path = tmp_path / "list.json"
    path.write_text(json.dumps(rows))
    return path


@pytest.mark.long
@pytest.mark.parametrize("family", ["smolvlm", "qwen2_vl"])
def test_a_list_is_recorded_on_a_real_architecture(family, listed, tmp_path):
    out = tmp_path / "out"
    entries = read_list(listed)
    assert [e.name for e in entries] == ["a-clip-1", "a-clip-2", "other-1"]
    assert record(entries[:1], out, tiny(family), BoxDetector(), OPTIONS, ["vcd"]) == []
    trace = load(out / "a-clip-1.macd")
    assert trace.backbone.name == family
    assert set(trace.answers) == {"baseline", "macd", "vcd"}
    assert (out / "a-clip-1.mp4").read_bytes() == entries[0].video.read_bytes()
    (row,) = json.loads((out / "index.json").read_text())
    assert row["answers"] == {n: a.text for n, a in trace.answers.items()}
    assert row["licence"] == "CC BY 4.0"
    # ready for the page's list of examples, and for a gallery
    (example,) = examples_in(out)
    assert (example.title, example.answer) == ("A red half", "no")
    site = Site([out])
    write_site(site, tmp_path / "site")
    assert site.runs[0].title == "A red half"
    assert (
        "| a-clip-1.mp4 | CC BY 4.0 | https://example.org/clip | example \\| .org |"
        in (out / "CREDITS.md").read_text()
    )


@pytest.mark.long
def test_an_interrupted_recording_goes_on(listed, tmp_path):
    out, entries, lm, runs = tmp_path / "out", read_list(listed), ByteLM(), []

    def again(entries, options=OPTIONS):
        return record(entries, out, lm, BoxDetector(), options, (), runs.append)

    again(entries[:2])
    assert len(runs) == 2
    (out / "a-clip-2.macd").write_bytes(b"half a fi")
    assert again(entries) == []
    assert len(runs) == 4  # the damaged one and the new one
    assert len(json.loads((out / "index.json").read_text())) == 3
    again(entries, RunOptions(video=VideoOptions(frames=6)))
    assert len(runs) == 7  # other options are other runs


def test_a_clip_that_was_replaced_is_recorded_again(listed, tmp_path, make_video):
    out, entries, runs = tmp_path / "out", read_list(listed)[:1], []

    def again():
        record(entries, out, ByteLM(), BoxDetector(), OPTIONS, (), runs.append)

    again()
    again()
    make_video(entries[0].video.name, frames=12)
    again()
    assert len(runs) == 2
    kept = (out / "a-clip-1.mp4").read_bytes()
    assert load(out / "a-clip-1.macd").clip.sha256 == sha256(kept).hexdigest()
    assert kept == entries[0].video.read_bytes()


def test_what_is_published_names_no_folder_of_this_machine(listed, tmp_path):
    folder = tmp_path / "models" / "my model"
    folder.mkdir(parents=True)
    weights = tmp_path / "models" / "yolo.pt"
    weights.touch()
    lm, detector, out = ByteLM(), BoxDetector(), tmp_path / "out"
    lm.info, detector.name = replace(lm.info, name=str(folder)), str(weights)
    for _ in range(2):  # the second time it is not run again
        assert record(read_list(listed)[:1], out, lm, detector, OPTIONS) == []
    assert detector.calls == 1
    trace = load(out / "a-clip-1.macd")
    assert (trace.backbone.name, trace.detector.name) == ("my model", "yolo.pt")
    assert str(tmp_path) not in (out / "index.json").read_text()
    assert str(tmp_path).encode() not in (out / "a-clip-1.macd").read_bytes()


def test_a_clip_that_fails_does_not_stop_the_others(listed, tmp_path):
    entries = read_list(listed)
    entries[0].video.write_bytes(b"no video any more")
    out = tmp_path / "out"
    failed = record(entries, out, ByteLM(), BoxDetector(), OPTIONS)
    assert [line.split(":")[0] for line in failed] == ["a-clip-1", "a-clip-2"]
    assert [r["video"] for r in json.loads((out / "index.json").read_text())] == ["other-1.mp4"]
    assert not (out / "a-clip-1.mp4").exists()


@pytest.mark.parametrize(("change", "cause"), [
    ({"licence": ""}, "row 1 has no licence"),
    ({"source": None}, "row 1 has no source"),
    ({"video": "none.mp4"}, "there is no"),
    ({"title": 3}, "title is not text"),
    ({"truth": "x" * (LONGEST + 1)}, "truth is not text"),
    ({"tilte": "x"}, "unknown key 'tilte'"),
])  # fmt: skip
def test_a_bad_row_is_refused_before_anything_runs(listed, change, cause, capsys):
    rows = json.loads(listed.read_text())
    rows[0] |= change
    listed.write_text(json.dumps(rows))
    with pytest.raises(OptionError, match=cause):
        read_list(listed)
    assert main([str(listed), str(listed.parent / "out")]) == 2
    assert cause in capsys.readouterr().err
    assert not (listed.parent / "out").exists()


@pytest.mark.parametrize("text", ["", "{}", "[]", "[1]", "[" * 5000])
def test_what_is_no_list_is_refused(tmp_path, text):
    (tmp_path / "list.json").write_text(text)
    with pytest.raises(OptionError):
        read_list(tmp_path / "list.json")
    with pytest.raises(OptionError):
        read_list(tmp_path)


def test_a_question_is_checked_first(listed):
    rows = json.loads(listed.read_text())
    rows[2]["question"] = "   "
    listed.write_text(json.dumps(rows))
    with pytest.raises((QuestionError, OptionError)):
        read_list(listed)


@pytest.mark.parametrize("words", ["--options {", '--options {"magic":1}', "--methods mcad",
                                   "--backbone nobody/else/here"])  # fmt: skip
def test_bad_words_are_refused(listed, tmp_path, words, capsys):
    assert main([str(listed), str(tmp_path / "out"), *words.split()]) == 2
    assert capsys.readouterr().err.startswith("error: ")
