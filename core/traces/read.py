"""The bytes of a `.macd` file → Trace; raises TraceError for any other or damaged file.

What comes back obeys `core.traces.schema`, and its parts fit each other: readers need no guard.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.decoding.contrast import floor_of_top
from macd_studio.core.errors import MacdError, OptionError, TraceError
from macd_studio.core.media.webp import decode_picture, decode_pictures, picture_size
from macd_studio.core.options import RunOptions
from macd_studio.core.records import TEXT
from macd_studio.core.repeats import Repeats
from macd_studio.core.traces.archive import DAMAGED
from macd_studio.core.traces.container import Pictures, open_bundle, required, shaped
from macd_studio.core.traces.controls import restore_controls
from macd_studio.core.traces.evidence import restore_evidence
from macd_studio.core.traces.format import (
    ALL_PIXELS,
    FINAL_FIELDS,
    MODEL_PIXELS,
    OCCLUSION_FIELDS,
    PLAIN_FIELDS,
    RECORD_FIELDS,
    SOURCE_PIXELS,
    Arrays,
)
from macd_studio.core.traces.migrations import migrate
from macd_studio.core.traces.schema import MANIFEST, REAL
from macd_studio.core.types import (
    LOST,
    Answer,
    AscentStep,
    Counterfactual,
    Edit,
    Floats,
    ModelFrames,
    OcclusionReport,
    Outline,
    Pixels,
    ShownView,
    StepWeights,
    Stroke,
    TokenStep,
    Trace,
    Track,
)
from macd_studio.core.validation import Maybe, Part
from macd_studio.core.view_records import view_from
from macd_studio.core.whatif.edits import MAX_EDITS, sound_edit

MAX_POINTS, MAX_RINGS = 400, 8
MAX_HIDDEN = 2**26
"""Vision tokens of one answer, times its tokens."""
MAX_LOGIT = 1e6


def unpack(content: bytes) -> Trace:
    """The trace in a file's bytes; raises TraceError."""
    try:
        manifest, arrays, pictures = open_bundle(content)
        source_pixels = MODEL_PIXELS if manifest["schema"] == 1 else SOURCE_PIXELS
        migrate(manifest, arrays, pictures)
        stored = _restore_options(manifest.get("options"))
        checked = MANIFEST.read(manifest, "")
        _check_pictures(checked, pictures, source_pixels)
        return _restore(checked, arrays, pictures, stored)
    except TraceError:
        raise
    except MacdError as error:
        raise TraceError(
            f"the trace holds a value out of range ({error.cause.lstrip('.')})", DAMAGED
        ) from None
    except MemoryError:
        raise TraceError("the trace claims more memory than there is", DAMAGED) from None
    except Exception as error:  # whatever a hostile file provokes in zip, NumPy or Pillow
        raise TraceError(
            f"the file is not a sound trace ({type(error).__name__})", DAMAGED
        ) from None


@dataclass(frozen=True)
class _StoredOptions:
    """keep: `decode.keep` where the file holds it, for files that do not store a token's floor."""

    options: RunOptions
    edits: tuple[Edit, ...]
    keep: int | None


def _restore_options(stored: Any) -> _StoredOptions:
    """The options, completed by their defaults, and the changes by hand that are stored among them.

    Options that no run takes any more can still be looked at; see `RunOptions.check_runnable`.
    """
    if not isinstance(stored, dict):
        raise TraceError("options in the trace are not an object", DAMAGED)
    raw_edits = stored.get("edits", [])
    if not isinstance(raw_edits, list) or len(raw_edits) > MAX_EDITS:
        raise TraceError("options.edits in the trace is not a list of changes", DAMAGED)
    edits = tuple(sound_edit(raw) for raw in raw_edits)
    plain = {name: value for name, value in stored.items() if name != "edits"}
    try:
        options: RunOptions = Part(RunOptions()).read(plain, "options")
    except OptionError as error:
        raise TraceError(
            f"the trace holds options that this version does not know ({error.cause})",
            "Open it with the version that wrote it, or ask for another copy",
        ) from None
    keep = options.decode.keep if "keep" in stored.get("decode", ()) else None
    return _StoredOptions(options, edits, keep)


def _check_pictures(m: dict[str, Any], pictures: Pictures, source_pixels: int) -> None:
    """Counts and sizes by the headers, before a single picture is decoded."""
    frames = m["counts"]["frames"]
    folders = {"frames": source_pixels} | ({"model": MODEL_PIXELS} if m["model"] else {})
    for folder, most in folders.items():
        members = pictures.get(folder, {})
        if not 0 < len(members) == frames or sorted(members) != list(range(frames)):
            raise TraceError("the trace lacks some of its frames", DAMAGED)
        if sum(h * w for h, w in map(picture_size, members.values())) > most:
            raise TraceError(
                f"the trace's frames have more than {most / 1e6:.0f} megapixels",
                "Run the clip again with fewer frames",
            )
    size = picture_size(pictures["model"][0]) if m["model"] else None
    for folder, members in pictures.items():
        if folder not in ("frames", "model"):
            fits = all(i < frames and picture_size(c) == size for i, c in members.items())
            if not fits:
                raise TraceError("a second view has frames of another size", DAMAGED)


def _restore(
    m: dict[str, Any], arrays: Arrays, pictures: Pictures, stored: _StoredOptions
) -> Trace:
    t, k, g = (m["counts"][n] for n in ("frames", "tracks", "groups"))
    if len(m["groups"]) != g or len(m["tracks"]) != k:
        raise TraceError("the trace's parts do not fit together", DAMAGED)
    groups = tuple(tuple(z) for z in m["groups"])
    order = [f for z in groups for f in z]
    if order != sorted(set(order)) or (order and order[-1] >= t):
        raise TraceError("the trace's frame groups are not those of its frames", DAMAGED)
    for edit in stored.edits:
        if edit.frame >= max(t, 1) or (edit.kind == "frames" and edit.track >= g):
            raise TraceError("a change by hand is to a frame that is not there", DAMAGED)
    times = shaped(arrays, "times", (t,))
    if (np.diff(times) < 0).any():
        raise TraceError("the times of the trace's frames go backwards", DAMAGED)
    tracks = _restore_tracks(m["tracks"], arrays, t)
    counterfactual = _restore_counterfactual(m["losses"], arrays, k, g)
    steps = _restore_steps(arrays, k, g)
    if counterfactual and any(
        len(s.frame_strength) != len(counterfactual.frame_strength) for s in steps
    ):
        raise TraceError("the ascent's steps do not fit its end", DAMAGED)
    occlusion = _restore_occlusion(m.get("occlusion"), arrays, k)
    frames = decode_pictures(list(pictures["frames"][i] for i in range(t)))
    read = _restore_model(m["model"], pictures, times)
    room = ALL_PIXELS - frames.size // 3 - (0 if read is None else read.pixels.size // 3)
    return Trace(
        question=m["question"],
        frames=frames,
        times=times,
        groups=groups,
        model_frames=read,
        mask=m["mask"],
        tracks=tracks,
        steps=steps,
        counterfactual=counterfactual,
        occlusion=occlusion,
        controls=restore_controls(m.get("controls")),
        evidence=restore_evidence(m.get("evidence", []), arrays, t, k, g),
        answers=_restore_answers(m, arrays, pictures, read, room, stored.keep),
        warnings=tuple(m["warnings"]),
        options=stored.options,
        edits=stored.edits,
        **{n: m[n] for n in (*RECORD_FIELDS, *PLAIN_FIELDS) if n in m},
    )


def _restore_model(
    m: dict[str, Any] | None, pictures: Pictures, times: NDArray[np.float64]
) -> ModelFrames | None:
    if m is None:
        return None
    x0, y0, x1, y1 = m["content"]
    return ModelFrames(
        pixels=decode_pictures([pictures["model"][i] for i in range(len(times))]),
        times=times,
        duration=m["duration"],
        content=(x0, y0, x1, y1),
        stretch=m["stretch"],
    )


def _restore_answers(
    m: dict[str, Any],
    arrays: Arrays,
    pictures: Pictures,
    read: ModelFrames | None,
    room: int,
    keep: int | None,
) -> dict[str, Answer]:
    """By method. room: pixels that second views may take; those that come later are left out."""
    answers: dict[str, Answer] = {}
    for i, row in enumerate(m["answers"]):
        if row["method"] in answers:
            raise TraceError(f"the trace holds two answers of {row['method']!r}", DAMAGED)
        answer = _restore_answer(row, f"answer{i}", arrays, m["pieces"], keep)
        second_views = []
        for j, view_row in enumerate(row["second_views"]):
            shown = None
            if view_row["shown"] and read is not None and room >= read.pixels.size // 3:
                shown = _restore_shown(read, pictures.get(f"shown{i}_{j}", {}))
                room -= read.pixels.size // 3
            second_views.append(ShownView(view_from(view_row["view"]), shown))
        answers[row["method"]] = replace(answer, second_views=tuple(second_views))
    return answers


def _restore_shown(read: ModelFrames, pictures: dict[int, bytes]) -> Pixels:
    """A second view's frames: those of the model where none was stored."""
    frames = read.pixels.copy()
    for at, picture in pictures.items():
        frames[at] = decode_picture(picture)
    return frames


def _restore_tracks(rows: list[dict[str, Any]], arrays: Arrays, t: int) -> tuple[Track, ...]:
    if not rows:
        return ()
    if len({row["id"] for row in rows}) < len(rows):
        raise TraceError("two tracks in the trace have one id", DAMAGED)
    state = shaped(arrays, "state", (len(rows), t), whole=True)
    boxes = shaped(arrays, "boxes", (len(rows), t, 4), lost=True)
    tracked = state != LOST
    here = boxes[tracked]
    if not np.isin(state, (0, 1, 2)).all() or not np.isfinite(here).all():
        raise TraceError("a track is seen where it has no box", DAMAGED)
    if (here != here.clip(0, 1)).any() or (here[:, :2] > here[:, 2:]).any():
        raise TraceError("a track has boxes outside the frame", DAMAGED)
    boxes[~tracked] = np.nan
    return tuple(
        Track(
            id=row["id"],
            label=row["label"],
            confidence=row["confidence"],
            boxes=boxes[i].astype(np.float32),
            state=state[i].astype(np.int8),
            frames_seen=row["frames_seen"],
            brush=tuple(
                Stroke(_line(b["points"]), b["radius"], b["erase"]) for b in row.get("brush", ())
            ),
            outlines=_restore_outlines(row.get("outlines", []), t),
        )
        for i, row in enumerate(rows)
    )


def _restore_outlines(rows: Any, frames: int) -> tuple[Outline | None, ...]:
    if not isinstance(rows, list) or len(rows) not in (0, frames):
        raise TraceError("a track has outlines of other frames", DAMAGED)
    if any(z is not None and not (isinstance(z, list) and len(z) <= MAX_RINGS) for z in rows):
        raise TraceError("a track has outlines of too many parts", DAMAGED)
    return tuple(None if z is None else tuple(_line(r) for r in z) for z in rows)


def _line(value: Any) -> Floats:
    points = (
        np.array(value) if isinstance(value, list) and len(value) <= MAX_POINTS else np.zeros(0)
    )
    if points.dtype.kind not in "if" or points.shape[1:] != (2,) or not len(points):
        raise TraceError("a stroke or an outline in the trace is not a line", DAMAGED)
    if not (np.abs(points.astype(np.float64)) < 1000).all():
        raise TraceError("a stroke or an outline in the trace lies far outside", DAMAGED)
    return points.astype(np.float32)


def _restore_occlusion(row: list[Any] | None, arrays: Arrays, k: int) -> OcclusionReport | None:
    if row is None:
        return None
    width = required(arrays, "occlusion_token_change").shape[-1:]
    shapes = dict.fromkeys(OCCLUSION_FIELDS, (k,)) | {"token_change": (k, *width)}
    parts = {n: shaped(arrays, f"occlusion_{n}", s) for n, s in shapes.items()}
    correlation, verdict = row
    return OcclusionReport(
        **parts,
        correlation=Maybe(REAL).read(correlation, "occlusion.correlation"),
        verdict=TEXT.read(verdict, "occlusion.verdict"),
    )


def _restore_steps(arrays: Arrays, k: int, g: int) -> tuple[AscentStep, ...]:
    if "step_loss" not in arrays:
        return ()
    loss = shaped(arrays, "step_loss", arrays["step_loss"].shape[:1])
    n = len(loss)
    if required(arrays, "step_frame_strength").shape == (n, 0):
        g = 0  # the frame mask was off
    shapes = {"strength": k, "gradient": k, "frame_strength": g, "frame_gradient": g}
    parts = {f: shaped(arrays, f"step_{f}", (n, w)) for f, w in shapes.items()}
    return tuple(
        AscentStep(i, float(loss[i]), **{f: p[i] for f, p in parts.items()}) for i in range(n)
    )


def _restore_counterfactual(
    losses: list[float | None] | None, arrays: Arrays, k: int, g: int
) -> Counterfactual | None:
    if losses is None:
        return None
    if required(arrays, "final_frame_strength").shape == (0,):
        g = 0
    parts = {
        n: shaped(arrays, f"final_{n}", (g if n.startswith("frame") else k,)) for n in FINAL_FIELDS
    }
    for name in ("level", "frame_level"):
        if (parts[name] != parts[name].clip(0, 1)).any():
            raise TraceError(f"a {name} in the trace is not from 0 to 1", DAMAGED)
    base, counter = losses
    if (base is None) != (counter is None):
        raise TraceError("the trace holds only one of two query losses", DAMAGED)
    return Counterfactual(**parts, base_loss=base, loss=counter)


def _restore_answer(
    row: dict[str, Any], key: str, arrays: Arrays, pieces: dict[str, str], keep: int | None
) -> Answer:
    tokens = _restore_tokens(row, key, arrays, pieces, keep) if row["tokens"] else ()
    return Answer(
        method=row["method"],
        text=row["text"],
        tokens=tokens,
        finished=row["finished"],
        alpha=row["alpha"],
        beta=row["beta"],
        head=row["head"],
        rule=row["rule"],
        votes=row["votes"],
        ms=row["ms"],
        total_ms=row["total_ms"],
        memory_mb=row["memory_mb"],
    )


def _restore_tokens(
    row: dict[str, Any], key: str, arrays: Arrays, pieces: dict[str, str], keep: int | None
) -> tuple[TokenStep, ...]:
    n, seconds = row["tokens"], len(row["second_views"])
    count = shaped(arrays, f"{key}_count", (n,), whole=True)
    if (count < 1).any():
        raise TraceError("a token has no candidates", DAMAGED)
    total = int(count.sum())
    token = shaped(arrays, f"{key}_token", (n,), whole=True)
    ids = shaped(arrays, f"{key}_candidates", (total,), whole=True)
    if not {str(c) for c in ids.tolist()} <= pieces.keys():
        raise TraceError("a token in the trace has no text", DAMAGED)
    ends = np.cumsum(count)
    logits: dict[str, list[Floats]] = {}
    log_z: dict[str, NDArray[Any]] = {}
    others = [f"other{j}" for j in range(seconds)]
    for view in ("base", *others):
        one = shaped(arrays, f"{key}_{view}", (total,), most=MAX_LOGIT)
        log_z[view] = shaped(arrays, f"{key}_{view}_log_z", (n,), most=MAX_LOGIT)
        if (one > np.repeat(log_z[view], count) + 1).any():  # a probability well over 1
            raise TraceError("a token in the trace has a logit above their partition", DAMAGED)
        logits[view] = np.split(one.astype(np.float32), ends[:-1])
    hidden = _restore_hidden(arrays, key, n)
    floors = _restore_floors(arrays, key, logits["base"], keep)
    weights = _restore_weights(row, arrays, key, n)
    repeats = _restore_repeats(row, arrays, key, ends)
    tokens = []
    for j, (a, b) in enumerate(zip(ends - count, ends, strict=True)):
        candidates, chosen = ids[a:b], int(token[j])
        if len(set(candidates.tolist())) < len(candidates) or chosen not in candidates:
            raise TraceError("a token in the trace is not among its candidates", DAMAGED)
        tokens.append(
            TokenStep(
                index=j,
                token=chosen,
                text=pieces[str(chosen)],
                candidates=candidates,
                texts=tuple(pieces[str(c)] for c in candidates.tolist()),
                base=logits["base"][j],
                base_log_z=float(log_z["base"][j]),
                others=tuple(logits[view][j] for view in others),
                others_log_z=tuple(float(log_z[view][j]) for view in others),
                hidden=None if hidden is None else hidden[j],
                floor=floors[j],
                weights=weights[j],
                repeats=repeats[j],
            )
        )
    return tuple(tokens)


def _restore_hidden(arrays: Arrays, key: str, tokens: int) -> NDArray[np.bool_] | None:
    """(tokens, N) bool, the vision tokens that the second view did not see; None if it saw all."""
    packed = arrays.get(f"{key}_hidden")
    if packed is None:
        return None
    n = int(shaped(arrays, f"{key}_vision_tokens", (1,), whole=True)[0])
    fits = packed.dtype == np.uint8 and packed.shape == (tokens, (n + 7) // 8)
    if not fits or not 0 < n * tokens <= MAX_HIDDEN:
        raise TraceError("the trace hides vision tokens that it cannot have", DAMAGED)
    return np.unpackbits(packed, axis=1, count=n).view(np.bool_)


def _restore_floors(arrays: Arrays, key: str, bases: list[Floats], keep: object) -> list[float]:
    """One per token; in files written before it was stored it follows from the run's options."""
    if f"{key}_floor" not in arrays:
        return [floor_of_top(b, keep) for b in bases]
    floors = shaped(arrays, f"{key}_floor", (len(bases),), lost=True)
    return [float(x) for x in np.where(np.isnan(floors), np.inf, floors)]


def _restore_weights(
    row: dict[str, Any], arrays: Arrays, key: str, tokens: int
) -> list[StepWeights | None]:
    """One per token; None under the linear rule, which the answer's α, β and cut give."""
    seconds = len(row["second_views"])
    if seconds > 1 and (row["rule"] == "linear" or f"{key}_weights" not in arrays):
        raise TraceError("an answer in the trace has views that nothing weighs", DAMAGED)
    if row["rule"] == "linear":
        return [None] * tokens
    if f"{key}_weights" not in arrays:
        return [StepWeights()] * tokens
    rows = shaped(arrays, f"{key}_weights", (tokens, seconds + 2), lost=True)
    if not np.isfinite(rows[:, :-1]).all() or np.isnan(rows[:, -1]).any():
        raise TraceError("a token in the trace has a weight that is not a number", DAMAGED)
    biases: list[list[tuple[int, float]]] = [[] for _ in range(tokens)]
    if f"{key}_bias" in arrays:
        length = arrays[f"{key}_bias"].shape[:1]
        for index, token, amount in shaped(arrays, f"{key}_bias", (*length, 3)).tolist():
            if not (0 <= index < tokens and index == int(index) and token == int(token)):
                raise TraceError("a bias in the trace belongs to no token", DAMAGED)
            biases[int(index)].append((int(token), amount))
    return [
        StepWeights(base, tuple(others), floor, tuple(bias))
        for (base, *others, floor), bias in zip(rows.tolist(), biases, strict=True)
    ]


def _restore_repeats(
    row: dict[str, Any], arrays: Arrays, key: str, ends: NDArray[np.int64]
) -> list[Repeats] | list[None]:
    """One per token; None where the model had no repetition penalty. ends: of their candidates."""
    name, penalty = f"{key}_repeated", row.get("repetition_penalty")
    if (penalty is None) != (name not in arrays):
        raise TraceError("the trace holds a penalty of no tokens, or tokens of none", DAMAGED)
    if penalty is None:
        return [None] * len(ends)
    at = shaped(arrays, name, (int(ends[-1]),), whole=True)
    if (at > 1).any():
        raise TraceError(f"{name} in the trace is neither 0 nor 1", DAMAGED)
    return [Repeats(penalty, part) for part in np.split(at.astype(bool), ends[:-1])]
