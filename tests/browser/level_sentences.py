# ruff: noqa: E501 — sentences stand whole
"""What the viewer says of levels, masks, labels and files; see test_strings.py."""

from typing import Any

STRENGTHS = {"kept": 0, "partly masked": 0.4, "masked": 1}
LEVELS = [{"value": value, "name": name} for name, value in STRENGTHS.items()]
ANY_BETWEEN = [LEVELS[0], {"value": None, "name": "partly masked"}, LEVELS[2]]

OF_LEVELS: dict[str, Any] = {
    "filesNote": [
        (
            ["v.mp4"],
            "Files are named without their folders: run it where v.mp4 is, or put the folder before its name.",
        ),
    ],
    "levelDrawing": [
        ([LEVELS, 0], "A dashed outline: the object is kept."),
        ([LEVELS, 1], "Stripes one way: the object is partly masked."),
        (
            [LEVELS, 2],
            "Crossed stripes: the object is masked. Masks that overlap share their pixels, so it"
            " may remain visible in part; the mean of the mask over it then stands beside the level, and"
            " its cell in the timeline is filled as far.",
        ),
    ],
    "levelEnd": [([0.75, None], " → 0.75"), ([1, {"mean": 0.666}], " → 1, mean 0.67")],
    "overlapKey": [([0.618], "overlap: mean down to 0.62")],
    "overlapMeaning": [
        (
            [LEVELS[2]],
            "Masks that overlap share their pixels: an object at level 1, masked, may remain"
            " visible in part. This is the least mean of such a mask over its object; the timeline shows"
            " it for each frame.",
        ),
    ],
    "weakText": [
        (
            [0.618, [{"id": 2, "label": "ball"}, {"id": 4, "label": "cup"}]],
            "; the mean of its mask is 0.62 there, as it shares pixels with 2 ball and 4 cup",
        ),
    ],
    "everyLabel": [([14], "All 14 labels")],
    "confidenceText": [([0.754], "75 %"), ([1], "100 %")],
    "middleMeaning": [
        (
            [LEVELS, 0.4, 0],
            "r0, the strength at which every mask begins: an object whose strength has"
            " not moved stays partly masked; above it an object is masked, below it kept",
        ),
        (
            [LEVELS, 0.4, 0.05],
            "r0, the strength at which every mask begins: an object whose strength"
            " ends within τ = 0.05 of it stays partly masked; above it an object is masked, below it kept",
        ),
        (
            [ANY_BETWEEN, 0.4, 0],
            "strengths begin at r0 = 0.4 and stay as the ascent left them: partly masked",
        ),
    ],
}
