"""The bytes of a `.macd` file → Trace; raises TraceError for whatever is not a sound one."""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.bundle_format import (
    ALL_PIXELS,
    FINAL_FIELDS,
    FORMAT,
    LEDGER_FIELDS,
    MAX_BYTES,
    MAX_ITEMS,
    MODEL_PIXELS,
    PLAIN_FIELDS,
    SCHEMA,
    SOURCE_PIXELS,
    Arrays,
    check_values,
)
from core.contrast import floor_of_top
from core.errors import MacdError, TraceError
from core.options import MaskOptions
from core.pictures import LOSSLESS_PIXELS, decode_picture, decode_pictures, picture_size
from core.types import (
    Answer,
    AscentStep,
    Counterfactual,
    Floats,
    Ledger,
    ModelFrames,
    Outline,
    Stroke,
    TokenStep,
    Trace,
    Track,
)

MAX_POINTS, MAX_RINGS, MAX_STROKES = 400, 8, 200
MAX_MEMBERS = 4096
Pictures = dict[str, dict[int, bytes]]
"""Frames as they are in the file: by folder, then by index."""
_MEMBER = re.compile(
    r"arrays/(?P<array>[a-z0-9_]{1,40})\.npy"
    r"|(?P<folder>frames|model|shown[0-9]{1,3})/(?P<index>[0-9]{4})\.webp"
)
DAMAGED = "Save it again from the run, or ask for another copy"


def unpack(content: bytes) -> Trace:
    """The trace in a file's bytes; raises TraceError."""
    try:
        return _unpack(content)
    except TraceError:
        raise
    except MacdError as error:
        raise TraceError(f"the trace holds a value out of range ({error.cause})", DAMAGED) from None
    except MemoryError:
        raise TraceError("the trace claims more memory than there is", DAMAGED) from None
    except Exception as error:  # whatever a hostile file provokes in zip, JSON, NumPy or Pillow
        raise TraceError(
            f"the file is not a sound trace ({type(error).__name__})", DAMAGED
        ) from None


def _unpack(content: bytes) -> Trace:
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        infos = file.infolist()
        if len(infos) > MAX_MEMBERS or sum(i.file_size for i in infos) > MAX_BYTES:
            raise TraceError("the file unpacks to more than a trace can be", DAMAGED)
        manifest = _json(file.read("manifest.json"))
        if manifest.get("format") != FORMAT:
            raise TraceError("the file is not a MACD trace", "Choose a .macd file")
        if manifest.get("schema") not in (1, SCHEMA):
            raise TraceError(
                f"the trace has schema {manifest.get('schema')!r}, not 1 or {SCHEMA}",
                "Open it with the version that wrote it",
            )
        arrays: Arrays = {}
        pictures: Pictures = {}
        for name, sha256 in manifest["sha256"].items():
            place = _MEMBER.fullmatch(name)
            if place is None:
                raise TraceError(f"the trace holds {name[:60]!r}, which is no part of it", DAMAGED)
            content = file.read(name)
            if hashlib.sha256(content).hexdigest() != sha256:
                raise TraceError(f"{name} in the trace was changed or damaged", DAMAGED)
            if place["array"]:
                arrays[place["array"]] = _array(content)
                if sum(a.size for a in arrays.values()) > MAX_ITEMS:
                    raise TraceError("the trace's arrays hold more than a trace has", DAMAGED)
            else:
                pictures.setdefault(place["folder"], {})[int(place["index"])] = content
    if manifest["schema"] == 1:
        _upgrade_from_1(manifest, pictures)
    return _restore(manifest, arrays, pictures)


def _upgrade_from_1(m: dict[str, Any], pictures: Pictures) -> None:
    """Schema 1 held the model's frames alone, without loss where they are small."""
    height, width = picture_size(pictures["frames"][0])
    m["model"] = None
    if height * width <= LOSSLESS_PIXELS:
        m["model"] = {
            "content": [0, 0, width, height],
            "stretch": 1.0,
            "duration": m["clip"].get("duration", 0.0),
        }
        pictures["model"] = pictures["frames"]
    for answer in m["answers"]:
        answer["total_ms"] = answer["ms"]


def _check_pictures(m: dict[str, Any], pictures: Pictures, frames: int) -> None:
    """Counts and sizes by the headers, before a single picture is decoded."""
    folders = {"frames": SOURCE_PIXELS} | ({"model": MODEL_PIXELS} if m["model"] else {})
    if m["schema"] == 1:
        folders["frames"] = MODEL_PIXELS
    for folder, most in folders.items():
        found = pictures.get(folder, {})
        if not 0 < len(found) == frames or sorted(found) != list(range(frames)):
            raise TraceError("the trace lacks some of its frames", DAMAGED)
        if sum(h * w for h, w in map(picture_size, found.values())) > most:
            raise TraceError(
                f"the trace's frames have more than {most / 1e6:.0f} megapixels",
                "Run the clip again with fewer frames",
            )
    size = picture_size(pictures["model"][0]) if m["model"] else None
    for folder, found in pictures.items():
        if folder not in ("frames", "model"):
            fits = all(i < frames and picture_size(c) == size for i, c in found.items())
            if not fits:
                raise TraceError("a second view has frames of another size", DAMAGED)


def _restore(m: dict[str, Any], arrays: Arrays, pictures: Pictures) -> Trace:
    counts = m["counts"]
    t, k, g = (int(counts[n]) for n in ("frames", "tracks", "groups"))
    if not all(0 <= n <= MAX_MEMBERS for n in (t, k, g)):
        raise TraceError("the trace counts more than it can hold", DAMAGED)
    _check_pictures(m, pictures, t)
    frames = decode_pictures(list(pictures["frames"][i] for i in range(t)))
    times = _shaped(arrays, "times", (t,))
    read = _restore_model(m["model"], pictures, times)
    room = ALL_PIXELS - frames.size // 3 - (0 if read is None else read.pixels.size // 3)
    if len(m["groups"]) != g or len(m["tracks"]) != k:
        raise TraceError("the trace's parts do not fit together", DAMAGED)
    groups = tuple(tuple(int(f) for f in z) for z in m["groups"])
    if any(not 0 <= f < t for z in groups for f in z):
        raise TraceError("a frame group names a frame that is not there", DAMAGED)
    for name, kind in PLAIN_FIELDS.items():
        if not isinstance(m[name], kind) or isinstance(m[name], bool):
            raise TraceError(f"{name} in the trace is of the wrong kind", DAMAGED)
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
        answers=_restore_answers(m, arrays, pictures, read, room),
        warnings=tuple(_text(w) for w in m["warnings"]),
        **{n: m[n] for n in PLAIN_FIELDS},
    )


def _restore_model(
    m: dict[str, Any] | None, pictures: Pictures, times: NDArray[np.float64]
) -> ModelFrames | None:
    if m is None:
        return None
    x0, y0, x1, y1 = (int(x) for x in m["content"])
    return ModelFrames(
        pixels=decode_pictures([pictures["model"][i] for i in range(len(times))]),
        times=times,
        duration=_number(m["duration"]),
        content=(x0, y0, x1, y1),
        stretch=_number(m["stretch"]),
    )


def _restore_answers(
    m: dict[str, Any], arrays: Arrays, pictures: Pictures, read: ModelFrames | None, room: int
) -> dict[str, Answer]:
    """By method. room: pixels that second views may take; those that come later are left out."""
    answers: dict[str, Answer] = {}
    for i, row in enumerate(m["answers"]):
        answer = _restore_answer(row, i, arrays, m)
        if row.get("shown") and read is not None and room >= read.pixels.size // 3:
            room -= read.pixels.size // 3
            frames = read.pixels.copy()
            for at, picture in pictures.get(f"shown{i}", {}).items():
                frames[at] = decode_picture(picture)
            answer = replace(answer, shown=frames)
        answers[_text(row["method"])] = answer
    return answers


def _restore_tracks(rows: list[dict[str, Any]], arrays: Arrays, t: int) -> tuple[Track, ...]:
    if not rows:
        return ()
    boxes = _shaped(arrays, "boxes", (len(rows), t, 4), finite=False)
    state = _shaped(arrays, "state", (len(rows), t))
    if (
        not np.isin(state, (0, 1, 2)).all()
        or (np.nan_to_num(boxes) != np.nan_to_num(boxes).clip(0, 1)).any()
    ):
        raise TraceError("a track has boxes outside the frame", DAMAGED)
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
        raise TraceError("a track in the trace has too many brush strokes", DAMAGED)
    return tuple(
        Stroke(_line(row["points"]), _number(row["radius"]), bool(row["erase"])) for row in rows
    )


def _restore_outlines(rows: Sequence[Any], frames: int) -> tuple[Outline | None, ...]:
    if len(rows) not in (0, frames) or any(z is not None and len(z) > MAX_RINGS for z in rows):
        raise TraceError("a track has outlines of other frames, or of too many parts", DAMAGED)
    return tuple(None if z is None else tuple(_line(r) for r in z) for z in rows)


def _line(told: Any) -> Floats:
    points = np.array(told, np.float32)
    if (
        points.ndim != 2
        or points.shape[1] != 2
        or not 1 <= len(points) <= MAX_POINTS
        or not (np.abs(points) < 1000).all()
    ):
        raise TraceError("a stroke or an outline in the trace is not a line", DAMAGED)
    return points


def _restore_ledger(told: list[Any] | None, arrays: Arrays, k: int) -> Ledger | None:
    if told is None:
        return None
    tokens = arrays["ledger_token_change"].shape[-1]
    shapes = dict.fromkeys(LEDGER_FIELDS, (k,)) | {"token_change": (k, tokens)}
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
        n: _shaped(arrays, f"final_{n}", (g if n.startswith("frame") else k,)) for n in FINAL_FIELDS
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
            raise TraceError("a token has no candidates", DAMAGED)
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
        raise TraceError("the trace hides vision tokens that it cannot have", DAMAGED)
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
            f"{name} in the trace is {array.dtype} {array.shape}, not {shape}", DAMAGED
        )
    if finite and not np.isfinite(array).all():
        raise TraceError(f"{name} in the trace is not finite", DAMAGED)
    return array


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > 100_000:
        raise TraceError("the trace holds something else where text belongs", DAMAGED)
    return value


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TraceError("the trace holds something else where an object belongs", DAMAGED)
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TraceError("the trace holds something else where a number belongs", DAMAGED)
    return float(value)


def _json(content: bytes) -> dict[str, Any]:
    def refuse(name: str) -> float:
        raise TraceError(f"the trace holds {name}", DAMAGED)

    check_values(content)
    found = json.loads(content, parse_constant=refuse)
    if not isinstance(found, dict):
        raise TraceError("the file is not a MACD trace", "Choose a .macd file")
    return found


def _array(content: bytes) -> NDArray[Any]:
    file = io.BytesIO(content)
    version = np.lib.format.read_magic(file)
    if version != (1, 0):
        raise TraceError("an array in the trace has an unknown header", DAMAGED)
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    claimed = int(np.prod(shape, dtype=object)) * dtype.itemsize
    if dtype.hasobject or claimed != len(content) - file.tell():
        raise TraceError("an array in the trace is not as large as it claims", DAMAGED)
    file.seek(0)
    return np.lib.format.read_array(file, allow_pickle=False)
