"""What measuring evidence costs, in readings of one view. Pure: no model, no clock."""

from __future__ import annotations

from macd_studio.core.evidence.options import EvidenceOptions

VIEWS = 2
GRADIENT, ATTENTION, KNOCK_OUT = 4.5, 0.2, 1.0
"""One map with its sanity check, or one answer: the pass back, a step, an answer of a few words."""
SHARED = 0.6
"""Of a reading: what a view costs that shares its first frames and is read in a batch."""


def readings(kind: str, tracks: int, groups: int, patches: int) -> float:
    """Of both views for one kind of map. groups: frame groups; patches: of one of them.

    A kind that is not known here counts as one reading of each view.

    >>> readings("occlusion", 3, 4, 16), readings("occlusion-grid", 3, 4, 16)
    (3.6, 76.8)
    """
    each = {
        "gradient": GRADIENT,
        "attention": ATTENTION,
        "occlusion": SHARED * tracks,
        "occlusion-grid": SHARED * groups * patches,
    }
    return round(VIEWS * each.get(kind, 1.0), 3)


def readings_of(options: EvidenceOptions, tracks: int, groups: int) -> float:
    """Of everything that the options ask for."""
    rows, columns = options.patch_grid()
    maps = sum(readings(kind, tracks, groups, rows * columns) for kind in options.chosen_kinds)
    blocked = len(options.knock_out) + len(options.boxes)
    return maps + KNOCK_OUT * (blocked + 1 if blocked else 0) + ATTENTION * VIEWS * options.lens
