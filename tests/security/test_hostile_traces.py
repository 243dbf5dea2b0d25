"""Trace files made to break their readers: refused with a remedy, or read everywhere."""

import io
import json
import math
import zipfile
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from macd_studio.core.cli.main import main
from macd_studio.core.errors import OptionError, TraceError
from macd_studio.core.figures import FIGURES
from macd_studio.core.masking.masks import draw_masks
from macd_studio.core.traces.bundle import load, pack, save, unpack
from macd_studio.viewer.export import standalone
from tests.samples import sampled
from tests.small_trace import npy, put_together, read_everywhere, small_trace, taken_apart

CONTENT = pack(small_trace())
TOO_DEEP = json.loads("[" * 200 + "]" * 200)


def inside(node, path):
    """Where the path ends, and the last key."""
    *way, last = path.split(".")
    for step in way:
        node = node[int(step) if isinstance(node, list) else step]
    return node, int(last) if isinstance(node, list) else last


def at(path, value):
    """A change of one place in the manifest, told as "answers.1.second_views.0.view"."""

    def change(manifest, members):
        node, last = inside(manifest, path)
        node[last] = value

    return change


def without(path):
    def change(manifest, members):
        node, last = inside(manifest, path)
        del node[last]

    return change


def array(name, change):
    """A change of one array of the file."""

    def spoil(manifest, members):
        place = f"arrays/{name}.npy"
        old = np.lib.format.read_array(io.BytesIO(members[place]))
        members[place] = npy(change(old))

    return spoil


def gone(name):
    return lambda manifest, members: members.pop(f"arrays/{name}.npy")


def both(one, other):
    return lambda *parts: (one(*parts), other(*parts))


def spoiled(a, index, value):
    a = a.astype(np.float64) if isinstance(value, float) else a.copy()
    a[index] = value
    return a


SOUND = {
    ("question", str), ("status", str), ("groups", list), ("peak_memory_mb", float),
    ("clip", dict), ("backbone", dict), ("detector", dict), ("answers.1.second_views.0.view", dict),
    # of a newer version, which may hold more
    ("options", dict), ("options.ascent", dict), ("options.contrast", dict),
    ("counterfactual", dict),
}  # fmt: skip
REFUSED = {
    "floors are missing": gone("answer1_floor"),
    # objects in the place of others
    **{f"{key} is {value!r:.12}": at(key, value)
       for key in ("clip", "backbone", "detector", "options", "timings_ms", "shared", "versions",
                   "mask", "counts", "pieces", "answers", "tracks", "groups", "warnings",
                   "answers.1.second_views.0.view", "answers.1.votes", "options.ascent",
                   "options.contrast",
                   "model_frames", "counterfactual", "occlusion", "question", "status", "seed",
                   "peak_memory_mb")
       for value in (7.5, [[1]], "x", {"a": {"b": 1}})
       if (key, type(value)) not in SOUND
    },
    **{f"{key} is missing": without(key)
       for key in ("question", "clip", "options", "pieces", "mask", "answers.0.method",
                   "answers.0.votes", "tracks.0.id", "counts.frames", "timings_ms", "versions")},
    # values
    "clip.name is a list": at("clip.name", ["a"]),
    "clip.name is long": at("clip.name", "x" * 5000),
    "clip.duration is below 0": at("clip.duration", -1),
    "clip.width is true": at("clip.width", True),
    "backbone.name is a number": at("backbone.name", 3),
    "backbone.pixel_mean is words": at("backbone.pixel_mean", ["a", "b", "c"]),
    "detector.confidence is words": at("detector.confidence", "high"),
    "steps is words": at("options.ascent.steps", "many"),
    "r0 is null": at("options.ascent.r0", None),
    "r0 is a list": at("options.ascent.r0", []),
    "tau is words": at("options.ascent.tau", "x"),
    "alpha is an object": at("options.contrast.alpha", {}),
    "a deep unknown option": at("options.ascent.magic", TOO_DEEP),
    "a long unknown option": at("options.ascent.magic", "x" * 200_000),
    "an unknown part of many words": at("options.magic", ["x"] * 300_000),
    "a deep unknown key": at("answers.1.magic", TOO_DEEP),
    "edits are a number": at("options.edits", 5),
    "edits are numbers": at("options.edits", [3]),
    "an edit without fields": at("options.edits", [{"kind": "level"}]),
    "an edit of no track": at("options.edits", [{"kind": "level", "track": [], "level": 1}]),
    "an edit of a list": at("options.edits", [{"kind": []}]),
    "an edit of another group": at("options.edits.1.track", 9),
    "an edit of another frame": at("options.edits.2.frame", 9),
    "an edit of no level": at("options.edits.0.level", "x"),
    "too many edits": at("options.edits", [{"kind": "drop", "track": 1}] * 201),
    "a time is words": at("timings_ms.video", "slow"),
    "a time is null": at("timings_ms.video", None),
    "a time is true": at("timings_ms.video", True),
    "a time is an object": at("timings_ms.video", {}),
    "too many times": at("timings_ms", {str(i): 1.0 for i in range(100)}),
    "a share is words": at("shared.masks", "often"),
    "memory below 0": at("peak_memory_mb", -1.0),
    "seed below 0": at("seed", -1),
    "seed too large": at("seed", 2**64),
    "seed of a half": at("seed", 0.5),
    "an answer's alpha": at("answers.1.alpha", 1e300),
    "an answer's beta": at("answers.1.beta", None),
    "an answer's head": at("answers.1.head", "tail"),
    "an answer's time": at("answers.1.ms", "x"),
    "an answer's time is large": at("answers.1.ms", 1e300),
    "an answer's end": at("answers.1.finished", "no"),
    "an answer's views": at("answers.1.second_views", "yes"),
    "an answer's view without pictures or none": without("answers.1.second_views.0.shown"),
    "pictures of a view in words": at("answers.1.second_views.0.shown", "yes"),
    "an answer's tokens": at("answers.1.tokens", 10**9),
    "an answer's tokens below 0": at("answers.1.tokens", -1),
    "an answer's votes": at("answers.1.votes", {"no": "two"}),
    "an answer's kind": at("answers.1.second_views.0.view.kind", ["masks"]),
    "an answer's levels": at("answers.1.second_views.0.view.level", ["x"]),
    "an answer's grid": at("answers.2.second_views.0.view.grid", [1]),
    "an answer's grid of words": at("answers.2.second_views.0.view.grid", "abc"),
    "a deep view": at("answers.1.second_views.0.view.more", TOO_DEEP),
    "two answers of one method": at("answers.1.method", "baseline"),
    "an answer without a name": at("answers.1.method", ""),
    "a track's id is words": at("tracks.0.id", "one"),
    "a track's id is large": at("tracks.0.id", 2**63),
    "two tracks of one id": at("tracks.0.id", 2),
    "a track's label is a list": at("tracks.0.label", ["dog"]),
    "a track's label is long": at("tracks.0.label", "x" * 1000),
    "a track's confidence": at("tracks.0.confidence", 7),
    "a track's sightings": at("tracks.0.frames_seen", 1.5),
    "a stroke of words": at("tracks.1.brush.0.points", [["a", "b"]]),
    "a stroke of one number": at("tracks.1.brush.0.points", [[1]]),
    "a stroke's width": at("tracks.1.brush.0.radius", "wide"),
    "a stroke's erase": at("tracks.1.brush.0.erase", "no"),
    "an outline of words": at("tracks.0.outlines", [[[["a", "b"]]], None]),
    "an outline far outside": at("tracks.0.outlines", [[[[1e300, 1]]], None]),
    "an outline of booleans": at("tracks.0.outlines", [[[[True, False]]], None]),
    "outlines are an object": at("tracks.0.outlines", {"0": []}),
    "outlines are words": at("tracks.0.outlines", "ab"),
    "a deep outline": at("tracks.0.outlines", [TOO_DEEP, None]),
    "an empty frame group": at("groups", [[]]),
    "a frame group backwards": at("groups", [[1, 0]]),
    "a frame in two places": at("groups", [[0, 0]]),
    "a frame group of true": at("groups", [[False, True]]),
    "a frame group of floats": at("groups", [[0.5, 1]]),
    "more groups than counted": at("groups", [[0], [1]]),
    "counts of true": at("counts.groups", True),
    "counts below 0": at("counts.tracks", -2),
    "content outside": at("model_frames.content", [0, 0, 17, 16]),
    "content of words": at("model_frames.content", ["a", 0, 16, 16]),
    "stretch of 0": at("model_frames.stretch", 0),
    "the model's duration": at("model_frames.duration", -1),
    "losses of words": at("counterfactual.loss", "a"),
    "one loss of two": at("counterfactual.loss", None),
    "losses in a list": at("counterfactual", [0.5, 0.6]),
    "a verdict that is a number": at("occlusion.verdict", 5),
    "controls of another kind": at("controls", ["x"]),
    "a control of no name": at("controls.outcomes.0.name", "somebody"),
    "a control that is perhaps the same": at("controls.outcomes.0.same", 1),
    "a negative constant": at("controls.constant", -1),
    "controls at token -1": at("controls.index", -1),
    "a truth that is a list": at("truth", ["no"]),
    "a truth of a million letters": at("truth", "n" * 10**6),
    "a correlation that is words": at("occlusion.correlation", "x"),
    "a warning that is a number": at("warnings", [5]),
    "a piece that is a number": at("pieces.7", 5),
    "a piece is missing": without("pieces.9"),
    "a version that is a list": at("versions.python", [3, 11]),
    "schema is true": at("schema", True),
    "schema is a list": at("schema", [2]),
    "schema is large": at("schema", 10**18),
    # arrays
    "times backwards": array("times", lambda a: a[::-1]),
    "times are NaN": array("times", lambda a: a * np.nan),
    "times are inf": array("times", lambda a: a + np.inf),
    "times are large": array("times", lambda a: a + 1e300),
    "times are complex": array("times", lambda a: a + 1j),
    "times are words": array("times", lambda a: a.astype("U4")),
    "times are missing": gone("times"),
    "a box is NaN where it is seen": array("boxes", lambda a: spoiled(a, (0, 0, 1), math.nan)),
    "a box is turned around": array("boxes", lambda a: a[..., ::-1]),
    "a box is large": array("boxes", lambda a: spoiled(a, (1, 0, 2), 1e300)),
    "a state of 7": array("state", lambda a: spoiled(a, (0, 0), 7)),
    "states are floats": array("state", lambda a: a.astype(float)),
    "states are missing": gone("state"),
    "a strength is large": array("final_strength", lambda a: a + 1e300),
    "a level above 1": array("final_level", lambda a: a + 1),
    "a frame's level below 0": array("final_frame_level", lambda a: a - 2),
    "the end without frames": array("final_frame_strength", lambda a: a[:0]),
    "steps without frames": array("step_frame_strength", lambda a: a[:, :0]),
    "a step's loss of another shape": array("step_loss", lambda a: a[None]),
    "an occlusion report of another shape": array("occlusion_token_change", lambda a: a[0]),
    "an occlusion report that is a scalar": array("occlusion_token_change", lambda a: a[0, 0]),
    "an occlusion report is missing": gone("occlusion_gradient"),
    "the token is no candidate": both(
        at("pieces.8", "x"), array("answer1_token", lambda a: a + 1)
    ),
    "the token has no text": array("answer1_token", lambda a: a + 1),
    "the token is below 0": array("answer1_token", lambda a: a - 100),
    "the token is a float": array("answer1_token", lambda a: a.astype(float)),
    "a candidate is there twice": array("answer1_candidates", lambda a: a * 0 + 7),
    "a candidate is large": array("answer1_candidates", lambda a: a.astype(np.uint64) + 2**63),
    "counts of candidates": array("answer1_count", lambda a: spoiled(a, 0, -3)),
    "no candidates": array("answer1_count", lambda a: np.array([0, 6])),
    "a logit is large": array("answer1_base", lambda a: a.astype(float) + 1e300),
    "a logit above the partition": array("answer1_base", lambda a: a + 1000),
    "a partition is low": array("answer1_base_log_z", lambda a: a - 1e6),
    "the second view's logits": array("answer1_other0", lambda a: a + 1000),
    "the second view is missing": gone("answer1_other0"),
    "hidden tokens are floats": array("answer2_hidden", lambda a: a.astype(float)),
    "hidden tokens are too few": array("answer2_vision_tokens", lambda a: a + 100),
    "hidden tokens are none": array("answer2_vision_tokens", lambda a: a * 0),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_run_writes_is_refused(name):
    manifest, members = taken_apart(CONTENT)
    REFUSED[name](manifest, members)
    with pytest.raises(TraceError) as error:
        unpack(put_together(manifest, members))
    assert error.value.remedy
    assert len(str(error.value)) < 600
    str(error.value).encode()


BIDI = "a\u202eb\u2066c\x1b[2J\x9b\0d\r\ne</script>${x}"
SHOWN = {
    "as it was": lambda manifest, members: None,
    "half a pair in the clip's name": at("clip.name", "a\udcff.mp4"),
    "half a pair in a name of a value": at("timings_ms", {"a\ud800": 1.0}),
    "no duration told": without("clip.duration"),
    "nothing told of the clip": at("clip", {}),
    "nothing told of the backbone": at("backbone", {}),
    "nothing told of the options": at("options", {}),
    "half of the options told": without("options.ascent.gradient"),
    "options of another kind of number": at("options.ascent.steps", 1.0),
    "keys of a later version": at("clip", {"name": "x", "codec": {"a": [1, 2.5, None, True, "b"]}}),
    "a mask that no run takes": at("options.mask.frame_mask", "whole"),
    "no answers": at("answers", []),
    "no baseline": at("answers.0.method", "other"),
    "no occlusion report": at("occlusion", None),
    "no controls": at("controls", None),
    "a stopped run": at("status", "stopped: decode"),
    "a time below 0": at("answers.1.ms", -0.5),
    "an empty question": at("question", ""),
    "the largest seed": at("seed", 2**32 - 1),
    "the last piece is empty": at("pieces.9", ""),
    "floors are NaN": array("answer1_floor", lambda a: a * np.nan),
    "other byte order": array("times", lambda a: a.astype(">f8")),
    "half precision": array("answer1_base", lambda a: a.astype(np.float16)),
    **{f"strange text in {path}": at(path, BIDI)
       for path in ("question", "clip.name", "clip.title", "backbone.name", "backbone.prompt",
                    "detector.name", "tracks.0.label", "answers.1.text", "pieces.7", "status",
                    "answers.1.method", "versions.python")},
    "strange text in a warning": at("warnings", [BIDI]),
    "strange text in a vote": at("answers.1.votes", {BIDI: 1}),
    "strange text in a prompt for the detector": at("options.detect.prompt", "a\u202eb</script>"),
}  # fmt: skip


SAMPLE = (
    "half a pair in the clip's name", "half of the options told", "no baseline", "a stopped run",
    "floors are NaN", "strange text in tracks.0.label",
)  # fmt: skip


@pytest.mark.parametrize("name", sampled(SHOWN, SAMPLE))
def test_what_loads_is_read_everywhere(name, tmp_path, capsys):
    manifest, members = taken_apart(CONTENT)
    SHOWN[name](manifest, members)
    path = tmp_path / "t.macd"
    path.write_bytes(put_together(manifest, members))
    trace = load(path)
    for text in read_everywhere(trace)[:2]:
        assert not set(text) & set("\x1b\x9b\0\r\u202e\u2066")
    html = standalone(trace)
    html.encode()
    for figure in FIGURES:
        for backend in ("plotly", "matplotlib"):
            with suppress(OptionError):  # not every trace holds what is drawn
                trace.figure(figure, backend)
    draw_masks(trace.tracks, 2, (16, 16), trace.mask)
    assert unpack(pack(trace)).question == trace.question
    for flags in ([], ["--json"]):
        assert main(["show", str(path), *flags]) == 0
        out, err = capsys.readouterr()
        assert not err
        assert not set(out) & set("\x1b\x9b\0\r\u202e\u2066")
        if flags:
            assert json.loads(out)["question"] == trace.question


MANIFESTS = {
    "deep": b"[" * 200_000 + b"]" * 200_000,
    "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "a number of 400 digits": b'{"format": "macd-trace", "schema": 1' + b"0" * 400 + b"}",
    "a number of 5000 digits": b'{"format": "macd-trace", "schema": 1' + b"0" * 5000 + b"}",
    "a number that overflows": b'{"format": "macd-trace", "schema": 2, "seed": 1e999}',
    "a key twice": b'{"format": "macd-trace", "format": "macd-trace", "schema": 2}',
    "NaN": b'{"format": "macd-trace", "schema": 2, "seed": NaN}',
    "not UTF-8": b'{"format": "\xff"}',
    "UTF-16": json.dumps({"format": "macd-trace"}).encode("utf-16"),
    "half a pair in bytes": b'{"format": "\xed\xa0\x80"}',
    "a list": b"[]",
    "a number": b"3",
    "nothing": b"",
    "too large": b'{"a": "' + b"x" * (17 * 2**20) + b'"}',
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_that_is_no_sound_json_is_refused(name):
    _, members = taken_apart(CONTENT)
    with pytest.raises(TraceError) as error:
        unpack(put_together(MANIFESTS[name], members))
    assert error.value.remedy


def test_a_large_manifest_is_not_even_parsed(monkeypatch):
    """30 MB of JSON compress to less than a file may have."""

    def parse(*_, **__):
        raise AssertionError("it was parsed")

    monkeypatch.setattr("macd_studio.core.traces.container.json.loads", parse)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("manifest.json", b"[" + b"0," * 15_000_000 + b"0]")
    assert len(out.getvalue()) < 2**20
    with pytest.raises(TraceError, match="manifest is larger"):
        unpack(out.getvalue())


def test_outlines_that_are_too_many_for_a_file_are_left_out(monkeypatch):
    trace = small_trace()
    monkeypatch.setattr("macd_studio.core.traces.write.MAX_MANIFEST", 1000)
    again = unpack(pack(trace))
    assert [t.outlines for t in again.tracks] == [(), ()]
    assert "outlines were too many" in again.warnings[-1]
    assert len(again.tracks[1].brush) == 1


@pytest.mark.parametrize("path", ["x" * 5000, "a\0b", "FOLDER", "SECRET", "FIFO", ""])
def test_a_place_where_no_file_can_be_read_is_told(path, tmp_path, monkeypatch):
    import os
    from pathlib import Path

    if path == "FOLDER":
        path = tmp_path
    elif path == "FIFO":
        path = tmp_path / "fifo"
        os.mkfifo(path)
    elif path == "SECRET":
        path = tmp_path / "secret.macd"
        path.write_bytes(CONTENT)

        def refuse(*_):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(TraceError) as error:
        load(path)
    assert error.value.remedy
    assert len(str(error.value)) < 400


def test_saving_and_loading_keeps_everything(tmp_path):
    from tests.core.test_bundle import same

    trace = small_trace()
    same(trace, load(save(trace, tmp_path / "t.macd")))
    part = replace(trace, answers={}, occlusion=None)
    same(part, unpack(pack(part)))
