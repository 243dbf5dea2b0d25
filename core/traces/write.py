"""Trace → the bytes of a `.macd` file."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from macd_studio.core.errors import TraceError
from macd_studio.core.media.webp import PICTURE_PIXELS, encode_picture
from macd_studio.core.traces.evidence import flatten_evidence
from macd_studio.core.traces.format import (
    FINAL_FIELDS,
    FORMAT,
    MAX_BYTES,
    MAX_ITEMS,
    MAX_MANIFEST,
    MODEL_PIXELS,
    OCCLUSION_FIELDS,
    PLAIN_FIELDS,
    RECORD_FIELDS,
    SCHEMA,
    SOURCE_PIXELS,
    STEP_FIELDS,
    Arrays,
    options_as_dict,
)
from macd_studio.core.types import Answer, ModelFrames, Pixels, StepWeights, TokenStep, Trace

ROOM = 4 * 2**20
"""Of a file's bytes, what is left for the manifest."""


def pack(trace: Trace) -> bytes:
    """The file's bytes."""
    arrays, manifest = _flatten(trace)
    if sum(a.size for a in arrays.values()) > MAX_ITEMS:
        raise TraceError(
            "the run keeps more numbers than a trace can hold",
            "Run it again with fewer tokens, or fewer candidates per token",
        )
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
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in {"manifest.json": text, **members}.items():
            info = zipfile.ZipInfo(name)  # a fixed date: equal traces are equal files
            info.compress_type = zipfile.ZIP_DEFLATED
            file.writestr(info, content)
    return out.getvalue()


def _text(manifest: dict[str, Any]) -> bytes:
    return json.dumps(manifest, ensure_ascii=True, allow_nan=False).encode()


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
    arrays: Arrays = {"times": trace.times}
    k, g = len(trace.tracks), len(trace.groups)
    if k:
        arrays["boxes"] = np.stack([t.boxes for t in trace.tracks])
        arrays["state"] = np.stack([t.state for t in trace.tracks])
    if trace.steps:
        arrays["step_loss"] = np.array([s.loss for s in trace.steps])
        for name in STEP_FIELDS:
            arrays[f"step_{name}"] = np.stack([getattr(s, name) for s in trace.steps])
    counterfactual = trace.counterfactual
    if counterfactual:
        arrays |= {f"final_{n}": getattr(counterfactual, n) for n in FINAL_FIELDS}
    report = trace.occlusion
    if report:
        arrays |= {f"occlusion_{n}": getattr(report, n) for n in OCCLUSION_FIELDS}
    pieces: dict[str, str] = {}
    answers = []
    for i, a in enumerate(trace.answers.values()):
        answers.append(_flatten_answer(a, i, arrays, pieces))
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "schema": SCHEMA,
        "question": trace.question,
        "groups": [list(z) for z in trace.groups],
        "model": _flatten_model(trace.model_frames if _keeps_model_frames(trace) else None),
        "counts": {"frames": len(trace.frames), "tracks": k, "groups": g},
        "tracks": [
            {
                "id": t.id,
                "label": t.label,
                "confidence": t.confidence,
                "frames_seen": t.frames_seen,
                "brush": [
                    {"points": s.points.tolist(), "radius": s.radius, "erase": s.erase}
                    for s in t.brush
                ],
                "outlines": [
                    None if z is None else [[[round(float(x), 4) for x in p] for p in r] for r in z]
                    for z in t.outlines
                ],
            }
            for t in trace.tracks
        ],
        "losses": [counterfactual.base_loss, counterfactual.loss] if counterfactual else None,
        "occlusion": [report.correlation, report.verdict] if report else None,
        "controls": asdict(trace.controls) if trace.controls else None,
        "answers": answers,
        "pieces": pieces,
        "mask": vars(trace.mask),
    }
    manifest |= {n: getattr(trace, n).as_dict() for n in RECORD_FIELDS}
    manifest["options"] = options_as_dict(trace)
    manifest |= {n: getattr(trace, n) for n in PLAIN_FIELDS}
    if trace.evidence:
        manifest["evidence"] = flatten_evidence(trace, arrays)
    return arrays, manifest | {"warnings": list(trace.warnings)}


def _flatten_model(frames: ModelFrames | None) -> dict[str, Any] | None:
    if frames is None:
        return None
    return {
        "content": list(frames.content),
        "stretch": frames.stretch,
        "duration": frames.duration,
    }


def _flatten_answer(a: Answer, i: int, arrays: Arrays, pieces: dict[str, str]) -> dict[str, Any]:
    for t in a.tokens:
        pieces |= {str(c): p for c, p in zip(t.candidates.tolist(), t.texts, strict=True)}
        pieces[str(t.token)] = t.text
    if a.tokens:
        key = f"answer{i}"
        arrays[f"{key}_token"] = np.array([t.token for t in a.tokens])
        arrays[f"{key}_count"] = np.array([len(t.candidates) for t in a.tokens])
        arrays[f"{key}_candidates"] = np.concatenate([t.candidates for t in a.tokens])
        arrays[f"{key}_base"] = np.concatenate([t.base for t in a.tokens])
        arrays[f"{key}_base_log_z"] = np.array([t.base_log_z for t in a.tokens])
        arrays[f"{key}_floor"] = np.array([t.floor for t in a.tokens])
        for j in range(len(a.tokens[0].others)):
            arrays[f"{key}_other{j}"] = np.concatenate([t.others[j] for t in a.tokens])
            arrays[f"{key}_other{j}_log_z"] = np.array([t.others_log_z[j] for t in a.tokens], float)
        _flatten_weights(a.tokens, key, arrays)
        repeats = [t.repeats for t in a.tokens if t.repeats is not None]
        if len(repeats) == len(a.tokens):
            arrays[f"{key}_repeated"] = np.concatenate([r.at for r in repeats]).astype(np.uint8)
        hidden = [t.hidden for t in a.tokens if t.hidden is not None]
        if len(hidden) == len(a.tokens):
            arrays[f"{key}_hidden"] = np.packbits(np.stack(hidden), axis=1)
            arrays[f"{key}_vision_tokens"] = np.array([len(hidden[0])])
    row: dict[str, Any] = {
        "method": a.method,
        "text": a.text,
        "finished": a.finished,
        "alpha": a.alpha,
        "beta": a.beta,
        "head": a.head,
        "rule": a.rule,
        "votes": a.votes,
        "second_views": [
            {"view": z.view.as_dict(), "shown": z.shown is not None} for z in a.second_views
        ],
        "ms": a.ms,
        "total_ms": a.total_ms,
        "memory_mb": a.memory_mb,
        "tokens": len(a.tokens),
    }
    if a.tokens and a.tokens[0].repeats is not None:
        row["repetition_penalty"] = a.tokens[0].repeats.penalty
    return row


def _flatten_weights(tokens: Sequence[TokenStep], key: str, arrays: Arrays) -> None:
    """How each token was scored, where the answer's α, β and cut do not determine it."""
    weights = [t.weights for t in tokens if t.weights is not None]
    if len(weights) < len(tokens) or all(w == StepWeights() for w in weights):
        return
    arrays[f"{key}_weights"] = np.array([[w.base, *w.others, w.floor] for w in weights])
    bias = [(i, *pair) for i, w in enumerate(weights) for pair in w.bias]
    if bias:
        arrays[f"{key}_bias"] = np.array(bias, np.float64)


def _npy(array: NDArray[Any]) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, np.ascontiguousarray(array), allow_pickle=False)
    return out.getvalue()
