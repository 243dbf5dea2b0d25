"""Objects of a file on frames of their clip, to be looked at before anything is computed.

A wrong rate, a first frame that is off by one or another clip's file is seen at once, as boxes do
not lie on what they name. Imports no torch.
"""

from __future__ import annotations

import io
from collections import Counter

import numpy as np

from macd_studio.core.figures.style import COLOURS
from macd_studio.core.objects.placing import FoundTracks
from macd_studio.core.text.words import count
from macd_studio.core.types import LOST, Clip
from macd_studio.core.validation import shown

SHOWN, WIDE, NARROW, DPI = 3, 10.0, 4.2, 100
"""Frames on a sheet, its widths in inches, and pixels of one."""
MAX_SHEET_HEIGHT = 20.0
"""Its height at most, inches: frames that are much higher than wide are drawn smaller."""
MAX_NAMED = 12
CHOICES = {
    "rate": "--tracks-fps", "time of its frame 0": "--tracks-start",
    "number of its first frame": "--first-frame", "columns": "--columns",
    "video of several": "--track-source",
}  # fmt: skip
"""What can be chosen for a file, and the flag that does."""


def lines_of(found: FoundTracks, clip: Clip) -> list[str]:
    """What was read, one thing a line: format, names, how frames are counted, and what is seen."""
    record, tracks = found.record, found.tracks
    names = Counter(track.label for track in tracks)
    named = [f"{n} × {shown(z, 60)}" if n > 1 else shown(z, 60) for z, n in names.items()]
    seen = np.asarray(np.any([track.state != LOST for track in tracks], 0))
    at = clip.times[seen]
    lines = [
        f"{record.name}: {record.format}",
        f"{count(len(tracks), 'object')}: {', '.join(named[:MAX_NAMED])}"
        + (f" and {len(named) - MAX_NAMED} more" if len(named) > MAX_NAMED else ""),
        f"seen on {int(seen.sum())} of the {len(seen)} sampled frames, {at[0]:.2f} to {at[-1]:.2f}"
        f" of {clip.duration:.1f} s",
    ]
    return [*lines, *found.notes]


def frames_to_show(found: FoundTracks) -> list[int]:
    """Up to SHOWN sampled frames with objects, the first, the last and what lies between."""
    seen = np.flatnonzero(np.any([track.state != LOST for track in found.tracks], 0))
    places = np.linspace(0, len(seen) - 1, min(SHOWN, len(seen)))
    return [int(seen[round(p)]) for p in places]


def sheet(found: FoundTracks, clip: Clip, narrow: bool = False) -> bytes:
    """A PNG of some sampled frames with the objects' boxes and names, side by side.

    narrow: one below the other where the clip is wider than high, for a column of a page.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    chosen = frames_to_show(found)
    height, width = clip.frames.shape[1:3]
    below = narrow and width > height
    wide = NARROW if narrow else WIDE
    each = wide if below else wide / len(chosen)
    tall = (each * height / width + 0.3) * (len(chosen) if below else 1)
    figure = Figure(figsize=(wide, min(tall, MAX_SHEET_HEIGHT)), dpi=DPI, layout="constrained")
    grid = (len(chosen), 1) if below else (1, len(chosen))
    for axes, i in zip(figure.subplots(*grid, squeeze=False).flat, chosen, strict=True):
        axes.imshow(clip.frames[i])
        number = "" if clip.numbers is None else f"frame {int(clip.numbers[i])}, "
        axes.set_title(f"{number}{clip.times[i]:.2f} s", fontsize=9)
        axes.set_axis_off()
        for track in found.tracks:
            if track.state[i] == LOST:
                continue
            colour = COLOURS[(track.id - 1) % len(COLOURS)]
            x0, y0, x1, y1 = track.boxes[i] * (width, height, width, height) - 0.5
            box = Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, edgecolor=colour, lw=1.8)
            axes.add_patch(box)
            axes.text(
                x0, y0, f"{track.id} {track.label[:24]}", fontsize=7, color="white", va="bottom",
                parse_math=False, clip_on=True,
                bbox={"facecolor": colour, "edgecolor": "none", "pad": 1.2},
            )  # fmt: skip
    out = io.BytesIO()
    figure.savefig(out, format="png")
    return out.getvalue()
