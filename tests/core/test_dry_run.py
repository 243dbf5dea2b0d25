"""Every family on a GPU that is not there: whatever stays on the CPU by mistake raises."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from macd_studio.core.backbones.base import Prune
from macd_studio.core.backbones.foreign import foreign_code
from macd_studio.core.backbones.hf import HfVideoLM
from macd_studio.core.backbones.host import to_host
from macd_studio.core.backbones.load import adapter_of
from macd_studio.core.decoding.answers import decode
from macd_studio.core.errors import UnsupportedBackbone
from macd_studio.core.methods import METHODS
from macd_studio.core.options import (
    AscentOptions,
    ContrastOptions,
    DecodeOptions,
    MaskOptions,
    RunOptions,
    SidOptions,
)
from macd_studio.core.planning.dry_run import dry_run
from macd_studio.core.rules import Linear, Plain
from macd_studio.core.run.order import run_method
from macd_studio.core.types import SEEN, Track
from macd_studio.core.views.context import MethodContext
from macd_studio.core.whatif.occlusion import measure
from tests.families import NAMES, make_clip, tiny
from tests.samples import sampled

QUESTION = "Is there a dog in the video?"
BF16 = torch.bfloat16
SAMPLE = ("qwen2_5_vl",)
"""Of the families, the one that every run of the tests takes; the others take the long suite."""


def tracks(frames=4):
    boxes = np.array([[0.1, 0.1, 0.4, 0.5], [0.6, 0.5, 0.9, 0.9]], np.float32)
    state = np.full(frames, SEEN, np.int8)
    return tuple(
        Track(k, "dog", 0.9, np.tile(b, (frames, 1)), state, frames) for k, b in enumerate(boxes)
    )


def place(family, device) -> HfVideoLM:
    """The family's tiny model in bfloat16, moved to the device as loading moves it."""
    lm = tiny.__wrapped__(family, BF16)
    return adapter_of(family)(lm.model.to(device), lm.processor, lm.info)


def case_of(lm, **ascent) -> MethodContext:
    options = RunOptions(
        ascent=AscentOptions(**ascent),
        decode=DecodeOptions(max_tokens=3),
        sid=SidOptions(layer=1, ratio=0.5),
    )
    return MethodContext(lm, lm.encode(make_clip(), QUESTION), tracks(), options)


@pytest.fixture(
    params=[n if n in SAMPLE else pytest.param(n, marks=pytest.mark.long) for n in NAMES]
)
def family(request):
    return request.param


def test_placing_encoding_and_decoding_stay_on_the_device(family):
    with dry_run("cuda"):
        lm = place(family, "cuda")
        assert lm.device.type == "cuda"
        encoded = lm.encode(make_clip(), QUESTION)
        for tensor in (encoded.input_ids, encoded.video, encoded.gather, *encoded.inputs.values()):
            assert tensor.device.type == "cuda"
        base = lm.prefill(encoded, encoded.video)
        assert base.cache.layers[0].keys.device.type == "cuda"
        assert base.cache.layers[0].keys.dtype == BF16
        assert base.logits.shape == (1, lm.model.config.get_text_config().vocab_size)
        both = lm.prefill(encoded, torch.stack([encoded.video, encoded.video * 0]), reuse=base)
        joined = lm.join([base, lm.select(both, [1])])
        stepped = lm.step(joined, [5, 5])
        again = lm.step(lm.crop(stepped, stepped.prompt), [6, 6])
        assert again.logits.device.type == "cuda"
        assert again.length == stepped.length
        contrast, options = Linear(ContrastOptions()), DecodeOptions(max_tokens=3)
        assert len(list(decode(lm, base, [lm.select(both, [0])], contrast, options))) == 3
        nucleus = replace(options, search="sample")
        assert len(list(decode(lm, base, [], Plain(), nucleus))) == 3


def test_pruning_stays_on_the_device(family):
    with dry_run("cuda"):
        lm = place(family, "cuda")
        encoded = lm.encode(make_clip(), QUESTION)
        base = lm.prefill(encoded, encoded.video)
        pruned = lm.prefill(encoded, encoded.video, Prune(1, 0.5), reuse=base)
        assert lm.step(pruned, [5]).logits.device.type == "cuda"


@pytest.mark.parametrize("fill", sampled(["mean", "black", "blur", "noise", "additive"], ["noise"]))
def test_views_stay_on_the_device(fill):
    with dry_run("cuda"):
        lm = place("qwen2_5_vl", "cuda")
        case = case_of(lm)
        for fusion in ("max", "confidence", "average", "or"):
            view = case.masks(MaskOptions(fill=fill, fusion=fusion))
            levels = [torch.ones(n, device="cuda") for n in (2, len(case.encoded.groups))]
            assert view.video(*levels).device.type == "cuda"
        # the model reads every one of these views alike
        state = case.prefill(case.composite(view, np.ones(2), np.ones(len(case.encoded.groups))))
        assert state.logits.device.type == "cuda"


def test_the_occlusion_report_stays_on_the_device(family):
    with dry_run("cuda"):
        lm = place(family, "cuda")
        case = case_of(lm)
        view = case.masks(case.options.mask)
        found = measure(lm, view, case.base, [5, 6], np.ones(2), np.ones(2))
    assert found.token_change.shape == (2, 2)


@pytest.mark.long
@pytest.mark.parametrize("gradient", sampled(["exact", "base"], ["base"]))
def test_the_ascent_and_its_way_back_stay_on_the_device(family, gradient):
    with dry_run("meta"):
        lm = place(family, "meta")
        for memory in ("normal", "low"):
            case = case_of(lm, memory=memory, gradient=gradient)
            (step,) = case.ascent_steps(case.options.mask, case.options.ascent)
            assert step.gradient.shape == (2,)
            assert step.frame_gradient.shape == (len(case.encoded.groups),)


@pytest.mark.long
def test_methods_stay_on_the_device():
    with dry_run("meta"):
        case = case_of(place("qwen2_5_vl", "meta"))
        for name in METHODS:
            answer = run_method(case, METHODS[name])
            assert answer.method == name


# what would be wrong on a GPU is noticed here


@pytest.mark.parametrize("device", ["cuda", "meta"])
def test_a_tensor_left_on_the_cpu_is_noticed(device, monkeypatch):
    with dry_run(device):
        lm = place("qwen2_5_vl", device)
        encoded = lm.encode(make_clip(), QUESTION)
        left = replace(encoded, input_ids=torch.ones(encoded.input_ids.shape, dtype=torch.long))
        with pytest.raises(RuntimeError, match="device"):
            lm.prefill(left, encoded.video)
        monkeypatch.setattr(
            lm, "positions", lambda e, first, views: torch.zeros(3, views, e.input_ids.shape[1])
        )
        with pytest.raises(RuntimeError, match="device"):
            lm.prefill(encoded, encoded.video)


def test_a_read_that_passes_by_is_noticed():
    with dry_run("cuda"):
        pixels = torch.zeros(4, 3, 200, 200, device="cuda")
        for read in (float, bool, lambda t: t.item(), lambda t: t.cpu().numpy()):
            with pytest.raises(RuntimeError):
                read(pixels.mean())
        assert to_host(pixels).shape == (4, 3, 200, 200)


def test_foreign_code_may_copy_a_tensor_to_the_host():
    """Where a processor takes the size of a picture from an array of its pixels."""
    with dry_run("meta"):
        pixels = torch.zeros(3, 200, 300, device="meta", dtype=torch.float16)
        with pytest.raises(NotImplementedError, match="no data"):
            pixels.cpu()
        with foreign_code("a model", "reads"):
            found = pixels.detach().cpu().numpy()
        assert (found.shape, found.dtype) == ((3, 200, 300), np.float16)
        with pytest.raises(NotImplementedError, match="no data"):
            pixels.cpu()


@pytest.mark.parametrize("error", [
    MemoryError(), torch.OutOfMemoryError("x"), RuntimeError("CUDA error: out of memory"),
])  # fmt: skip
def test_a_lack_of_memory_in_foreign_code_stays_one(error):
    """It is told elsewhere, with what to shrink."""
    with pytest.raises(type(error)) as found, foreign_code("a model", "reads"):
        raise error
    assert found.value is error
    with pytest.raises(UnsupportedBackbone, match="fails when it reads"):
        with foreign_code("a model", "reads"):
            raise RuntimeError("shapes differ")


def test_values_that_decide_shapes_are_known():
    with dry_run("cuda"):
        ids = torch.tensor([3, 7, 7, 1], device="cuda")
        assert to_host((ids == 7).nonzero()[:, 0]).tolist() == [1, 2]
        assert to_host(ids[ids > 2]).tolist() == [3, 7, 7]
        ids[1:3] = 9
        assert to_host(ids).tolist() == [3, 9, 9, 1]
        ids.copy_(torch.randint(0, 5, (4,), device="cuda"))  # nobody knows what came out
        assert to_host(ids).tolist() == [0, 0, 0, 0]
