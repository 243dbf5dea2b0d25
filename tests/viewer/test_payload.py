"""What is sent has the types that the scripts are checked against, and says constants once."""

import json
import re
from dataclasses import field, replace
from functools import cache

import numpy as np
import pytest

from macd_studio.core import types
from macd_studio.core.description import NAME, SHARE, Array
from macd_studio.core.errors import OptionError
from macd_studio.core.objects.edits import (
    LABEL_CHARACTERS,
    MAX_POINTS,
    SMALLEST_SIDE,
    validated_edit,
)
from macd_studio.core.objects.truth import OUTSIDE
from macd_studio.core.options import AscentOptions, ContrastOptions
from macd_studio.core.report.summary import as_json, as_text
from macd_studio.core.run.state import STAGES
from macd_studio.core.text.question import UNKNOWN_WORDS, negation_note
from macd_studio.core.traces.bundle import pack
from macd_studio.core.types import INTERPOLATED, LOST, SEEN
from macd_studio.core.validation import HELP, RULE, rules_of
from macd_studio.viewer import JS, describe, payload
from macd_studio.viewer.constants import FLIP_ALPHAS, FLIP_BETAS, constants
from tests.small_trace import small_trace, taken_apart


def interfaces(name):
    """Interface → what it extends, and its body, of one file of types."""
    text = re.sub(r"/\*.*?\*/", "", (JS / name).read_text(), flags=re.S)
    found = re.findall(r"export interface (\w+)(?: extends ([^{]+))? \{(.*?)\}\n", text, re.S)
    return {one: (parent, body) for one, parent, body in found}


def fields_of(body):
    """The fields of an interface's body, and those that may be missing."""
    while re.search(r"\{[^{}]*\}", body):
        body = re.sub(r"\{[^{}]*\}", "", body)
    fields = re.findall(r"(?:^|;)\s*(\w+)(\??):", body, re.M)
    return {f for f, _ in fields}, {f for f, mark in fields if mark}


@cache
def declared():
    """Interface → the names of its fields, and those that may be missing."""
    stored = {name: fields_of(body) for name, (_, body) in interfaces("trace.d.ts").items()}
    found = dict(stored) | {"EvidenceTarget": stored["Target"]}
    for name, (parent, body) in interfaces("types.d.ts").items():
        fields, optional = fields_of(body)
        if parent:
            inherited, more = stored[re.search(r"Stored\.(\w+)", parent)[1]]
            picked = set(re.findall(r'"(\w+)"', parent)) if "Pick<" in parent else inherited
            fields, optional = fields | (inherited & picked), optional | (more & picked)
        found[name] = fields, optional
    return found


def sent():
    """Interface → objects of it that Python sends."""
    trace = small_trace()
    files = {"trace": "a", "page": "b", "of": "run"}
    out = payload(trace, files=files, previous=trace, link="?example=x")
    shown = out["trace"]
    answers = [*shown["answers"].values(), shown["previous"]]
    steps = [step for answer in answers for step in answer["tokens"]]
    return {
        "Payload": [out],
        "Constants": [out["constants"]],
        "Slider": [out["constants"]["alpha"], out["constants"]["beta"]],
        "Status": [out["status"]],
        "Trace": [shown],
        "Search": [shown["decode"]],
        "ModelFrames": [shown["model"]],
        "MaskRecipe": [shown["mask"]],
        "Track": shown["tracks"],
        "Stroke": [s for t in shown["tracks"] for s in t["brush"]],
        "AscentStep": shown["steps"],
        "Level": shown["levels"],
        "Counterfactual": [shown["final"]],
        "Answer": answers,
        "ShownView": (views := [second for answer in answers for second in answer["second_views"]]),
        "View": [second["view"] for second in views],
        "TokenStep": steps,
        "StepWeights": [s["weights"] for s in steps if s["weights"]],
        "OcclusionReport": [shown["occlusion"]],
        "ControlReport": [shown["controls"]],
        "ControlOutcome": shown["controls"]["outcomes"],
        "Edit": shown["edits"],
        "Evidence": shown["evidence"],
        "EvidenceTarget": [one["target"] for one in shown["evidence"]],
        "EvidenceMap": [m for one in shown["evidence"] for m in one["maps"]],
        "Agreement": [a for one in shown["evidence"] for a in one["agreement"]],
        "KnockOut": [k for one in shown["evidence"] for k in one["knock_outs"]],
        "Lens": [one["lens"] for one in shown["evidence"]],
        "Curves": [one["curves"] for one in shown["evidence"]],
        "Curve": [c for one in shown["evidence"] for c in one["curves"]["curves"]],
        "Faithful": [one["faithful"] for one in shown["evidence"]],
        "FaithfulKind": [k for one in shown["evidence"] for k in one["faithful"]["kinds"]],
        "Enough": shown["enough"],
        "Piece": [p for one in shown["enough"] for p in one["pieces"]],
        "Given": [one["whole"] for one in shown["enough"]],
        "Smallest": [one["keep"] for one in shown["enough"]],
    }


@pytest.mark.parametrize("name", sent())
def test_what_is_sent_is_what_is_declared(name):
    fields, optional = declared()[name]
    objects = sent()[name]
    assert objects
    for told in objects:
        assert fields - optional <= set(told), name
        # of a view the scripts read only some fields
        assert name == "View" or set(told) <= fields, name


def test_layers_are_counted_from_1_as_people_read_them():
    (one,) = small_trace().evidence
    (shown,) = payload(small_trace())["trace"]["evidence"]
    assert shown["layers"] == [n + 1 for n in one.layers]
    told = [k["layers"] for k in shown["knock_outs"]]
    assert told == [[n + 1 for n in k.layers] for k in one.knock_outs]


def test_stages_and_states_are_the_cores():
    told = constants()
    assert [stage for stage, _ in told["stages"]] == list(STAGES)
    assert [told["states"][s] for s in (LOST, INTERPOLATED, SEEN)] == [
        "lost",
        "interpolated",
        "seen",
    ]
    css = (JS.parent / "viewer.css").read_text()
    assert all(f".mv-{state} " in css for state in told["states"])
    assert told["interpolated"] == INTERPOLATED


def test_bounds_of_changes_are_those_that_the_core_takes():
    bounds = constants()["edit"]
    assert (bounds["label"], bounds["points"]) == (LABEL_CHARACTERS, MAX_POINTS)
    label = {"kind": "label", "track": 1, "label": "x" * bounds["label"]}
    stroke = {"kind": "brush", "track": 1, "frame": 0, "radius": 0.1, "erase": False}
    points = [[0.5, 0.5]] * bounds["points"]
    side = SMALLEST_SIDE
    assert bounds["side"] == side
    box = {"kind": "add", "label": "x", "box": [0, 0, side, side]}
    for good, bad in (
        (label, label | {"label": label["label"] + "x"}),
        (stroke | {"points": points}, stroke | {"points": [*points, points[0]]}),
        (box, box | {"box": [0, 0, side, 0.9 * side]}),
    ):
        validated_edit(good)
        with pytest.raises(OptionError):
            validated_edit(bad)


def test_the_map_ends_where_the_sliders_end():
    told = constants()
    assert (FLIP_ALPHAS[0], FLIP_ALPHAS[-1]) == (0, told["alpha"]["max"])
    assert (FLIP_BETAS[0], FLIP_BETAS[-1]) == (0, told["beta"]["max"])
    assert list(FLIP_ALPHAS) == sorted(FLIP_ALPHAS)  # flipRow reads them off in this order
    assert told["largest_alpha"] >= told["alpha"]["max"]


def test_the_largest_values_are_those_of_the_options():
    rules, told = rules_of(ContrastOptions), constants()
    assert rules["alpha"].high == told["largest_alpha"]
    assert rules["beta"].high == told["largest_beta"]


def test_no_script_repeats_what_is_sent():
    told = constants()
    names = [name for _, name in told["stages"]] + told["colours"] + told["states"][:2]
    for path in [*JS.rglob("*.js"), *(JS.parents[1] / "macd_ui" / "js").glob("*.js")]:
        text = re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text(), flags=re.S)
        assert not [name for name in names if f'"{name}"' in text], path.name


def test_levels_and_their_names_come_from_the_trace():
    trace = small_trace()
    levels = replace(trace.counterfactual, level=np.array([0.4, 0.4]))
    other = replace(trace.options, ascent=AscentOptions(r0=0.4))
    trace = replace(trace, counterfactual=levels, options=other)
    shown = payload(trace)["trace"]
    assert [(z["value"], z["name"]) for z in shown["levels"]] == [
        (0, "kept"), (0.4, "partly masked"), (1, "masked")
    ]  # fmt: skip
    assert shown["final"]["by_hand"] == [True, False]  # though both have the level r0
    assert shown["final"]["frame_by_hand"] == [True]
    assert [row["by_hand"] for row in as_json(trace)["strengths"]] == [True, False]
    lines = [line for line in as_text(trace).splitlines() if "0.4 (partly masked" in line]
    assert ["set by hand" in line for line in lines] == [True, False]
    free = replace(trace, options=replace(other, ascent=AscentOptions(levels="continuous")))
    assert payload(free)["trace"]["levels"][1]["value"] is None


def test_what_follows_from_the_description_is_written():
    for path, text in describe.written().items():
        assert path.read_text(encoding="utf-8") == text, f"python -m viewer.describe: {path.name}"


def test_a_field_that_is_described_needs_no_other_place(monkeypatch):
    """It is written and sent, and stands in the types, the schema and the documents."""
    extended = [
        (types.TokenStep, "entropy", Array(), "of p"), (types.Track, "hue", SHARE, "its hue"),
        (types.Trace, "room", NAME, "where it was"),
    ]  # fmt: skip
    for kind, name, rule, help in extended:
        one = field(default=0.0 if name != "room" else "", metadata={RULE: rule, HELP: help})
        one.name, one._field_type = name, types.Trace.__dataclass_fields__["truth"]._field_type
        monkeypatch.setitem(kind.__dataclass_fields__, name, one)
        monkeypatch.setattr(kind, name, one.default, raising=False)
    assert {"  hue: number;", "  entropy: number;", "  room: string;"} <= set(
        describe.types().splitlines()
    )
    summary = describe.summary(json.loads(describe.SUMMARY.read_text(encoding="utf-8")))
    assert summary["tracks"][0]["hue"] == "its hue"
    assert summary["answers"]["macd"]["tokens"][0]["entropy"] == "of p"
    assert ("arrays/answer0_entropy.npy", "(tokens) of p") in describe.places()
    assert "room" in describe.json_schema()["properties"]
    shown, manifest = payload(small_trace())["trace"], taken_apart(pack(small_trace()))
    assert shown["room"] == manifest[0]["room"] == ""
    assert shown["tracks"][0]["hue"] == manifest[0]["tracks"][0]["hue"] == 0.0
    assert shown["answers"]["macd"]["tokens"][0]["entropy"] == 0.0
    assert "arrays/answer1_entropy.npy" in manifest[1]
    summary = as_json(small_trace())
    assert (summary["room"], summary["tracks"][0]["hue"]) == ("", 0.0)
    assert summary["answers"]["macd"]["tokens"][0]["entropy"] == 0.0


def test_a_trace_without_more_is_sent_too():
    trace = replace(
        small_trace(), tracks=(), steps=(), counterfactual=None, answers={}, occlusion=None,
        model_frames=None, status="stopped: track",
    )  # fmt: skip
    shown = payload(trace)["trace"]
    fields, optional = declared()["Trace"]
    assert fields - optional <= set(shown) <= fields


def test_words_that_the_model_does_not_know_stand_beside_the_question():
    long = "x" * 40
    for words, badge in (
        ("colour", "The model does not know “colour”"),
        (f"a, {long}, c, d", f"The model does not know “a”, “{'x' * 30}”, “c”, 1 other word"),
    ):
        trace = replace(small_trace(), warnings=(f"{UNKNOWN_WORDS}{words}",))
        assert not trace.outside_domain
        foreign = replace(trace, backbone=replace(trace.backbone, name="org/model"))
        assert payload(foreign)["trace"]["badge"] == badge
        assert payload(trace)["trace"]["badge"] == f"{badge}; it can be asked about 16 drawn things"
        demo = replace(trace, backbone=replace(trace.backbone, domain="drawn clips"))
        assert payload(demo)["trace"]["badge"] == OUTSIDE
        own = replace(trace, backbone=replace(trace.backbone, name="everyday"))
        told = payload(own)["trace"]["badge"]
        assert told.startswith(f"{badge}; it can be asked about 80 everyday things")
    assert payload(replace(trace, warnings=("something else",)))["trace"]["badge"] == ""


def test_that_a_negation_is_not_heeded_stands_beside_the_question():
    note = negation_note("Is there NO dog in the video?")
    badge = (
        "The model was trained on no question with “no”: it answers as if the word were not there"
    )
    assert payload(replace(small_trace(), warnings=("x", note)))["trace"]["badge"] == badge
    both = replace(small_trace(), warnings=(f"{UNKNOWN_WORDS}colour", note))
    assert payload(both)["trace"]["badge"].endswith(f" · {badge}")
    asked = "Is there {}dog? Answer with yes or with no."
    for plain in (
        asked.format("a "),
        "Isn't there a knot?",
        "Is it moving or not?",
        "A “no” sign?",
    ):
        assert negation_note(plain) == ""
    assert negation_note(asked.format("no ")) == note
