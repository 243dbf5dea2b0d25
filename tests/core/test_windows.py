"""Attention that is computed anew: each layer's own mask, window and sinks."""

import pytest
import torch

from macd_studio.core.backbones import hooks
from macd_studio.core.backbones.contract import check_layers
from macd_studio.core.backbones.local import Watch
from macd_studio.core.backbones.qwen import _Plan
from macd_studio.core.errors import NotApplicable, UnsupportedBackbone
from tests.fakes import clip
from tests.families import NAMES, tiny
from tests.windowed import TEXTS, WINDOW, windowed

QUESTION = "Is there a red square in the video?"
WINDOWED = [*TEXTS, "qwen2_vl"]


@pytest.fixture
def fresh():
    """Name → a windowed family; what a test takes from it is given back."""
    given = []

    def make(name):
        lm = windowed(name)
        given.append((lm, lm.capabilities))
        return lm

    yield make
    for lm, capabilities in given:
        lm.capabilities, lm.reasons = capabilities, {}


@pytest.mark.parametrize("name", WINDOWED)
def test_layers_that_see_a_window_keep_it(name, fresh):
    lm = fresh(name)
    able = lm.capabilities
    found = check_layers(lm)
    assert found.failed() == ()
    assert {c.name for c in found.checks} == {"layout", "sid", "attention", "knock-out", "lens"}
    assert lm.capabilities == able
    assert lm.reasons == {}


@pytest.mark.parametrize("name", WINDOWED)
def test_what_lies_outside_a_window_has_no_attention_and_blocking_it_changes_nothing(name, fresh):
    lm = fresh(name)
    own = getattr(lm.decoder.config, "layer_types", None)
    kinds = own or ["sliding_attention"] * lm.depth
    layer = kinds.index("sliding_attention")
    encoded = lm.encode(clip(8, 96), QUESTION)
    start = lm.prefill(encoded, encoded.video)
    vision, last = start.inputs["vision"], [int(encoded.input_ids[0, -1])]
    outside = (vision <= start.prompt - 1 - WINDOW).nonzero()[:, 0].tolist()
    assert 0 < len(outside)
    again = lm.crop(start, start.prompt - 1)
    with lm.watching(start, Watch(attention=tuple(range(lm.depth)))) as seen:
        plain = lm.step(again, last).logits
    assert not seen.attention[layer][:, outside].any()
    with lm.watching(start, Watch(blocked=tuple(outside), blocked_layers=(layer,))):
        blocked = lm.step(lm.crop(start, start.prompt - 1), last).logits
    torch.testing.assert_close(blocked, plain, rtol=0, atol=1e-5)
    if "full_attention" in kinds:
        full = kinds.index("full_attention")
        with lm.watching(start, Watch(blocked=tuple(outside), blocked_layers=(full,))):
            hit = lm.step(lm.crop(start, start.prompt - 1), last).logits
        assert (hit - plain).abs().max() > 1e-4


def test_a_share_that_sinks_take_is_no_key_s(fresh):
    lm = fresh("gpt_oss")
    encoded = lm.encode(clip(4, 96), QUESTION)
    start = lm.prefill(encoded, encoded.video)
    rows = []
    attention = lm.decoder.layers[1].self_attn
    handle = attention.register_forward_hook(
        lambda module, _, given, __: rows.append(hooks.last_row(module, given)), with_kwargs=True
    )
    lm.step(lm.crop(start, start.prompt - 1), [int(encoded.input_ids[0, -1])])
    handle.remove()
    assert 0.1 < float(rows[0].sum()) < 0.99


@pytest.mark.parametrize("name", WINDOWED)
def test_masks_that_are_not_the_layer_s_are_a_lacking_capability(name, fresh, monkeypatch):
    lm = fresh(name)
    inner = hooks.added_mask
    monkeypatch.setattr(hooks, "added_mask", lambda own, *how: inner(None, *how))
    found = check_layers(lm)
    assert {c.name for c in found.failed()} >= {"sid"}
    assert "prune" not in lm.capabilities
    with pytest.raises(NotApplicable, match="every token kept the logits are off by"):
        lm.need("prune")


def test_a_decoder_of_another_kind_lacks_what_it_cannot_say(fresh, monkeypatch):
    """As one without the projections that a row of attention is computed from."""
    lm = fresh("mistral")
    monkeypatch.setattr(hooks, "last_row", lambda attention, named: attention.qkv(named))
    check_layers(lm)
    assert not {"prune", "attention"} & lm.capabilities
    assert "lens" in lm.capabilities
    assert "AttributeError" in lm.reasons["attention"]
    with pytest.raises(NotApplicable, match="AttributeError"):
        lm.need("attention")


@pytest.mark.parametrize("name", NAMES)
def test_every_family_keeps_it(name):
    assert check_layers(tiny(name)).failed() == ()


def test_another_prompt_than_the_processor_s_is_refused(monkeypatch):
    lm = tiny("qwen2_vl")
    inner = lm.native_frames
    monkeypatch.setattr(lm, "native_frames", lambda clip: inner(clip)[:, :28, :28])
    with pytest.raises(UnsupportedBackbone, match="where its own processor makes"):
        check_layers(lm)


def test_windows_are_those_of_the_boundaries_at_hand():
    plan = _Plan()
    first, other = torch.tensor([0, 4, 8]), torch.tensor([0, 2, 8])
    for bounds in (first, first, other, first):
        found = [one.tolist() for one in plan.windows(bounds)]
        ends = zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
        rows = [row for one in found for row in one]
        assert sorted(rows) == sorted(list(range(a, b)) for a, b in ends)
