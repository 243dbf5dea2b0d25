import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from macd_studio.core.backbones.base import Prune
from macd_studio.core.cli.main import main
from macd_studio.core.errors import NotApplicable, OptionError
from macd_studio.core.media.video import read_clip
from macd_studio.core.methods import METHODS, contrast_of, find_methods, with_contrast
from macd_studio.core.options import (
    OWN_CONTRAST,
    AscentOptions,
    ContrastOptions,
    MaskOptions,
    RunOptions,
    TcdOptions,
    VideoOptions,
)
from macd_studio.core.run.order import decoding_views, run_method
from macd_studio.core.run.pipeline import run
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.table import alphas_bar, tcd_frames
from tests.fakes import BoxDetector, ByteLM, clip, tracks
from tests.families import tiny
from tests.samples import sampled

KNOWN = (
    "baseline macd vcd sid tcd ssacd season macd-fixed macd-fixed-frames macd-object "
    "macd-object-subsampled noise-global noise-object noise-frame macd-continuous macd-swept "
    "random-place random-objects mask-all reversed blank head-only prompt-bias yes-bias olm "
    "always-yes macd-answer macd-margin macd-measured"
).split()


def a_case(boxes=((0.1, 0.1, 0.5, 0.5), (0.4, 0.4, 0.9, 0.9)), options=None, frames=4):
    lm, seen = ByteLM(seed=5), clip(frames=frames)
    encoded = lm.encode(seen, "is there a dog?")
    found = tuple(tracks(*boxes, frames=frames))
    return MethodContext(lm, encoded, found, options or RunOptions())


OF_A_TOWER = {"ssacd": "vision features", "season": "where its evidence lies"}
"""Methods that need what ByteLM has not: they have tests of their own."""


def test_noise_follows_the_seed_of_the_run():
    one, same, other = (a_case(options=RunOptions(seed=seed)) for seed in (1, 1, 2))
    assert torch.equal(one.noise(), same.noise())
    assert not torch.equal(one.noise(), other.noise())
    assert not torch.equal(one.noise(), one.noise(1))


def test_every_method_is_there_and_names_its_source():
    assert set(METHODS) >= set(KNOWN), "traces and papers name these: keep them"
    assert all(len(m.source) > 20 for m in METHODS.values())
    with pytest.raises(OptionError, match="macdd"):
        find_methods(["macdd"])


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("boxes", [((0.1, 0.1, 0.5, 0.5), (0.4, 0.4, 0.9, 0.9)), ()])
def test_every_method_answers_with_and_without_objects(name, boxes):
    if name in OF_A_TOWER:
        with pytest.raises(NotApplicable, match=OF_A_TOWER[name]):
            run_method(a_case(boxes), METHODS[name])
        return
    found = run_method(a_case(boxes), METHODS[name])
    assert found.text
    json.dumps([second.view.as_dict() for second in found.second_views], allow_nan=False)


@pytest.mark.parametrize(
    "name", [n for n in METHODS if n not in ("prompt-bias", "yes-bias", "olm", "always-yes")]
)
def test_alpha_zero_is_the_baseline_for_every_two_view_method(name, toyworld, toy_clip):
    rule = ContrastOptions(alpha=0.0)
    options = RunOptions(contrast=rule)
    for view in METHODS[name].views:
        options = with_contrast(view, options, rule)
    case = a_case(options=options)
    if name in OF_A_TOWER:
        case = MethodContext(toyworld, toyworld.encode(toy_clip, "What is it?"), (), options)
    plain = run_method(case, METHODS["baseline"])
    answer = run_method(case, METHODS[name])
    assert not answer.alpha
    assert [t.token for t in answer.tokens] == [t.token for t in plain.tokens]


@pytest.mark.parametrize("view", [*OWN_CONTRAST, "macd"])
def test_a_view_keeps_its_own_contrast_apart(view):
    mine = ContrastOptions(alpha=3.5, beta=0.25, head="raw")
    changed = with_contrast(view, RunOptions(), mine)
    assert contrast_of(view, changed) == mine
    others = {*OWN_CONTRAST, "macd"} - {view}
    assert all(contrast_of(o, changed) == contrast_of(o, RunOptions()) for o in others)


def test_a_view_of_other_frames_is_refused():
    case = a_case()
    with pytest.raises(ValueError, match="must rise"):
        case.subset((2, 0))
    with pytest.raises(ValueError, match=r"context\.lm\.prefill"):
        case.prefill(case.encoded.video[:2])


def test_shared_work_is_done_once():
    case = a_case()
    for name in ("baseline", "macd", "reversed", "random-place"):
        run_method(case, METHODS[name])
    assert case.cache.shared == {"base prefill": 3, "masks": 1, "ascent": 2}
    assert case.cache.shared["base prefill"] >= 3


def a_view(case, method):
    return decoding_views(case, METHODS[method]).seconds[0].record


def test_levels_of_the_controls():
    case = a_case()
    macd, turned = (
        decoding_views(case, METHODS[n]).seconds[0].record for n in ("macd", "reversed")
    )
    swap = {0.0: 1.0, 1.0: 0.0, 0.75: 0.75}
    assert list(turned.level) == [swap[x] for x in macd.level]
    assert a_view(case, "mask-all").level == (1.0, 1.0)
    assert a_view(case, "macd-fixed").level == (0.75, 0.75)
    assert a_view(case, "macd-fixed").frame_level == ()
    kept = a_view(case, "macd-fixed-frames")
    assert kept.level == (0.75, 0.75)
    assert kept.frame_level == (0.75,) * len(macd.frame_level)
    moved = a_view(case, "random-place")
    assert moved.level == macd.level
    assert sorted(moved.frame_level) == sorted(macd.frame_level)
    for before, after in zip(case.tracks, moved.boxes, strict=True):
        a, b = before.boxes[0], np.array(after[0])
        sides = moved.random["scale"] * (a[2:] - a[:2])
        np.testing.assert_allclose(b[2:] - b[:2], sides, atol=1e-5)
    assert not any(
        np.allclose(t.boxes[0], b[0], atol=0.02)
        for t, b in zip(case.tracks, moved.boxes, strict=True)
    )
    other = a_view(case, "random-objects")
    assert sorted(other.level) == sorted(macd.level)
    assert other.random["control"] == "random-objects"
    for before, after in zip(case.tracks, other.boxes, strict=True):
        np.testing.assert_allclose(before.boxes[0], after[0])


def test_a_random_mask_of_another_area_is_a_warning(make_video, monkeypatch):
    odd = "macd_studio.core.masking.controls.compare_masks"
    monkeypatch.setattr(odd, lambda own, other: (0.5, 0.25))
    whole = BoxDetector((("wall", 0.9, (0.02, 0.02, 0.98, 0.98)),))
    options = RunOptions(video=VideoOptions(frames=4))
    *_, last = run(make_video(), "is it?", ByteLM, lambda: whole, options, methods=["random-place"])
    random = last.trace.answers["random-place"].second_views[0].view.random
    assert (random["control"], random["overlap"]) == ("random-place", 0.25)
    assert any("random-place hides 50.0 % of the pixels" in w for w in last.trace.warnings)


def test_vcds_schedule_against_its_vector():
    kept = alphas_bar()[500]
    assert np.sqrt(kept) == pytest.approx(0.86302, abs=1e-4)
    assert np.sqrt(1 - kept) == pytest.approx(0.50517, abs=1e-4)
    assert (np.diff(alphas_bar()) < 0).all()


def test_sids_count_and_tcds_subsets():
    assert Prune(2, 100 / 576).kept(576) == 100
    assert Prune(2, 0.0).kept(10) == 1
    assert [len(tcd_frames(n)) for n in (16, 12, 32, 8, 1)] == [4, 8, 8, 4, 1]
    assert tcd_frames(16) == (0, 5, 10, 15)
    assert tcd_frames(16, keep=16) == tuple(range(16))
    case = a_case(options=RunOptions(tcd=TcdOptions(keep=2)))
    assert a_view(case, "tcd").frames == (0, 3)


@pytest.fixture(scope="module")
def seen(toyworld, toy_mp4):
    return toyworld.encode(read_clip(toy_mp4), "Which animal is in the video?")


def test_rows_of_a_pruned_batch_choose_for_themselves(toyworld, seen):
    alone = toyworld.prefill(seen, seen.video, Prune(2, 0.17))
    other = toyworld.prefill(seen, seen.video.flip(0), Prune(2, 0.17))
    both = toyworld.step(toyworld.join([alone, other]), [20, 21])
    apart = [toyworld.step(s, [t]).logits[0] for s, t in ((alone, 20), (other, 21))]
    torch.testing.assert_close(both.logits, torch.stack(apart), rtol=0, atol=1e-4)


@pytest.mark.long
def test_compare_on_the_command_line(toy_mp4, capsys):
    words = ["compare", str(toy_mp4), "Is there a dog in the video?", "--frames", "4"]
    assert main([*words, "--methods", "all"]) == 0
    table = capsys.readouterr().out
    for name in METHODS:
        assert f"\n{name} " in table
    assert re.search(r"base prefill \d\d×", table)
    assert main([*words, "--json", "--search", "vote"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["answers"]) == {"baseline", "macd", "vcd", "sid", "tcd"}
    assert sum(found["answers"]["sid"]["votes"].values()) == 5
    assert main(["compare", str(toy_mp4), "what?", "--methods", "nonsense"]) == 2


@pytest.mark.long
def test_one_step_costs_four_prefills_and_objects_cost_nothing(toyworld, toy_mp4):
    from bench.trace import flop_ratios

    found = flop_ratios(toyworld, read_clip(toy_mp4))
    assert found["flops_macd1_over_base"] <= 4.3
    assert found["flops_k20_over_k1"] == pytest.approx(1, abs=0.02)


def toy_case(lm, seen_clip, found, **ascent):
    options = RunOptions(ascent=AscentOptions(**ascent))
    return MethodContext(lm, lm.encode(seen_clip, "What is in the video?"), found, options)


@pytest.fixture(scope="module")
def toy_clip(toy_mp4):
    return read_clip(toy_mp4)


def test_the_base_passes_gradient_needs_no_pass_of_its_own(toyworld, toy_clip, monkeypatch):
    found = tuple(tracks((0.1, 0.1, 0.5, 0.5), (0.5, 0.5, 0.9, 0.9), frames=8))
    read = []
    real = type(toyworld).encode_patches
    monkeypatch.setattr(
        type(toyworld),
        "encode_patches",
        lambda self, *a: (read.append(len(a[2])), real(self, *a))[1],
    )
    run_method(toy_case(toyworld, toy_clip, found, gradient="base"), METHODS["macd"])
    approximate = sum(read)
    read.clear()
    run_method(toy_case(toyworld, toy_clip, found), METHODS["macd"])
    assert read[:2] == [4, 4]  # the video, the ascent
    assert approximate <= 8


def test_half_size_reads_fewer_pixels_and_other_families_say_so(toyworld, toy_clip):
    found = tuple(tracks((0.1, 0.1, 0.5, 0.5), frames=8))
    case = toy_case(toyworld, toy_clip, found, gradient="half")
    (step,) = case.ascent_steps(case.options.mask, case.options.ascent)
    (exact,) = toy_case(toyworld, toy_clip, found).ascent_steps(MaskOptions(), AscentOptions())
    assert step.gradient.shape == exact.gradient.shape == (1,)
    assert step.frame_gradient.shape == exact.frame_gradient.shape == (4,)
    assert not np.allclose(step.gradient, exact.gradient)
    small = toyworld.shrink(toyworld.preprocess(toy_clip), (48, 48))
    assert small.pixels.shape == (8, 64, 64, 3)
    for name in ("internvl", "smolvlm"):
        lm = tiny(name)
        with pytest.raises(OptionError, match="one size only"):
            list(
                toy_case(lm, toy_clip, found, gradient="half").ascent_steps(
                    MaskOptions(), AscentOptions(gradient="half")
                )
            )


def test_frames_that_cannot_be_halved_say_so(toyworld, toy_clip):
    tiny_frames = replace(toy_clip, frames=toy_clip.frames[:, ::6, ::6])
    lm = tiny("qwen2_vl")
    found = tuple(tracks((0.1, 0.1, 0.5, 0.5), frames=8))
    case = toy_case(lm, tiny_frames, found, gradient="half")
    if min(case.encoded.video.shape[2:]) > 28:
        frames = lm.shrink(case.encoded.frames, (28, 28))
        case.encoded = lm.encode_frames(frames, "What?")
    with pytest.raises(OptionError, match="cannot be halved"):
        list(case.ascent_steps(MaskOptions(), case.options.ascent))


SECOND_VIEWS = ("macd", "vcd", "noise-object", "noise-frame", "random-place", "mask-all", "blank")


@pytest.mark.parametrize("fill", sampled(["mean", "noise", "blur", "additive"], ["noise"]))
@pytest.mark.parametrize("name", SECOND_VIEWS)
def test_what_is_shown_is_what_the_model_read(toyworld, toy_clip, monkeypatch, name, fill):
    """The very tensor that was prefilled, within half a grey level where it is in range."""
    case = toy_case(toyworld, toy_clip, tuple(tracks((0.1, 0.1, 0.5, 0.6), frames=8)))
    case.options = replace(case.options, mask=MaskOptions(fill=fill))
    read = []
    prefill = toyworld.prefill
    monkeypatch.setattr(
        toyworld, "prefill", lambda e, v, *a, **k: read.append(v) or prefill(e, v, *a, **k)
    )
    answer = run_method(case, METHODS[name])
    mean, std = (z[:, None, None] for z in (case.encoded.mean, case.encoded.std))
    rgb = (255 * (read[-1].float() * std + mean)).clamp(0, 255).permute(0, 2, 3, 1)
    assert answer.second_views[0].shown.shape == case.encoded.frames.pixels.shape
    assert float((rgb - torch.from_numpy(answer.second_views[0].shown)).abs().max()) <= 0.501
    assert (answer.second_views[0].shown != case.encoded.frames.pixels).any()


def test_sid_tells_which_tokens_its_second_view_did_not_see(toyworld, toy_clip):
    case = toy_case(toyworld, toy_clip, ())
    answer = run_method(case, METHODS["sid"])
    patches, rows, columns = answer.second_views[0].view.grid
    vision = patches * rows * columns
    assert (rows, columns) == (3, 3)
    assert vision == case.encoded.vision_tokens
    kept = Prune(2, case.options.sid.ratio).kept(vision)
    for step in answer.tokens:
        assert step.hidden.shape == (vision,)
        assert step.hidden.sum() == vision - kept
    assert run_method(case, METHODS["baseline"]).tokens[0].hidden is None


def test_tcd_reads_the_frames_that_the_other_view_read(toyworld, toy_clip):
    case = toy_case(toyworld, toy_clip, ())
    subset = case.subset((0, 2, 5, 7))
    assert torch.equal(subset.video, case.encoded.video[[0, 2, 5, 7]])
