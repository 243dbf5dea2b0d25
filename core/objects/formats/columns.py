"""What the columns of YOLO's rows are: the one layout in which every row of a file makes sense.

A row is numbers alone: behind the class may stand a box, a polygon or a box with key points, then
a confidence, then the number of its track, or that number before everything (JDE, FairMOT). One
row can be read in several ways; over all rows of all frames mostly one remains. Where two remain
that mean different objects, neither is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.errors import TracksError
from macd_studio.core.objects.annotations import clean_label
from macd_studio.core.options import Columns

TOLERANCES = (0.05, 1.0)
"""How far a box or polygon may leave the frame, in shares of it: first as a rule, else at most."""
NEAR_BOX = 0.1
"""How far a key point may lie outside of its box, in shares of the box."""
FIXED_VALUES, FIXED_DECIMALS = 8, 4
"""So many numbers with as many decimals as each other were written with a fixed number of them."""


@dataclass(frozen=True, eq=False)
class Row:
    """A line behind its class. kind: the class; decimals: of each number, −1 of a whole number."""

    frame: float
    kind: int
    numbers: NDArray[np.float64]
    what: str
    decimals: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Cells:
    """A parsed row. box: x y w h; ring: a polygon's x y …; points: (K, 2 or 3) key points."""

    box: NDArray[np.float64] | None
    ring: NDArray[np.float64] | None
    points: NDArray[np.float64] | None
    confidence: float | None
    track: int | None
    others: tuple[int, ...] = ()


@dataclass(frozen=True)
class Layout:
    """The contents of a row. order: of the values beside the shape, as in ("conf", "track").

    before: whether the track stands before the shape. keypoints: (K, 2 or 3) of a pose.
    """

    shape: str
    order: tuple[str, ...] = ()
    before: bool = False
    keypoints: tuple[int, int] | None = None

    @property
    def columns(self) -> str:
        """Its name, as `--columns` takes it."""
        return "-".join(
            ("track", self.shape, *self.order[1:]) if self.before else (self.shape, *self.order)
        )

    @property
    def usual(self) -> bool:
        """Whether it needs no note: the layouts that ultralytics trains on."""
        return self.shape in ("box", "polygon") and not self.order

    def beside(self, n: int) -> tuple[str, ...] | None:
        """What stands beside the shape in a row of n numbers; None: the row has another layout.

        A tracker that lost an object writes its row without a track.
        """
        for order in (self.order, tuple(o for o in self.order if o != "track")):
            if self.before and "track" not in order:
                continue
            rest = n - len(order)
            if self.shape == "box":
                fits = rest == 4
            elif self.shape == "polygon":
                fits = rest == 4 or (rest >= 6 and rest % 2 == 0)
            else:
                assert self.keypoints is not None
                fits = rest == 4 + self.keypoints[0] * self.keypoints[1]
            if fits:
                return order
        return None

    def split(self, row: Row) -> Cells:
        """A row, parsed. Raises TracksError for a row of another layout."""
        order = self.beside(len(row.numbers))
        if order is None:
            raise TracksError(
                f"{row.what} has {len(row.numbers)} numbers behind its class, which is not"
                f" {self.columns}",
                "Choose other columns with --columns",
            )
        values = row.numbers
        if self.before:
            shape, others = values[1 : 1 + len(values) - len(order)], [0]
            others += range(1 + len(shape), len(values))
        else:
            shape = values[: len(values) - len(order)]
            others = list(range(len(shape), len(values)))
        beside = dict(zip(order, others, strict=True))
        confidence = float(values[beside["conf"]]) if "conf" in beside else None
        track = values[beside["track"]] if "track" in beside else None
        number = (
            None if track is None or track == -1 or not float(track).is_integer() else int(track)
        )
        is_box = self.shape != "polygon" or len(shape) == 4
        points = None
        if self.keypoints is not None:
            points = shape[4:].reshape(self.keypoints)
        return Cells(
            shape[:4] if is_box else None, None if is_box else shape, points, confidence, number,
            tuple(others),
        )  # fmt: skip


_BESIDE: tuple[tuple[tuple[str, ...], bool], ...] = (
    ((), False), (("conf",), False), (("track",), False), (("conf", "track"), False),
    (("track", "conf"), False), (("track",), True), (("track", "conf"), True),
)  # fmt: skip
"""What stands beside a shape, and whether the track comes first."""
PLAIN = tuple(
    Layout(shape, order, before)
    for shape in ("box", "polygon")
    for order, before in _BESIDE
    if shape == "box" or not (before or order == ("track", "conf"))
)
FEW_TRIANGLES = 5
"""Rows of three corners each, the last alone at an edge, from which they are boxes of one track."""
NAMES = tuple(name for name in get_args(Columns) if name != "auto")
"""What `--columns` takes."""


def choose_layout(
    name: str,
    rows: Sequence[Row],
    keypoints: tuple[int, int] | None = None,
    stated: bool = False,
    wanted: str = "auto",
) -> Layout:
    """The layout of all rows of a file.

    keypoints: (K, 2 or 3), where the data set states them. stated: whether it states anything, so
    that it would state key points too. wanted: a name of NAMES, where it was chosen. Raises
    TracksError where no layout fits, or several that mean different objects; it names them.
    """
    lengths = sorted({len(row.numbers) for row in rows})
    possible = [
        one
        for one in _candidates(lengths, keypoints, stated)
        if all(one.beside(n) is not None for n in lengths)
    ]
    if wanted != "auto":
        return _wanted(name, possible, lengths, wanted)
    if not rows:
        return PLAIN[0]
    if not possible:
        told = ", ".join(str(n) for n in lengths[:8])
        raise TracksError(
            f"{name} has rows with {told} numbers behind their class, which are no columns of YOLO",
            "Export it again",
        )
    fixed = _is_fixed(rows)
    for tolerance in TOLERANCES:
        fitting = [one for one in possible if _fits(one, rows, tolerance, fixed)]
        fitting = _without_tracks_as_points(fitting, rows)
        if fitting:
            break
    else:
        if lengths == [4]:
            return PLAIN[0]  # a row says what is wrong with it
        raise TracksError(
            f"the rows of {name} fit no columns of YOLO: not {_listed(possible)}",
            "Choose one with --columns",
        )
    if len(fitting) > 1:
        fitting = _same_objects(fitting, rows)
    if len(fitting) > 1:
        raise TracksError(
            f"the columns of {name} can be read as {_listed(fitting)}", "Choose one with --columns"
        )
    return fitting[0]


def _wanted(name: str, possible: Sequence[Layout], lengths: Sequence[int], wanted: str) -> Layout:
    named = [one for one in possible if one.columns == wanted]
    if not named:
        told = ", ".join(str(n) for n in lengths[:8])
        raise TracksError(
            f"{clean_label(name)} has rows with {told} numbers behind their class, which are not"
            f" {wanted}",
            "Choose other columns with --columns",
        )
    return max(named, key=lambda one: (one.keypoints or (0, 0))[1])


def _listed(layouts: Iterable[Layout]) -> str:
    return " or ".join(dict.fromkeys(one.columns for one in layouts))


def _candidates(
    lengths: Sequence[int], keypoints: tuple[int, int] | None, stated: bool
) -> list[Layout]:
    beside = [order for order, before in _BESIDE[:4]]
    if keypoints is not None:
        return [Layout("pose", order, keypoints=keypoints) for order in beside]
    found = list(PLAIN)
    if max(lengths, default=0) <= 4 or min(lengths) <= 4:
        return [one for one in found if one.shape == "polygon" or max(lengths, default=0) <= 6]
    if stated:
        return found
    for order in beside:
        for each in (3, 2):
            count, rest = divmod(max(lengths) - len(order) - 4, each)
            if not rest and count >= 1:
                found.append(Layout("pose", order, keypoints=(count, each)))
    return found


def _is_fixed(rows: Sequence[Row]) -> bool:
    """Whether numbers were written with a fixed count of decimals: a whole one is no share then."""
    seen = [d for row in rows for d in row.decimals if d >= 0]
    return len(seen) >= FIXED_VALUES and min(seen) == max(seen) and min(seen) >= FIXED_DECIMALS


def _fits(layout: Layout, rows: Sequence[Row], tolerance: float, fixed: bool) -> bool:
    """Whether every row makes sense, and no object is twice on a frame."""
    seen: set[tuple[float, int, int]] = set()
    polygons = 0
    check = partial(_row_fits, layout, tolerance=tolerance, fixed=fixed)
    for row in rows:
        cells = layout.split(row)
        if not check(row, cells):
            return False
        polygons += cells.ring is not None
        if cells.track is not None:
            key = (row.frame, row.kind, cells.track)
            if key in seen:
                return False
            seen.add(key)
    if layout.shape == "polygon" and not polygons:
        return False  # boxes alone
    return "track" not in layout.order or any(layout.split(row).track is not None for row in rows)


def _row_fits(layout: Layout, row: Row, cells: Cells, *, tolerance: float, fixed: bool) -> bool:
    values = row.numbers
    for place, what in zip(cells.others, _order_of(layout, cells), strict=True):
        is_whole_literal = bool(row.decimals) and row.decimals[place] < 0
        if what == "conf" and not (0 <= values[place] <= 1 and not (fixed and is_whole_literal)):
            return False
        if what == "track":
            good = float(values[place]).is_integer() and -1 <= values[place] < 2**31
            if not good or (fixed and not is_whole_literal):
                return False
    if fixed and row.decimals:
        shares = [i for i in range(len(values)) if i not in cells.others]
        if layout.keypoints is not None and layout.keypoints[1] == 3:
            shares = [i for i in shares if i < 4 or (i - 4) % 3 != 2]  # visibility is whole
        if any(row.decimals[i] == -1 for i in shares):
            return False
    if cells.box is not None:
        return _box_fits(cells.box, tolerance) and _points_fit(cells, tolerance)
    ring = cells.ring
    assert ring is not None
    return bool((ring >= -tolerance).all() and (ring <= 1 + tolerance).all())


def _order_of(layout: Layout, cells: Cells) -> tuple[str, ...]:
    order = layout.order
    return order if len(cells.others) == len(order) else tuple(o for o in order if o != "track")


def _box_fits(box: NDArray[np.float64], tolerance: float) -> bool:
    x, y, w, h = (float(v) for v in box)
    centre = tolerance / 2 if tolerance >= 1 else 0.0
    if not (-centre <= x <= 1 + centre and -centre <= y <= 1 + centre) or min(w, h) < 0:
        return False
    ends = (x - w / 2, y - h / 2, x + w / 2, y + h / 2)
    return all(-tolerance <= end <= 1 + tolerance for end in ends)


def _points_fit(cells: Cells, tolerance: float) -> bool:
    """Whether key points lie in their box, or are 0 0 where they are hidden."""
    if cells.points is None or cells.box is None:
        return True
    points = cells.points
    if points.shape[1] == 3:
        visible = points[:, 2]
        if not (((visible >= 0) & (visible <= 1)) | (visible == 2)).all():
            return False
    x, y, w, h = (float(v) for v in cells.box)
    near = NEAR_BOX if tolerance < 1 else 1.0
    inside = (np.abs(points[:, 0] - x) <= w * (0.5 + near)) & (
        np.abs(points[:, 1] - y) <= h * (0.5 + near)
    )
    hidden = (points[:, :2] == 0).all(axis=1)
    if points.shape[1] == 3:
        hidden |= points[:, 2] == 0
    return bool((inside | hidden).all())


def _without_tracks_as_points(fitting: list[Layout], rows: Sequence[Row]) -> list[Layout]:
    """Drops polygons whose last corner would be a confidence and a track.

    A track of 0 or 1 is a coordinate at the edge of the frame too. But a polygon that reaches the
    edge has more than one corner there, or not in every row.
    """
    names = {one.columns for one in fitting}
    triangles = {"polygon", "box-conf-track"} <= names  # hardly anybody draws them alone
    if not (triangles or {"polygon", "polygon-conf-track"} <= names):
        return fitting
    if len(rows) < (FEW_TRIANGLES if triangles else 2):
        return fitting
    for row in rows:
        ys = row.numbers[1::2]
        if len(row.numbers) < (6 if triangles else 8) or ys[-1] not in (0, 1):
            return fitting
        if (ys[:-1] == ys[-1]).any():
            return fitting
    return [one for one in fitting if one.columns != "polygon"]


def _same_objects(fitting: list[Layout], rows: Sequence[Row]) -> list[Layout]:
    """One of two layouts that give the same objects: a last column that is 1 everywhere.

    It may be a track or a confidence. Where no frame has two rows of one class, and a class has one
    number, the objects are the same in both.
    """
    orders = sorted(one.order for one in fitting)
    same_shape = len({(one.shape, one.before, one.keypoints) for one in fitting}) == 1
    if orders != [("conf",), ("track",)] or not same_shape:
        return fitting
    tracked = next(one for one in fitting if one.order == ("track",))
    frames: set[tuple[float, int]] = set()
    numbers: dict[int, int | None] = {}
    for row in rows:
        track = tracked.split(row).track
        if (row.frame, row.kind) in frames or numbers.setdefault(row.kind, track) != track:
            return fitting
        if row.numbers[-1] != 1:
            return fitting
        frames.add((row.frame, row.kind))
    return [tracked]
