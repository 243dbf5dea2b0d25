"""Every family proven on its real classes with tiny random weights: gradients, spans, caches."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from macd_studio.core.backbones.base import Prune
from macd_studio.core.backbones.hf import HfVideoLM
from macd_studio.core.decoding.answers import decode
from macd_studio.core.errors import OptionError
from macd_studio.core.macd import query_loss
from macd_studio.core.masking.composite import mask_compositor
from macd_studio.core.masking.masks import draw_masks
from macd_studio.core.options import DecodeOptions, MaskOptions
from macd_studio.core.rules import Plain
from macd_studio.core.types import SEEN, Track
from tests.core.test_evidence import stay_in_double
from tests.families import EVERY, NAMES, make_clip, outer, tiny

pytestmark = pytest.mark.matrix
QUESTION = "Is there a dog in the video?"
AWKWARD = [
    "  two leading spaces?",
    "a\nnewline\nin it?",
    "🐕 狗 在 哪里？",
    "Is there a dog? Is there a dog?",
    "user assistant User Assistant: user",
    "seconds Frame Frame1: Frame from 00:01:",
    "?",
]


@pytest.fixture(params=EVERY)
def lm(request) -> HfVideoLM:
    return tiny(request.param)


@pytest.fixture
def encoded(lm):
    return lm.encode(make_clip(), QUESTION)


def process(lm, pictures):
    """The video processor on finished pictures (T, 3, H, W) in [0, 1]: normalised, laid out."""
    return lm.processor.video_processor(
        [pictures], do_resize=False, do_rescale=False, do_sample_frames=False,
        return_tensors="pt",
    )  # fmt: skip


def pixels_of(lm, out):
    found = out["pixel_values_videos" if "pixel_values_videos" in out else "pixel_values"]
    return found.flatten(0, 1) if lm.info.family == "internvl" else found


def test_pixels_equal_the_processors(lm):
    clip = make_clip()
    encoded = lm.encode(clip, QUESTION, fit="native")
    own = lm.processor(
        text=[encoded.prompt], videos=lm.nested([clip.frames.copy()]), do_sample_frames=False,
        return_tensors="pt",
    )[lm.pixels]  # fmt: skip
    ours = encoded.layout(encoded.video)
    torch.testing.assert_close(ours, own.reshape(ours.shape), rtol=0, atol=1e-6)
    shown = torch.from_numpy(encoded.frames.pixels).permute(0, 3, 1, 2) / 255
    again = (encoded.video * encoded.std[:, None, None]) + encoded.mean[:, None, None]
    torch.testing.assert_close(again.clamp(0, 1), shown, rtol=0, atol=0.003)


def test_a_blended_tensor_is_the_blended_video_preprocessed(lm, encoded):
    height, width = encoded.frames.size
    rng = torch.Generator().manual_seed(0)
    mask = torch.rand(len(encoded.frames.pixels), 1, height, width, generator=rng)
    std, mean = encoded.std[:, None, None], encoded.mean[:, None, None]
    picture = encoded.video * std + mean
    own = pixels_of(lm, process(lm, picture * (1 - mask) + mean * mask))
    ours = encoded.layout(encoded.video * (1 - mask))
    torch.testing.assert_close(ours, own.reshape(ours.shape), rtol=0, atol=2e-5)


@pytest.mark.parametrize("question", AWKWARD)
def test_the_query_span_is_the_question_and_nothing_else(lm, question):
    encoded = lm.encode(make_clip(), question)
    ids = encoded.input_ids[0]
    span = encoded.query.tolist()
    assert span == list(range(span[0], span[-1] + 1))
    assert lm.tokenizer.decode(ids[span]) == question
    after = lm.tokenizer.decode(ids[span[-1] + 1 :])
    assert after.startswith(("<|im_end|>", "<end_of_utterance>"))
    assert (ids[: span[0]] == lm.vision_token).sum() == (ids == lm.vision_token).sum()


@pytest.mark.parametrize("family", NAMES)
def test_the_gradient_of_r_against_central_differences(family, monkeypatch):
    lm = tiny(family, torch.float64)
    encoded = lm.encode(make_clip(), QUESTION)
    encoded = replace(encoded, video=encoded.video.double())
    stay_in_double(monkeypatch)
    boxes = np.array([[0.1, 0.1, 0.4, 0.5], [0.6, 0.5, 0.9, 0.9]], np.float32)
    state = np.full(4, SEEN, np.int8)
    tracks = [Track(k, "x", 0.9, np.tile(b, (4, 1)), state, 4) for k, b in enumerate(boxes)]
    options = MaskOptions()
    masks = draw_masks(tracks, 4, encoded.frames.size, options)
    view = mask_compositor(encoded, masks, tracks, options, torch.float64)
    groups = len(encoded.groups)
    # apart, so that no two strengths tie: there max() has a kink
    at = torch.tensor([0.75, 0.62] + [0.3 + 0.05 * g for g in range(groups)], dtype=torch.float64)

    def loss(z):
        return query_loss(lm, encoded, view.video(z[:2], z[2:]))

    r = at.clone().requires_grad_()
    (slope,) = torch.autograd.grad(loss(r), r)
    assert slope.abs().min() > 0
    for i in range(len(at)):
        h = torch.zeros_like(at)
        h[i] = 1e-5
        with torch.no_grad():
            central = (loss(at + h) - loss(at - h)) / 2e-5
        assert float(slope[i]) == pytest.approx(float(central), rel=1e-4, abs=1e-9)


def test_low_memory_gives_the_same_gradient_and_keeps_less(lm, encoded):
    weights = {p.untyped_storage().data_ptr() for p in lm.model.parameters()}

    def measured(low):
        kept = []

        def pack(tensor):
            if tensor.untyped_storage().data_ptr() not in weights:
                kept.append(tensor.numel() * tensor.element_size())
            return tensor

        video = encoded.video.clone().requires_grad_()
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            loss = query_loss(lm, encoded, video, low)
        (gradient,) = torch.autograd.grad(loss, video)
        return gradient, sum(kept)

    (normal, much), (low, little) = measured(False), measured(True)
    torch.testing.assert_close(normal, low, rtol=1e-4, atol=1e-7)
    assert little < 0.7 * much
    assert not any(m.training for m in lm.model.modules())
    assert not query_loss(lm, encoded, encoded.video).requires_grad


def test_stepwise_logits_equal_a_full_forward(lm, encoded):
    state = lm.prefill(encoded, encoded.video)
    forced = lm.tokens(" yes a dog")
    stepped = [state.logits[0]]
    for token in forced:
        state = lm.step(state, [token])
        stepped.append(state.logits[0])
    full = outer(lm, encoded, encoded.video, forced)[-len(stepped) :]
    torch.testing.assert_close(torch.stack(stepped), full, rtol=1e-3, atol=1e-3)


def test_the_prompt_read_in_parts_equals_the_models_own_forward(lm, encoded):
    full = outer(lm, encoded, encoded.video)
    state = lm.prefill(encoded, encoded.video)
    torch.testing.assert_close(state.query_logits[0], full[encoded.query - 1], rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(state.logits[0], full[-1], rtol=1e-3, atol=1e-4)
    asked = lm.query_logits(encoded, encoded.video)
    torch.testing.assert_close(asked, full[encoded.query - 1], rtol=1e-3, atol=1e-4)


def looked_at(lm, monkeypatch):
    """Notes how many temporal patches the vision tower sees and tokens the decoder reads."""
    seen = {"patches": 0, "tokens": 0}
    look, decoder = lm.encode_patches, lm.decoder.forward

    def noted_look(encoded, views, at):
        seen["patches"] += len(at)
        return look(encoded, views, at)

    def noted_read(*args, **kwargs):
        seen["tokens"] += kwargs["inputs_embeds"].shape[1]
        return decoder(*args, **kwargs)

    monkeypatch.setattr(lm, "encode_patches", noted_look)
    monkeypatch.setattr(lm.decoder, "forward", noted_read)
    return seen


@pytest.mark.parametrize("hidden", [(), (0,), (5,), (2, 3), (1, 5)])
def test_what_two_views_share_is_read_once_and_changes_nothing(lm, monkeypatch, hidden):
    encoded = lm.encode(make_clip(6), QUESTION)
    video = encoded.video.clone()
    video[list(hidden)] *= 0.3
    base = lm.prefill(encoded, encoded.video)
    alone = lm.prefill(encoded, video)
    seen = looked_at(lm, monkeypatch)
    shared = lm.prefill(encoded, video, reuse=base)
    groups = [g for g, frames in enumerate(encoded.groups) if set(frames) & set(hidden)]
    assert seen["patches"] == len(groups)
    length, slots = encoded.input_ids.shape[1], lm._slots(encoded)
    first = int(encoded.query[0]) - 1
    if groups:
        first = int(slots[groups[0], 0]) if groups[0] else 0
    assert seen["tokens"] == length - first
    torch.testing.assert_close(shared.logits, alone.logits, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(shared.query_logits, alone.query_logits, rtol=1e-3, atol=1e-4)
    token = lm.tokens("yes")[0]
    a, b = (lm.step(s, [token]).logits for s in (shared, alone))
    torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
    again = lm.step(base, [token]).logits  # the one it was taken from is as it was
    expected = lm.step(lm.prefill(encoded, encoded.video), [token]).logits
    torch.testing.assert_close(again, expected, rtol=1e-4, atol=1e-5)


QWEN = [n for n in NAMES if n.startswith("qwen")]


@pytest.mark.parametrize("family", QWEN)
def test_windows_taken_together_are_bit_by_bit_as_one_by_one(family):
    tower = copy.deepcopy(tiny(family).model.model.visual)
    plain = copy.deepcopy(tower)
    for module in plain.blocks.modules():
        module.__dict__.pop("forward", None)
    grid = torch.tensor([[3, 6, 10]])  # 56-pixel windows of it are of four sizes
    width = tower.patch_embed.proj.weight[0].numel()
    x = torch.randn(int(grid.prod()), width, generator=torch.Generator().manual_seed(0))
    found = []
    for each in (tower, plain):
        pixels = x.clone().requires_grad_()
        out = each(pixels, grid_thw=grid).pooler_output
        found.append((out.detach(), torch.autograd.grad(out.square().sum(), pixels)[0]))
    assert any("forward" in m.__dict__ for m in tower.blocks.modules())
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("family", QWEN)
def test_patches_are_embedded_as_by_the_convolution(family):
    embedding = copy.deepcopy(tiny(family).model.model.visual.patch_embed).double()
    generator = torch.Generator().manual_seed(0)
    for parameter in embedding.parameters():  # a fresh bias is zero, and would hide its loss
        parameter.data.normal_(generator=generator)
    x = torch.randn(5, embedding.proj.weight[0].numel(), generator=generator).double()
    found = embedding(x)
    del embedding.forward
    torch.testing.assert_close(found, embedding(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("family", QWEN)
def test_any_patches_of_any_views_are_read_in_the_order_asked(family):
    lm = tiny(family)
    encoded = lm.encode(make_clip(6), QUESTION)
    views = torch.stack([encoded.video, encoded.video * 0.5, encoded.video + 1])
    every = torch.cartesian_prod(torch.arange(3), torch.arange(3))
    whole = lm.encode_patches(encoded, views, every)
    for chosen in ([[2, 0], [0, 2], [0, 0]], [[1, 1]]):
        at = torch.tensor(chosen)
        for part, everything in zip(lm.encode_patches(encoded, views, at), whole, strict=True):
            expected = everything[at[:, 0] * 3 + at[:, 1]]
            torch.testing.assert_close(part, expected, rtol=1e-4, atol=1e-5)


def test_several_views_share_with_one(lm, encoded):
    late, whole = encoded.video.clone(), encoded.video * 0.5
    late[-1] *= 0.3
    views = torch.stack([late, encoded.video, whole])
    base = lm.prefill(encoded, encoded.video)
    shared, alone = lm.prefill(encoded, views, reuse=base), lm.prefill(encoded, views)
    torch.testing.assert_close(shared.logits, alone.logits, rtol=1e-3, atol=1e-4)
    only_late = torch.stack([late, encoded.video, late * 1.0])
    both, apart = lm.prefill(encoded, only_late, reuse=base), lm.prefill(encoded, only_late)
    torch.testing.assert_close(both.logits, apart.logits, rtol=1e-3, atol=1e-4)
    one = lm.prefill(encoded, late, reuse=base)
    torch.testing.assert_close(one.logits[0], alone.logits[0], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("low", [False, True])
def test_gradients_reach_touched_frames_as_without_sharing(lm, low):
    encoded = lm.encode(make_clip(6), QUESTION)
    base = lm.prefill(encoded, encoded.video)
    changed_frames = torch.tensor([False, False, True, True, False, True])

    def gradient(**how):
        video = (encoded.video * 0.9 ** changed_frames[:, None, None, None]).requires_grad_()
        loss = torch.nn.functional.cross_entropy(
            lm.query_logits(encoded, video, low, **how), encoded.input_ids[0, encoded.query]
        )
        return torch.autograd.grad(loss, video)[0]

    shared, alone = gradient(reuse=base, changed_frames=changed_frames), gradient()
    torch.testing.assert_close(shared[changed_frames], alone[changed_frames], rtol=1e-3, atol=1e-6)


def test_a_graph_from_the_prefill_itself(lm, encoded):
    video = encoded.video.clone().requires_grad_()
    state = lm.prefill(encoded, video, graph=True)
    targets = encoded.input_ids[0, encoded.query]
    loss = torch.nn.functional.cross_entropy(state.query_logits[0], targets)
    (one,) = torch.autograd.grad(loss, video)
    (other,) = torch.autograd.grad(query_loss(lm, encoded, video), video)
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-7)
    assert not state.logits.requires_grad
    assert not lm.step(state, [lm.tokens("yes")[0]]).logits.requires_grad


def test_several_views_in_one_pass_equal_one_by_one(lm, encoded):
    videos = torch.stack([encoded.video, encoded.video * 0.5, torch.zeros_like(encoded.video)])
    together = lm.prefill(encoded, videos)
    apart = lm.join([lm.prefill(encoded, v) for v in videos])
    torch.testing.assert_close(together.logits, apart.logits, rtol=1e-3, atol=1e-3)
    token = lm.tokens("yes")[0]
    a, b = (lm.step(s, [token] * 3).logits for s in (together, apart))
    torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)


def test_crop_and_step_again_equals_the_first_time(lm, encoded):
    state = lm.prefill(encoded, encoded.video)
    first, second = lm.tokens("yes")[0], lm.tokens("no")[0]
    one = lm.step(state, [first])
    two = lm.step(one, [second])
    again = lm.step(lm.crop(two, one.length), [second])
    torch.testing.assert_close(two.logits, again.logits, rtol=1e-4, atol=1e-4)


def test_two_videos_in_one_process_do_not_disturb_each_other(lm, encoded):
    options = Plain(), DecodeOptions(max_tokens=6)

    def said(between):
        tokens = []
        for step in decode(lm, lm.prefill(encoded, encoded.video), [], *options):
            tokens.append(step.token)
            between()
        return tokens

    other = lm.encode(make_clip(6, seed=3, step=0.4), "Where?")
    assert said(lambda: None) == said(lambda: lm.prefill(other, other.video))


@pytest.mark.parametrize("frames", [1, 3, 5])
def test_odd_frame_counts(lm, frames):
    encoded = lm.encode(make_clip(frames), QUESTION)
    assert sum(map(len, encoded.groups)) == frames == len(encoded.frames.pixels)
    assert torch.isfinite(lm.prefill(encoded, encoded.video).logits).all()
    assert query_loss(lm, encoded, encoded.video).isfinite()


def test_a_fully_masked_frame_is_seen_as_one(lm, encoded):
    video = encoded.video.clone()
    video[1] = 0
    state = lm.prefill(encoded, video)
    assert torch.isfinite(state.logits).all()
    nearly = lm.prefill(encoded, video + 1e-6 * (video == 0))
    torch.testing.assert_close(state.logits, nearly.logits, rtol=1e-2, atol=1e-2)
    assert not torch.allclose(state.logits, lm.prefill(encoded, encoded.video).logits)


def test_a_range_from_the_middle_of_a_file_is_seen_as_if_from_its_start():
    lm = tiny("qwen2_5_vl")  # its positions know seconds a patch; words of other families know more
    clip = make_clip()
    early, late = (
        lm.encode(replace(clip, times=clip.times + start), QUESTION) for start in (0.0, 100.0)
    )
    assert torch.equal(early.inputs["position_ids"], late.inputs["position_ids"])


def test_a_grid_that_is_not_square_keeps_its_sides(lm):
    encoded = lm.encode(make_clip(), QUESTION)
    if not lm.info.family.startswith("qwen"):
        return  # frames of a fixed square
    _, _, height, width = encoded.video.shape
    _, rows, columns = (int(n) for n in encoded.inputs["video_grid_thw"][0])
    assert rows * lm.processor.video_processor.patch_size == height
    assert columns * lm.processor.video_processor.patch_size == width


def test_frames_of_another_size_where_the_family_can(lm):
    wanted = (56, 84)
    frames = lm.preprocess(make_clip())
    if not lm.info.family.startswith("qwen"):
        with pytest.raises(OptionError, match="one size only"):
            lm.shrink(frames, wanted)
        return
    video = lm.processor.video_processor
    unit = video.patch_size * video.merge_size
    encoded = lm.encode_frames(lm.shrink(frames, wanted), QUESTION)
    assert encoded.video.shape[2:] == tuple(unit * round(n / unit) for n in wanted)
    assert lm.tokenizer.decode(encoded.input_ids[0, encoded.query]) == QUESTION
    full = outer(lm, encoded, encoded.video)
    state = lm.prefill(encoded, encoded.video)
    torch.testing.assert_close(state.logits[0], full[-1], rtol=1e-3, atol=1e-4)


def test_bfloat16_says_nearly_the_same(lm, encoded):
    half = tiny(lm.info.family, torch.bfloat16)
    other = half.encode(make_clip(), QUESTION)
    loss = float(query_loss(half, other, other.video))
    assert loss == pytest.approx(float(query_loss(lm, encoded, encoded.video)), rel=0.05)


def test_hidden_vision_tokens_change_the_answer_and_leave_no_hook(lm, encoded):
    plain = lm.prefill(encoded, encoded.video).logits
    pruned = lm.prefill(encoded, encoded.video, Prune(1, 0.2)).logits
    all_kept = lm.prefill(encoded, encoded.video, Prune(1, 1.0)).logits
    assert not torch.allclose(plain, pruned, atol=1e-4)
    torch.testing.assert_close(plain, all_kept, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(plain, lm.prefill(encoded, encoded.video).logits)
