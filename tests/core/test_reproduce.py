"""What the page says would run the same again does run the same again."""

import shlex
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest

from macd_studio.core.cli.flags import options_of
from macd_studio.core.cli.main import _parser, main
from macd_studio.core.cli.reproduce import command, snippet
from macd_studio.core.objects.edits import read_edit_flag, validated_edit
from macd_studio.core.options import (
    AscentOptions,
    ContrastOptions,
    DecodeOptions,
    DetectOptions,
    MaskOptions,
    RunOptions,
    VcdOptions,
    VideoOptions,
)
from macd_studio.core.run.pipeline import run
from macd_studio.core.traces.bundle import load, save
from macd_studio.core.whatif.workbench import EDIT_FIELDS, Edit, Workbench, read_edit
from tests.patience import PATIENCE_S

OPTIONS = RunOptions(
    mask=MaskOptions(swept=True, fill="black"),
    ascent=AscentOptions(steps=2, eta=0.5),
    contrast=ContrastOptions(2.0, 0.05),
    decode=DecodeOptions(max_tokens=9, seed=3),
    vcd=VcdOptions(900),
    seed=3,
)


@pytest.fixture(scope="module")
def trace(toy_mp4, toyworld, toy_detector):
    *_, last = run(
        toy_mp4, "What is in the video?", lambda: toyworld, lambda: toy_detector, OPTIONS,
        methods=("vcd",),
    )  # fmt: skip
    return last.trace


@pytest.mark.long
def test_the_snippet_computes_the_trace_again(trace, toy_mp4, toyworld, capsys):
    bench = Workbench(trace, toyworld)
    *_, last = bench.change(Edit("level", track=trace.tracks[0].id, level=0.0))
    shown = replace(last.trace, clip=replace(trace.clip, name=str(toy_mp4)))
    names: dict = {}
    exec(snippet(shown), names)
    assert capsys.readouterr().out.strip() == shown.answers["macd"].text
    again = names["trace"]
    assert again.options == last.trace.options
    assert again.counterfactual.loss == pytest.approx(last.trace.counterfactual.loss, abs=1e-6)


def test_what_a_model_computed_in_is_repeated(trace):
    other = replace(trace.backbone, dtype="bfloat16", device="cpu")
    assert "--dtype bfloat16" in command(replace(trace, backbone=other))
    assert "dtype='bfloat16'" in snippet(replace(trace, backbone=other))
    usual = replace(other, name="org/model", device="cuda")
    assert "--dtype" not in command(replace(trace, backbone=usual))


def test_a_plain_run_is_a_plain_command(trace):
    plain = replace(trace, options=RunOptions(), answers={})
    assert command(plain) == "python -m core trace toy.mp4 'What is in the video?'"
    edited = replace(plain, edits=(Edit("drop", track=2),))
    assert command(edited).splitlines() == [
        f"{command(plain)} --out toy.macd && \\",
        "python -m core edit toy.macd --drop 2 --out toy-edited.macd",
    ]


def test_a_bound_on_the_file_is_repeated_only_where_it_was_raised(trace):
    for megabytes, repeated in ((50.0, False), (9000.0, True)):
        options = replace(trace.options, video=VideoOptions(max_megabytes=megabytes))
        bounded = replace(trace, options=options)
        assert ("--max-megabytes" in command(bounded)) == repeated
        assert ("max_megabytes" in snippet(bounded)) == repeated


def every_kind_of_edit(trace):
    first, second = (t.id for t in trace.tracks)
    middle = trace.tracks[0].boxes[0].reshape(2, 2).mean(0)
    return [
        {"kind": "level", "track": first, "level": 0.3},
        {"kind": "frames", "track": 0, "level": 0.6},
        {"kind": "label", "track": second, "label": "Tässchen 'x'"},
        {"kind": "brush", "track": first, "frame": 0, "points": [[float(x) for x in middle]],
         "radius": 0.1, "erase": True},
        {"kind": "add", "label": "drawn", "box": [0.1, 0.1, 0.35, 0.4]},
        {"kind": "merge", "track": first, "other": second + 1},
        {"kind": "drop", "track": second},
        {"kind": "point", "label": "kite", "frame": 0, "points": [[float(x) for x in middle]],
         "segmenter": "grabcut"},
    ]  # fmt: skip


@pytest.mark.long
def test_the_commands_make_every_kind_of_edit_again(
    trace, toy_mp4, toyworld, tmp_path, monkeypatch
):
    """Of the run as its file keeps it: `point` looks into pictures, which it keeps with loss."""
    save(trace, tmp_path / "kept.macd")
    kept = load(tmp_path / "kept.macd")
    bench = Workbench(replace(kept, clip=replace(kept.clip, name=str(toy_mp4))), toyworld)
    for edit in every_kind_of_edit(trace):
        for _ in bench.change(read_edit(edit, bench.trace)):
            pass
    bench.redecode(2.5, 0.02)
    wanted = bench.measure_occlusion()
    assert {edit.kind for edit in wanted.edits} == set(EDIT_FIELDS)

    lines = command(wanted).split(" && \\\n")  # as they are called in the checkout
    monkeypatch.chdir(tmp_path)
    for line in lines:
        assert main(shlex.split(line)[3:]) == 0
    (out,) = tmp_path.glob("*-edited.macd")
    again = load(out)
    assert again.options == wanted.options
    assert again.edits == wanted.edits
    np.testing.assert_allclose(again.counterfactual.level, wanted.counterfactual.level, atol=1e-6)
    np.testing.assert_allclose(again.occlusion.loss_change, wanted.occlusion.loss_change, atol=1e-4)
    assert set(again.answers) == set(wanted.answers)
    for name, said in wanted.answers.items():
        assert again.answers[name].text == said.text
        assert again.answers[name].alpha == said.alpha
        for a, b in zip(again.answers[name].tokens, said.tokens, strict=True):
            by_id = dict(zip(a.candidates, a.base, strict=True))
            shared = [
                (by_id[c], x) for c, x in zip(b.candidates, b.base, strict=True) if c in by_id
            ]
            assert len(shared) > 10
            np.testing.assert_allclose(*zip(*shared, strict=True), atol=1e-4)
            if b.others:
                by_id = dict(zip(a.candidates, a.others[0], strict=True))
                np.testing.assert_allclose(by_id[b.token], b.others[0][list(b.candidates).index(
                    b.token)], atol=1e-4)  # fmt: skip


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
@pytest.mark.parametrize("hostile", ["'; exit 3 #", "$(exit 3)", "-x", "--help", 'a"b\\', "!1"])
def test_a_shell_reads_the_same_words(trace, hostile):
    edits = [*every_kind_of_edit(trace), {"kind": "label", "track": 1, "label": hostile}]
    shown = replace(
        trace,
        question=hostile,
        clip=replace(trace.clip, name=hostile),
        options=replace(OPTIONS, detect=DetectOptions(prompt=hostile)),
        edits=tuple(validated_edit(edit) for edit in edits),
    )
    spoken = 'python() { printf "%s\\0" "$@"; printf "\\n\\0"; }\n' + command(shown)
    done = subprocess.run(
        ["bash", "-c", spoken], capture_output=True, check=True, timeout=PATIENCE_S
    )
    first, second = (
        part.split("\0")[:-1] for part in done.stdout.decode().split("\n\0")[:2]
    )  # fmt: skip
    args = _parser().parse_args(first[2:])
    assert (args.video, args.question) == (hostile, hostile)
    assert options_of(args).detect.prompt == hostile
    args = _parser().parse_args(second[2:])
    assert [read_edit_flag(*pair) for pair in args.edits] == edits
