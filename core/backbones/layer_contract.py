"""What the code of a family must do so that SID, attention and layers can be trusted, at load.

Attention is computed anew here (`hooks`), so each kind of layer is compared with transformers' own:
its window, its mask and its sinks. What fails is a capability that the model lacks, with its
reason; a family whose prompt is not that of its own processor is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from macd_studio.core.backbones.base import Encoded, Prune
from macd_studio.core.backbones.contract import (
    MEANING,
    QUESTION,
    SIZES,
    Check,
    Contract,
    drawn,
)
from macd_studio.core.backbones.foreign import foreign_code, out_of_memory, told
from macd_studio.core.backbones.hf import HfVideoLM
from macd_studio.core.backbones.local import Watch
from macd_studio.core.backbones.prompt import metadata_of
from macd_studio.core.backbones.sizes import at_least
from macd_studio.core.backbones.tolerance import TOLERANCES
from macd_studio.core.errors import OptionError, UnsupportedBackbone
from macd_studio.core.types import Clip, Progress

NEEDED = {"sid": "prune", "attention": "attention", "knock-out": "attention", "lens": "lens"}
"""Check → the capability that is lacking where it does not hold."""


def check_layers(lm: HfVideoLM, progress: Progress | None = None) -> Contract:
    """Runs every check, and takes from `lm` the capabilities that fail, with their reasons.

    progress: told which check runs. Raises UnsupportedBackbone for another prompt or other pixels.
    """
    checks = []
    if progress is not None:
        progress.begin(f"Checking {lm.info.name}: layout")
    with foreign_code(lm.info.name, "is checked by 'layout'"):
        checks.append(_layout(lm))
    if not checks[0].holds:
        raise UnsupportedBackbone(
            f"{lm.info.name} fails the check 'layout' ({checks[0].found}): {MEANING['layout']}",
            "Choose another backbone",
        )
    case = _Layers(lm)
    todo: dict[str, Callable[[], Check]] = {
        "sid": case.sid,
        "attention": case.attention,
        "knock-out": case.knock_out,
        "lens": case.lens,
    }
    for name, run in todo.items():
        if NEEDED[name] not in lm.capabilities:
            continue
        if progress is not None:
            progress.begin(f"Checking {lm.info.name}: {name}")
        try:
            check = run()
        except Exception as error:
            if out_of_memory(error):
                raise
            check = Check(name, False, told(error))
        checks.append(check)
        if not check.holds:
            lm.lose(NEEDED[name], f"the check {name!r} fails, {check.found}")
    return Contract(tuple(checks))


def _clip(size: tuple[int, int]) -> Clip:
    frames = drawn(2, size)
    return Clip(frames.pixels, frames.times, frames.pixels, frames.times, "", "", 1.0, size)


def _layout(lm: HfVideoLM) -> Check:
    """Whether the prompt is that of the processor alone, without a choice of another shape."""
    found = []
    for size in SIZES:
        shown = f"{size[0]}×{size[1]}"
        try:
            encoded = lm.encode(_clip(size), QUESTION, fit="native")
        except OptionError as error:  # as for a clip of this size, which is refused then
            found.append(f"{shown} not read: {error.cause[:60]}")
            continue
        frames = drawn(2, size)
        given = [np.array(at_least(frames.pixels, lm.min_frames))]
        about = metadata_of(frames, max(len(frames.pixels), lm.min_frames))
        out = lm.processor(
            text=[encoded.prompt], videos=lm.nested(given), video_metadata=[about],
            do_sample_frames=False, return_tensors="pt",
        )  # fmt: skip
        theirs = out["input_ids"][0].tolist()
        if encoded.input_ids[0].tolist() != theirs:
            count = sum(i == lm.vision_token for i in theirs)
            return Check(
                "layout",
                False,
                f"{shown}: {encoded.vision_tokens} tokens of pixels, where its own processor makes"
                f" {count}",
            )
        found.append(f"{shown} {encoded.vision_tokens} tokens")
    return Check("layout", True, ", ".join(found))


class _Layers:
    """One prompt, and what its last token attends to."""

    def __init__(self, lm: HfVideoLM) -> None:
        self.lm = lm
        precision = torch.bfloat16 if lm.info.quantised == "int8" else lm.dtype
        self.tolerance = TOLERANCES.get(precision, TOLERANCES[torch.bfloat16])
        self.encoded: Encoded = lm.encode(_clip(SIZES[0]), QUESTION, fit="native")
        self.start = lm.prefill(self.encoded, self.encoded.video)
        self.last = int(self.encoded.input_ids[0, -1])

    def _again(self) -> Any:
        return self.lm.crop(self.start, self.start.prompt - 1)

    def _off(self, one: Tensor, two: Tensor) -> float:
        return float((one - two).abs().max() / two.abs().max().clamp_min(1e-9))

    def sid(self) -> Check:
        """Leaving out no vision token changes nothing, in the prompt and in a step after it."""
        whole = self.lm.prefill(self.encoded, self.encoded.video, Prune(1, 1.0))
        off = self._off(whole.logits, self.start.logits)
        token = [int(self.start.logits[0].argmax())]
        plain = self.lm.crop(self.start, self.start.length)
        after = [self.lm.step(state, token).logits for state in (whole, plain)]
        off = max(off, self._off(*after))
        found = f"with every token kept the logits are off by {off:.1e}"
        return Check("sid", off <= self.tolerance.logits, found)

    def attention(self) -> Check:
        """The last row of every layer is that of eager attention."""
        rows, _ = self._eager(Watch())
        with self.lm.watching(self.start, Watch(attention=tuple(range(self.lm.depth)))) as seen:
            self.lm.step(self._again(), [self.last])
        vision = self.start.inputs["vision"]
        off = max(float((seen.attention[i] - rows[i][:, vision]).abs().max()) for i in rows)
        found = f"a row of attention is off by {off:.1e}"
        return Check("attention", off <= self.tolerance.affine, found)

    def knock_out(self) -> Check:
        """Blocked tokens get no attention, and the others their share of the rest.

        In the first layer of each kind. Tokens outside a window have none before, so blocking them
        changes nothing.
        """
        vision = self.start.inputs["vision"]
        blocked = tuple(range(max(1, len(vision) // 2)))
        gone = vision[list(blocked)]
        before, plain = self._eager(Watch())
        off = 0.0
        for layer in self._kinds():
            rows, logits = self._eager(Watch(blocked=blocked, blocked_layers=(layer,)))
            own = before[layer].clone()
            lost = own[:, gone].sum(-1, keepdim=True)
            if not bool(lost.any()):
                off = max(off, self._off(logits, plain))
            per_head = self.heads[layer]
            expected = per_head.clone()
            expected[..., gone] = 0
            expected = expected / (1 - per_head[..., gone].sum(-1, keepdim=True)).clamp_min(1e-9)
            off = max(off, float((rows[layer] - expected.mean(1)).abs().max()))
        found = f"attention beside blocked tokens is off by {off:.1e}"
        return Check("knock-out", off <= self.tolerance.affine, found)

    def lens(self) -> Check:
        """What is read out after the last layer are the model's own logits."""
        with self.lm.watching(self.start, Watch(lens=True)) as seen:
            logits = self.lm.step(self._again(), [self.last]).logits
        off = self._off(seen.lens[-1], logits)
        found = f"the last layer's logits are off by {off:.1e}"
        return Check("lens", off <= self.tolerance.logits, found)

    def _kinds(self) -> list[int]:
        """The first layer of each kind."""
        config = self.lm.decoder.config
        kinds = getattr(config, "layer_types", None) or ["full_attention"] * self.lm.depth
        return sorted({kind: kinds.index(kind) for kind in kinds}.values())

    def _eager(self, watch: Watch) -> tuple[dict[int, Tensor], Tensor]:
        """By layer the last token's attention to all, mean over heads (1, L); and its logits."""
        heads: dict[int, Tensor] = {}

        def keep(module: Any, _: Any, out: Any) -> None:
            heads[module.layer_idx] = out[1][:, :, -1].float()

        layers = self.lm.decoder.layers
        handles = [layer.self_attn.register_forward_hook(keep) for layer in layers]
        try:
            with eager_attention(self.lm.decoder), self.lm.watching(self.start, watch):
                logits = self.lm.step(self._again(), [self.last]).logits
        finally:
            for handle in handles:
                handle.remove()
        if not watch.blocked:
            self.heads = heads
        return {i: h.mean(1) for i, h in heads.items()}, logits


@contextmanager
def eager_attention(decoder: Any) -> Iterator[None]:
    """While inside, the decoder's attention is transformers' plainest, which keeps its weights."""
    configs = [decoder.config, *(layer.self_attn.config for layer in decoder.layers)]
    former = [config._attn_implementation for config in configs]
    try:
        for config in configs:
            config._attn_implementation = "eager"
        yield
    finally:
        for config, name in zip(configs, former, strict=True):
            config._attn_implementation = name
