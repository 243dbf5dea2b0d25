"""The command line as a person runs it."""

import contextlib
import io
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from macd_studio.core.cli.main import main
from macd_studio.core.cli.reproduce import command
from macd_studio.core.records import Edit
from macd_studio.core.report.summary import as_text
from macd_studio.core.system.shipped import assets
from macd_studio.core.traces.bundle import load, save
from tests.patience import PATIENCE_S
from tests.small_trace import small_trace
from tests.summary_keys import documented

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def traced(toy_mp4, tmp_path_factory):
    """A trace of the command line: its file, what it printed, and its progress."""
    out = tmp_path_factory.mktemp("out") / "toy.macd"
    said, told = io.StringIO(), io.StringIO()
    words = ["trace", str(toy_mp4), "Is there a dog in the video?", "--out", str(out), "--json"]
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(told):
        assert main(words) == 0
    return out, json.loads(said.getvalue()), told.getvalue()


def test_a_trace_as_json(traced):
    out, found, progress = traced
    assert {t["label"] for t in found["tracks"]} == {"dog", "cup"}
    dog = next(t["id"] for t in found["tracks"] if t["label"] == "dog")
    strength = next(s for s in found["strengths"] if s["track"] == dog)
    assert strength["gradient"] != 0
    assert strength["level"] in (0, 0.75, 1)
    assert found["answers"]["baseline"]["text"] == "yes"
    assert len(found["times"]) == len(found["frame_levels"]) == found["frames"] == 8
    assert out.stat().st_size < 400_000
    for stage in ("Reading the video", "objects", "ascent", "saved"):
        assert stage in progress


def test_the_json_is_as_documented(traced, capsys):
    """Every key is in docs/summary-keys.json, and nothing is described that is not there."""
    out, found, _ = traced
    label = {"kind": "label", "track": found["tracks"][0]["id"], "label": "wolf"}
    words = ["--edit", json.dumps(label), "--measure", "--controls", "--json"]
    assert main(["edit", str(out), *words]) == 0
    edited = json.loads(capsys.readouterr().out)
    assert edited["options"]["edits"] == [label]
    assert main(["choices", str(out), "--json"]) == 0
    subsets = json.loads(capsys.readouterr().out)
    # of a measurement that was not made, and of a model that a server holds
    elsewhere = ("evidence[]", "enough[]", "answers.macd.tokens[].certificate")
    known = {key for key in documented() if not key.startswith(elsewhere)}
    actual = {*found, "options.edits", "answers.macd"}
    for part, row in (
        ("tracks[]", found["tracks"][0]),
        ("strengths[]", found["strengths"][0]),
        ("query_loss", found["query_loss"]),
        ("occlusion", edited["occlusion"]),
        ("occlusion.objects[]", edited["occlusion"]["objects"][0]),
        ("choice_map", subsets),
        ("choice_map.subsets[]", subsets["subsets"][0]),
        ("verdict", found["verdict"]),
        ("controls", edited["controls"]),
        ("controls.outcomes[]", edited["controls"]["outcomes"][0]),
        ("answers.macd", found["answers"]["macd"]),
        ("answers.macd.tokens[]", found["answers"]["macd"]["tokens"][0]),
    ):
        actual |= {f"{part}.{key}" for key in row}
    assert known == actual
    assert subsets["own"].keys() == subsets["subsets"][0].keys()


def test_presets_set_what_is_not_given():
    from macd_studio.core.cli.flags import options_of
    from macd_studio.core.cli.main import _parser
    from macd_studio.core.options import VCD_PRESETS, ContrastOptions

    def options(*more):
        return options_of(_parser().parse_args(["trace", "v", "q", *more]))

    assert options().contrast == ContrastOptions(1.0, 0.1)
    assert options("--preset", "eventhallusion").contrast == ContrastOptions(2.6, 0.0036)
    given = options("--preset", "eventhallusion", "--alpha", "1").contrast
    assert given == ContrastOptions(1.0, 0.0036)
    assert options().vcd == VCD_PRESETS["code"]
    late = options("--vcd", "late", "--vcd-beta", "0.3").vcd
    assert (late.step, late.contrast) == (900, ContrastOptions(1.0, 0.3))


@pytest.mark.real
def test_real_people_are_tracked_through_a_real_clip(real, tmp_path, capsys):
    out = tmp_path / "c.macd"
    question = "How many people are in the room?"
    weights = real / "detector" / "yolo11n_fused.pt"
    code = main(
        ["trace", str(real / "clips" / "classroom.mp4"), question, "--detector", str(weights),
         "--out", str(out), "--json"]
    )  # fmt: skip
    assert code == 0
    found = json.loads(capsys.readouterr().out)
    people = [t for t in found["tracks"] if t["label"] == "person"]
    whole = [t for t in people if all(b is not None for b in t["boxes"])]
    assert len(whole) >= 3
    for track in whole:  # nobody jumps: half a second moves a seated person little
        centres = np.array(track["boxes"]).reshape(-1, 2, 2).mean(1)
        assert np.abs(np.diff(centres, axis=0)).max() < 0.1
    assert not any("knows only the drawn toy world" in w for w in found["warnings"])
    assert main(["show", str(out)]) == 0


def test_the_trace_is_saved_even_if_nobody_reads_the_summary(monkeypatch, tmp_path, capsys):
    """As in `… --out clip.macd | head -1`."""
    source = ROOT / "assets" / "examples" / "repaired.macd"
    out = tmp_path / "again.macd"

    def closed(*_):
        raise BrokenPipeError

    monkeypatch.setattr("macd_studio.core.cli.measuring.edited", lambda args: load(source))
    monkeypatch.setattr("macd_studio.core.cli.main._print", closed)
    monkeypatch.setattr("macd_studio.core.cli.main.pipe_closed", lambda: 0)
    assert main(["edit", str(source), "--out", str(out)]) == 0
    assert load(out).question == load(source).question


@pytest.mark.long
def test_the_trace_is_saved_even_if_nobody_reads_the_progress(toy_mp4, tmp_path):
    """As in `… --out clip.macd 2>&1 | head -1`."""
    out = tmp_path / "toy.macd"
    read, write = os.pipe()
    os.close(read)
    try:
        ask = ("trace", toy_mp4, "Is there a dog in the video?", "--frames", 2, "--detector",
               "grid", "--out", out)  # fmt: skip
        done = subprocess.run([sys.executable, "-m", "core", *map(str, ask)], cwd=ROOT,
                              stdout=subprocess.PIPE, stderr=write, timeout=PATIENCE_S)  # fmt: skip
    finally:
        os.close(write)
    assert done.returncode == 0
    assert b"Baseline" in done.stdout or b"baseline" in done.stdout
    assert load(out).status == "complete"


@pytest.mark.parametrize(("more", "told"), [
    (("--tracks-fps", "10", "--columns", "pose"), ["--tracks-fps", "--columns"]),
    (("--tracks", "t.json", "--classes", "car", "--tracks-fps", "10"), ["--classes"]),
    (("--min-seen", "4", "--classes", "car"), []),
    (("--tracks", "t.json", "--min-seen", "9", "--max-tracks", "2"), ["--min-seen"]),
    (("--vcd-alpha", "3", "--delta", "5", "--alpha", "2"), ["--vcd-alpha", "--delta"]),
    (("--temperature", "0.3", "--beams", "2", "--search", "vote"), ["--beams"]),
    (("--fill-seed", "3", "--difference-step", "0.1", "--fill", "noise"), ["--difference-step"]),
])  # fmt: skip
def test_flags_without_effect_are_named(more, told, toy_mp4, capsys):
    ask = ["trace", str(toy_mp4), "Is there a dog?", "--device", "none", *more]
    assert main(ask) == 2
    lines = [x for x in capsys.readouterr().err.splitlines() if x.startswith("note: ")]
    assert [x.split()[1] for x in lines] == told


def test_closed_streams_are_no_error_and_take_nothing_to_the_other(tmp_path):
    source = ROOT / "assets" / "examples" / "repaired.macd"
    ask = f"{sys.executable} -m core export {source} --out {tmp_path}/tracks.json"
    for closed, other in (("1>&-", "stderr"), ("2>&-", "stdout")):
        done = subprocess.run(f"{ask} {closed}", shell=True, cwd=ROOT, capture_output=True,
                              text=True, timeout=PATIENCE_S)  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert getattr(done, other).startswith("  saved") is (other == "stderr")
        assert not done.stdout
    shown = subprocess.run(f"{sys.executable} -m core show {source} 1>&-", shell=True, cwd=ROOT,
                           capture_output=True, text=True, timeout=PATIENCE_S)  # fmt: skip
    assert (shown.returncode, shown.stderr) == (0, "")


@pytest.mark.parametrize(
    "module",
    [
        "macd_studio.core.cli.main:main",
        "macd_studio.evals.__main__:main",
        "macd_studio.ratings.cli:main",
        "macd_studio.macd_ui.settings:read_settings",
    ],
)
def test_every_command_tells_its_version(module, capsys):
    from importlib import import_module

    from macd_studio import __version__

    name, function = module.split(":")
    with pytest.raises(SystemExit) as ended:
        getattr(import_module(name), function)(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"macd-studio {__version__}\n"


def test_a_trace_and_a_clip_show_themselves_in_a_line(traced, toy_mp4):
    from macd_studio.core.media.video import read_clip

    trace = load(traced[0])
    for shown, name in ((trace, trace.clip.name), (read_clip(toy_mp4), toy_mp4.name)):
        assert name in repr(shown)
        assert len(repr(shown)) < 300
        assert "\n" not in repr(shown)


def test_long_names_of_objects_keep_the_columns():
    trace = small_trace()
    long = replace(trace, tracks=tuple(replace(t, label="row 1, column 1") for t in trace.tracks))
    lines = as_text(long).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("Object "))
    end = lines[at].index(" sightings") + len(" sightings")
    assert trace.tracks
    for line, track in zip(lines[at + 1 :], trace.tracks, strict=False):
        assert line[:end].endswith(f" {track.frames_seen}")
        assert line[end] == " "


def test_show_prints_the_command_that_runs_a_trace_again(capsys):
    """The one that the page shows."""
    example = assets() / "examples" / "repaired.macd"
    assert main(["show", str(example), "--again"]) == 0
    assert capsys.readouterr().out == f"{command(load(example))}\n"


def test_the_summary_names_what_edit_takes_and_what_was_measured():
    trace = load(assets() / "examples" / "controls.macd")
    lines = as_text(trace).splitlines()
    (masked,) = [line for line in lines if line.startswith("Frame mask")]
    groups = [g for g, level in enumerate(trace.counterfactual.frame_level) if level > 0]
    for frame in (f for g in groups for f in trace.groups[g]):
        assert f"{frame + 1} at 1" in masked
    assert masked.endswith(f"`edit --frames` calls them {', '.join(map(str, groups))})")
    same, drawn = trace.controls.random()
    assert f"Controls   {same} of {drawn} random masks of the same area do the same" in lines
    assert not any(
        x.startswith("Controls") for x in as_text(replace(trace, controls=None)).splitlines()
    )
    unmeasured = as_text(replace(trace, occlusion=None))
    assert "Controls" in unmeasured
    assert "Measured" not in unmeasured


def test_the_summary_says_of_what_its_figures_are():
    trace = load(assets() / "examples" / "controls.macd")
    mask = replace(trace.options, mask=replace(trace.options.mask, frame_mask="whole"))
    told = as_text(replace(trace, options=mask))
    assert "(whole frames; " in told
    one = replace(trace, groups=tuple((i,) for i in range(len(trace.frames))))
    level = np.zeros(len(trace.frames), np.float32)
    level[3] = 1
    one = replace(one, counterfactual=replace(trace.counterfactual, frame_level=level))
    assert "Frame mask frame 4 at 1 (outside the objects; " in as_text(one)
    assert "gradient at r0" not in as_text(replace(trace, steps=trace.steps[:1]))
    assert " gradient at r0 " in as_text(replace(trace, steps=trace.steps[:1] * 2))
    changed = replace(trace, edits=(Edit("label", track=trace.tracks[0].id, label="x"),))
    assert as_text(changed).rstrip().endswith(" of the run before the changes")


REFUSED = {
    "evidence --no-maps --knock-out 4": "nothing was measured of this token yet",
    "evidence --token 99": "the macd answer has no token 99. Choose from 1 to 2",
    "evidence --knock-out 77": "there is no object 77",
    "enough --token 99": "the baseline answer has no token 99",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_the_file_alone_refuses_loads_no_model(words, capsys):
    command, *rest = words.split()
    example = str(assets() / "examples" / "repaired.macd")
    assert main([command, example, *rest]) == 2
    told = capsys.readouterr().err
    assert REFUSED[words] in told
    assert "  load " not in told


@pytest.mark.parametrize("command", ["verdict", "choices"])
def test_a_map_of_beams_is_refused_before_a_model_is_loaded(command, tmp_path, capsys):
    trace = replace(load(assets() / "examples" / "repaired.macd"), choice_map=None)
    decode = replace(trace.options.decode, search="beam")
    beams = replace(trace, options=replace(trace.options, decode=decode))
    assert main([command, str(save(beams, tmp_path / "a.macd"))]) == 2
    told = capsys.readouterr().err
    assert "subsets are compared for greedy answers only" in told
    assert "  load " not in told


def test_a_pipe_is_told_from_a_name_that_is_not_there(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    assert main(["show", str(tmp_path / "pipe")]) == 2
    assert "'pipe' is no file. Save the trace to a file first" in capsys.readouterr().err
    assert main(["show", str(tmp_path / "other")]) == 2
    assert "there is no trace" in capsys.readouterr().err


@pytest.mark.parametrize("left_out", ["controls", "choice_map"])
def test_a_verdict_measures_what_is_missing(left_out, tmp_path, capsys):
    trace = replace(load(assets() / "examples" / "repaired.macd"), **{left_out: None})
    file, out = save(trace, tmp_path / "a.macd"), tmp_path / "b.macd"
    assert main(["verdict", str(file), "--device", "cpu", "--out", str(out)]) == 0
    assert "not measured:" not in capsys.readouterr().out
    assert getattr(load(out), left_out) is not None
