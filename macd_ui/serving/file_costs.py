"""What handlers compute before the device's turn: each function with what bounds it.

A hostile input meets these first, and two of them at a time could keep everybody else from the
device. Each is bounded by the size of what it is given, or has a clock and an end: a reader or a
writer beside the server is killed on Stop, on a closed tab and at its end, and what is computed in
the server's own process has a clock where the worst file takes seconds (`Store.showing`).
`docs/security.md` names the heaviest; `python -m macd_ui.serving.costs` prints all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

FIXED = "24 small pictures, whatever the clip is; the reading before it has a clock"
DRAWN = "a fixed size; one of 2 readers; the visitor's time of reading"
BY_SIZE = "what it is given is bounded"
READER = "a clock, which Stop and a closed tab end; the visitor's time of reading"
TRACKS = "a clock of 10 s and 300 MB beside the server; no place in the line; as for clips"
PLACE = "a *place*; no file takes more"
SHOWN = "a *place*, 10 s, which a closed tab ends"
MIN_S = 0.1
"""What takes less has no row in the table."""
WRITER = "10 s and 600 MB beside the server, which a closed tab ends; the time of reading"


@dataclass(frozen=True)
class Computed:
    """A function that handlers call before the queue for the device."""

    names: tuple[str, ...]
    """Names of the functions, as they are imported."""
    what: str
    """What it does, for the table."""
    hostile: str
    """The case that was measured, which a test runs."""
    mb: float
    seconds: float
    """`mb` and `seconds`: its peak above the server and its processor time."""
    ended: str
    """What bounds it."""


COMPUTED: tuple[Computed, ...] = (
    Computed(
        ("core.media.video.read_clip", "core.media.sampling.check_partner"),
        "reading a clip, or its partner", "any file or archive of pictures of 100 MB", 1000, 10,
        READER,
    ),
    Computed(
        ("core.objects.reading.read_tracks", "core.objects.formats.source.ClipFacts.of"),
        "reading and placing a file of tracks or masks",
        "those of bench.hostile_tracks; the largest 9 million pixels in colour", 250, 10, TRACKS,
    ),
    Computed(
        ("core.media.webp.picture_uri",), "the strip of a clip", "24 frames of 1920×1080, noise",
        1, 1.8, FIXED,
    ),
    Computed(
        ("core.traces.bundle.load", "core.traces.bundle.unpack",
         "core.system.process.return_free_memory"), "opening a trace",
        "everything that a file may hold", 281, 2.2, PLACE,
    ),
    Computed(
        ("viewer.payload", "viewer.status", "viewer.identity", "viewer.payload.can_compare",
         "viewer.payload.title_of", "core.objects.truth.is_right", "core.methods.clamped_share",
         "core.methods.in_8_bits"),
        "pictures, constants and flip maps of a trace, for the viewer",
        "39 megapixels of noise; 4,096 objects on 200 frames; 1.4 million candidates",
        184, 3.9, SHOWN,
    ),
    Computed(
        ("core.figures.strengths.has_ascent",), "the plot of the strengths",
        "100 objects, 20,000 points; more are not drawn", 19, 0.9, PLACE,
    ),
    Computed(
        ("viewer.exporting.page_beside",), "a trace as one page of HTML",
        "everything that a file may hold", 477, 7.6, WRITER,
    ),
    Computed(
        ("core.report.export.export_beside",), "objects and masks of a trace, six formats",
        "masks of every object on every frame", 600, 10, WRITER,
    ),
    Computed(
        ("core.report.export.exported", "viewer.standalone"), "both on one's own machine",
        "none: it is the user's", 0, 0, "only where nobody else uses the server",
    ),
    Computed(
        ("core.report.summary.as_json", "core.traces.bundle.pack", "core.traces.bundle.save"),
        "a trace's summary, or its file", "4,096 objects on 200 frames; 39 megapixels", 229, 1.7,
        PLACE,
    ),
    Computed(
        ("core.decoding.contrast.score", "core.repeats.penalised"), "scoring answers anew",
        "1.4 million candidates", 1, 0.05, PLACE,
    ),
    Computed(
        ("toyworld.clips.write_frames", "toyworld.world.frame_times", "toyworld.world.render",
         "toyworld.example_draws.searched_case"),
        "drawing a random or a typical clip", "the first, with what it imports", 822, 4.5, DRAWN,
    ),
    Computed(
        ("core.whatif.workbench.read_edit", "core.whatif.edits.redecodable"),
        "reading a change by hand", "a stroke of 400 points", 1, 0.01, BY_SIZE,
    ),
    Computed(
        ("core.evidence.options.read_enough_options", "core.evidence.options.read_evidence_options",
         "core.evidence.kinds.views_of", "core.evidence.kinds.readings",
         "core.evidence.kinds.readings_of", "core.evidence.kinds.curve_readings",
         "core.whatif.verdict.views_of_map"),
        "planning of evidence and of what is enough", "64 pieces of 20 boxes, 100,000 views",
        1, 0.01, BY_SIZE,
    ),
    Computed(
        ("core.text.question.clean_question", "core.text.phrases.noun_phrases",
         "core.text.phrases.prompt_of", "core.objects.registry.reads_words",
         "core.objects.registry.named"),
        "the question and what it names", "1 MB of text, which is refused", 1, 0.01, BY_SIZE,
    ),
    Computed(
        ("core.options.options_from", "core.methods.find_methods", "core.validation.help_of",
         "core.validation.refuse_unknown", "core.validation.rule_of", "core.validation.rule_within",
         "core.validation.shown", "core.backbones.remote_address.is_remote"),
        "options and methods", "20,000 unknown options, which are refused", 2, 0.02, BY_SIZE,
    ),
)  # fmt: skip
"""In the order of the table."""
DEVICE: tuple[Computed, ...] = (
    Computed(
        (), "the choice map", "129 views of 32 frames: six of 8 objects, with a frame mask",
        187, 11.4, "120 s of the device; Stop between 8 views; the visitor's time of computing",
    ),
    Computed(
        (), "an ascent by reading alone", "20 steps of 229 views of 32 frames: 40 objects", 104, 79,
        "ended after 120 s of the device; Stop between 8 views; the visitor's time of computing",
    ),
    Computed(
        (), "*everyday* at its bounds", "32 frames of 448×448, 40 objects, 20 steps", 4100, 125,
        "ended after 120 s of the device; one run at a time",
    ),
)  # fmt: skip
"""What is computed in a job's turn, and has a worst case of its own; likewise measured."""


def table(rows: Iterable[Computed] = COMPUTED, where: str = "before the queue") -> str:
    """A row for each that takes at least MIN_S, in Markdown. where: title of the first column."""
    lines = [f"| {where} | hostile case | MB | s | bound |", "|---|---|---|---|---|"]
    lines += [
        f"| {row.what} | {row.hostile} | {row.mb:,.0f} | {row.seconds:g} | {row.ended} |"
        for row in rows
        if row.seconds >= MIN_S
    ]
    return "\n".join(lines) + "\n"
