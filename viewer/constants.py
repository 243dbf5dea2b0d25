"""What the viewer's scripts and Python must agree on, said once and sent with every payload."""

from __future__ import annotations

from typing import Any

from macd_studio.core.decoding.contrast import LARGEST_ALPHA
from macd_studio.core.evidence.kinds import KINDS
from macd_studio.core.figures.style import COLOURS
from macd_studio.core.measurements import MAX_MAPPED
from macd_studio.core.objects.edits import LABEL_CHARACTERS, MAX_POINTS, SMALLEST_SIDE
from macd_studio.core.objects.formats import WRITERS
from macd_studio.core.types import INTERPOLATED, LOST, SEEN
from macd_studio.core.whatif.verdict import BEST, FEW, MOST, SMALL_CONSTANT
from macd_studio.viewer.glossary import terms

STAGE_NAMES = {
    "video": "Read video",
    "detect": "Detect",
    "track": "Track",
    "load": "Load model",
    "ascent": "Gradient ascent",
    "views": "Read both views",
    "decode": "Decode",
}
"""The stages of `core.run.state.STAGES` in words, in its order."""
STATE_NAMES = {LOST: "lost", INTERPOLATED: "interpolated", SEEN: "seen"}
"""Of a track on a frame; the CSS has a class for each."""
ALPHA_MAX, BETA_MAX = 5.0, 1.0
"""Ends of the sliders and of the flip map, which start at 0; a larger value moves them."""
LARGEST_BETA = 2.0
FLIP_ALPHAS = tuple(i * ALPHA_MAX / 40 for i in range(41))
FLIP_BETAS = (0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, BETA_MAX)


def constants() -> dict[str, Any]:
    """Plain values; `Constants` in js/types.d.ts says what each is."""
    return {
        "stages": [[stage, name] for stage, name in STAGE_NAMES.items()],
        "states": [STATE_NAMES[state] for state in sorted(STATE_NAMES)],
        "interpolated": INTERPOLATED,
        "colours": list(COLOURS),
        "alpha": {"max": ALPHA_MAX, "step": 0.05},
        "beta": {"max": BETA_MAX, "step": 0.01},
        "largest_alpha": LARGEST_ALPHA,
        "largest_beta": LARGEST_BETA,
        "exports": [[name, one.title] for name, one in WRITERS.items()],
        "kinds": [[kind, KINDS[kind].title] for kind in sorted(KINDS)],
        "flips": {"alphas": list(FLIP_ALPHAS), "betas": list(FLIP_BETAS)},
        "edit": {
            "points": MAX_POINTS,
            "label": LABEL_CHARACTERS,
            "side": SMALLEST_SIDE,
        },
        "most_mapped": MAX_MAPPED,
        "verdict": {"small_constant": SMALL_CONSTANT, "most": MOST, "few": FEW, "best": BEST},
        "glossary": {term.name: term.meaning.replace("`", "") for term in terms()},
    }
