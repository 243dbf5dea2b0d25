"""What goes over the wire, and what comes back, checked: frames, pixel tensors, log-probabilities.

Shapes and names are those of vLLM 0.32. Nothing of an answer is believed before it was looked at.
"""

from __future__ import annotations

import base64
import hashlib
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgpack  # type: ignore[import-untyped]
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from macd_studio.core.errors import RemoteError
from macd_studio.core.types import ModelFrames, Pixels

RAW = 3
"""Type of an extension of msgpack that holds the bytes of a tensor."""
TICKS = 1_000_000
"""Frames a second that times are told in: the server takes whole numbers of frames only."""
MAX_TOKEN = 2**31
MAX_SHARE = 1.01
"""What probabilities of some tokens may add up to, with what rounding adds."""
TENSORS: dict[str, np.dtype[Any]] = {
    name: np.dtype(name) for name in ("uint8", "float32", "float16", "int64", "int32", "float64")
} | {"bfloat16": np.dtype("uint16"), "bool": np.dtype("bool")}
"""Types of tensors → how their bytes are read; bfloat16 as the upper half of a float32."""


def unusable(what: str) -> RemoteError:
    """An answer that no vLLM gives."""
    return RemoteError(
        f"the server's answer cannot be used: {what}",
        "Give the address of a vLLM server of version 0.32, or look at what stands in front of it",
    )


# frames


def png(frame: Pixels) -> str:
    """A frame (h, w, 3) as PNG in base64."""
    held = io.BytesIO()
    Image.fromarray(frame).save(held, "PNG", compress_level=1)
    return base64.b64encode(held.getvalue()).decode()


def video_url(pixels: Pixels) -> str:
    """Frames (T, h, w, 3) as one address of data; vLLM splits it at the commas.

    The type says JPEG because that is how vLLM tells a list of frames from a film. What it reads
    are PNG, which lose nothing.
    """
    return "data:video/jpeg;base64," + ",".join(png(frame) for frame in pixels)


def frame_times(times: NDArray[np.float64], duration: float) -> dict[str, Any]:
    """`media_io_kwargs` that keep every frame and tell when it was taken, to a microsecond.

    Seconds a frame follow from the number of frames of the whole video, as in
    `core.backbones.prompt.metadata_of`.
    """
    count = len(times)
    span = float(times[-1] - times[0])
    step = span / (count - 1) if span else duration
    return {
        "video": {
            "num_frames": -1,
            "fps": TICKS,
            "frames_indices": [round(float(t) * TICKS) for t in times],
            "total_num_frames": max(1, round(step * count * TICKS)),
            "duration": max(float(times[-1]), duration, 1e-3),
        }
    }


def chat_body(
    model: str,
    text: str,
    frames: ModelFrames | None,
    times: NDArray[np.float64] | None = None,
    template: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A chat request about frames, or about a text alone; asks for one token, the likeliest.

    times: (T,) that the family counts from. template: arguments of the chat template.
    """
    content: list[dict[str, Any]] = [{"type": "text", "text": text}]
    more: dict[str, Any] = {}
    if frames is not None:
        url = {"type": "video_url", "video_url": {"url": video_url(frames.pixels)}}
        content = [url, *content]
        more = {
            "media_io_kwargs": frame_times(
                frames.times if times is None else times, frames.duration
            ),
            "mm_processor_kwargs": {"do_sample_frames": False, "do_resize": False},
        }
    if template:
        more["chat_template_kwargs"] = dict(template)
    return {
        "model": model,
        "messages": [{"role": "user", "content": content}],
        "max_tokens": 1,
        **SAMPLING,
        **more,
    }


SAMPLING: dict[str, Any] = {
    "temperature": 0.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0,
    "presence_penalty": 0.0, "frequency_penalty": 0.0, "ignore_eos": True,
}  # fmt: skip
"""Nothing changes a score: what the server's generation config says does not count."""


# pixel tensors


@dataclass(frozen=True, eq=False)
class Features:
    """What /render made of a video: the features of its answer, parsed.

    item: names → the tensor's data and its field, as msgpack holds them. place: which of them are
    the pixels; dtype, shape: of these. scale: 255 where the server normalises them itself, else 0.
    """

    features: Mapping[str, Any]
    kind: str
    item: Mapping[str, Any]
    place: str
    shape: tuple[int, ...]
    scale: float

    def with_pixels(self, pixels: NDArray[np.float32]) -> dict[str, Any]:
        """The features of another view: its pixels, float32, under a hash of its own.

        The server caches by that hash, so that equal ones must mean equal pixels.
        """
        entry = dict(self.item[self.place])
        raw = np.ascontiguousarray(pixels, np.float32).tobytes()
        entry["data"] = ["float32", list(self.shape), msgpack.ExtType(RAW, raw)]
        packed = msgpack.packb({**self.item, self.place: entry})
        digest = hashlib.sha256(packed).hexdigest()
        return {
            "mm_hashes": {self.kind: [f"macd-{digest}"]},
            "mm_placeholders": self.features["mm_placeholders"],
            "kwargs_data": {self.kind: [base64.b64encode(packed).decode()]},
        }


def read_features(answer: Any) -> tuple[list[int], str, dict[str, Any], dict[str, Any]]:
    """Prompt ids, kind of medium, features and tensors of an answer of /render."""
    row = _object(answer, "it is no object")
    ids = read_ids(row.get("token_ids"), "its prompt")
    features = _object(row.get("features"), "it holds no features of a video")
    data = _object(features.get("kwargs_data"), "it holds no pixels")
    if len(data) != 1:
        raise unusable(f"it tells of {len(data)} kinds of media")
    ((kind, items),) = data.items()
    if not isinstance(items, list) or len(items) != 1 or not isinstance(items[0], str):
        raise unusable("it holds not one video")
    try:
        item = msgpack.unpackb(base64.b64decode(items[0], validate=True), strict_map_key=True)
    except Exception as error:  # the library raises errors of many kinds
        raise unusable(f"its pixels cannot be unpacked ({type(error).__name__})") from error
    return ids, str(kind), features, _object(item, "its tensors have no names")


def tensor_of(entry: Any) -> tuple[str, NDArray[Any]] | None:
    """The type and the values of one named tensor; None where it is none."""
    data = entry.get("data") if isinstance(entry, dict) else None
    if not isinstance(data, list) or len(data) != 3:
        return None
    dtype, shape, held = data
    if dtype not in TENSORS or not isinstance(held, msgpack.ExtType) or held.code != RAW:
        return None
    if not isinstance(shape, list) or not all(isinstance(n, int) and n >= 0 for n in shape):
        raise unusable("a tensor has no shape")
    values = np.frombuffer(held.data, TENSORS[dtype]) if len(held.data) else np.zeros(0)
    if values.size != math.prod(shape):
        raise unusable("a tensor has another size than its shape")
    if dtype == "bfloat16":
        values = (values.astype(np.uint32) << 16).view(np.float32)
    return dtype, values.reshape(shape)


# log-probabilities


@dataclass(frozen=True)
class Said:
    """What a server says of the next token: the likeliest, and log p by token, its own in it."""

    token: int
    log_p: Mapping[int, float]


def read_generated(answer: Any) -> Said:
    """One token with its log-probabilities, from /inference/v1/generate."""
    choice = _choice(answer)
    ids = read_ids(choice.get("token_ids"), "its token")
    if len(ids) != 1:
        raise unusable("it holds not one token")
    rows = _candidates(choice)
    return _said(ids[0], {_token(r.get("token_id")): log_p(r.get("logprob")) for r in rows})


def read_chat(answer: Any) -> tuple[list[int], Said]:
    """Prompt ids, and one token with its log-probabilities, from /v1/chat/completions."""
    row, choice = _object(answer, "it is no object"), _choice(answer)
    prompt = read_ids(row.get("prompt_token_ids"), "its prompt")
    rows = _candidates(choice)
    found = {_named_token(r.get("token")): log_p(r.get("logprob")) for r in rows}
    return prompt, _said(next(iter(found)), found)


def read_prompt_log_p(answer: Any, ids: Sequence[int], at: Sequence[int]) -> NDArray[np.float64]:
    """log p of the prompt's tokens at some places, (Q,), from either way's `prompt_logprobs`."""
    rows = _list(_object(answer, "it is no object").get("prompt_logprobs"), "the prompt's tokens")
    if len(rows) < max(at) + 1:
        raise unusable(f"it tells of {len(rows)} of the prompt's {len(ids)} tokens")
    found = []
    for place in at:
        row = _object(rows[place], "a token of the prompt is missing")
        if str(ids[place]) not in row:
            raise unusable("it tells of another token than the prompt's")
        found.append(log_p(_object(row[str(ids[place])], "a number is missing").get("logprob")))
    return np.array(found)


def read_scored(answer: Any, count: int) -> NDArray[np.float64]:
    """log p (Q,) from `prompt_logprob_token_ids`, of as many tokens in a row."""
    held = _object(answer, "it is no object").get("prompt_token_id_logprobs")
    if not isinstance(held, str):
        raise unusable("it holds no log-probabilities of the question")
    try:
        file = io.BytesIO(base64.b64decode(held, validate=True))
        np.lib.format.read_magic(file)
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        values = np.frombuffer(file.read(), dtype if dtype.kind == "f" else np.float32)
    except (ValueError, EOFError, OSError) as error:
        raise unusable("its log-probabilities of the question cannot be read") from error
    fits = dtype.kind == "f" and shape == (count, 1) and values.size == count
    if not fits or not (values <= 1e-3).all():
        raise unusable("its log-probabilities of the question are of another size")
    values = values.reshape(shape)
    return np.asarray(values[:, 0], np.float64)


def read_ids(value: Any, whose: str) -> list[int]:
    """Token ids."""
    return [_token(one) for one in _list(value, f"the ids of {whose}")]


def log_p(value: Any) -> float:
    """A log-probability: at most 0, and no less than the server's own least."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1e5 <= value <= 1e-3:
        raise unusable(f"{value!r:.40} stands in the place of a log-probability")
    return min(float(value), 0.0)


def _said(token: int, found: Mapping[int, float]) -> Said:
    best = max(found.values())
    if found[token] < best - 1e-3:
        raise unusable("the likeliest token is not the one that it chose")
    if sum(map(math.exp, found.values())) > MAX_SHARE:
        raise unusable("the probabilities of its tokens add up to more than 1")
    return Said(token, found)


def _choice(answer: Any) -> dict[str, Any]:
    choices = _list(_object(answer, "it is no object").get("choices"), "answers")
    if len(choices) != 1:
        raise unusable(f"it holds {len(choices)} answers")
    return _object(choices[0], "its answer is no object")


def _candidates(choice: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The one token of an answer, and those that it might have been."""
    content = _object(choice.get("logprobs"), "it holds no log-probabilities").get("content")
    if not isinstance(content, list) or len(content) != 1:
        raise unusable("it holds not one token")
    one = _object(content[0], "a token is no object")
    others = _list(one.get("top_logprobs", []), "candidates")
    return [one, *(_object(other, "a candidate is no object") for other in others)]


def _named_token(name: Any) -> int:
    if not isinstance(name, str) or not name.startswith("token_id:"):
        raise unusable("its tokens are told by their text, not by their ids")
    try:
        return _token(int(name.removeprefix("token_id:")))
    except ValueError as error:
        raise unusable("a token has no id") from error


def _token(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < MAX_TOKEN:
        raise unusable(f"{value!r:.40} stands in the place of a token's id")
    return value


def _object(value: Any, otherwise: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise unusable(otherwise)
    return value


def _list(value: Any, of_what: str) -> list[Any]:
    if not isinstance(value, list):
        raise unusable(f"it holds no list of {of_what}")
    return value
