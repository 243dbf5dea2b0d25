# ruff: noqa: E501 — sentences stand whole
"""What the viewer says of views, frames and runs beside each other; see test_strings.py."""

from typing import Any

from tests.browser.level_sentences import LEVELS

OF_RUNS: dict[str, Any] = {
    "viewText": [
        (
            [{"kind": "masks"}, {"frame": 0, "token": 0, "drawable": True}],
            "the frames behind the masks, as the model read them",
        ),
        (
            [{"kind": "blank"}, {"frame": 0, "token": 0, "drawable": False}],
            "a video without content (its pixels are not stored in this trace)",
        ),
        (
            [{"kind": "no-video"}, {"frame": 0, "token": 0, "drawable": False}],
            "the question alone, without a video",
        ),
        (
            [{"kind": "noise"}, {"frame": 0, "token": 0, "drawable": True}],
            "the noise that the model read, cut off at black and white",
        ),
        (
            [
                {"kind": "noise", "clamped": 0.125},
                {"frame": 0, "token": 0, "drawable": True},
            ],
            "the noise as the server read it, in 8 bits: 12.5 % of its values were clamped to black or white",
        ),
        (
            [{"kind": "frames", "frames": [0, 2]}, {"frame": 0, "token": 0, "drawable": True}],
            "sees only frames 1, 3",
        ),
        (
            [{"kind": "frames", "frames": [0, 2]}, {"frame": 1, "token": 0, "drawable": True}],
            "frame 2 is left out · sees only frames 1, 3",
        ),
        (
            [
                {"kind": "pruned", "layer": 3, "ratio": 0.5},
                {"frame": 0, "token": 1, "drawable": True},
            ],
            "token 2: all pixels, but from decoder layer 3 on only 50.0 % of the vision tokens",
        ),
        (
            [{"kind": "own", "caption": "blurred"}, {"frame": 0, "token": 0, "drawable": True}],
            "blurred",
        ),
    ],
    "comparison": [
        (["Yes.", "yes"], "agrees"),
        (["no", "Yes"], "flipped"),
        (["a dog", "yes"], "changed"),
    ],
    "viewSuffix": [([0], ""), ([1], ", view 2")],
    "votesText": [([{}], ""), ([{"yes": 2, "no": 1}], " votes: yes: 2, no: 1")],
    "secondViewLabel": [
        (["VCD", 0, ""], "Second view of VCD, frame 1"),
        (["VCD", 1, "x"], "Second view of VCD, frame 2: x"),
    ],
    "sharedText": [
        (
            [3, {}],
            "Seed 3. Shared between methods: nothing; “ms added” leaves that out, “ms in all” is from"
            " the prompt to the answer. Peak memory: tensors alive for the method, weights included.",
        ),
        (
            [3, {"a": 2, "b": 1}],
            "Seed 3. Shared between methods: a 2×, b 1×; “ms added” leaves that out, “ms in all” is from"
            " the prompt to the answer. Peak memory: tensors alive for the method, weights included.",
        ),
    ],
    "frameText": [([1, [0, 0.5]], "frame 2 of 2 · 0.50 s")],
    "outsideText": [([0], ""), ([1], " · outside of objects masked at 1")],
    "frameSummary": [
        ([0, 4, [], "", []], "Frame 1 of 4: no tracked objects. Shown: the frame alone."),
        (
            [1, 4, ["1 dog, kept", "2 cat"], " · x", ["Boxes", "Levels"]],
            "Frame 2 of 4: 1 dog, kept; 2 cat · x. Shown: Boxes, Levels.",
        ),
    ],
    "laneText": [
        (["dog", 2, "seen", False], "dog, frame 3: seen"),
        (["dog", 2, "lost", True], "dog, frame 3: lost; the first frame after a hard cut"),
    ],
    "frameMaskText": [
        ([0, LEVELS, 0, True], "frame 1: kept, set by hand"),
        ([1, LEVELS, 0.4, False], "frame 2: masked at 0.4"),
        ([1, LEVELS, 1, True], "frame 2: masked at 1, set by hand"),
    ],
}
