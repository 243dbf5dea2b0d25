"""Trace → the bytes of a `.macd` file."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections import defaultdict
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from macd_studio.core.decoding.contrast import winners_penalised
from macd_studio.core.errors import TraceError
from macd_studio.core.media.webp import PICTURE_PIXELS, decode_pictures, encode_picture
from macd_studio.core.traces.codec import Made, Writer
from macd_studio.core.traces.format import (
    FORMAT,
    MAX_BYTES,
    MAX_ITEMS,
    MAX_MANIFEST,
    MODEL_PIXELS,
    SCHEMA,
    SOURCE_PIXELS,
    Arrays,
    options_as_dict,
)
from macd_studio.core.types import Answer, Pixels, ShownView, StepWeights, TokenStep, Trace

KEPT = (256, 64, 16, 4)
"""Candidates per token that are tried where a run has more numbers than a file can hold."""
ROOM = 4 * 2**20
"""Of a file's bytes, what is left for the manifest."""


def pack(trace: Trace) -> bytes:
    """The file's bytes. Of a run of too many numbers fewer candidates are kept, with a note."""
    arrays, manifest = _fitting(trace)
    members = {f"arrays/{name}.npy": _npy(a) for name, a in arrays.items()}
    members |= _pack_frames(trace)
    if sum(map(len, members.values())) > MAX_BYTES - ROOM and trace.model_frames is not None:
        return pack(replace(trace, model_frames=None))
    manifest["sha256"] = {n: hashlib.sha256(b).hexdigest() for n, b in members.items()}
    text = _text(manifest)
    if len(text) > MAX_MANIFEST:
        for track in manifest["tracks"]:
            track["outlines"] = []
        manifest["warnings"].append("outlines were too many to be saved; boxes are shown instead")
        text = _text(manifest)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name, content in {"manifest.json": text, **members}.items():
            info = zipfile.ZipInfo(name)  # a fixed date: equal traces are equal files
            info.compress_type = zipfile.ZIP_DEFLATED
            file.writestr(info, content)
    return out.getvalue()


def _fitting(trace: Trace) -> tuple[Arrays, dict[str, Any]]:
    """Arrays and manifest, of as many candidates per token as fit; TraceError where none do."""
    arrays, manifest = _flatten(trace)
    for keep in KEPT:
        if sum(a.size for a in arrays.values()) <= MAX_ITEMS:
            return arrays, manifest
        told = (
            f"the run had more numbers than a file can hold: about {keep} candidates per token were"
            " saved; choices at every α and β are the same"
        )
        fewer = drop_candidates(trace, keep)
        arrays, manifest = _flatten(replace(fewer, warnings=(*trace.warnings, told)))
    if sum(a.size for a in arrays.values()) <= MAX_ITEMS:
        return arrays, manifest
    raise TraceError(
        "the run keeps more numbers than a trace can hold",
        "Run it again with fewer tokens or methods",
    )


def _text(manifest: dict[str, Any]) -> bytes:
    return json.dumps(manifest, allow_nan=False).encode()


def _pack_frames(trace: Trace) -> dict[str, bytes]:
    """Source frames, model frames, and the frames of second views that differ from those."""
    shown = _within(trace.frames, SOURCE_PIXELS)
    pictures = {f"frames/{i:04d}.webp": (f, False) for i, f in enumerate(shown)}
    if _keeps_model_frames(trace):
        assert trace.model_frames is not None
        read = trace.model_frames.pixels
        pictures |= {f"model/{i:04d}.webp": (f, True) for i, f in enumerate(read)}
        for k, answer in enumerate(trace.answers.values()):
            for j, second in enumerate(answer.second_views):
                if second.shown is not None:
                    pictures |= _differing(f"shown{k}_{j}", second.shown, read)
    with ThreadPoolExecutor() as pool:
        encoded = pool.map(lambda picture: encode_picture(*picture), pictures.values())
        return dict(zip(pictures, encoded, strict=True))


def stored_frames(trace: Trace) -> Pixels:
    """The trace's frames (T, H, W, 3) as a file of it gives them back: what depends on their pixels
    is the same before it was saved and after.
    """
    shown = _within(trace.frames, SOURCE_PIXELS)
    with ThreadPoolExecutor() as pool:
        return decode_pictures(list(pool.map(encode_picture, shown)))


def _differing(folder: str, shown: Pixels, read: Pixels) -> dict[str, tuple[Pixels, bool]]:
    """The frames of a second view that the model did not read as they are in the first."""
    return {
        f"{folder}/{i:04d}.webp": (f, False)
        for i, f in enumerate(shown)
        if not np.array_equal(f, read[i])
    }


def _within(frames: Pixels, most: int) -> list[Pixels]:
    """Frames (T, H, W, 3) with no more than `most` pixels in all, smaller where they have more."""
    count, height, width, _ = frames.shape
    scale = (min(most / count, PICTURE_PIXELS) / (height * width)) ** 0.5
    if scale >= 1:
        return list(frames)
    size = max(1, int(scale * width)), max(1, int(scale * height))
    return [np.asarray(Image.fromarray(f).resize(size)) for f in frames]


def _keeps_model_frames(trace: Trace) -> bool:
    """Above a limit a file can only be shown: the frames that the backbone read are left out."""
    read = trace.model_frames
    if read is None:
        return False
    height, width = read.size
    return height * width <= PICTURE_PIXELS and read.pixels.size // 3 <= MODEL_PIXELS


def _flatten(trace: Trace) -> tuple[Arrays, dict[str, Any]]:
    arrays: Arrays = {}
    pieces: dict[str, str] = {}

    def tokens(answer: Answer, prefix: str) -> Made:
        for t in answer.tokens:
            pieces.update(zip(map(str, t.candidates.tolist()), t.texts, strict=True))
        return {"tokens": len(answer.tokens)} | _flatten_tokens(answer.tokens, prefix, writer)

    writer = Writer(
        arrays, {Answer: tokens, ShownView: lambda view, _: {"shown": view.shown is not None}}
    )
    kept = trace if _keeps_model_frames(trace) else replace(trace, model_frames=None)
    counts = {
        "frames": len(trace.frames), "tracks": len(trace.tracks), "groups": len(trace.groups)
    }  # fmt: skip
    manifest = {"format": FORMAT, "schema": SCHEMA, "counts": counts} | writer.row(kept)
    return arrays, manifest | {"pieces": pieces, "options": options_as_dict(trace)}


def _flatten_tokens(tokens: Sequence[TokenStep], prefix: str, writer: Writer) -> Made:
    """The arrays of an answer's tokens; what of them the manifest holds."""
    if not tokens:
        return {}
    arrays = writer.arrays
    writer.columns(tokens, TokenStep, prefix)
    arrays[f"{prefix}count"] = np.array([len(t.candidates) for t in tokens])
    read = [t for t in tokens if t.others]
    seconds = len(read[0].others) if read else 0
    for j in range(seconds):
        arrays[f"{prefix}other{j}"] = np.concatenate([t.others[j] for t in read])
        log_z = [t.others_log_z[j] if t.others else np.nan for t in tokens]
        arrays[f"{prefix}other{j}_log_z"] = np.array(log_z)
    _flatten_weights(tokens, seconds, prefix, arrays)
    hidden = [t.hidden for t in tokens if t.hidden is not None]
    if hidden and len(hidden) == len(read):
        arrays[f"{prefix}hidden"] = np.packbits(np.stack(hidden), axis=1)
        arrays[f"{prefix}vision_tokens"] = np.array([len(hidden[0])])
    repeats = [t.repeats for t in tokens if t.repeats is not None]
    if len(repeats) < len(tokens):
        return {}
    arrays[f"{prefix}repeated"] = np.concatenate([r.at for r in repeats]).astype(np.uint8)
    return {"repetition_penalty": repeats[0].penalty}


def _flatten_weights(
    tokens: Sequence[TokenStep], seconds: int, prefix: str, arrays: Arrays
) -> None:
    """How each token was scored, where the answer's α, β and cut do not determine it."""
    weights = [t.weights for t in tokens if t.weights is not None]
    if len(weights) < len(tokens) or all(w == StepWeights() for w in weights):
        return
    others = [w.others or (0.0,) * seconds for w in weights]
    rows = [[w.base, *z, w.floor] for w, z in zip(weights, others, strict=True)]
    arrays[f"{prefix}weights"] = np.array(rows)
    bias = [(i, *pair) for i, w in enumerate(weights) for pair in w.bias]
    if bias:
        arrays[f"{prefix}bias"] = np.array(bias)


def _npy(array: NDArray[Any]) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, np.ascontiguousarray(array), allow_pickle=False)
    return out.getvalue()


def drop_candidates(trace: Trace, keep: int) -> Trace:
    """The trace with the `keep` best candidates of each view at every token, keep ≥ 1.

    The choice at every α and β stays exact; probabilities become upper bounds where the cut lets a
    token through that is left out, and the floor of the step says where.

    What else is kept: every token that wins for some α in [0, 20] and β in [0, 1], the tokens that
    an answer has at the same index, and those that evidence was measured for.
    """
    needed: dict[int, set[int]] = defaultdict(set)
    for answer in trace.answers.values():
        for step in answer.tokens:
            needed[step.index].add(step.token)
    for found in trace.evidence:
        target = found.target
        needed[target.index].add(target.token)
        if target.against is not None:
            needed[target.index].add(target.against)
    answers = {
        name: replace(
            answer, tokens=tuple(_fewer(step, keep, needed[step.index]) for step in answer.tokens)
        )
        for name, answer in trace.answers.items()
    }
    return replace(trace, answers=answers)


def _fewer(step: TokenStep, keep: int, needed: Collection[int]) -> TokenStep:
    kept = np.isin(step.candidates, list(needed))
    for view in (step.base, *step.others):
        kept[np.argsort(-view, kind="stable")[:keep]] = True
    if step.others:
        kept[winners_penalised(step.base, step.others[0], step.repeats)] = True
    if kept.all():
        return step
    highest = np.asarray(step.base[~kept].max())
    above = float(np.nextafter(highest, np.inf, dtype=highest.dtype))
    return replace(
        step,
        candidates=step.candidates[kept],
        texts=tuple(text for text, stays in zip(step.texts, kept, strict=True) if stays),
        base=step.base[kept],
        others=tuple(row[kept] for row in step.others),
        repeats=step.repeats and step.repeats.among(kept),
        floor=max(step.floor, above),
    )
