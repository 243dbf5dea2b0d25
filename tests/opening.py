"""The example on which the page opens, and the words and objects in it, which tests refer to."""

from macd_studio.core.system.shipped import assets
from macd_studio.core.traces.bundle import load

EXAMPLE = assets() / "examples" / "repaired.macd"
TRACE = load(EXAMPLE)
BEFORE, AFTER = TRACE.answers["baseline"].text, TRACE.answers["macd"].text
LABELS = {track.id: track.label for track in TRACE.tracks}


def choices(without: int = 0) -> str:
    """The objects as an error names them: "1 (car), 2 (dog)"."""
    return ", ".join(f"{i} ({label})" for i, label in LABELS.items() if i != without)
