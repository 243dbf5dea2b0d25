"""What a model must do so that its masks, gradients and answers can be trusted: checked at load.

On drawn clips of two frames, in seconds. A model whose processor is not affine, whose views
disturb each other or whose answers are not those of its own `generate` is refused; one whose
gradient alone is wrong is used without it, and one whose vision tower does not take frames one by
one reads those of every view.

Of a family with code of its own, attention is computed anew (`hooks`), so each kind of layer is
compared with transformers' own: its window, its mask and its sinks. What fails is a capability that
the model lacks, with its reason; a prompt that is not that of its own processor is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from macd_studio.core.backbones.base import BackboneInfo, Encoded, Prune
from macd_studio.core.backbones.foreign import foreign_code, out_of_memory, told
from macd_studio.core.backbones.hf import HfVideoLM
from macd_studio.core.backbones.hooks import eager_attention
from macd_studio.core.backbones.host import to_host
from macd_studio.core.backbones.local import LocalLM, Watch
from macd_studio.core.backbones.prompt import metadata_of
from macd_studio.core.backbones.sizes import STEP, at_least
from macd_studio.core.backbones.universal import TOLERANCES, Tolerance, UniversalVLM
from macd_studio.core.errors import MacdError, OptionError, UnsupportedBackbone
from macd_studio.core.types import Clip, ModelFrames, Progress

QUESTION = "Is there a red square in the video?"
FRAMES, SIDE = 2, 112
SIZES = ((SIDE, SIDE), (1000, 200), (896, 672))
"""Width and height of frames whose layout is compared: small, wide, larger than a tile."""
TOKENS = 4
"""Length of the answers that are compared."""
BORDERS = {"left": (3, 0), "right": (3, -1), "top": (2, 0), "bottom": (2, -1)}
STEPS = (0.003, 0.01, 0.03, 0.1)
"""Of the central differences: one of them must agree. A coarse one suits rounding, a fine one a
mixture of experts, whose routes change with the mask."""


@dataclass(frozen=True)
class Check:
    """One check: whether it holds, and what was found."""

    name: str
    holds: bool
    found: str


MEANING = {
    "layout": "the model would be given another prompt or other pixels than its own processor makes"
    " of the untouched clip",
    "affine": "a mask on a frame is not a mask on what the model reads, so nothing here would be"
    " true of it",
    "pixels": "the model would be given other pixels than its own processor makes of these frames",
    "question": "the question's tokens are not found in the prompt, so its loss cannot be taken",
    "mask": "hiding half of the video does not change the question's loss",
    "generate": "its answers here would not be those of its own generate",
    "rows": "a view's logits change with the views beside it",
    "frames": "its vision tower reads every frame of every view",
    "gradient": "the strengths would not follow the loss; methods that need no gradient still work",
    "attention": "it cannot be said what a token attended to",
}


OPTIONAL = ("frames", "picture", "gradient", "attention")
"""Checks without which a model still reads and answers."""


@dataclass(frozen=True)
class Contract:
    """The checks of a model, in order."""

    checks: tuple[Check, ...] = ()

    def failed(self) -> tuple[Check, ...]:
        """Those that do not hold."""
        return tuple(c for c in self.checks if not c.holds)


def adapt_model(
    model: Any, processor: Any, info: BackboneInfo, progress: Progress | None = None
) -> UniversalVLM:
    """The universal adapter of a model that keeps the contract; without "gradient" where it must.

    Raises UnsupportedBackbone, see `check_model`.
    """
    lm = UniversalVLM(model, processor, info)
    lm.contract = check_model(lm, progress)
    failed = {c.name for c in lm.contract.failed()}
    able = {"times"} if reads_times(lm, drawn(4)) else set()
    if "attention" in failed:
        (why,) = (c.found for c in lm.contract.failed() if c.name == "attention")
        lm.reasons = {**lm.reasons, "attention": why}
    else:
        able |= {"attention"}
    if "frames" in failed:
        lm.tower = None
    if "picture" in failed:
        lm.writes_pictures = False
    else:
        able |= {"images"}
    lm.capabilities = (lm.capabilities | able) - (failed & {"gradient"})
    return lm


def reads_times(lm: LocalLM, frames: ModelFrames) -> bool:
    """Whether anything that the model is given changes with the times of these frames."""
    slow = replace(frames, times=7 * frames.times, duration=7 * frames.duration)
    one, two = (lm.encode_frames(shown, QUESTION) for shown in (frames, slow))
    if not torch.equal(one.input_ids, two.input_ids):
        return True
    pairs = ((one.inputs[k], two.inputs[k]) for k in one.inputs if k in two.inputs)
    return any(isinstance(a, Tensor) and not torch.equal(a, b) for a, b in pairs) or (
        _listed(one) != _listed(two)
    )


def _listed(encoded: Encoded) -> str:
    """Inputs that are plain values, such as seconds a patch."""
    plain = {k: v for k, v in encoded.inputs.items() if isinstance(v, list | float | int)}
    return repr(sorted(plain.items()))


def picture_model(model: Any, processor: Any, info: BackboneInfo) -> UniversalVLM | None:
    """The universal adapter of a model that reads pictures by a way of its own; None elsewhere."""
    if getattr(processor, "image_processor", None) is None:
        return None
    lm = UniversalVLM(model, processor, info)
    lm.capabilities = lm.capabilities | {"images"}
    return lm if picture_check(lm).holds else None


def picture_check(lm: UniversalVLM) -> Check:
    """Whether a single frame, which goes another way where there is one, is read and masked."""
    if not lm.writes_pictures:
        return Check("picture", False, "read as a video of one frame")
    try:
        case = _Case(lm, drawn(1))
        checks = [case.affine(), case.pixels(), case.mask()]
    except (MacdError, RuntimeError, ValueError, TypeError, LookupError, AttributeError) as error:
        return Check("picture", False, str(error)[:120])
    failed = next((c for c in checks if not c.holds), None)
    if failed is not None:
        return Check("picture", False, f"{failed.name}: {failed.found}")
    return Check("picture", True, checks[0].found)


def check_model(lm: UniversalVLM, progress: Progress | None = None) -> Contract:
    """Runs every check. Raises UnsupportedBackbone, by name of the check, for all but two.

    Without a sound "gradient" a model still reads and answers; where "picture" does not hold, a
    single frame is handed over as a video.

    progress: told which check runs.
    """
    with foreign_code(lm.info.name, "reads a first clip"):
        case = _Case(lm)
    todo: dict[str, Callable[[], Check]] = {
        "question": case.question,
        "affine": case.affine,
        "pixels": case.pixels,
        "layout": lambda: layout_check(lm),
        "mask": case.mask,
        "generate": case.generate,
        "rows": case.rows,
        "frames": case.frames,
        "picture": lambda: picture_check(lm),
        "gradient": case.gradient,
        "attention": lambda: _attempted("attention", case.attention),
    }
    return Contract(tuple(_checked(lm, name, run, progress) for name, run in todo.items()))


def _checked(lm: LocalLM, name: str, run: Callable[[], Check], progress: Progress | None) -> Check:
    """One check. Raises UnsupportedBackbone where it fails and is not optional."""
    if progress is not None:
        progress.begin(f"Checking {lm.info.name}: {name}")
    with foreign_code(lm.info.name, f"is checked by {name!r}"):
        check = run()
    if not check.holds and name not in OPTIONAL:
        raise UnsupportedBackbone(
            f"{lm.info.name} fails the check {name!r} ({check.found}): {MEANING[name]}",
            "Choose another backbone",
        )
    return check


def _attempted(name: str, run: Callable[[], Check]) -> Check:
    """A check that does not hold where the model's code fails, unless for lack of memory."""
    try:
        return run()
    except Exception as error:
        if out_of_memory(error):
            raise
        return Check(name, False, told(error))


def layout_check(lm: UniversalVLM) -> Check:
    """Whether the layout of the untouched clip is kept at every size that the processor reads."""
    found = []
    for size in SIZES:
        frames = drawn(FRAMES, size)
        shown = f"{size[0]}×{size[1]}"
        try:
            encoded = lm.encode_frames(lm.resized(frames), QUESTION)
        except ValueError as error:  # as for a clip of this size, which is refused then
            found.append(f"{shown} not read: {str(error)[:60]}")
            continue
        try:
            own = lm.own_inputs(frames, QUESTION)
        except (ValueError, RuntimeError) as error:
            found.append(f"{shown} not read by its own processor: {str(error)[:60]}")
            continue
        if wrong := layout_error(lm, encoded, own):
            return Check("layout", False, f"{shown}: {wrong}")
        found.append(f"{shown} {encoded.vision_tokens} tokens")
    return Check("layout", True, ", ".join(found))


@torch.no_grad()
def layout_error(lm: UniversalVLM, encoded: Encoded, own: Mapping[str, Any]) -> str:
    """How what the model is given differs from what its own processor makes; empty if it does not.

    own: as `UniversalVLM.own_inputs` gives it.
    """
    ids, theirs = encoded.input_ids[0].tolist(), own["input_ids"][0].tolist()
    if ids != theirs:
        pixels = sum(i in lm.vision_ids.tolist() for i in theirs)
        return (
            f"{len(ids)} tokens, {encoded.vision_tokens} of pixels, where its own processor makes"
            f" {len(theirs)}, {pixels} of pixels"
        )
    inputs = lm.pixel_inputs(encoded, encoded.video)
    step = lm.scale(encoded.inputs["about"] is not None).step
    for name, value in own.items():
        if name == "input_ids" or not isinstance(value, Tensor):
            continue
        mine = torch.from_numpy(to_host(inputs[name]))
        if mine.shape != value.shape:
            return f"{name} of shape {tuple(mine.shape)} for {tuple(value.shape)}"
        if not value.is_floating_point():
            if not torch.equal(mine, value):
                return f"other {name}"
            continue
        off, rest = float((mine.float() - value.float()).abs().max()), 0.0
        if name in encoded.inputs["rest"]:
            rest = float(encoded.inputs["rest"][name].abs().max())
        rounding = torch.finfo(lm.dtype).eps * float(value.abs().max())
        if max(off, rest) > STEP * step + rounding:
            return f"{name} off by {max(off, rest) / step:.1f} steps of 8 bits"
    return ""


def drawn(frames: int = FRAMES, size: tuple[int, int] = (SIDE, SIDE)) -> ModelFrames:
    """A red square that moves over coloured tiles. size: (w, h), multiples of 8."""
    width, height = size
    cells = (frames, height // 8, width // 8, 3)
    grain = np.random.default_rng(0).integers(40, 216, cells, np.uint8)
    pixels = grain.repeat(8, 1).repeat(8, 2)
    third = min(size) // 3
    for t in range(frames):
        left = third * t
        pixels[t, third : 2 * third, left : left + third] = (220, 30, 30)
    times = np.arange(frames, dtype=np.float64) * 0.5
    return ModelFrames(pixels, times, frames * 0.5, (0, 0, width, height), 1.0)


def _precision(lm: Any) -> tuple[torch.dtype, Tolerance]:
    """What a model computes in; int8 rounds what goes into a layer, too, as bfloat16 does."""
    precision = torch.bfloat16 if lm.info.quantised == "int8" else lm.dtype
    return precision, TOLERANCES.get(precision, TOLERANCES[torch.bfloat16])


def _off(one: Tensor, two: Tensor) -> float:
    """Their largest difference, relative to the largest value of the second."""
    return float((one - two).abs().max() / two.abs().max().clamp_min(1e-9))


class _Case:
    def __init__(self, lm: UniversalVLM, frames: ModelFrames | None = None) -> None:
        self.lm = lm
        self.precision, self.tolerance = _precision(lm)
        self.untouched = frames or drawn()
        self.encoded = lm.encode_frames(lm.resized(self.untouched), QUESTION)

    @property
    def video(self) -> Tensor:
        return self.encoded.video

    def question(self) -> Check:
        """The positions of the question hold its text."""
        ids = self.encoded.input_ids[0][self.encoded.query].tolist()
        found = str(self.lm.tokenizer.decode(ids)).strip()
        return Check("question", found == QUESTION, repr(found[:80]))

    @torch.no_grad()
    def affine(self) -> Check:
        """P(0.3 a + 0.7 b) = 0.3 P(a) + 0.7 P(b)."""
        a, b = self.video, self.video.flip(-1)
        mixed, one, two = (pixels_of(self.lm, self.encoded, v) for v in (0.3 * a + 0.7 * b, a, b))
        off = (mixed - (0.3 * one + 0.7 * two)).abs().max() / one.abs().max().clamp_min(1e-9)
        changed = bool((one != two).any())
        holds = changed and float(off) <= self.tolerance.affine
        return Check("affine", holds, f"off by {float(off):.1e}" if changed else "pixels ignored")

    @torch.no_grad()
    def pixels(self) -> Check:
        """What the model is given is what its processor makes of the same frames.

        A step of 8 bits off is none: an overview beside tiles is resized once more and rounded.
        """
        off, largest, encoded = 0.0, 0.0, self.encoded
        for name, value in made(self.lm, encoded, self.video).items():
            its = encoded.inputs[name].to(value.dtype).float()
            raw = value.float() - encoded.inputs["rest"].get(name, 0.0)
            off = max(off, *(float((v - its).abs().max()) for v in (value.float(), raw)))
            largest = max(largest, float(its.abs().max()))
        step = self.lm.scale(encoded.inputs["about"] is not None).step
        holds = off <= STEP * step + torch.finfo(self.lm.dtype).eps * largest
        if holds and (border := self._unread()):
            return Check("pixels", False, f"the {border} border of a wide frame is not read")
        return Check("pixels", holds, f"off by {off:.1e} where {largest:.1f} is the largest")

    def _unread(self) -> str:
        """Which border of a frame twice as wide does not reach the model; empty where all do."""
        wide = drawn(len(self.video), (2 * SIDE, SIDE))
        encoded = self.lm.encode_frames(self.lm.resized(wide), QUESTION)
        plain = pixels_of(self.lm, encoded, encoded.video)
        for border, (axis, at) in BORDERS.items():
            changed = encoded.video.clone()
            changed.select(axis, at).add_(1)
            if torch.equal(pixels_of(self.lm, encoded, changed), plain):
                return border
        return ""

    @torch.no_grad()
    def mask(self) -> Check:
        """Hiding a half changes the loss."""
        before, after = (float(self._loss(torch.tensor([z, 0.0]).double())) for z in (0.0, 1.0))
        return Check("mask", before != after, f"{before:.4f} and {after:.4f}")

    @torch.no_grad()
    def generate(self) -> Check:
        """Greedy tokens without contrast are those of `model.generate`; a tie is no difference.

        `generate` is given what the model's own processor makes of the untouched frames.
        """
        lm, encoded = self.lm, self.encoded
        own = self._greedy(lm.prefill(encoded, self.video))
        own_way = lm.generate_inputs(encoded, self.untouched)
        given = lm.model.generate(
            **own_way, max_new_tokens=TOKENS, do_sample=False,
            num_beams=1, repetition_penalty=1.0, prompt_lookup_num_tokens=None,
            output_logits=True, return_dict_in_generate=True,
        )  # fmt: skip
        theirs = given.sequences[0, encoded.input_ids.shape[1] :].tolist()
        for i, (mine, its) in enumerate(zip(own, theirs, strict=False)):
            if mine == its:
                continue
            logits = given.logits[i][0].float()
            gap = float((logits[its] - logits[mine]).abs() / logits.abs().max().clamp_min(1e-9))
            return Check("generate", gap <= self.tolerance.logits, f"{own} here, {theirs} there")
        return Check("generate", True, f"{len(own)} tokens equal")

    def _greedy(self, state: Any) -> list[int]:
        tokens: list[int] = []
        while True:
            tokens.append(int(state.logits[0].argmax()))
            if len(tokens) == TOKENS or tokens[-1] in self.lm.end_tokens:
                return tokens
            state = self.lm.step(state, tokens[-1:])

    @torch.no_grad()
    def rows(self) -> Check:
        """Two views decoded together give what each gives alone."""
        lm, encoded = self.lm, self.encoded
        views = [self.video, self.video.flip(-1)]
        both = lm.prefill(encoded, torch.stack(views))
        first, tokens = both.logits, both.logits.argmax(-1).tolist()
        then = lm.step(both, tokens).logits
        off = 0.0
        for row, view in enumerate(views):
            one = lm.prefill(encoded, view)
            pairs = ((first, one.logits), (then, lm.step(one, [tokens[row]]).logits))
            off = max(off, *(_off(together[row], alone[0]) for together, alone in pairs))
        return Check("rows", off <= self.tolerance.logits, f"off by {off:.1e}")

    @torch.no_grad()
    def frames(self) -> Check:
        """A view of which one frame changes is read alike alone and beside what is kept."""
        lm, encoded = self.lm, self.encoded
        plain = lm.prefill(encoded, self.video)
        if lm.tower is None or plain.inputs["rows"] is None:
            return Check("frames", False, "the vision tower does not take them one a row")
        other = self.video.clone()
        other[-1] = other[-1].flip(-1)
        alone = lm.prefill(encoded, other).logits
        before = lm.tower.read
        shared = lm.prefill(encoded, other, reuse=plain).logits
        new, rows = lm.tower.read - before, len(plain.inputs["rows"].given[0])
        off = _off(shared, alone)
        holds = new < rows and off <= self.tolerance.logits
        return Check("frames", holds, f"off by {off:.1e}, {new} of {rows} rows read again")

    def gradient(self) -> Check:
        """The derivatives of the loss by two strengths are the central differences."""
        try:
            at = torch.tensor([0.5, 0.5], dtype=torch.float64, requires_grad=True)
            (exact,) = torch.autograd.grad(self._loss(at), at)
        except RuntimeError as error:  # an operation without a derivative
            return Check("gradient", False, str(error).splitlines()[0][:120])
        if not bool(exact.isfinite().all()):
            return Check("gradient", False, "not finite")
        found = list(self._differences(exact))
        if not found:
            return Check("gradient", True, "not checked: it is smaller than rounding")
        return Check("gradient", min(found) <= self.tolerance.gradient, f"off by {min(found):.1%}")

    @torch.no_grad()
    def _differences(self, exact: Tensor) -> Iterator[float]:
        """How far the derivatives are from the differences of each step, relative to the larger.

        Steps whose differences drown in the rounding of the loss are left out.
        """
        scale = float(exact.abs().max())
        for step in STEPS:
            found, rounding = [], 0.0
            for k in range(2):
                ends = []
                for sign in (1, -1):
                    at = [0.5, 0.5]
                    at[k] += sign * step
                    ends.append(float(self._loss(torch.tensor(at, dtype=torch.float64))))
                found.append((ends[0] - ends[1]) / (2 * step))
                rounding = max(rounding, 8 * torch.finfo(self.precision).eps * abs(ends[0]) / step)
            if rounding > self.tolerance.gradient * scale:
                continue
            yield float(np.abs(to_host(exact) - np.array(found)).max()) / scale

    @torch.no_grad()
    def attention(self) -> Check:
        """Reading it changes no logit, and it is known where vision tokens stand in the frames.

        Of a square and of a wide frame. Leaves in the model which layers give their weights.
        """
        lm, encoded = self.lm, self.encoded
        start = lm.prefill(encoded, self.video)
        again, last = lm.crop(start, start.prompt - 1), encoded.input_ids[0, -1:].tolist()
        plain = lm.step(lm.crop(start, start.prompt - 1), last).logits
        with lm.watching(start, Watch(attention=tuple(range(lm.depth)))) as seen:
            off = _off(lm.step(again, last).logits, plain)
        if not seen.attention or off > self.tolerance.logits:
            why = f"reading it changes logits by {off:.1e}" if seen.attention else "no layer has it"
            return Check("attention", False, why)
        lm.own_layers = tuple(sorted(seen.attention))
        wide = lm.encode_frames(lm.resized(drawn(FRAMES, (2 * SIDE, SIDE))), QUESTION)
        for case in (encoded, wide):
            lm.placed(case)
        return Check("attention", True, f"{len(lm.own_layers)} of {lm.depth} layers give it")

    def _loss(self, strengths: Tensor) -> Tensor:
        """The question's loss with the left and the right half faded to the mean colour."""
        video = self.video
        if self.lm.dtype == torch.float64:
            video = video.double()
        left = torch.zeros(video.shape[-1], dtype=video.dtype, device=video.device)
        left[: len(left) // 2] = 1
        r = strengths.to(video)
        mask = r[0] * left + r[1] * (1 - left)
        faded = video * (1 - mask)
        logits = self.lm.query_logits(self.encoded, faded).log_softmax(-1)
        ids = self.encoded.input_ids[0][self.encoded.query]
        return -logits[torch.arange(len(ids), device=ids.device), ids].mean()


def made(lm: UniversalVLM, encoded: Encoded, video: Tensor) -> dict[str, Tensor]:
    """The inputs that are made of pixels."""
    inputs, given = lm.pixel_inputs(encoded, video), encoded.inputs
    tensors = {k: v for k, v in inputs.items() if isinstance(v, Tensor) and v is not given.get(k)}
    return {k: v for k, v in tensors.items() if v.is_floating_point()}


def pixels_of(lm: UniversalVLM, encoded: Encoded, video: Tensor) -> Tensor:
    """The pixel inputs as one vector, in float32."""
    return torch.cat([v.float().flatten() for v in made(lm, encoded, video).values()])


NEEDED = {"sid": "prune", "attention": "attention", "knock-out": "knock-out", "lens": "lens"}
"""Check → the capability that is lacking where it does not hold."""


def check_layers(lm: HfVideoLM, progress: Progress | None = None) -> Contract:
    """Runs every check, and takes from `lm` the capabilities that fail, with their reasons.

    progress: told which check runs. Raises UnsupportedBackbone for another prompt or other pixels.
    """
    checks = [_checked(lm, "layout", lambda: _layout(lm), progress)]
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
        check = _attempted(name, run)
        checks.append(check)
        if not check.holds:
            lm.lose(NEEDED[name], f"the check {name!r} fails, {check.found}")
    return Contract(tuple(checks))


def tiled_clip(size: tuple[int, int]) -> Clip:
    """Two frames of `drawn` as a clip."""
    frames = drawn(2, size)
    return Clip(frames.pixels, frames.times, frames.pixels, frames.times, "", "", 1.0, size)


def _layout(lm: HfVideoLM) -> Check:
    """Whether the prompt is that of the processor alone, without a choice of another shape."""
    found = []
    for size in SIZES:
        shown = f"{size[0]}×{size[1]}"
        try:
            encoded = lm.encode(tiled_clip(size), QUESTION, fit="native")
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
        _, self.tolerance = _precision(lm)
        self.encoded: Encoded = lm.encode(tiled_clip(SIZES[0]), QUESTION, fit="native")
        self.start = lm.prefill(self.encoded, self.encoded.video)
        self.last = int(self.encoded.input_ids[0, -1])

    def _again(self) -> Any:
        return self.lm.crop(self.start, self.start.prompt - 1)

    def sid(self) -> Check:
        """Leaving out no vision token changes nothing, in the prompt and in a step after it."""
        whole = self.lm.prefill(self.encoded, self.encoded.video, Prune(1, 1.0))
        off = _off(whole.logits, self.start.logits)
        token = [int(self.start.logits[0].argmax())]
        plain = self.lm.crop(self.start, self.start.length)
        after = [self.lm.step(state, token).logits for state in (whole, plain)]
        off = max(off, _off(*after))
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
                off = max(off, _off(logits, plain))
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
        off = _off(seen.lens[-1], logits)
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
