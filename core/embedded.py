"""Names of the models that ship with the project, and which of them a clip is given to."""

from __future__ import annotations

EMBEDDED = "toyworld"
"""The name of the backbone that ships for drawn clips, and of its detector."""
EVERYDAY = "everyday"
"""The name of the backbone that ships for clips of a camera, and of its folder in `assets`."""
SHIPPED = (EMBEDDED, EVERYDAY)
AUTO = "auto"
"""In the place of a backbone's or detector's name: what ships for such a clip."""
DRAWN = "toy world"
"""The title of a clip file that the toy world has drawn."""
REAL_DETECTOR = "yolo11n"
"""The detector that ships for clips of a camera; its weights are part of those of `EVERYDAY`."""
NETWORK, PREFIX = "model-00001-of-00002.safetensors", "vision_tower.network."
"""The file of that backbone that holds them, and what the names of its tensors begin with."""


def backbone_for(name: str, title: str) -> str:
    """The backbone to load: of AUTO, the embedded one for clips of this title.

    >>> backbone_for("auto", "toy world"), backbone_for("auto", ""), backbone_for("org/m", "")
    ('toyworld', 'everyday', 'org/m')
    """
    return (EMBEDDED if title == DRAWN else EVERYDAY) if name == AUTO else name


def detector_for(name: str, title: str) -> str:
    """The detector to load, likewise.

    >>> detector_for("auto", "toy world"), detector_for("auto", ""), detector_for("d-fine", "")
    ('toyworld', 'yolo11n', 'd-fine')
    """
    return (EMBEDDED if title == DRAWN else REAL_DETECTOR) if name == AUTO else name
