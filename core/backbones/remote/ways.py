"""The two ways to ask a server about a view: by token ids and pixel tensors, or by a chat.

The exact way (`--enable-scale-out`) sends the prompt's ids and float pixels: what a model in this
process reads, the server reads. The common way sends a chat with frames in 8 bits; a token counts
only where the ids that the server made of it are those that were meant.
"""

from __future__ import annotations

import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from macd_studio.core.backbones.base import Encoded, to_pixels
from macd_studio.core.backbones.hf import HfVideoLM
from macd_studio.core.backbones.host import to_host
from macd_studio.core.backbones.prompt import disable_thinking
from macd_studio.core.backbones.remote.client import Asked, Client
from macd_studio.core.backbones.remote.files import FilesLM, normalised_apart, pixels_of
from macd_studio.core.backbones.remote.wire import (
    SAMPLING,
    Features,
    Said,
    chat_body,
    read_chat,
    read_features,
    read_generated,
    read_prompt_log_p,
    read_scored,
    tensor_of,
    unusable,
)
from macd_studio.core.backbones.sizes import at_least
from macd_studio.core.errors import NotApplicable, RemoteError
from macd_studio.core.types import ModelFrames
from macd_studio.core.validation import shown

SEARCHED_STEPS = 16
"""Steps of float32 on either side within which a value is looked for that becomes exactly 0."""
NORMALISING = 2.0**-22
"""How far a normalised pixel near 0 may be off where the server normalises: two steps of float32
between 1 and 2, where 255·mean·w and −b lie, for the rounding of x, w, b and x·w."""
WHOLE = -1
"""Log-probabilities of every token."""
Question = Literal["scored", "prompt", ""]
"""How log-probabilities of the prompt are obtained: for chosen tokens, for all, or not at all."""


NORMALISED = "the server normalises videos as it does pictures, and this model's processor does not"


@dataclass(frozen=True, eq=False)
class RemoteEncoded(Encoded):
    """An encoded question with the text that the chat template was written around."""

    text: str = ""


@dataclass(frozen=True, eq=False)
class View:
    """One view, to be read. encoded: None for a text alone, without `video` then (T, 3, h, w).

    prompt: ids of the whole prompt, thoughts included. text: of the user's message.
    """

    encoded: RemoteEncoded | None
    video: Tensor | None
    prompt: tuple[int, ...]
    text: str

    @property
    def thought(self) -> tuple[int, ...]:
        """The last tokens of the prompt, which the model wrote itself."""
        return () if self.encoded is None else self.encoded.thought

    @cached_property
    def _made(self) -> dict[str, Any]:
        return {}

    def sent(self, way: str, make: Callable[[], Any]) -> Any:
        """What `make` gives, made once for each way."""
        if way not in self._made:
            self._made[way] = make()
        return self._made[way]


@dataclass(frozen=True)
class Wanted:
    """What is asked of the next token: the `top` likeliest, WHOLE for all, or these `ids`."""

    top: int = 1
    ids: tuple[int, ...] = ()


class Way(ABC):
    """Writes requests about views, and reads their answers. `lm` has the model's files only."""

    def __init__(self, client: Client, model: str, lm: FilesLM) -> None:
        self.client, self.model, self.lm = client, model, lm

    def over(self, client: Client) -> Way:
        """The same through another client of the same server; what is known of it is shared."""
        other = copy(self)
        other.client = client
        return other

    @abstractmethod
    def prepare(self, views: Sequence[View]) -> None:
        """Asks what must be known of views before they are asked about."""

    @abstractmethod
    def row(self, view: View, tokens: Sequence[int], wanted: Wanted) -> Asked:
        """Asks what follows the prompt and `tokens`."""

    @abstractmethod
    def read_row(self, view: View, tokens: Sequence[int], answer: Any) -> Said:
        """What it says. Raises RemoteError for an answer about something else."""

    @abstractmethod
    def step(self, encoded: RemoteEncoded) -> Tensor:
        """How far pixels of 0 may be others on the server, normalised, (3, 1, 1); 0 for not."""

    @abstractmethod
    def question(self, view: View, at: Sequence[int], how: Question) -> Asked:
        """Asks log p of the prompt's tokens at the rising places `at`."""

    @abstractmethod
    def read_question(
        self, view: View, at: Sequence[int], how: Question, answer: Any
    ) -> NDArray[np.float64]:
        """What it says, (Q,)."""

    def chat(self, view: View) -> dict[str, Any]:
        """The chat request of a view's frames, in 8 bits, or of its text alone."""
        template = disable_thinking(self.lm.processor)
        if view.encoded is None or view.video is None:
            return chat_body(self.model, view.text, None, template=template)
        frames = frames_of(self.lm, view.encoded, view.video)
        return chat_body(self.model, view.text, frames, clock_of(self.lm, frames), template)


def frames_of(lm: FilesLM, encoded: Encoded, video: Tensor) -> ModelFrames:
    """A view's frames rounded to 8 bits, as many as the family wants at least."""
    pixels = to_pixels(video, encoded.mean, encoded.std)
    least = lm.min_frames if isinstance(lm, HfVideoLM) else lm._min_frames
    frames = replace(encoded.frames, pixels=pixels)
    if len(pixels) >= least:
        return frames
    return replace(frames, pixels=at_least(pixels, least), times=frames.times[[0] * least])


def clock_of(lm: FilesLM, frames: ModelFrames) -> NDArray[np.float64]:
    """The times (T,) that the family counts from, none of them below 0."""
    times = lm.clock(frames.times) if isinstance(lm, HfVideoLM) else frames.times
    return np.maximum(times, 0)


class ExactWay(Way):
    """By ids and float pixels. What the server makes of a video is compared with what is made here.

    So no frame can be left out, sampled or resized, and no prompt be another, without a word.
    """

    def __init__(self, client: Client, model: str, lm: FilesLM) -> None:
        super().__init__(client, model, lm)
        self._rendered = weakref.WeakKeyDictionary[ModelFrames, dict[str, Features]]()
        self._rendering = threading.Lock()

    def prepare(self, views: Sequence[View]) -> None:
        """Renders each prompt of these views once."""
        for view in views:
            if view.encoded is not None:
                self._features(view.encoded)

    def _features(self, encoded: RemoteEncoded) -> Features:
        with self._rendering:
            known = self._rendered.setdefault(encoded.frames, {})
            if encoded.prompt not in known:
                plain = View(encoded, encoded.video, (), encoded.text)
                answer = self.client.post("/v1/chat/completions/render", self.chat(plain))
                known[encoded.prompt] = self._checked(encoded, answer)
            return known[encoded.prompt]

    def _checked(self, encoded: RemoteEncoded, answer: Any) -> Features:
        ids, kind, features, item = read_features(answer)
        own = encoded.input_ids[0].tolist()
        check_prompt(ids, own[: len(own) - len(encoded.thought)])
        check_place(features, kind, encoded.vision_tokens)
        (own_pixels,) = pixels_of(self.lm, encoded, encoded.video).values()
        laid = to_host(own_pixels.float())
        for name, entry in item.items():
            found = tensor_of(entry)
            if found is None or found[1].size != laid.size:
                continue
            dtype, values = found
            if (scale := self._scale(encoded, laid, dtype, values)) is not None:
                if scale and normalised_apart(self.lm):
                    raise RemoteError(NORMALISED, "Start it with --no-mm-device-do-normalize")
                return Features(features, kind, item, name, values.shape, scale)
        raise RemoteError(
            "the frames that the server made are not those that were sent: it samples, drops,"
            " reorders or resizes them",
            "Start it with --trust-request-mm-kwargs and without --media-io-kwargs or"
            " --mm-processor-kwargs, with the processor files that are used here",
        )

    def _scale(
        self, encoded: Encoded, laid: NDArray[Any], dtype: str, values: NDArray[Any]
    ) -> float | None:
        """255 or 0 (normalised), the scale in which the server's pixels are those of this video."""
        given = np.asarray(values, np.float32).reshape(laid.shape)
        if dtype != "uint8" and np.abs(given - laid).max() <= 2e-2:
            return 0.0
        if not isinstance(self.lm, HfVideoLM):
            return None
        rgb = to_host(encoded.layout(self._rgb(encoded, encoded.video)))
        return 255.0 if np.abs(given - rgb).max() <= 0.51 else None

    @staticmethod
    def _rgb(encoded: Encoded, video: Tensor) -> Tensor:
        """Normalised → RGB 0-255, unrounded."""
        return 255 * (video.float() * encoded.std[:, None, None] + encoded.mean[:, None, None])

    def step(self, encoded: RemoteEncoded) -> Tensor:
        """See `Way.step`: none where the server takes normalised pixels as they are."""
        normalises = self._features(encoded).scale > 0
        return torch.full((3, 1, 1), NORMALISING if normalises else 0.0)

    def _pixels(self, view: View) -> dict[str, Any]:
        encoded, video = view.encoded, view.video
        assert encoded is not None
        assert video is not None
        features = self._features(encoded)
        if features.scale:
            pixels = encoded.layout(with_neutral(encoded, self._rgb(encoded, video)))
        else:
            (pixels,) = pixels_of(self.lm, encoded, video).values()
        return features.with_pixels(to_host(pixels.float()))

    def _generate(self, view: View, ids: Sequence[int], more: dict[str, Any]) -> Asked:
        body: dict[str, Any] = {
            "model": self.model,
            "token_ids": list(ids),
            "sampling_params": {**SAMPLING, "max_tokens": 1, "detokenize": False, **more},
        }
        if view.encoded is not None:
            body["features"] = view.sent("exact", lambda: self._pixels(view))
        return Asked("/inference/v1/generate", body)

    def row(self, view: View, tokens: Sequence[int], wanted: Wanted) -> Asked:
        """See `Way.row`."""
        more: dict[str, Any] = {"logprobs": wanted.top}
        if wanted.ids:
            more = {"logprobs": len(wanted.ids), "logprob_token_ids": list(wanted.ids)}
        return self._generate(view, [*view.prompt, *tokens], more)

    def read_row(self, view: View, tokens: Sequence[int], answer: Any) -> Said:
        """See `Way.read_row`."""
        return read_generated(answer)

    def question(self, view: View, at: Sequence[int], how: Question) -> Asked:
        """See `Way.question`; what follows the last place is left out."""
        ids = view.prompt[: at[-1] + 1]
        more: dict[str, Any] = {"prompt_logprobs": 0}
        if how == "scored":
            rows = [[token] for token in ids[at[0] :]]
            more = {"prompt_logprob_token_ids": rows, "prompt_logprob_start": at[0] - 1}
        return self._generate(view, ids, more)

    def read_question(
        self, view: View, at: Sequence[int], how: Question, answer: Any
    ) -> NDArray[np.float64]:
        """See `Way.read_question`."""
        if how == "scored":
            scored = read_scored(answer, at[-1] + 1 - at[0])
            return np.array([scored[place - at[0]] for place in at])
        return read_prompt_log_p(answer, view.prompt, at)


def with_neutral(encoded: Encoded, rgb: Tensor) -> Tensor:
    """`rgb` (T, 3, h, w), 0-255, moved by so few steps of float32 that what stands for 0 becomes 0.

    The server takes x·w + b in float32, w = 1/255/std, b = −mean/std. Of patches that are 0, as
    behind a full mask, a norm without bias would make 10⁻⁷ a thousand times larger, layer by layer.
    All values move alike, so that those near 0 keep their distance from it.
    """
    w, b = (1 / 255) / encoded.std, -encoded.mean / encoded.std
    middle = 255 * encoded.mean
    steps = torch.nextafter(middle, 2 * middle + 1) - middle
    near = (
        middle
        + steps * torch.arange(-SEARCHED_STEPS, SEARCHED_STEPS + 1, device=middle.device)[:, None]
    )
    best = (near * w + b).abs().argmin(0)
    return rgb + (near.gather(0, best[None])[0] - middle)[:, None, None].to(rgb)


_TOLD_BY_IDS = {"logprobs": True, "return_token_ids": True, "return_tokens_as_token_ids": True}


class CommonWay(Way):
    """By a chat with frames in 8 bits."""

    def prepare(self, views: Sequence[View]) -> None:
        """Nothing has to be known before."""

    def row(self, view: View, tokens: Sequence[int], wanted: Wanted) -> Asked:
        """See `Way.row`: the answer so far is a message that the model continues."""
        body = dict(view.sent("common", lambda: self.chat(view)))
        written = [*view.thought, *tokens]
        if written:
            text = str(self.lm.tokenizer.decode(written, skip_special_tokens=False))
            body["messages"] = [*body["messages"], {"role": "assistant", "content": text}]
            body |= {"add_generation_prompt": False, "continue_final_message": True}
        more: dict[str, Any] = {"top_logprobs": wanted.top}
        if wanted.ids:
            more = {"top_logprobs": len(wanted.ids), "logprob_token_ids": list(wanted.ids)}
        return Asked("/v1/chat/completions", body | _TOLD_BY_IDS | more)

    def read_row(self, view: View, tokens: Sequence[int], answer: Any) -> Said:
        """See `Way.read_row`. Raises NotApplicable where the text so far becomes other tokens."""
        ids, said = read_chat(answer)
        meant = [*view.prompt, *tokens]
        begun = len(view.prompt) - len(view.thought)
        if begun < len(meant) and ids != meant and ids[:begun] == meant[:begun]:
            text = self.lm.tokenizer.decode(meant[begun:])
            raise NotApplicable(
                f"the answer so far, {shown(text, 60)}, becomes other tokens when it is sent as"
                " text",
                "Start the server with --enable-scale-out, by which tokens are sent as ids; of a"
                " model that cannot be asked so, see whether its template takes a begun answer",
            )
        check_prompt(ids, meant)
        return said

    def step(self, encoded: RemoteEncoded) -> Tensor:
        """See `Way.step`: a step of 8 bits."""
        return 1 / 255 / encoded.std[:, None, None]

    def question(self, view: View, at: Sequence[int], how: Question) -> Asked:
        """See `Way.question`: of the whole prompt."""
        body = view.sent("common", lambda: self.chat(view)) | _TOLD_BY_IDS
        return Asked("/v1/chat/completions", body | {"prompt_logprobs": 0, "top_logprobs": 1})

    def read_question(
        self, view: View, at: Sequence[int], how: Question, answer: Any
    ) -> NDArray[np.float64]:
        """See `Way.read_question`."""
        ids, _ = read_chat(answer)
        check_prompt(ids, view.prompt[: len(view.prompt) - len(view.thought)])
        return read_prompt_log_p(answer, ids, at)


def check_place(features: Mapping[str, Any], kind: str, vision_tokens: int) -> None:
    """Raises RemoteError, of status 501, where text stands among the tokens of a video.

    /inference/v1/generate of vLLM 0.32 is told of one stretch of tokens a video. Where these are
    more than there are features, as in Qwen3-VL with its timestamps between frames, its engine
    ends, and the server with it.
    """
    places = features.get("mm_placeholders")
    held = places.get(kind) if isinstance(places, dict) else None
    if not isinstance(held, list) or len(held) != 1 or not isinstance(held[0], dict):
        raise unusable("it does not say where the video's tokens are")
    if held[0].get("length") != vision_tokens:
        raise RemoteError(
            "text stands among the video's tokens, which the exact way of vLLM 0.32 cannot take",
            "Take the common way",
            501,
        )


def check_prompt(ids: Sequence[int], own: Sequence[int]) -> None:
    """Raises RemoteError where the server's prompt is another than the one made here."""
    if list(ids) == list(own):
        return
    first = next((i for i, (a, b) in enumerate(zip(ids, own, strict=False)) if a != b), None)
    where = f"from token {first + 1} on" if first is not None else "in its length"
    raise RemoteError(
        f"the server's prompt differs from the one made here {where}: {len(ids)} tokens there,"
        f" {len(own)} here",
        "Name the model's own files in MACD_VLLM_FILES; start the server without --chat-template"
        " and --tokenizer, and with --trust-request-mm-kwargs, so that no frame is left out",
    )
