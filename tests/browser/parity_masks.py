"""What the viewer's scripts compute, beside what the core computes of the same traces.

Each case is a fixture that Python writes: traces, as the payload sends them, the script that is
run on them in the browser, and what the core says. scripts/js_mutants.py runs them too, on scripts
with planted faults. Here are the masks and their levels; parity.py adds scores and sentences.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from macd_studio.core.macd import MaskCompositor, frame_levels, quantize_strengths
from macd_studio.core.masking.masks import combine_masks, draw_masks
from macd_studio.core.options import (
    FUSIONS,
    AscentOptions,
    MaskOptions,
    RunOptions,
)
from macd_studio.core.types import (
    INTERPOLATED,
    LOST,
    SEEN,
    AscentStep,
    Counterfactual,
    ModelFrames,
    Stroke,
    Trace,
    Track,
)
from macd_studio.core.whatif.edits import edited_tracks, read_edit
from macd_studio.viewer import JS, payload
from macd_studio.viewer.constants import constants

ENTRIES = tuple(
    JS / name for name in ("masks.js", "rescore.js", "text.js", "happened.js", "edits.js")
)
SCRIPTS = (
    "frameMasks", "levelsAt", "levelsOfStep", "unionMask", "unionSlopes", "rescore",
    "flipPoints", "flipRow", "unpackBits", "controlText", "signed", "certify", "editedTracks",
)  # fmt: skip
HEIGHT, WIDTH = 18, 24


@dataclass(frozen=True)
class Case:
    """given: plain values; code: a function of them, which sees what the scripts export.

    compare: takes what the function gave; raises AssertionError where the core says otherwise.
    """

    given: Any
    code: str
    compare: Callable[[Any], None]

    def run(self, page: Any, script: str) -> None:
        """Runs the code of one bundle in a page, and compares."""
        names = ", ".join(SCRIPTS)
        self.compare(
            page.evaluate(
                f"(given) => {{ const {{ {names} }} = {script};\nreturn ({self.code})(given); }}",
                self.given,
            )
        )


CASES: dict[str, Callable[[], Case]] = {}


def case(make: Callable[[], Case]) -> Callable[[], Case]:
    """Registers a case by its name."""
    CASES[make.__name__] = make
    return make


# masks


def a_trace(mask: MaskOptions | None = None) -> Trace:
    """Three frames in padded model frames, and five tracks that overlap.

    They have outlines with holes, strokes, a frame where they are lost, and one no area.
    """
    frames = np.zeros((3, 2 * HEIGHT, 2 * WIDTH, 3), np.uint8)
    pixels = np.zeros((3, HEIGHT + 5, WIDTH + 3, 3), np.uint8)
    ring = np.array([[0.5, 0.0], [1.0, 0.75], [0.625, 0.5], [0.125, 1.0]], np.float32)
    hole = np.array([[0.375, 0.375], [0.625, 0.375], [0.5, 0.625]], np.float32)
    strokes = (
        Stroke(np.array([[0.25, 1.375], [0.875, 1.125]], np.float32), 0.125),
        Stroke(np.array([[0.5, 0.5]], np.float32), 0.0625, True),
    )
    low = np.array([[0.125, 0.25], [0.25, 0.125], [0.3125, 0.375], [0.5, 0.0]])
    sides = np.array([[0.5, 0.5], [0.5, 0.625], [0.375, 0.375], [0.25, 0.5]])
    boxes = np.concatenate([low, low + sides], 1)[:, None].repeat(3, 1).astype(np.float32)
    boxes += np.array([0, 0.0625, 0.125], np.float32)[None, :, None]
    boxes[1, 2] = np.nan
    flat = np.tile(np.float32([0.5, 0.25, 0.5, 0.75]), (3, 1))
    seen = np.full(3, SEEN, np.int8)
    tracks = (
        Track(1, "dog", 0.9, boxes[0], seen, 3, outlines=((ring, hole), None, (ring,))),
        Track(4, "cup", 0.4, boxes[1], np.array([SEEN, INTERPOLATED, LOST], np.int8), 2, strokes),
        Track(5, "cat", 0.7, boxes[2], seen, 3, strokes[1:], ((ring,), (ring, hole), None)),
        Track(6, "car", 0.2, boxes[3], seen, 3),
        Track(7, "ant", 0.5, flat, seen, 3, outlines=((ring,),) * 3),
    )
    level, frame_level = np.array([1.0, 0.75, 0.0, 0.25, 1.0]), np.array([0.75, 0.25])
    return Trace(
        question="?",
        frames=frames,
        times=np.arange(3.0),
        groups=((0, 1), (2,)),
        options=RunOptions(ascent=AscentOptions(r0=0.625)),
        model_frames=ModelFrames(pixels, np.arange(3.0), 3.0, (2, 4, 2 + WIDTH, 4 + HEIGHT)),
        mask=mask or MaskOptions(),
        tracks=tracks,
        counterfactual=Counterfactual(
            level, level, level, frame_level, frame_level, frame_level
        ),
    )  # fmt: skip


def sent(trace: Trace) -> dict[str, Any]:
    """The trace as the viewer gets it."""
    return payload(trace, frames=False)["trace"]


def same_masks(expected: list[np.ndarray]) -> Callable[[Any], None]:
    """Compares lists of lists of numbers; null stands for a mask of zeros."""

    def compare(found: Any) -> None:
        assert len(found) == len(expected)
        for i, (mine, own) in enumerate(zip(found, expected, strict=True)):
            full = [[0.0] * own.shape[-1] if m is None else m for m in mine]
            np.testing.assert_allclose(full, own, atol=2e-5, err_msg=f"number {i}")

    return compare


def drawn(trace: Trace, options: MaskOptions) -> Any:
    return draw_masks(trace.tracks, 3, (HEIGHT, WIDTH), options)


@case
def masks_of_objects() -> Case:
    """Under each overlap and shape, moving and swept."""
    given, expected = [], []
    for overlap, shape, swept in product(("normalise", "raw"), ("outline", "box"), (False, True)):
        options = MaskOptions(overlap=overlap, shape=shape, swept=swept)
        trace = a_trace(options)
        given.append(sent(trace))
        masks = drawn(trace, options).objects
        expected += [masks[:, t].reshape(5, -1) for t in range(3)]
    code = """(traces) => traces.flatMap((trace) => [0, 1, 2].map((t) =>
      frameMasks(trace, t).objects.map((m) => m && Array.from(m))))"""
    return Case(given, code, same_masks(expected))


@case
def masks_of_a_single_object() -> Case:
    """One track shares no pixel, and wide edges reach all over the frame."""
    given, expected = [], []
    for pad, feather in ((0.02, 0.0145), (0.25, 0.2), (0.0, 0.001)):
        options = MaskOptions(pad=pad, feather=feather)
        trace = replace(a_trace(options), tracks=a_trace().tracks[:1])
        given.append(sent(trace))
        masks = drawn(trace, options)
        expected += [
            np.stack([masks.objects[0, t], masks.outside[t]]).reshape(2, -1) for t in range(3)
        ]
    code = """(traces) => traces.flatMap((trace) => [0, 1, 2].map((t) => {
      const { objects, outside } = frameMasks(trace, t);
      return [Array.from(objects[0]), Array.from(outside)];
    }))"""
    return Case(given, code, same_masks(expected))


@case
def masks_joined() -> Case:
    """Under each fusion and frame mask, with the levels of the objects and of the frames."""
    given, expected = [], []
    for fusion, frame_mask, other in product(FUSIONS, ("outside", "whole", "off"), (False, True)):
        options = MaskOptions(
            fusion=fusion, frame_mask=frame_mask, swept=other, strength_twice=other
        )
        trace = a_trace(options)
        given.append(sent(trace))
        final = trace.counterfactual
        joined = combine_masks(
            drawn(trace, options), final.level, final.frame_level, trace.groups,
            [t.confidence for t in trace.tracks], options,
        )  # fmt: skip
        expected.append(joined.reshape(3, -1))
    code = """(traces) => traces.map((trace) => [0, 1, 2].map((t) =>
      Array.from(unionMask(trace, frameMasks(trace, t), levelsAt(trace, t)))))"""
    return Case(given, code, same_masks(expected))


@case
def levels_of_objects_and_frames() -> Case:
    """After the ascent, before it, and with the frame mask off."""
    trace = a_trace()
    off = replace(trace.counterfactual, frame_level=np.zeros(0))
    shown = [
        sent(z)
        for z in (
            trace,
            replace(trace, counterfactual=None),
            replace(trace, counterfactual=off),
        )
    ]
    level = trace.counterfactual.level.tolist()
    expected = [
        [{"objects": level, "frame": f} for f in (0.75, 0.75, 0.25)],
        [{"objects": [0.625] * 5, "frame": 0}] * 3,
        [{"objects": level, "frame": 0}] * 3,
    ]

    def compare(found: Any) -> None:
        assert found == expected

    return Case(
        shown, "(all) => all.map((trace) => [0, 1, 2].map((t) => levelsAt(trace, t)))", compare
    )


@case
def levels_by_step() -> Case:
    """Strengths on and off the edges of the dead band; more frames above r0 than may stay."""
    given, expected = [], []
    r0 = 0.625
    strength = np.array([r0, r0 + 0.125, r0 - 0.125, r0 + 0.1875, r0 - 0.1875])
    frames = np.array([r0 + 0.25, r0 + 0.3125, r0 - 0.25, r0 + 0.25, r0, r0 + 0.125])
    step = AscentStep(0, 1.0, strength, strength, frames, frames)
    for levels, tau, fraction in product(
        ("three", "continuous"), (0.0, 0.125), (0.0, 0.1, 0.5, 1.0)
    ):
        options = AscentOptions(r0=r0, tau=tau, levels=levels, frame_fraction=fraction)
        trace = replace(
            a_trace(), steps=(step,), groups=tuple((g,) for g in range(len(frames))),
            options=RunOptions(ascent=options),
        )  # fmt: skip
        given.append(sent(trace))
        objects = quantize_strengths(strength, options).tolist()
        few = frame_levels(frames, options).tolist()
        expected.append(
            [{"objects": objects, "frames": few}, {"objects": objects, "frame": few[2]}]
        )

    def compare(found: Any) -> None:
        assert found == expected

    code = "(all) => all.map((trace) => [levelsOfStep(trace, 0), levelsAt(trace, 2, 0)])"
    return Case(given, code, compare)


# scores


@case
def slopes_of_joined_masks() -> Case:
    """How M changes with each strength, under each fusion and frame mask; ties share."""
    given, expected = [], []
    slope = np.random.default_rng(5).normal(size=(3, HEIGHT, WIDTH)).astype(np.float32)
    for fusion, frame_mask in product(FUSIONS, ("outside", "whole", "off")):
        twice = frame_mask == "outside"
        options = MaskOptions(
            fusion=fusion, frame_mask=frame_mask, overlap="raw", strength_twice=twice
        )
        trace = a_trace(options)
        twins = (*trace.tracks[:4], replace(trace.tracks[3], id=9))  # equal wherever they lie
        trace = replace(trace, tracks=twins)
        level = np.array([1.0, 0.75, 0.0, 0.75, 0.75])
        given.append([sent(trace), level.tolist(), slope.reshape(3, -1).tolist()])
        expected.append(_slopes(trace, level, slope))
    code = """(cases) => cases.map(([trace, objects, slopes]) => [0, 1, 2].map((t) => {
      const levels = { objects, frame: levelsAt(trace, t).frame };
      const { objects: found, frame } =
        unionSlopes(trace, frameMasks(trace, t), levels, Float32Array.from(slopes[t]));
      return [...found, frame];
    }))"""

    def compare(found: Any) -> None:
        np.testing.assert_allclose(found, expected, atol=2e-3)

    return Case(given, code, compare)


def _slopes(trace: Trace, level: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """(T, K + 1) by autograd: of each object and of the frame's group, frame by frame."""
    import torch

    masks, options = drawn(trace, trace.mask), trace.mask
    off = options.frame_mask == "off"
    view = MaskCompositor(
        encoded=None, options=options, objects=torch.from_numpy(masks.objects),
        outside=None if off else torch.from_numpy(masks.outside),
        weight=torch.tensor([t.confidence for t in trace.tracks]),
        group_of=torch.tensor([0, 0, 1]), fill=torch.zeros(3),
    )  # fmt: skip
    rows = []
    for t in range(3):
        r = torch.tensor(level, dtype=torch.float32, requires_grad=True)
        rf = torch.tensor(trace.counterfactual.frame_level, dtype=torch.float32, requires_grad=True)
        own = torch.zeros(slope.shape)
        own[t] = torch.from_numpy(slope[t])
        view.mask(r, rf).backward(own)
        rows.append([*r.grad.tolist(), 0.0 if off else float(rf.grad[view.group_of[t]])])
    return np.array(rows)


# changes by hand


@case
def tracks_after_each_change() -> Case:
    """One change after the other, of objects that are seen, interpolated and lost on a frame."""
    raws = [
        {"kind": "brush", "track": 4, "frame": 0, "points": [[0.3, 0.4], [0.5, 0.6]],
         "radius": 0.125, "erase": False},
        {"kind": "brush", "track": 7, "frame": 1, "points": [[0.5, 0.5]], "radius": 0.25,
         "erase": True},
        {"kind": "merge", "track": 4, "other": 5},
        {"kind": "label", "track": 4, "label": "cup with cat"},
        {"kind": "merge", "track": 6, "other": 4},
        {"kind": "drop", "track": 7},
        {"kind": "add", "label": "hat", "box": [0.125, 0.25, 0.5, 0.75]},
    ]  # fmt: skip
    traces, expected = [a_trace()], []
    for raw in raws:
        edit = read_edit(raw, traces[-1])
        tracks = edited_tracks(traces[-1], edit)
        traces.append(replace(traces[-1], tracks=tracks, edits=(*traces[-1].edits, edit)))
        expected.append(sent(traces[-1])["tracks"])

    def compare(found: Any) -> None:
        assert len(found) == len(expected)
        for mine, own in zip(found, expected, strict=True):
            assert [t["id"] for t in mine] == [t["id"] for t in own]
            for one, two in zip(mine, own, strict=True):
                assert one.keys() == two.keys()
                for part in one:
                    assert close(one[part], two[part]), part

    code = "([traces, edits, told]) => edits.map((e, i) => editedTracks(traces[i], e, told))"
    given = [[sent(t) for t in traces[:-1]], raws, constants()]
    return Case(given, code, compare)


def close(one: Any, two: Any) -> bool:
    """Whether plain values are the same but for float32 and the rounding of the payload."""
    if isinstance(one, list | tuple):
        return len(one) == len(two) and all(map(close, one, two))
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(close(one[k], two[k]) for k in one)
    return abs(one - two) <= 2e-5 if isinstance(one, float) else one == two
