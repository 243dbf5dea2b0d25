"""The bytes of a `.macd` file → Trace; raises TraceError for any other or damaged file.

What comes back obeys the rules of `core.types`, and its parts fit each other: its readers need no
guard.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.description import MAX_LOGIT, PLAIN, TEXT, ByName
from macd_studio.core.errors import MacdError, OptionError, TraceError
from macd_studio.core.media.webp import decode_picture, decode_pictures, picture_size
from macd_studio.core.objects.edits import MAX_EDITS, validated_edit
from macd_studio.core.options import RunOptions
from macd_studio.core.records import PENALTY, Edit
from macd_studio.core.repeats import Repeats
from macd_studio.core.traces.archive import DAMAGED
from macd_studio.core.traces.codec import Made, Reader, shaped
from macd_studio.core.traces.container import Pictures, open_bundle
from macd_studio.core.traces.format import ALL_PIXELS, MODEL_PIXELS, SOURCE_PIXELS, Arrays
from macd_studio.core.types import (
    LOST,
    Answer,
    Floats,
    ModelFrames,
    Pixels,
    ShownView,
    StepWeights,
    TokenStep,
    Trace,
    Track,
)
from macd_studio.core.validation import Flag, Number, Part, Rule, rules_of

MAX_HIDDEN = 2**26
"""Vision tokens of one answer, times its tokens."""
_COUNT: Rule = Number(0, 4096, whole=True)
_TOKENS: Rule = Number(0, 8192, whole=True)
_PIECES = ByName(TEXT, 2**20)
_UNSEEN: Pixels = np.zeros((0, 0, 0, 3), np.uint8)
"""In place of pictures that are not decoded yet."""
_OWN_KEYS = {
    Trace: frozenset({"format", "schema", "counts", "pieces", "sha256", "options"}),
    Answer: frozenset({"repetition_penalty"}),
}
"""Keys of a row that no field has the name of."""


def unpack(content: bytes) -> Trace:
    """The trace in a file's bytes; raises TraceError."""
    return _opened(content, _with_pictures)


def check_readable(content: bytes) -> None:
    """Raises TraceError where `unpack` would refuse the file for anything but its pictures."""
    _opened(content, lambda trace, _: trace)


def _opened(content: bytes, finish: Callable[[Trace, Pictures], Trace]) -> Trace:
    """finish: what is made of the trace without its pixels."""
    try:
        manifest, arrays, pictures = open_bundle(content)
        return finish(_restore(manifest, arrays, pictures), pictures)
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


def _restore(m: Made, arrays: Arrays, pictures: Pictures) -> Trace:
    options, unknown, edits = _restore_options(m.get("options"))
    t, k, g = (_COUNT.read(m["counts"][n], n) for n in ("frames", "tracks", "groups"))
    if len(m["groups"]) != g or len(m["tracks"]) != k:
        raise TraceError("the trace's parts do not fit together", DAMAGED)
    _check_pictures(t, bool(m["model_frames"]), pictures)
    pieces = _PIECES.read(m["pieces"], "pieces")

    def model(row: Made, path: str, prefix: str) -> Made:
        shape = (t, *picture_size(pictures["model"][0]), 3)
        unseen = np.broadcast_to(np.zeros(1, np.uint8), shape)
        return {"pixels": unseen, "times": shaped(arrays, "times", (t,))}

    def tokens(row: Made, path: str, prefix: str) -> Made:
        return {"tokens": _restore_tokens(row, prefix, reader, pieces)}

    def view(row: Made, path: str, prefix: str) -> Made:
        return {"shown": _UNSEEN if Flag().read(row.get("shown"), f"{path}.shown") else None}

    reader = Reader(
        arrays,
        {"T": t, "K": k, "G": g},
        {ModelFrames: model, Answer: tokens, ShownView: view},
        _OWN_KEYS,
    )
    trace: Trace = reader.row(
        Trace, m, "", frames=_UNSEEN, options=options, unknown_options=unknown, edits=edits
    )
    _check(trace, t)
    return trace


def _check(trace: Trace, frames: int) -> None:
    """Raises TraceError where the parts do not fit each other."""
    order = [f for group in trace.groups for f in group]
    if order != sorted(set(order)) or (order and order[-1] >= frames):
        raise TraceError("the trace's frame groups are not those of its frames", DAMAGED)
    for edit in trace.edits:
        if edit.frame >= frames or (edit.kind == "frames" and edit.track >= len(trace.groups)):
            raise TraceError("a change by hand is to a frame that is not there", DAMAGED)
    if (np.diff(trace.times) < 0).any():
        raise TraceError("the times of the trace's frames go backwards", DAMAGED)
    if len({track.id for track in trace.tracks}) < len(trace.tracks):
        raise TraceError("two tracks in the trace have one id", DAMAGED)
    for track in trace.tracks:
        _check_track(track, frames)
    end = trace.counterfactual
    if end and (end.base_loss is None) != (end.loss is None):
        raise TraceError("the trace holds only one of two query losses", DAMAGED)
    for found in trace.evidence:
        for one in found.maps:
            if len(one.objects) != len(trace.tracks) or len(one.groups) != len(trace.groups):
                raise TraceError("a map's shares are not those of the trace's objects", DAMAGED)
        if found.curves is not None and not found.curves.fits():
            raise TraceError("a curve of a map in the trace has other steps", DAMAGED)
    track_ids = [track.id for track in trace.tracks]
    if trace.choice_map is not None and not trace.choice_map.fits(track_ids):
        raise TraceError("a subset in the trace holds an object that is not there", DAMAGED)
    if not all(one.fits(track_ids, len(trace.groups)) for one in trace.enough):
        raise TraceError("a set of pieces is not one of the trace's objects and frames", DAMAGED)


def _check_track(track: Track, frames: int) -> None:
    here = track.boxes[track.state != LOST]
    if not np.isfinite(here).all():
        raise TraceError("a track is seen where it has no box", DAMAGED)
    if (here != here.clip(0, 1)).any() or (here[:, :2] > here[:, 2:]).any():
        raise TraceError("a track has boxes outside the frame", DAMAGED)
    if len(track.outlines) not in (0, frames):
        raise TraceError("a track has outlines of other frames", DAMAGED)


def _with_pictures(trace: Trace, pictures: Pictures) -> Trace:
    """The trace with its pixels; second views for which there is no room are left out."""
    frames = decode_pictures([pictures["frames"][i] for i in range(len(trace.times))])
    read = trace.model_frames
    if read is not None:
        pixels = decode_pictures(
            [pictures["model"][i] for i in range(len(trace.times))], exact=True
        )
        read = replace(read, pixels=pixels)
    room = ALL_PIXELS - frames.size // 3 - (0 if read is None else read.pixels.size // 3)
    answers = {}
    for i, (name, answer) in enumerate(trace.answers.items()):
        views = []
        for j, view in enumerate(answer.second_views):
            shown = None
            if view.shown is not None and read is not None and room >= read.pixels.size // 3:
                shown = read.pixels.copy()  # where none was stored it is the model's
                for at, picture in pictures.get(f"shown{i}_{j}", {}).items():
                    shown[at] = decode_picture(picture)
                room -= read.pixels.size // 3
            views.append(replace(view, shown=shown))
        answers[name] = replace(answer, second_views=tuple(views))
    tracks = tuple(
        replace(t, boxes=np.where(t.state[:, None] == LOST, np.float32(np.nan), t.boxes))
        for t in trace.tracks
    )
    return replace(trace, frames=frames, model_frames=read, answers=answers, tracks=tracks)


def _restore_options(
    stored: Any,
) -> tuple[RunOptions, dict[str, Any], tuple[Edit, ...]]:
    """The options, those that are not known, the changes by hand that are stored among them.

    Missing options have their defaults; those that no run takes any more can still be looked at,
    see `RunOptions.check_runnable`.
    """
    if not isinstance(stored, dict):
        raise TraceError("options in the trace are not an object", DAMAGED)
    raw_edits = stored.get("edits", [])
    if not isinstance(raw_edits, list) or len(raw_edits) > MAX_EDITS:
        raise TraceError("options.edits in the trace is not a list of changes", DAMAGED)
    edits = tuple(validated_edit(raw) for raw in raw_edits)
    known, unknown = _split_options({n: v for n, v in stored.items() if n != "edits"})
    try:
        options: RunOptions = Part(RunOptions()).read(known, "options")
    except OptionError as error:
        raise TraceError(
            f"the trace holds options that this version does not know ({error.cause})",
            "Open it with the version that wrote it, or ask for another copy",
        ) from None
    return options, unknown, edits


def _split_options(stored: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options that this version knows, and those of a newer one, by part and name."""
    known: dict[str, Any] = {}
    unknown: dict[str, Any] = {}
    for name, value in stored.items():
        rule = rules_of(RunOptions).get(name)
        if rule is None:
            unknown[name] = PLAIN.read(value, f"options.{name[:40]}")
        elif isinstance(rule, Part) and isinstance(value, dict):
            names = rules_of(type(rule.default))
            known[name] = {n: v for n, v in value.items() if n in names}
            newer = {n: v for n, v in value.items() if n not in names}
            if newer:
                unknown[name] = PLAIN.read(newer, f"options.{name}")
        else:
            known[name] = value
    return known, unknown


def _check_pictures(frames: int, model: bool, pictures: Pictures) -> None:
    """Counts and sizes by the headers, before a single picture is decoded."""
    folders = {"frames": SOURCE_PIXELS} | ({"model": MODEL_PIXELS} if model else {})
    for folder, most in folders.items():
        members = pictures.get(folder, {})
        if not 0 < len(members) == frames or sorted(members) != list(range(frames)):
            raise TraceError("the trace lacks some of its frames", DAMAGED)
        if sum(h * w for h, w in map(picture_size, members.values())) > most:
            raise TraceError(
                f"the trace's frames have more than {most / 1e6:.0f} megapixels",
                "Run the clip again with fewer frames",
            )
    size = picture_size(pictures["model"][0]) if model else None
    for folder, members in pictures.items():
        if folder not in ("frames", "model"):
            fits = all(i < frames and picture_size(c) == size for i, c in members.items())
            if not fits:
                raise TraceError("a second view has frames of another size", DAMAGED)


def _restore_tokens(
    row: Made, prefix: str, reader: Reader, pieces: dict[str, str]
) -> tuple[TokenStep, ...]:
    """The tokens of an answer."""
    arrays, seconds = reader.arrays, len(row["second_views"])
    n = _TOKENS.read(row["tokens"], f"{prefix}tokens")
    if not n:
        return ()
    count = shaped(arrays, f"{prefix}count", (n,), whole=True)
    if (count < 1).any():
        raise TraceError("a token has no candidates", DAMAGED)
    ends = np.cumsum(count)
    rows = reader.columns(TokenStep, prefix, n, ends)
    ids = {c for made in rows for c in made["candidates"].tolist()}
    if not {str(c) for c in ids} <= pieces.keys():
        raise TraceError("a token in the trace has no text", DAMAGED)
    others, others_log_z = _restore_others(arrays, prefix, seconds, count)
    for made, views, log_zs in zip(rows, others, others_log_z, strict=True):
        pairs = zip((made["base"], *views), (made["base_log_z"], *log_zs), strict=True)
        if any(one.max() > log_z + 1 for one, log_z in pairs):
            raise TraceError("a token in the trace has a logit above their partition", DAMAGED)
    read = [bool(views) or not seconds for views in others]
    hidden = _restore_hidden(arrays, prefix, read)
    weights = _restore_weights(row, arrays, prefix, read)
    repeats = _restore_repeats(row, arrays, prefix, ends)
    tokens = []
    for j, made in enumerate(rows):
        chosen, candidates = made["token"], made["candidates"].tolist()
        if len(set(candidates)) < len(candidates) or chosen not in candidates:
            raise TraceError("a token in the trace is not among its candidates", DAMAGED)
        if "floor" not in made:
            raise TraceError("the trace lacks the floor of its candidates", DAMAGED)
        made["floor"] = np.inf if np.isnan(made["floor"]) else made["floor"]
        tokens.append(
            TokenStep(
                **made,
                index=j,
                text=pieces[str(chosen)],
                texts=tuple(pieces[str(c)] for c in candidates),
                others=others[j],
                others_log_z=others_log_z[j],
                hidden=hidden[j],
                weights=weights[j],
                repeats=repeats[j],
            )
        )
    return tuple(tokens)


def _restore_others(
    arrays: Arrays, prefix: str, seconds: int, count: NDArray[np.int64]
) -> tuple[list[tuple[Floats, ...]], list[tuple[float, ...]]]:
    """By token, the candidates' logits under each second view, and their partitions.

    Empty for a token at which no second view was read; its partitions in the file are NaN.
    """
    n = len(count)
    if not seconds:
        return [()] * n, [()] * n
    names = [f"{prefix}other{j}" for j in range(seconds)]
    columns = [shaped(arrays, f"{z}_log_z", (n,), most=MAX_LOGIT, lost=True) for z in names]
    unread = np.isnan(columns[0])
    if unread.all() or any((np.isfinite(z) == unread).any() for z in columns):
        raise TraceError("a second view in the trace was read at no token", DAMAGED)
    each = np.where(unread, 0, count)
    ends, total = np.cumsum(each)[:-1], int(each.sum())
    logits = [
        np.split(shaped(arrays, z, (total,), most=MAX_LOGIT).astype(np.float32), ends)
        for z in names
    ]
    others = [() if unread[j] else tuple(z[j] for z in logits) for j in range(n)]
    log_z = [() if unread[j] else tuple(float(z[j]) for z in columns) for j in range(n)]
    return others, log_z


def _restore_hidden(
    arrays: Arrays, prefix: str, read: Sequence[bool]
) -> list[NDArray[np.bool_] | None]:
    """By token (N,) bool, the vision tokens that the second view did not see; None if it saw all.

    read: whether a second view was read at the token.
    """
    packed = arrays.get(f"{prefix}hidden")
    if packed is None:
        return [None] * len(read)
    n = int(shaped(arrays, f"{prefix}vision_tokens", (1,), whole=True)[0])
    fits = packed.dtype == np.uint8 and packed.shape == (sum(read), (n + 7) // 8)
    if not fits or not 0 < n * len(read) <= MAX_HIDDEN:
        raise TraceError("the trace hides vision tokens that it cannot have", DAMAGED)
    rows = iter(np.unpackbits(packed, axis=1, count=n).view(np.bool_))
    return [next(rows) if one else None for one in read]


def _restore_weights(
    row: Made, arrays: Arrays, prefix: str, read: Sequence[bool]
) -> list[StepWeights | None]:
    """One per token; None under the linear rule, which the answer's α, β and cut give.

    read: see `_restore_hidden`.
    """
    seconds, tokens = len(row["second_views"]), len(read)
    if seconds > 1 and (row["rule"] == "linear" or f"{prefix}weights" not in arrays):
        raise TraceError("an answer in the trace has views that nothing weighs", DAMAGED)
    if row["rule"] == "linear":
        return [None] * tokens
    if f"{prefix}weights" not in arrays:
        return [StepWeights()] * tokens
    rows = shaped(arrays, f"{prefix}weights", (tokens, seconds + 2), lost=True)
    if not np.isfinite(rows[:, :-1]).all() or np.isnan(rows[:, -1]).any():
        raise TraceError("a token in the trace has a weight that is not a number", DAMAGED)
    biases: list[list[tuple[int, float]]] = [[] for _ in range(tokens)]
    if f"{prefix}bias" in arrays:
        length = arrays[f"{prefix}bias"].shape[:1]
        for index, token, amount in shaped(arrays, f"{prefix}bias", (*length, 3)).tolist():
            if not (0 <= index < tokens and index == int(index) and token == int(token)):
                raise TraceError("a bias in the trace belongs to no token", DAMAGED)
            biases[int(index)].append((int(token), amount))
    return [
        StepWeights(base, tuple(others) if one else (), floor, tuple(bias))
        for (base, *others, floor), bias, one in zip(rows.tolist(), biases, read, strict=True)
    ]


def _restore_repeats(
    row: Made, arrays: Arrays, prefix: str, ends: NDArray[np.int64]
) -> list[Repeats] | list[None]:
    """One per token; None where the model had no repetition penalty. ends: of their candidates."""
    name, penalty = f"{prefix}repeated", row.get("repetition_penalty")
    if (penalty is None) != (name not in arrays):
        raise TraceError("the trace holds a penalty of no tokens, or tokens of none", DAMAGED)
    if penalty is None:
        return [None] * len(ends)
    penalty = float(PENALTY.read(penalty, "repetition_penalty") or 1.0)
    at = shaped(arrays, name, (int(ends[-1]),), whole=True)
    if (at > 1).any():
        raise TraceError(f"{name} in the trace is neither 0 nor 1", DAMAGED)
    return [Repeats(penalty, part) for part in np.split(at.astype(bool), ends[:-1])]
