"""Frames that no mask touches are read once: equal numbers, fewer rows through the vision tower."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from macd_studio.core.backbones import tower_rows as of
from macd_studio.core.backbones.contract import adapt_model
from macd_studio.core.macd import query_loss
from tests.fakes import clip
from tests.universal_models import parts, universal

QUESTION = "Is there a dog in the video?"
SAMPLED = {"llava_onevision", "gemma3"}
ONE_A_ROW = ("llava_onevision", "video_llava", "molmo2", "llava", "gemma3", "idefics3", "ovis2",
             "lfm2_vl", "llama4")  # fmt: skip
OTHERS = ("qwen3_5", "glm4v")
CHANGED = torch.tensor([False, True, False, False])

pytestmark = [pytest.mark.matrix, pytest.mark.filterwarnings("ignore::UserWarning")]


def some(names, kept):
    return [n if n in kept else pytest.param(n, marks=pytest.mark.long) for n in names]


def read(lm, encoded, video, **how):
    """What `how` gives of a view, and how many rows the tower read for it."""
    before = lm.tower.read
    return lm.prefill(encoded, video, **how), lm.tower.read - before


def faded(encoded, strength):
    """A view whose second frame alone is faded, with a graph back to `strength`."""
    return encoded.video * (1 - strength * CHANGED[:, None, None, None].float())


@pytest.fixture(params=some(ONE_A_ROW, SAMPLED))
def case(request):
    lm = universal(request.param)
    encoded = lm.encode(clip(4, 96), QUESTION)
    state, rows = read(lm, encoded, encoded.video)
    return lm, encoded, state, rows


def test_only_the_changed_frame_is_read_again(case):
    lm, encoded, state, rows = case
    other = faded(encoded, 0.5)
    alone, all_rows = read(lm, encoded, other)
    shared, few = read(lm, encoded, other, reuse=state)
    assert (all_rows, few) == (rows, rows // 4)
    torch.testing.assert_close(shared.logits, alone.logits, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(shared.query_logits, alone.query_logits, rtol=1e-5, atol=1e-5)
    same, none = read(lm, encoded, encoded.video, reuse=state)
    assert none == 0
    assert torch.equal(same.logits, state.logits)


def test_of_several_views_equal_frames_are_read_once(case):
    lm, encoded, _, rows = case
    views = torch.stack([encoded.video, faded(encoded, 0.5), encoded.video])
    both, read_rows = read(lm, encoded, views)
    assert read_rows == rows + rows // 4
    alone = torch.cat([lm.prefill(encoded, view).logits for view in views])
    torch.testing.assert_close(both.logits, alone, rtol=1e-5, atol=1e-5)


def test_the_gradient_is_that_of_reading_all(case):
    """At strength 0 too, where no row differs: a row that a mask reaches is read all the same."""
    lm, encoded, state, rows = case

    def slope(at, **how):
        strength = torch.tensor(at, requires_grad=True)
        before = lm.tower.read
        loss = query_loss(lm, encoded, faded(encoded, strength), **how)
        return loss.detach(), torch.autograd.grad(loss, strength)[0], lm.tower.read - before

    for at in (0.0, 0.3):
        loss, wanted, every = slope(at)
        told, found, few = slope(at, reuse=state, changed_frames=CHANGED)
        assert (every, few) == (rows, rows // 4)
        torch.testing.assert_close(told, loss, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-7)
        assert slope(at, reuse=state)[2] == rows  # not told which frames change: all of them may
        low = slope(at, low_memory=True, reuse=state, changed_frames=CHANGED)
        torch.testing.assert_close(low[1], wanted, rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize("name", some(ONE_A_ROW, SAMPLED))
def test_the_check_finds_families_that_read_frames_one_by_one(name):
    (found,) = (c for c in universal_checked(name).contract.checks if c.name == "frames")
    assert found.holds, found.found


@pytest.mark.parametrize("name", OTHERS)
def test_patches_in_one_row_are_read_whole(name):
    lm = universal_checked(name)
    (found,) = (c for c in lm.contract.checks if c.name == "frames")
    assert (found.holds, lm.tower) == (False, None)
    encoded = lm.encode(clip(4, 96), QUESTION)
    state = lm.prefill(encoded, encoded.video)
    other = faded(encoded, 0.5)
    shared, alone = (lm.prefill(encoded, other, reuse=z) for z in (state, None))
    assert torch.equal(shared.logits, alone.logits)


def universal_checked(name):
    model, processor = parts(name)
    return adapt_model(model, processor, universal(name).info)


def test_a_tower_whose_rows_change_each_other_is_found(monkeypatch):
    model, processor = parts("llava_onevision")
    tower = model.base_model.vision_tower
    own = type(tower).forward

    def mixed(self, pixels, *rest, **named):
        return own(self, pixels + pixels.mean(0), *rest, **named)

    monkeypatch.setattr(tower, "forward", mixed.__get__(tower), raising=False)
    lm = adapt_model(model, processor, universal("llava_onevision").info)
    (found,) = (c for c in lm.contract.checks if c.name == "frames")
    assert not found.holds
    assert lm.tower is None


class Tower(nn.Module):
    def forward(self, pixels, scale=None):
        return {"made": pixels.flatten(1) * (1 if scale is None else scale), "note": "as it is"}


@pytest.fixture
def tower():
    model = SimpleNamespace(vision_tower=Tower(), config=SimpleNamespace())
    return model.vision_tower, of.tower_rows(model)


def test_what_is_kept_is_bounded(tower, monkeypatch):
    run, _rows = tower
    with of.reading(None, keep=True) as plan:
        run(torch.rand(4, 3, 2, 2))
    assert plan.found is not None
    monkeypatch.setattr(of, "MAX_BYTES", 2 * 4 * 12 * 4 - 1)  # pixels and output of float32
    with of.reading(None, keep=True) as plan:
        run(torch.rand(4, 3, 2, 2))
    assert plan.found is None


def test_another_argument_of_a_row_makes_it_another(tower):
    run, rows = tower
    pixels, scale = torch.rand(4, 3, 2, 2), torch.ones(4, 1)
    with of.reading(None, keep=True) as plan:
        run(pixels, scale)
    other = scale.clone()
    other[2] = 3
    with of.reading(plan.found):
        out = run(pixels, scale=other)
    assert torch.equal(out["made"], pixels.flatten(1) * other)
    assert rows.read == 5
    with of.reading(plan.found):
        run(pixels[:3], scale[:3])  # of another number of frames: nothing can be taken over
    assert rows.read == 8


def test_hidden_states_that_the_model_does_not_take_are_not_kept():
    from transformers.modeling_outputs import BaseModelOutput

    class Deep(nn.Module):
        def forward(self, pixels):
            states = tuple(pixels.flatten(1) + i for i in range(5))
            return BaseModelOutput(last_hidden_state=states[-1], hidden_states=states)

    config = SimpleNamespace(vision_feature_layer=[-2, 1])
    model = SimpleNamespace(vision_tower=Deep(), config=config)
    of.tower_rows(model)
    pixels = torch.rand(3, 3, 2, 2)
    with of.reading(None, keep=True) as plan:
        model.vision_tower(pixels)
    other = pixels.clone()
    other[1] += 1
    with of.reading(plan.found):
        out = model.vision_tower(other)
    assert [z is None for z in out.hidden_states] == [True, False, True, False, True]
    assert torch.equal(out.hidden_states[-2], other.flatten(1) + 3)
    assert torch.equal(out.last_hidden_state, other.flatten(1) + 4)
