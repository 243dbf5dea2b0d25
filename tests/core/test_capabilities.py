"""What a model lacks: what needs it is left out with the reason, before anything is computed."""

from dataclasses import replace

import pytest

import macd_studio as macd
from macd_studio.core.backbones.contract import adapt_model, reads_times
from macd_studio.core.errors import NotApplicable
from macd_studio.core.evidence.kinds import KINDS
from macd_studio.core.methods import METHODS, depends_on_masks
from macd_studio.core.records import CAPABILITIES
from macd_studio.core.report.summary import as_text
from macd_studio.core.views.table import VIEWS, find_view
from macd_studio.core.whatif.edits import read_edit
from macd_studio.core.whatif.workbench import Workbench
from macd_studio.viewer.payload import payload, unavailable
from tests.fakes import BoxDetector, ByteLM, clip
from tests.families import NAMES, tiny
from tests.universal_models import universal

QUESTION = "Is there a dog in the video?"
SHORT = {"decode": {"max_tokens": 2}, "ascent": {"steps": 1}}
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


class Blind(ByteLM):
    """Reads and answers; whoever asks for its gradient fails in the middle."""

    capabilities = frozenset(CAPABILITIES) - {"gradient"}

    def query_logits(self, *_, **__):
        raise AssertionError("the gradient was asked for")


def two_objects():
    return BoxDetector((("dog", 0.9, (0.1, 0.1, 0.4, 0.5)), ("cup", 0.8, (0.5, 0.5, 0.9, 0.9))))


def run(lm, methods=(), **more):
    return macd.compare(
        clip(4, 32), QUESTION, list(methods), backbone=lm, detector=two_objects(), **SHORT, **more
    )


@pytest.fixture(scope="module")
def blind():
    return run(Blind(), [*METHODS])


def test_what_needs_no_gradient_runs_without_one(blind):
    lost = {name for name, method in METHODS.items() if {"gradient", "ascent"} & {*method.needs}}
    assert {"macd", "macd-object", "noise-global", "reversed"} <= lost
    assert not lost & {"macd-measured", "vcd", "tcd", "random-place", "mask-all", "blank", "olm"}
    assert lost <= set(blind.skipped)
    for name in lost:
        assert CAPABILITIES["gradient"] in blind.skipped[name]
    assert "macd-measured stands in its place" in blind.skipped["macd"]
    assert {"baseline", "macd-measured", "vcd", "random-place", "random-average-2"} <= set(
        blind.answers
    )
    assert blind.status == "complete"
    assert any("runs without ascent" in w for w in blind.warnings)
    assert not blind.steps
    (view,) = blind.answers["macd-measured"].second_views
    assert blind.counterfactual.level.tolist() == list(view.view.level)
    # the same answers as those of a model with a gradient
    whole = run(ByteLM(), ["macd-measured", "vcd"])
    for name in ("baseline", "macd-measured", "vcd"):
        assert blind.answers[name].text == whole.answers[name].text


@pytest.mark.parametrize("more", [{"lazy": True}, {"masks_only": True}])
def test_other_ways_to_run_need_no_gradient_either(more):
    trace = run(Blind(), (), **more)
    assert trace.status == "complete"
    assert set(trace.answers) == (set() if "masks_only" in more else {"baseline", "macd-measured"})


def test_its_evidence_is_measured_and_its_masks_are_not_trained_again(blind, tmp_path):
    lm = Blind()
    again = macd.load(macd.save(blind, tmp_path / "run.macd"))
    assert again.backbone.lacks == ("gradient", "images")[:1]
    assert "runs without ascent" in as_text(again)
    bench = Workbench(again, lm)
    list(bench.change(read_edit({"kind": "drop", "track": 1}, again)))  # levels are measured anew
    left = set(bench.trace.answers) - {"baseline", "macd-measured"}
    assert left
    assert not any(map(depends_on_masks, left))
    assert bench.trace.counterfactual.level.shape == (1,)
    assert unavailable(again).keys() == {"gradient", "change"}
    shown = payload(again)["trace"]
    assert shown["measurable"]
    assert shown["unavailable"]["gradient"] == CAPABILITIES["gradient"]


def test_occlusion_is_measured_without_a_gradient(toy_mp4, toy_detector):
    lm = universal("llava_onevision")
    lm.capabilities = frozenset({"rows", "logits", "maps", "batch"})
    trace = macd.trace(toy_mp4, QUESTION, backbone=lm, detector=toy_detector,
                       video={"frames": 4}, **SHORT)  # fmt: skip
    assert trace.backbone.lacks == (
        "gradient",
        "reuse",
        "prune",
        "attention",
        "knock-out",
        "lens",
        "times",
    )
    seen = macd.evidence(trace, token=1, backbone=lm, kinds=("occlusion-grid",), patches="2x2")
    assert [m.kind for m in seen.evidence[0].maps] == ["occlusion-grid"] * 2
    assert seen.evidence[0].target.answer == "baseline"
    with pytest.raises(NotApplicable, match="cannot be differentiated"):
        macd.evidence(trace, token=1, backbone=lm, kinds="gradient")
    assert unavailable(trace).keys() == {"gradient", "attention", "knock-out", "change"}


def test_what_a_view_needs_is_said_where_it_is_listed():
    """With a capability missing a view fails at once where it says so, and only there."""
    for missing in ("gradient", "prune"):
        kind = type(
            "MissingFeature", (ByteLM,), {"capabilities": frozenset(CAPABILITIES) - {missing}}
        )
        views = sorted(set(VIEWS) - {"video", "prompt-bias"})
        methods = [f"{view}+linear" for view in views]
        trace = run(kind(), methods)
        for name in methods:
            view = name.partition("+")[0]
            named = METHODS.get(view, METHODS["baseline"]).needs
            needs = missing in named or (missing == "gradient" and "ascent" in named)
            assert (CAPABILITIES[missing] in trace.skipped.get(name, "")) == needs, name
        assert find_view("sid")
    assert {k.needs for k in KINDS.values()} - {""} <= set(CAPABILITIES)


@pytest.mark.parametrize("name", NAMES)
def test_families_say_whether_they_are_told_times(name):
    lm = tiny(name)
    assert ("times" in lm.capabilities) == reads_times(lm, lm.preprocess(clip(8, 96)))


def test_a_way_of_its_own_for_pictures_is_missed_for_pictures_alone():
    assert ByteLM().lacks(picture=True) == ("images",)
    assert ByteLM().lacks(picture=False) == ()


def test_other_models_are_asked_whether_they_are_told_times():
    for name, told in (("llava_onevision", False), ("qwen3_5", True)):
        lm = universal(name)
        checked = adapt_model(lm.model, lm.processor, lm.info)
        assert ("times" in checked.capabilities) == told
        assert "images" in checked.capabilities


def test_the_summary_names_the_device_and_whose_memory_it_is(blind):
    text = as_text(blind)
    assert "Device     cpu, float64\n" in text
    assert f"(peak memory of the process {blind.peak_memory_mb:.0f} MB)" in text
    gpu = replace(blind.backbone, device="cuda", device_name="NVIDIA X", dtype="bfloat16")
    text = as_text(replace(blind, backbone=gpu))
    assert "Device     cuda (NVIDIA X), bfloat16\n" in text
    assert "(peak memory of the GPU" in text
