"""Evidence as options, as part of a trace file, as JSON, and by command line and call."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import macd_studio as macd
from macd_studio.core.cli.main import main
from macd_studio.core.errors import MacdError, OptionError, TraceError
from macd_studio.core.evidence.kinds import group_shares, mean_to, rank_correlation, shares, sum_to
from macd_studio.core.evidence.options import EvidenceOptions, read_evidence_options, read_layers
from macd_studio.core.report.evidence import as_json, as_text
from macd_studio.core.traces.bundle import pack, unpack
from macd_studio.core.whatif.workbench import Edit, Workbench
from tests.opening import AFTER
from tests.small_trace import npy, put_together, small_trace, taken_apart
from tests.summary_keys import documented

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "assets" / "examples" / "repaired.macd"


def test_a_trace_without_evidence_has_no_array_of_it():
    manifest, members = taken_apart(pack(replace(small_trace(), evidence=())))
    assert manifest["evidence"] == []
    assert not any("evidence" in name for name in members)


def changed(path, value):
    def change(manifest, members):
        *way, last = path
        row = manifest["evidence"][0]
        for key in way:
            row = row[key]
        row[last] = value

    return change


def with_array(array):
    def change(manifest, members):
        members["arrays/evidence0_map0_values.npy"] = npy(array)

    return change


GOOD = np.zeros((2, 3, 4), np.float32)
HOSTILE = {
    "no array": lambda manifest, members: members.pop("arrays/evidence0_map0_values.npy"),
    "other frames": with_array(GOOD[:1]),
    "another shape": with_array(GOOD[0]),
    "too many cells": with_array(np.zeros((2, 1, 600), np.float32)),
    "no cells": with_array(np.zeros((2, 0, 4), np.float32)),
    "not finite": with_array(np.where(GOOD == 0, np.nan, GOOD).astype(np.float32)),
    "too large": with_array((GOOD + 1e30).astype(np.float32)),
    "text": with_array(np.full((2, 3, 4), "x")),
    "shares of other objects": changed(("maps", 0, "objects"), [0.5]),
    "shares of other groups": changed(("maps", 0, "groups"), []),
    "a share above 1": changed(("maps", 0, "outside"), 1.5),
    "a view that is none": changed(("maps", 0, "view"), "both"),
    "a correlation above 1": changed(("maps", 0, "sanity"), 2),
    "no kind": changed(("maps", 0, "kind"), ""),
    "a curve of other steps": changed(("curves", "curves", 0, "deletion"), [0.5, 0.5]),
    "steps that do not rise": changed(("curves", "shares"), [0.0, 0.0, 1.0]),
    "steps that end early": changed(("curves", "shares"), [0.0, 0.5, 0.75]),
    "a curve above 1": changed(("curves", "curves", 0, "insertion"), [0.5, 0.5, 1.5]),
    "no maps": changed(("maps",), []),
    "a token below 0": changed(("target", "token"), -1),
    "a box outside": changed(("knock_outs", 1, "box"), [0, 0, 2, 1]),
    "a score that is text": changed(("score",), ["a", "b"]),
    "a probability above 1": changed(("lens", "video"), [2.0]),
    "too many": lambda manifest, _: manifest.update(evidence=manifest["evidence"] * 17),
    "no list": lambda manifest, _: manifest.update(evidence={}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_evidence_that_does_not_fit_is_refused(name):
    manifest, members = taken_apart(pack(small_trace()))
    HOSTILE[name](manifest, members)
    with pytest.raises(TraceError):
        unpack(put_together(manifest, members))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"token": 0}, "token is 0"),
        ({"kinds": ("gradients",)}, "no kind of evidence 'gradients'"),
        ({"answer": "vcd"}, "answer is 'vcd'"),
        ({"layers": "0-2"}, "no layer '0-2'"),
        ({"layers": "3-2"}, "no layer"),
        ({"layers": "a"}, "layers are 'a'"),
        ({"patches": "0x4"}, "patches is '0x4'"),
        ({"patches": "99x99"}, "patches is"),
        ({"knock_out": ("x",)}, "knock_out is 'x'"),
        ({"knock_out": ("²",)}, "knock_out is"),
        ({"boxes": ("0,0,1",)}, "not a box"),
        ({"boxes": ("0,0,nan,1",)}, "not a box"),
        ({"boxes": ("0.5,0,0.4,1",)}, "not a box"),
        ({"knock_out_layers": "9999999"}, "layers are"),
        ({"kindz": ()}, "Did you mean evidence.kinds|no option"),
    ],
)
def test_options_out_of_range_are_refused(options, said):
    with pytest.raises(OptionError, match=said):
        read_evidence_options(options)


def test_options_are_read_from_plain_values():
    chosen = read_evidence_options({"knock_out": [2, 3], "boxes": [[0, 0, 0.5, 1]], "kinds": []})
    assert chosen.track_ids() == (2, 3)
    assert chosen.regions() == ((0.0, 0.0, 0.5, 1.0),)
    assert chosen.chosen_kinds == ("gradient", "attention", "occlusion")
    assert EvidenceOptions(kinds=("gradient", "gradient")).chosen_kinds == ("gradient",)
    assert read_layers("2,4-5", 5) == (1, 3, 4)
    with pytest.raises(OptionError, match="1 to 4"):
        read_layers("5", 4)


@pytest.mark.parametrize("size", [(6, 8), (7, 5), (2, 3)])
def test_pooling_keeps_sums_and_means(size):
    values = np.random.default_rng(0).normal(size=(3, 12, 16))
    assert sum_to(values, size).sum() == pytest.approx(values.sum())
    flat = np.full((1, 12, 16), 0.25)
    np.testing.assert_allclose(mean_to(flat, size), 0.25)
    np.testing.assert_allclose(sum_to(values, (12, 16)), values)


def test_shares_and_correlation_of_maps_that_are_known():
    values = np.zeros((2, 2, 2))
    values[0, 0, 0], values[1, 1, 1] = 3.0, -1.0
    left = np.zeros((1, 2, 2, 2))
    left[0, :, :, 0] = 1
    assert shares(values, left) == ((0.75,), 0.25)
    assert shares(values * 0, left) == ((0.0,), 0.0)
    assert group_shares(values, ((0,), (1,))) == (0.75, 0.25)
    rising = np.arange(1.0, 9)
    assert rank_correlation(rising, -rising) == pytest.approx(1)
    assert rank_correlation(rising, 1 / rising) == pytest.approx(-1)
    assert rank_correlation(rising, np.ones(8)) is None
    sparse = np.where(rising > 4, rising, 0)
    assert rank_correlation(sparse, rising) == pytest.approx(1)


def test_json_and_text_say_what_the_record_holds():
    trace = small_trace()
    found = as_json(trace.evidence[0], trace)
    assert found["token"]["index"] == 2
    assert found["token"]["against"] == {"id": 5, "text": "yes"}
    values = trace.evidence[0].map("gradient").values
    np.testing.assert_allclose(found["maps"]["gradient"]["difference"]["frames"], 2 * values,
                               rtol=1e-2)  # fmt: skip
    assert found["knock_out"][0]["layers"] == [1, 2]
    assert found["maps"]["gradient"]["video"]["share"] == [
        {"track": 1, "share": 0.5}, {"track": 2, "share": 0.25}]  # fmt: skip
    text = as_text(trace.evidence[0], trace)
    for part in ("'no' rather than 'yes'", "2 cup 25%", "'no' → 'yes'", "Lens"):
        assert part in text


SEEN, MISSED = "bike", "none"
"""What MACD and the baseline say of that clip, in which the bike is tracked."""


@pytest.fixture(scope="module")
def measured(toyworld):
    trace = macd.load(EXAMPLE.with_name("frames.macd"))
    asked = next(t.id for t in trace.tracks if t.label == SEEN)
    return asked, macd.evidence(
        trace, 1, backbone=toyworld, against=MISSED, knock_out=asked, boxes=[[0, 0, 1, 1]],
        kinds=("gradient", "attention", "occlusion"),
    )  # fmt: skip


def test_a_call_measures_what_was_asked(measured):
    asked, trace = measured
    (found,) = trace.evidence
    assert (found.target.text, found.target.against_text) == (SEEN, MISSED)
    assert [m.kind for m in found.maps] == [
        k for k in ("gradient", "attention", "occlusion") for _ in range(2)
    ]
    index = [t.id for t in trace.tracks].index(asked)
    assert np.argmax(found.map("gradient").objects) == index
    assert np.argmax(found.map("occlusion").objects) == index
    assert found.map("attention").sanity == pytest.approx(1)
    first = trace.answers["macd"].tokens[0]
    row = {c: float(b) for c, b in zip(first.candidates.tolist(), first.base, strict=True)}
    lead = row[found.target.token] - row[found.target.against]
    assert found.score[0] == pytest.approx(lead, abs=1e-3)
    assert found.lens.video[-1] == pytest.approx(
        np.exp(row[found.target.token] - first.base_log_z), rel=1e-2
    )
    whole = found.knock_outs[1]
    assert whole.tokens == 36
    assert whole.probability[0] == pytest.approx(found.lens.video[-1], rel=1e-3)
    assert whole.before == trace.answers["baseline"].text


def test_the_same_token_is_replaced_and_a_change_by_hand_drops_it(measured, toyworld):
    _, trace = measured
    again = macd.evidence(trace, backbone=toyworld, against=MISSED, kinds="attention", lens=False)
    assert [m.kind for m in again.evidence[0].maps] == ["attention"] * 2
    other = macd.evidence(again, backbone=toyworld, kinds="attention", lens=False)
    assert len(other.evidence) == 2
    bench = Workbench(other, toyworld)
    *_, last = bench.change(Edit("label", track=other.tracks[0].id, label="wolf"))
    assert len(last.trace.evidence) == 2
    level = 0.5 if other.counterfactual.level[0] != 0.5 else 0.25
    *_, last = bench.change(Edit("level", track=other.tracks[0].id, level=level))
    assert last.trace.evidence == ()


def test_what_is_measured_without_maps_stands_beside_those_of_the_token(toyworld):
    trace = macd.load(EXAMPLE)
    asked = trace.tracks[0].id
    mapped = macd.evidence(trace, backbone=toyworld, kinds="gradient", lens=False)
    both = macd.evidence(mapped, backbone=toyworld, maps=False, knock_out=asked, lens=False)
    (found,) = unpack(pack(both)).evidence
    assert [m.kind for m in found.maps] == ["gradient", "gradient"]
    assert [k.track for k in found.knock_outs] == [asked]
    with pytest.raises(MacdError, match="nothing was measured of this token yet"):
        macd.evidence(mapped, backbone=toyworld, maps=False, against=MISSED)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"token": 99}, "has no token 99"),
        ({"against": AFTER}, "is the token itself"),
        ({"against": "a very long text of words"}, "tokens and no candidate"),
        ({"against": "zebra"}, "'zebra' is no word of this model and no candidate"),
        ({"knock_out": 99}, "there is no object 99"),
        ({"layers": "9"}, "Choose layers from 1 to 4"),
        ({"knock_out_layers": "5"}, "no layer"),
    ],
)
def test_what_is_not_in_the_trace_is_refused(options, said, toyworld):
    with pytest.raises(MacdError, match=said):
        macd.evidence(macd.load(EXAMPLE), backbone=toyworld, **options)


@pytest.mark.long
def test_the_command_prints_and_saves_it(tmp_path, capsys):
    out = tmp_path / "new.macd"
    words = ["evidence", str(EXAMPLE), "--token", "1", "--against", "none", "--kinds", "attention",
             "--curves", "--knock-out", "1", "--json", "--out", str(out)]  # fmt: skip
    assert main(words) == 0
    printed = json.loads(capsys.readouterr().out)
    saved = macd.load(out)
    assert printed == saved.to_dict()["evidence"][0]
    (frame, *_) = printed["maps"]["attention"]["video"]["frames"]
    assert len(printed["maps"]["attention"]["video"]["frames"]) == len(saved.frames)
    assert (len(frame), len(frame[0])) == (24, 24)
    assert {"before", "after"} <= printed["knock_out"][0].keys()
    assert documented("evidence[].") == keys_of(printed)


def keys_of(printed):
    kind = printed["maps"]["attention"]
    view = kind["video"]
    return {
        *printed,
        *(f"token.{k}" for k in printed["token"]),
        "maps.attention",
        *(f"maps.attention.{k}" for k in kind),
        *(f"maps.attention.video.{k}" for k in view),
        *(f"agreement[].{k}" for k in ("view", "kinds", "correlation")),
        *(f"knock_out[].{k}" for k in printed["knock_out"][0]),
        *(f"curves.{k}" for k in printed["curves"]),
        *(f"curves.kinds[].{k}" for k in printed["curves"]["kinds"][0]),
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--token", "0"], "token is 0"),
        (["--out", "/no/such/folder/x.macd"], "there is no folder"),
        (["--backbone", "some/model"], "made by the embedded backbone"),
        (["--knock-out", "9" * 5000], "knock_out"),
        (["--layers", "1-" * 200], "layers"),
        (["--against", "\0"], "against"),
    ],
)
def test_bad_words_are_one_clear_line(words, said, capsys):
    assert main(["evidence", str(EXAMPLE), *words]) == 2
    out, err = capsys.readouterr()
    assert said in err
    assert "Traceback" not in err
    assert not out
