"""Trace ⇄ one `.macd` file: a zip of a JSON manifest, plain arrays and WebP frames.

Opens without torch, reads no pickle and executes nothing. The format is described in
docs/trace-format.md; a file that is damaged, tampered with or too large raises TraceError.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from core.contrast import floor_of_top
from core.errors import MacdError, TraceError
from core.options import MaskOptions
from core.types import (
    Answer,
    AscentStep,
    Counterfactual,
    Floats,
    Ledger,
    ModelFrames,
    Outline,
    Pixels,
    Stroke,
    TokenStep,
    Trace,
    Track,
)

FORMAT, SCHEMA = "macd-trace", 2
MAX_BYTES = 512 * 2**20
MAX_POINTS, MAX_RINGS, MAX_STROKES = 400, 8, 200
MAX_MEMBERS = 4096
_LOSSLESS_PIXELS = 160 * 160
"""Frames that only show something are stored without loss up to this size."""
_DAMAGED = "Save it again from the run, or ask for another copy"

Arrays = dict[str, NDArray[Any]]


def save(trace: Trace, path: str | Path) -> Path:
    """Writes the file whole or not at all; returns its path. Raises TraceError if it cannot."""
    path = Path(path)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        try:
            part.write_bytes(pack(trace))
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise TraceError(
            f"the trace cannot be written to {str(path)!r} ({error.strerror})",
            "Choose another place, or free space",
        ) from error
    return path


def load(path: str | Path) -> Trace:
    """Opens a saved trace; raises TraceError for anything that is not a sound one."""
    path = Path(path)
    if not path.is_file():
        raise TraceError(f"there is no trace {str(path)!r}", "Check the file name")
    if path.stat().st_size > MAX_BYTES:
        raise TraceError(f"{path.name!r} is larger than a trace can be", "Choose a .macd file")
    content = path.read_bytes()
    if not content.startswith(b"PK"):
        raise TraceError(f"{path.name!r} is no trace", "Choose a .macd file")
    return unpack(content)


def pack(trace: Trace) -> bytes:
    """The file's bytes."""
    arrays, manifest = _flatten(trace)
    members = {f"arrays/{name}.npy": _npy(a) for name, a in arrays.items()}
    members |= _pack_frames(trace)
    manifest["sha256"] = {n: hashlib.sha256(b).hexdigest() for n, b in members.items()}
    text = json.dumps(manifest, ensure_ascii=True, allow_nan=False).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in {"manifest.json": text, **members}.items():
            info = zipfile.ZipInfo(name)  # a fixed date: equal traces are equal files
            info.compress_type = zipfile.ZIP_DEFLATED
            file.writestr(info, content)
    return out.getvalue()


def _pack_frames(trace: Trace) -> dict[str, bytes]:
    """Source frames, model frames, and the frames of second views that differ from those."""
    pictures = {f"frames/{i:04d}.webp": (f, False) for i, f in enumerate(trace.frames)}
    if trace.model_frames is not None:
        read = trace.model_frames.pixels
        pictures |= {f"model/{i:04d}.webp": (f, True) for i, f in enumerate(read)}
        for k, answer in enumerate(trace.answers.values()):
            if answer.shown is not None:
                pictures |= {
                    f"shown{k}/{i:04d}.webp": (f, False)
                    for i, f in enumerate(answer.shown)
                    if not np.array_equal(f, read[i])
                }
    with ThreadPoolExecutor() as pool:
        encoded = pool.map(lambda picture: encode_picture(*picture), pictures.values())
        return dict(zip(pictures, encoded, strict=True))


def unpack(content: bytes) -> Trace:
    """The trace in a file's bytes; raises TraceError."""
    try:
        return _unpack(content)
    except TraceError:
        raise
    except MacdError as error:
        raise TraceError(
            f"the trace holds a value out of range ({error.cause})", _DAMAGED
        ) from None
    except MemoryError:
        raise TraceError("the trace claims more memory than there is", _DAMAGED) from None
    except Exception as error:  # whatever a hostile file provokes in zip, JSON, NumPy or Pillow
        raise TraceError(
            f"the file is not a sound trace ({type(error).__name__})", _DAMAGED
        ) from None


def _unpack(content: bytes) -> Trace:
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        infos = file.infolist()
        if len(infos) > MAX_MEMBERS or sum(i.file_size for i in infos) > MAX_BYTES:
            raise TraceError("the file unpacks to more than a trace can be", _DAMAGED)
        manifest = _json(file.read("manifest.json"))
        if manifest.get("format") != FORMAT:
            raise TraceError("the file is not a MACD trace", "Choose a .macd file")
        if manifest.get("schema") not in (1, SCHEMA):
            raise TraceError(
                f"the trace has schema {manifest.get('schema')!r}, not 1 or {SCHEMA}",
                "Open it with the version that wrote it",
            )
        members = {}
        for name, sha256 in manifest["sha256"].items():
            members[name] = file.read(name)
            if hashlib.sha256(members[name]).hexdigest() != sha256:
                raise TraceError(f"{name} in the trace was changed or damaged", _DAMAGED)
    arrays = {
        n[len("arrays/") : -len(".npy")]: _array(b)
        for n, b in members.items()
        if n.startswith("arrays/")
    }
    pictures: dict[str, dict[int, Pixels]] = {}
    for name in sorted(members):
        folder, _, file = name.partition("/")
        if file.endswith(".webp"):
            index = int(file.removesuffix(".webp"))
            pictures.setdefault(folder, {})[index] = decode_picture(members[name])
    if manifest["schema"] == 1:
        _upgrade_from_1(manifest, pictures)
    return _restore(manifest, arrays, pictures)


def _upgrade_from_1(m: dict[str, Any], pictures: dict[str, dict[int, Pixels]]) -> None:
    """Schema 1 held the model's frames alone, without loss where they are small."""
    height, width = pictures["frames"][0].shape[:2]
    m["model"] = None
    if height * width <= _LOSSLESS_PIXELS:
        m["model"] = {
            "content": [0, 0, width, height],
            "stretch": 1.0,
            "duration": m["clip"].get("duration", 0.0),
        }
        pictures["model"] = pictures["frames"]
    for answer in m["answers"]:
        answer["total_ms"] = answer["ms"]


def _flatten(trace: Trace) -> tuple[Arrays, dict[str, Any]]:
    arrays: Arrays = {"times": trace.times}
    k, g = len(trace.tracks), len(trace.groups)
    if k:
        arrays["boxes"] = np.stack([t.boxes for t in trace.tracks])
        arrays["state"] = np.stack([t.state for t in trace.tracks])
    if trace.steps:
        arrays["step_loss"] = np.array([s.loss for s in trace.steps])
        for name in _STEP_FIELDS:
            arrays[f"step_{name}"] = np.stack([getattr(s, name) for s in trace.steps])
    found = trace.counterfactual
    if found:
        arrays |= {f"final_{n}": getattr(found, n) for n in _FINAL_FIELDS}
    if trace.ledger:
        arrays |= {f"ledger_{n}": getattr(trace.ledger, n) for n in _LEDGER_FIELDS}
    pieces: dict[str, str] = {}
    answers = []
    for i, a in enumerate(trace.answers.values()):
        answers.append(_flatten_answer(a, i, arrays, pieces))
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "schema": SCHEMA,
        "question": trace.question,
        "groups": [list(z) for z in trace.groups],
        "model": _flatten_model(trace.model_frames),
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
        "losses": [found.base_loss, found.loss] if found else None,
        "ledger": [trace.ledger.correlation, trace.ledger.verdict] if trace.ledger else None,
        "answers": answers,
        "pieces": pieces,
        "mask": vars(trace.mask),
    }
    manifest |= {n: getattr(trace, n) for n in _PLAIN_FIELDS}
    return arrays, manifest | {"warnings": list(trace.warnings)}


def _flatten_model(frames: ModelFrames | None) -> dict[str, Any] | None:
    if frames is None:
        return None
    return {
        "content": list(frames.content),
        "stretch": frames.stretch,
        "duration": frames.duration,
    }


_STEP_FIELDS = ("strength", "gradient", "frame_strength", "frame_gradient")
_FINAL_FIELDS = (
    "strength",
    "margin",
    "level",
    "frame_strength",
    "frame_margin",
    "frame_level",
)
_LEDGER_FIELDS = ("gradient", "loss_change", "odds_change", "token_change")
_PLAIN_FIELDS: dict[str, type | tuple[type, ...]] = {
    "clip": dict,
    "backbone": dict,
    "detector": dict,
    "options": dict,
    "timings_ms": dict,
    "peak_memory_mb": (int, float),
    "seed": int,
    "shared": dict,
    "status": str,
    "versions": dict,
}


def _flatten_answer(a: Answer, i: int, arrays: Arrays, pieces: dict[str, str]) -> dict[str, Any]:
    for t in a.tokens:
        pieces |= {str(c): p for c, p in zip(t.candidates.tolist(), t.texts, strict=True)}
        pieces[str(t.token)] = t.text
    two = bool(a.tokens) and a.tokens[0].counter is not None
    if a.tokens:
        key = f"answer{i}"
        arrays[f"{key}_token"] = np.array([t.token for t in a.tokens])
        arrays[f"{key}_count"] = np.array([len(t.candidates) for t in a.tokens])
        arrays[f"{key}_candidates"] = np.concatenate([t.candidates for t in a.tokens])
        arrays[f"{key}_base"] = np.concatenate([t.base for t in a.tokens])
        arrays[f"{key}_base_log_z"] = np.array([t.base_log_z for t in a.tokens])
        arrays[f"{key}_floor"] = np.array([t.floor for t in a.tokens])
        if two:
            counters = [cast(NDArray[np.float32], t.counter) for t in a.tokens]
            arrays[f"{key}_counter"] = np.concatenate(counters)
            arrays[f"{key}_counter_log_z"] = np.array([t.counter_log_z for t in a.tokens], float)
        hidden = [t.hidden for t in a.tokens if t.hidden is not None]
        if len(hidden) == len(a.tokens):
            arrays[f"{key}_hidden"] = np.packbits(np.stack(hidden), axis=1)
            arrays[f"{key}_vision_tokens"] = np.array([len(hidden[0])])
    return {
        "method": a.method,
        "text": a.text,
        "finished": a.finished,
        "alpha": a.alpha,
        "beta": a.beta,
        "head": a.head,
        "votes": a.votes,
        "view": a.view,
        "shown": a.shown is not None,
        "ms": a.ms,
        "total_ms": a.total_ms,
        "memory_mb": a.memory_mb,
        "two_views": two,
        "tokens": len(a.tokens),
    }


def _restore(m: dict[str, Any], arrays: Arrays, pictures: dict[str, dict[int, Pixels]]) -> Trace:
    counts = m["counts"]
    t, k, g = (int(counts[n]) for n in ("frames", "tracks", "groups"))
    frames = _stacked(pictures["frames"])
    times = _shaped(arrays, "times", (t,))
    read = _restore_model(m["model"], pictures, times)
    if len(frames) != t or len(m["groups"]) != g or len(m["tracks"]) != k:
        raise TraceError("the trace's parts do not fit together", _DAMAGED)
    groups = tuple(tuple(int(f) for f in z) for z in m["groups"])
    if any(not 0 <= f < t for z in groups for f in z):
        raise TraceError("a frame group names a frame that is not there", _DAMAGED)
    for name, kind in _PLAIN_FIELDS.items():
        if not isinstance(m[name], kind) or isinstance(m[name], bool):
            raise TraceError(f"{name} in the trace is of the wrong kind", _DAMAGED)
    return Trace(
        question=_text(m["question"]),
        frames=frames,
        times=times,
        groups=groups,
        model_frames=read,
        mask=MaskOptions(**m["mask"]),
        tracks=_restore_tracks(m["tracks"], arrays, t),
        steps=_restore_steps(arrays, k, g),
        counterfactual=_restore_counterfactual(m["losses"], arrays, k, g),
        ledger=_restore_ledger(m.get("ledger"), arrays, k),
        answers={
            _text(a["method"]): replace(
                _restore_answer(a, i, arrays, m),
                shown=_restore_shown(a, pictures.get(f"shown{i}", {}), read),
            )
            for i, a in enumerate(m["answers"])
        },
        warnings=tuple(_text(w) for w in m["warnings"]),
        **{n: m[n] for n in _PLAIN_FIELDS},
    )


def _stacked(pictures: Mapping[int, Pixels]) -> Pixels:
    if sorted(pictures) != list(range(len(pictures))):
        raise TraceError("the trace lacks some of its frames", _DAMAGED)
    return np.stack([pictures[i] for i in range(len(pictures))])


def _restore_model(
    m: dict[str, Any] | None, pictures: dict[str, dict[int, Pixels]], times: NDArray[np.float64]
) -> ModelFrames | None:
    if m is None:
        return None
    x0, y0, x1, y1 = (int(x) for x in m["content"])
    return ModelFrames(
        pixels=_stacked(pictures["model"]),
        times=times,
        duration=_number(m["duration"]),
        content=(x0, y0, x1, y1),
        stretch=_number(m["stretch"]),
    )


def _restore_shown(
    row: dict[str, Any], changed: Mapping[int, Pixels], read: ModelFrames | None
) -> Pixels | None:
    """Frames of a second view: those that were stored, the model's own for the rest."""
    if not row.get("shown") or read is None:
        return None
    frames = read.pixels.copy()
    for i, picture in changed.items():
        if i >= len(frames) or picture.shape != frames[i].shape:
            raise TraceError("a second view has frames of another size", _DAMAGED)
        frames[i] = picture
    return frames


def _restore_tracks(rows: list[dict[str, Any]], arrays: Arrays, t: int) -> tuple[Track, ...]:
    if not rows:
        return ()
    boxes = _shaped(arrays, "boxes", (len(rows), t, 4), finite=False)
    state = _shaped(arrays, "state", (len(rows), t))
    if (
        not np.isin(state, (0, 1, 2)).all()
        or (np.nan_to_num(boxes) != np.nan_to_num(boxes).clip(0, 1)).any()
    ):
        raise TraceError("a track has boxes outside the frame", _DAMAGED)
    return tuple(
        Track(
            id=int(row["id"]),
            label=_text(row["label"]),
            confidence=_number(row["confidence"]),
            boxes=boxes[i].astype(np.float32),
            state=state[i].astype(np.int8),
            frames_seen=int(row["frames_seen"]),
            brush=_restore_brush(row.get("brush", ())),
            outlines=_restore_outlines(row.get("outlines", ()), t),
        )
        for i, row in enumerate(rows)
    )


def _restore_brush(rows: Sequence[Any]) -> tuple[Stroke, ...]:
    if len(rows) > MAX_STROKES:
        raise TraceError("a track in the trace has too many brush strokes", _DAMAGED)
    return tuple(
        Stroke(_line(row["points"]), _number(row["radius"]), bool(row["erase"])) for row in rows
    )


def _restore_outlines(rows: Sequence[Any], frames: int) -> tuple[Outline | None, ...]:
    if len(rows) not in (0, frames) or any(z is not None and len(z) > MAX_RINGS for z in rows):
        raise TraceError("a track has outlines of other frames, or of too many parts", _DAMAGED)
    return tuple(None if z is None else tuple(_line(r) for r in z) for z in rows)


def _line(told: Any) -> Floats:
    points = np.array(told, np.float32)
    if (
        points.ndim != 2
        or points.shape[1] != 2
        or not 1 <= len(points) <= MAX_POINTS
        or not (np.abs(points) < 1000).all()
    ):
        raise TraceError("a stroke or an outline in the trace is not a line", _DAMAGED)
    return points


def _restore_ledger(told: list[Any] | None, arrays: Arrays, k: int) -> Ledger | None:
    if told is None:
        return None
    tokens = arrays["ledger_token_change"].shape[-1]
    shapes = dict.fromkeys(_LEDGER_FIELDS, (k,)) | {"token_change": (k, tokens)}
    parts = {n: _shaped(arrays, f"ledger_{n}", s) for n, s in shapes.items()}
    correlation = None if told[0] is None else _number(told[0])
    return Ledger(**parts, correlation=correlation, verdict=_text(told[1]))


def _restore_steps(arrays: Arrays, k: int, g: int) -> tuple[AscentStep, ...]:
    if "step_loss" not in arrays:
        return ()
    loss = _shaped(arrays, "step_loss", (len(arrays["step_loss"]),))
    n = len(loss)
    if arrays["step_frame_strength"].shape == (n, 0):
        g = 0  # the frame mask was off
    shapes = {"strength": k, "gradient": k, "frame_strength": g, "frame_gradient": g}
    parts = {f: _shaped(arrays, f"step_{f}", (n, w)) for f, w in shapes.items()}
    return tuple(
        AscentStep(i, float(loss[i]), **{f: p[i] for f, p in parts.items()}) for i in range(n)
    )


def _restore_counterfactual(
    losses: list[float | None] | None, arrays: Arrays, k: int, g: int
) -> Counterfactual | None:
    if losses is None:
        return None
    if arrays["final_frame_strength"].shape == (0,):
        g = 0
    parts = {
        n: _shaped(arrays, f"final_{n}", (g if n.startswith("frame") else k,))
        for n in _FINAL_FIELDS
    }
    base, counter = (None if z is None else _number(z) for z in losses)
    return Counterfactual(**parts, base_loss=base, loss=counter)


def _restore_answer(row: dict[str, Any], i: int, arrays: Arrays, m: Mapping[str, Any]) -> Answer:
    pieces = m["pieces"]
    n, key, two = int(row["tokens"]), f"answer{i}", bool(row["two_views"])
    tokens: list[TokenStep] = []
    if n:
        count = _shaped(arrays, f"{key}_count", (n,)).astype(np.int64)
        total = int(count.sum())
        if (count < 1).any():
            raise TraceError("a token has no candidates", _DAMAGED)
        token = _shaped(arrays, f"{key}_token", (n,)).astype(np.int64)
        ids = _shaped(arrays, f"{key}_candidates", (total,)).astype(np.int64)
        views = {"base": _shaped(arrays, f"{key}_base", (total,))}
        log_z = {"base": _shaped(arrays, f"{key}_base_log_z", (n,))}
        if two:
            views["counter"] = _shaped(arrays, f"{key}_counter", (total,))
            log_z["counter"] = _shaped(arrays, f"{key}_counter_log_z", (n,))
        hidden = _restore_hidden(arrays, key, n)
        ends = np.cumsum(count)
        bases = np.split(views["base"], ends[:-1])
        floors = _restore_floors(arrays, key, bases, m["options"].get("decode", {}).get("keep"))
        for j, (a, b) in enumerate(zip(ends - count, ends, strict=True)):
            mine = ids[a:b]
            tokens.append(
                TokenStep(
                    index=j,
                    token=int(token[j]),
                    text=_text(pieces[str(token[j])]),
                    candidates=mine,
                    texts=tuple(_text(pieces[str(c)]) for c in mine.tolist()),
                    base=views["base"][a:b].astype(np.float32),
                    base_log_z=float(log_z["base"][j]),
                    counter=views["counter"][a:b].astype(np.float32) if two else None,
                    counter_log_z=float(log_z["counter"][j]) if two else None,
                    hidden=None if hidden is None else hidden[j],
                    floor=floors[j],
                )
            )
    return Answer(
        method=_text(row["method"]),
        text=_text(row["text"]),
        tokens=tuple(tokens),
        finished=bool(row["finished"]),
        alpha=_number(row["alpha"]),
        beta=_number(row["beta"]),
        head=_text(row["head"]),
        votes={_text(k): int(n) for k, n in row["votes"].items()},
        view=_object(row["view"]),
        ms=_number(row["ms"]),
        total_ms=_number(row["total_ms"]),
        memory_mb=_number(row["memory_mb"]),
    )


def _restore_hidden(arrays: Arrays, key: str, tokens: int) -> NDArray[np.bool_] | None:
    """(tokens, N) bool, the vision tokens that the second view did not see; None if it saw all."""
    if f"{key}_hidden" not in arrays:
        return None
    n = int(_shaped(arrays, f"{key}_vision_tokens", (1,))[0])
    if not 0 < n <= 2**20:
        raise TraceError("the trace hides vision tokens that it cannot have", _DAMAGED)
    packed = _shaped(arrays, f"{key}_hidden", (tokens, (n + 7) // 8))
    return np.unpackbits(packed, axis=1, count=n).astype(bool)


def _restore_floors(
    arrays: Arrays, key: str, bases: list[NDArray[Any]], keep: object
) -> list[float]:
    """One a token; files written before it was stored tell it by the run's options."""
    if f"{key}_floor" not in arrays:
        return [floor_of_top(b, keep) for b in bases]
    found = _shaped(arrays, f"{key}_floor", (len(bases),), finite=False)
    return [float(x) for x in np.where(np.isnan(found), np.inf, found)]


def _shaped(arrays: Arrays, name: str, shape: tuple[int, ...], finite: bool = True) -> NDArray[Any]:
    array = arrays[name]
    if array.shape != shape or array.dtype.kind not in "fiu":
        raise TraceError(
            f"{name} in the trace is {array.dtype} {array.shape}, not {shape}", _DAMAGED
        )
    if finite and not np.isfinite(array).all():
        raise TraceError(f"{name} in the trace is not finite", _DAMAGED)
    return array


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > 100_000:
        raise TraceError("the trace holds something else where text belongs", _DAMAGED)
    return value


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TraceError("the trace holds something else where an object belongs", _DAMAGED)
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TraceError("the trace holds something else where a number belongs", _DAMAGED)
    return float(value)


def _json(content: bytes) -> dict[str, Any]:
    def refuse(name: str) -> float:
        raise TraceError(f"the trace holds {name}", _DAMAGED)

    found = json.loads(content, parse_constant=refuse)
    if not isinstance(found, dict):
        raise TraceError("the file is not a MACD trace", "Choose a .macd file")
    return found


def _npy(array: NDArray[Any]) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, np.ascontiguousarray(array), allow_pickle=False)
    return out.getvalue()


def _array(content: bytes) -> NDArray[Any]:
    file = io.BytesIO(content)
    version = np.lib.format.read_magic(file)
    if version != (1, 0):
        raise TraceError("an array in the trace has an unknown header", _DAMAGED)
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    claimed = int(np.prod(shape, dtype=object)) * dtype.itemsize
    if dtype.hasobject or claimed != len(content) - file.tell():
        raise TraceError("an array in the trace is not as large as it claims", _DAMAGED)
    file.seek(0)
    return np.lib.format.read_array(file, allow_pickle=False)


def encode_picture(frame: Pixels, exact: bool = False) -> bytes:
    """One frame (H, W, 3) as WebP; small ones and `exact` ones without loss."""
    return _encode(frame.shape[0], frame.shape[1], np.ascontiguousarray(frame).tobytes(), exact)


@lru_cache(maxsize=256)
def _encode(height: int, width: int, pixels: bytes, exact: bool) -> bytes:
    frame = Image.frombuffer("RGB", (width, height), pixels)
    out = io.BytesIO()
    if exact or height * width <= _LOSSLESS_PIXELS:
        frame.save(out, "WEBP", lossless=True, quality=60, method=2)
    else:
        frame.save(out, "WEBP", quality=80, method=2)
    return out.getvalue()


def decode_picture(content: bytes) -> Pixels:
    """The frame (H, W, 3) that `encode_picture` wrote; raises TraceError if it is too large."""
    with Image.open(io.BytesIO(content), formats=["WEBP"]) as image:
        if image.width * image.height > 4096 * 4096:
            raise TraceError("a frame in the trace is too large", _DAMAGED)
        return np.asarray(image.convert("RGB"))
