"""A tiny trace in which every field holds something, its file taken apart and put together."""

import hashlib
import io
import json
import zipfile

import numpy as np

from macd_studio.core.cli.reproduce import command, snippet
from macd_studio.core.measurements import (
    Agreement,
    ControlOutcome,
    ControlReport,
    Curve,
    Curves,
    Enough,
    Evidence,
    EvidenceMap,
    Given,
    KnockOut,
    Lens,
    OcclusionReport,
    Piece,
    Smallest,
    Target,
)
from macd_studio.core.objects.edits import validated_edit
from macd_studio.core.records import BackboneRecord, ClipRecord, DetectorRecord
from macd_studio.core.report.summary import as_json, as_table, as_text
from macd_studio.core.types import (
    Answer,
    AscentStep,
    Counterfactual,
    ModelFrames,
    ShownView,
    StepWeights,
    Stroke,
    TokenStep,
    Trace,
    Track,
)
from macd_studio.core.view_records import MaskedView, PrunedTokensView
from macd_studio.viewer.payload import payload
from tests.zip_lies import zipped

EDITS = [
    {"kind": "level", "track": 1, "level": 0.5},
    {"kind": "frames", "track": 0, "level": 1.0},
    {"kind": "brush", "track": 2, "frame": 1, "points": [[0.1, 0.2]], "radius": 0.1, "erase": True},
    {"kind": "add", "label": "drawn", "box": [0.1, 0.1, 0.5, 0.5]},
    {"kind": "label", "track": 1, "label": "dog"},
]


def small_trace():
    """Two frames of 16×16, two tracks, a frame group, three answers, five edits, all measured."""
    frames = np.random.default_rng(0).integers(0, 255, (2, 16, 16, 3), np.uint8)
    times = np.array([0.5, 1.5])
    read = ModelFrames(frames, times, 2.0, (0, 0, 16, 16))
    boxes = np.full((2, 4), np.nan, np.float32)
    boxes[0] = (0.1, 0.1, 0.5, 0.5)
    ring = np.array([[0, 0], [1, 0], [0.5, 1]], np.float32)
    tracks = (
        Track(1, "dog", 0.9, boxes, np.array([2, 0], np.int8), 3, outlines=((ring,), None)),
        Track(2, "cup", 0.5, np.tile(boxes[0], (2, 1)), np.array([2, 1], np.int8), 4,
              brush=(Stroke(ring, 0.1, True),)),
    )  # fmt: skip
    two, one = np.array([0.75, 0.7]), np.array([0.75])
    answers = [
        Answer("baseline", "yes", (token(0), token(1)), True, rule="plain"),
        Answer("macd", "no", (token(0, True), token(1, True)), True, 1.0, 0.1,
               votes={"no": 2, "yes": 1},
               second_views=(ShownView(MaskedView((1.0, 0.0), (0.75,)), 255 - frames),)),
        Answer("sid", "no", (token(0, True, np.array([True, False, True])),), False, 0.5, 0.1,
               second_views=(ShownView(PrunedTokensView(2, 0.2, (1, 1, 3))),)),
    ]  # fmt: skip
    return Trace(
        question="Is there a dog?",
        frames=frames,
        times=times,
        groups=((0, 1),),
        clip=ClipRecord(name="clip.mp4", sha256="0" * 64, duration=2.0, width=16, height=16,
                        title="toy world"),
        backbone=BackboneRecord(name="toyworld", family="qwen2_5_vl", parameters=5, device="cpu",
                                dtype="float32", prompt="Is there a dog?",
                                pixel_mean=(0.5, 0.5, 0.5)),
        detector=DetectorRecord(name="toyworld", confidence=0.5, low=0.2, max_per_frame=100,
                                frames=20, fps=10.0),
        edits=tuple(validated_edit(edit) for edit in EDITS),
        model_frames=read,
        tracks=tracks,
        steps=(AscentStep(0, 0.4, two, np.array([0.1, -0.2]), one, np.array([0.3])),),
        counterfactual=Counterfactual(
            two, two - 0.75, np.array([1.0, 0.0]), one, one - 0.75, one, 0.4, 0.5
        ),
        occlusion=OcclusionReport(two, two, two, np.zeros((2, 2)), None, "supported"),
        controls=ControlReport(
            0, "no", "yes",
            (ControlOutcome("random", "no", True, 0), ControlOutcome("blank", "yes", False, 0)),
            0.5, 12.5,
        ),
        truth="no",
        evidence=(small_evidence(),),
        enough=(small_enough(),),
        answers={a.method: a for a in answers},
        timings_ms={"video": 12.5, "decode": 3.0},
        peak_memory_mb=100.0,
        warnings=("a warning",),
        shared={"masks": 1},
        versions={"python": "3.11"},
    )  # fmt: skip


def small_evidence():
    """Two kinds of maps, a box and an object knocked out, and a lens of two layers."""
    values = np.random.default_rng(1).normal(size=(2, 3, 4)).astype(np.float32)
    return Evidence(
        target=Target("macd", 1, 7, "no", 5, "yes"),
        score=(1.5, -0.5),
        layers=(0, 1),
        maps=tuple(
            EvidenceMap(kind, view, values * sign, (0.5, 0.25), 0.25, (1.0,), sanity)
            for kind, sanity in (("gradient", 0.5), ("occlusion-grid", None))
            for view, sign in (("video", 1), ("counterfactual", -1))
        ),
        agreement=(Agreement("video", "gradient", "occlusion-grid", None),),
        knock_outs=(
            KnockOut(2, None, (0, 1), 3, "no", "yes", (1.5, 0.5), (0.75, 0.5)),
            KnockOut(None, (0.0, 0.0, 0.5, 0.5), (1, 1), 1, "no", "no", (1.5, 1.5), (0.75, 0.75)),
        ),
        lens=Lens((0.25, 0.75), (0.25, 0.5)),
        curves=Curves(
            (0.0, 0.5, 1.0),
            (
                Curve("gradient", (0.75, 0.25, 0.25), (0.25, 0.75, 0.75)),
                Curve("random", (0.75, 0.5, 0.25), (0.25, 0.5, 0.75)),
                Curve("random", (0.75, 0.75, 0.25), (0.25, 0.5, 0.75)),
            ),
        ),
    )


def small_enough():
    """An object, a region and the background; the object is enough, and no removal certified."""
    return Enough(
        target=Target("baseline", 0, 7, "no"),
        same="answer",
        margin=0.5,
        fill="mean",
        pieces=(
            Piece(2, None, (0, 0)), Piece(None, (0.0, 0.0, 0.5, 0.5), (0, 0)),
            Piece(None, None, (0, 0)),
        ),
        whole=Given((0, 1, 2), "yes", True, 0.75, 1.5),
        nothing=Given((), "no", False, 0.25, -1.5),
        keep=Smallest((0,), 1, 1, Given((0,), "yes", True, 0.5, 0.75)),
        remove=Smallest((0, 1), 1, 2, Given((2,), "no", False, 0.25, -0.5)),
        asked=(Given((1,), "no", False, 0.25, -0.25),),
        views=6,
        budget=6,
    )  # fmt: skip


def token(index, two=False, hidden=None):
    base = np.array([2.0, 1.0, -1.0], np.float32)
    return TokenStep(
        index=index,
        token=7,
        text="no",
        candidates=np.array([5, 7, 9]),
        texts=("yes", "no", "\n"),
        base=base,
        base_log_z=3.0,
        others=(base[::-1].copy(),) if two else (),
        others_log_z=(3.0,) if two else (),
        hidden=hidden,
        floor=-np.inf,
        weights=None if two else StepWeights(),
    )


def taken_apart(content):
    """The manifest, and the other members by name."""
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        members = {n: file.read(n) for n in file.namelist()}
    return json.loads(members.pop("manifest.json")), members


def put_together(manifest, members, sums=True, method=zipfile.ZIP_STORED):
    """The file again, with fitting sums unless they are kept. manifest: an object, or its bytes."""
    if sums and isinstance(manifest, dict):
        told = {n: hashlib.sha256(b).hexdigest() for n, b in members.items()}
        manifest = manifest | {"sha256": told}
    if not isinstance(manifest, bytes):
        manifest = json.dumps(manifest).encode()
    return zipped({"manifest.json": manifest, **members}, method)


def with_manifest(file, manifest):
    """A file of members alone with a manifest added, which is faster than writing all of them."""
    out = io.BytesIO(file)
    with zipfile.ZipFile(out, "a") as added:
        added.writestr("manifest.json", manifest)
    return out.getvalue()


def npy(array):
    out = io.BytesIO()
    np.lib.format.write_array(out, np.ascontiguousarray(array), allow_pickle=False)
    return out.getvalue()


def read_everywhere(trace):
    """What shows a trace, as text that can be written; fails where a reader does."""
    shown = payload(trace)
    texts = [
        as_text(trace),
        as_table(trace),
        json.dumps(as_json(trace), ensure_ascii=False, allow_nan=False),
        json.dumps(shown, ensure_ascii=False, allow_nan=False),
    ]
    mask = trace.options.mask
    taken_no_more = mask.frame_mask == "whole" and mask.fusion != "or"
    if taken_no_more or trace.unknown_options:  # no run here takes them
        assert not shown["trace"].get("again")
    elif not shown["trace"].get("again"):  # else they are among what is shown
        texts += [command(trace), snippet(trace)]
    for text in texts:
        text.encode()
    return texts
