"""Outlines ⇄ pixels: masks as polygons that give them back, and run lengths of COCO and CVAT.

A pixel belongs to an outline where its centre does, by the even-odd rule, so that a hole is a ring.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from macd_studio.core.description import MAX_POINTS, MAX_RINGS
from macd_studio.core.errors import TracksError
from macd_studio.core.types import Floats, Outline

Mask = NDArray[np.bool_]
Floats64 = NDArray[np.float64]
Ints64 = NDArray[np.int64]
MAX_CROSSINGS, AT_ONCE = 8_000_000, 500_000
"""How often the edges of polygons may cross rows of pixels, and how many of these are held."""
MAX_EDGES = 300_000
"""Sides between a mask's pixels and others, up to which they are followed one by one."""
FINEST = (0.5, 0.35, 0.2, 0.1, 0.0)
"""How far an outline may leave the edge of its mask, pixels: the first that gives the mask back."""
DIGITS = 4
"""After the point, of an outline in shares of its box; a trace file keeps as many."""


def filled(rings: Sequence[NDArray[np.floating]], size: tuple[int, int]) -> Mask:
    """The pixels (h, w) = size inside of rings (N, 2), whose points are x y in pixels.

    >>> filled([np.array([[1.0, 0], [3, 0], [3, 2], [1, 2]])], (2, 4)).astype(int).tolist()
    [[0, 1, 1, 0], [0, 1, 1, 0]]
    """
    height, width = size
    toggles = np.zeros((height, width + 1), bool)
    crossings = 0
    for ring in rings:
        a = np.asarray(ring, np.float64)
        b = np.roll(a, -1, axis=0)
        upper, lower = np.minimum(a[:, 1], b[:, 1]), np.maximum(a[:, 1], b[:, 1])
        first = np.ceil(upper - 0.5).clip(0, height).astype(np.int64)
        beyond = np.ceil(lower - 0.5).clip(0, height).astype(np.int64)
        count = (beyond - first).clip(0)
        crossings += int(count.sum())
        if crossings > MAX_CROSSINGS:
            raise TracksError(
                f"a polygon crosses the rows of a frame {crossings} times, more than"
                f" {MAX_CROSSINGS}",
                "Simplify its polygons",
            )
        ends = np.cumsum(count)
        for start, end in _spans(ends):
            _toggle(toggles, a, b, first, count, start, end)
    return np.asarray(np.logical_xor.accumulate(toggles, axis=1)[:, :width])


def _spans(ends: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Edges from and to which about AT_ONCE rows are crossed. ends: (N,) crossings so far."""
    start = 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        end = int(np.searchsorted(ends, before + AT_ONCE, "right"))
        end = max(end, start + 1)
        yield start, end
        start = end


def _toggle(
    toggles: Mask, a: Floats64, b: Floats64, first: Ints64, count: Ints64, start: int, end: int
) -> None:
    """Turns over where the edges `start` to `end` of a polygon cross the middles of rows."""
    count, first = count[start:end], first[start:end]
    width = toggles.shape[1] - 1
    edge = np.repeat(np.arange(len(count)), count)
    row = np.arange(len(edge)) - np.repeat(np.cumsum(count) - count, count) + first[edge]
    (ax, ay), (bx, by) = a[start:end][edge].T, b[start:end][edge].T
    x = ax + (row + 0.5 - ay) * (bx - ax) / (by - ay)
    column = np.ceil(x - 0.5).clip(0, width).astype(np.int64)
    np.logical_xor.at(toggles, (row, column), True)


def outline_of(mask: Mask) -> tuple[Floats, Outline, bool] | None:
    """A mask (h, w) as its box in shares of the frame and its outline in shares of the box.

    With it comes whether `placed` gives the mask back to the pixel: not one of more than MAX_RINGS
    parts and holes, the smaller of which are left out, nor one whose edge takes more than
    MAX_POINTS points. None where nothing is masked.
    """
    height, width = mask.shape
    kept = _larger_parts(mask)
    if not kept.any():
        return None
    rows, columns = np.flatnonzero(kept.any(axis=1)), np.flatnonzero(kept.any(axis=0))
    ends = columns[0], rows[0], columns[-1] + 1, rows[-1] + 1
    box = (np.array(ends, np.float64) / (width, height, width, height)).astype(np.float32)
    edges = _edges(kept)
    outline: Outline = ()
    for far in FINEST:
        outline = within(_simpler(edges, far), box, (height, width))
        fits = all(len(ring) <= MAX_POINTS for ring in outline)
        if fits and np.array_equal(filled(placed(outline, box, mask.shape), mask.shape), kept):
            return box, outline, bool(np.array_equal(kept, mask))
    far = 0.5
    while any(len(ring) > MAX_POINTS for ring in outline):
        outline = within(_simpler(edges, far), box, (height, width))
        far *= 1.5
    return (box, outline, False) if outline else None


def within(rings: Sequence[NDArray[np.floating]], box: Floats, size: tuple[int, int]) -> Outline:
    """Rings in pixels of a frame (h, w) = size as shares of their box, as a trace keeps them."""
    scale = np.array([size[1], size[0]], np.float64)
    sides = np.maximum((box[2:] - box[:2]).astype(np.float64), 1e-6)
    return tuple(
        ((np.asarray(ring, np.float64) / scale - box[:2]) / sides).round(DIGITS).astype(np.float32)
        for ring in rings
    )


def placed(outline: Outline, box: Floats, size: Sequence[int]) -> list[NDArray[np.float64]]:
    """The rings of an outline in shares of its box, in pixels of a frame (h, w)."""
    corner, sides = box[:2].astype(np.float64), (box[2:] - box[:2]).astype(np.float64)
    return [(corner + ring.astype(np.float64) * sides) * (size[1], size[0]) for ring in outline]


def ring_of(box: Floats, size: Sequence[int]) -> NDArray[np.float64]:
    """A box in shares as a ring of its corners, in pixels of a frame (h, w)."""
    x0, y0, x1, y1 = (float(v) for v in box)
    return np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]]) * (size[1], size[0])


def _simpler(edges: Sequence[Floats], far: float) -> list[Floats]:
    """Lines with fewer points, which leave them by so many pixels (Douglas-Peucker)."""
    rings = [np.asarray(cv2.approxPolyDP(ring, far, True)[:, 0], np.float32) for ring in edges]
    return [ring for ring in rings if len(ring) > 2]


def _larger_parts(mask: Mask) -> Mask:
    """The mask with no more than MAX_RINGS parts and holes: the smallest are turned over."""
    padded = np.pad(mask, 1)
    labels, sizes = [], []
    for value, connectivity in ((True, 4), (False, 8)):
        _, named, stats, _ = cv2.connectedComponentsWithStats(
            (padded == value).astype(np.uint8), connectivity=connectivity
        )
        area = stats[:, cv2.CC_STAT_AREA].astype(np.int64)
        area[0] = 0
        if not value:
            area[named[0, 0]] = 0  # what surrounds everything is no hole
        labels.append(named)
        sizes.append(area)
    both = np.concatenate(sizes)
    small = np.argsort(-both, kind="stable")[MAX_RINGS:]
    small = small[both[small] > 0]
    if not len(small):
        return mask
    turned = np.zeros(len(both), bool)
    turned[small] = True
    padded ^= turned[: len(sizes[0])][labels[0]] | turned[len(sizes[0]) :][labels[1]]
    return _larger_parts(padded[1:-1, 1:-1])  # a hole may be gone with its part, or be new


def _edges(mask: Mask) -> list[Floats]:
    """Closed lines (N, 1, 2) through the middles of the sides between a mask's pixels and others.

    Pixels that touch at a corner only are not connected. Such a line cuts a corner of a pixel at
    most, so the mask is what it encloses. An edge of more sides than MAX_EDGES has more points than
    an outline can keep in any case: it is followed from pixel to pixel, a half pixel inside.
    """
    padded = np.pad(mask, 1).astype(np.int8)
    across, down = np.diff(padded, axis=0), np.diff(padded, axis=1)
    if np.count_nonzero(across) + np.count_nonzero(down) > MAX_EDGES:
        found, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_SIMPLE)
        return [ring.astype(np.float32) + 0.5 for ring in found]
    following: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for y, x in np.argwhere(across[:, 1:-1]).tolist():  # a side from (x, y) to (x + 1, y)
        inside_below = across[y, x + 1] > 0
        a, b = ((x, y), (x + 1, y)) if inside_below else ((x + 1, y), (x, y))
        following.setdefault(a, []).append(b)
    for y, x in np.argwhere(down[1:-1]).tolist():  # a side from (x, y) to (x, y + 1)
        inside_right = down[y + 1, x] > 0
        a, b = ((x, y + 1), (x, y)) if inside_right else ((x, y), (x, y + 1))
        following.setdefault(a, []).append(b)
    lines = []
    while following:
        start = next(iter(following))
        at, came, line = start, (0, 0), []
        while True:
            ways = following[at]
            # where two parts touch at a corner, turn right: it stays with the part it is on
            right = (at[0] - came[1], at[1] + came[0])
            to = right if len(ways) > 1 and right in ways else ways[0]
            ways.remove(to)
            if not ways:
                del following[at]
            line.append(((at[0] + to[0]) / 2, (at[1] + to[1]) / 2))
            came, at = (to[0] - at[0], to[1] - at[1]), to
            if at == start:
                break
        lines.append(np.array(line, np.float32).reshape(-1, 1, 2))
    return lines


def runs_of(mask: Mask) -> list[int]:
    """COCO's run lengths of a mask (h, w): column by column, beginning with what is not masked.

    >>> runs_of(np.array([[False, True], [True, True]]))
    [1, 3]
    """
    flat = mask.ravel(order="F")
    turns = np.flatnonzero(np.diff(flat)) + 1
    lengths = np.diff(np.concatenate([[0], turns, [flat.size]])).tolist()
    return [0, *lengths] if flat.size and flat[0] else lengths


def mask_of_runs(
    counts: Sequence[int] | NDArray[np.integer], size: tuple[int, int], by_columns: bool = True
) -> Mask:
    """The mask (h, w) = size of run lengths. Raises TracksError where they do not fill it."""
    lengths = np.asarray(counts, np.int64)
    if (lengths < 0).any() or int(lengths.sum()) != size[0] * size[1]:
        raise TracksError(
            f"the run lengths of a mask do not fill its {size[1]}×{size[0]} pixels",
            "Export the masks again, at the size that the file states",
        )
    values = (np.arange(len(lengths)) % 2).astype(bool)
    flat = np.repeat(values, lengths)
    return flat.reshape(size, order="F") if by_columns else flat.reshape(size)


def read_packed_runs(text: str) -> list[int]:
    """The run lengths that COCO's tools pack into text: six bits a character, as differences.

    The format is pycocotools' (maskApi.c, rleFrString). Raises TracksError for other text.
    """
    counts: list[int] = []
    at = 0
    while at < len(text):
        value, shift, more = 0, 0, True
        while more:
            piece = ord(text[at]) - 48 if at < len(text) else -1
            if not 0 <= piece < 64 or shift > 30:
                raise TracksError("a mask's packed run lengths are damaged", "Export them again")
            value |= (piece & 0x1F) << shift
            more, at, shift = bool(piece & 0x20), at + 1, shift + 5
            if not more and piece & 0x10:
                value |= -1 << shift
        counts.append(value + counts[-2] if len(counts) > 2 else value)
    return counts
