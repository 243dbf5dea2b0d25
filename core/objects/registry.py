"""Every detector and segmenter that has a name: what it reads, what it gives, and what makes it.

One row a detector; the command line, the page, errors and the loading of weights follow from it.
Importing this module imports no detector.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from macd_studio.core.embedded import REAL_DETECTOR
from macd_studio.core.errors import DetectorError
from macd_studio.core.validation import shown

Reads = Literal["classes", "words", "points", "nothing"]


@dataclass(frozen=True)
class DetectorEntry:
    """One detector by name."""

    make: str
    """A module of `core.objects` and a function in it, which is called with the name, the device
    and the progress of a download."""
    title: str
    licence: str
    parameters: float | None = None
    reads: Reads = "classes"
    """What it looks for: fixed classes, the words of the question, points on an object, which a
    segmenter follows, or nothing, for regions without a class."""
    outlines: bool = False
    """Whether it gives the outlines of objects beside their boxes."""
    megabytes: float | None = None
    """Size of the download of its weights, where known."""
    hub: tuple[str, str | None] | None = None
    """Id and revision of its weights, where they come from the hub; without a revision they are the
    newest."""

    @property
    def facts(self) -> str:
        """Title, size, licence, and whether the hub's newest commit is followed, in one line."""
        size = None if self.parameters is None else f"{self.parameters:g} M parameters"
        newest = "newest commit" if self.hub is not None and self.hub[1] is None else None
        return " · ".join(filter(None, (self.title, size, self.licence, newest)))


SIZES = "nsmlx"
ZERO_SHOT = ("grounding-dino", "mm-grounding-dino", "omdet-turbo", "owlv2", "owlvit")
"""Model types of transformers that look for words; the others are of fixed classes."""
COLOURS = "grabcut"
"""The segmenter that needs no weights."""
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}(@[\w./-]{1,200})?")


_MILLIONS = {
    "yolo11": (2.6, 9.5, 20.1, 25.4, 57.0),
    "yolo11-seg": (2.9, 10.1, 22.4, 27.7, 62.1),
    "yolo26": (2.6, 10.0, 21.9, 26.3, 59.0),
    "yolo26-seg": (3.1, 11.5, 27.1, 31.5, 70.7),
    "yoloe-11-seg": (None, 13.7, 29.9, 35.2, None),
    "yoloe-26-seg": (5.6, 15.3, 34.9, 39.3, 85.4),
}
"""Parameters of ultralytics' families by size, where there is such a model."""


def _yolo(family: str, size: str, millions: float) -> DetectorEntry:
    outlines = family.endswith("-seg")
    base = family.removesuffix("-seg")
    ships = f"{family}{size}" == REAL_DETECTOR
    return DetectorEntry(
        "detect:load_shipped" if ships else "detect:load_yolo",
        f"{base.upper()}{size}{'-seg' if outlines else ''}", "AGPL-3.0", millions,
        reads="words" if family.startswith("yoloe") else "classes", outlines=outlines,
    )  # fmt: skip


DETECTORS: dict[str, DetectorEntry] = {
    "toyworld": DetectorEntry("detect:load_embedded", "embedded", "AGPL-3.0-or-later"),
    "grid": DetectorEntry("regions:load_region", "Grid", "", reads="nothing", outlines=False),
    "motion": DetectorEntry("regions:load_region", "Motion", "", reads="nothing", outlines=True),
    "rt-detr": DetectorEntry(
        "detect_hf:load_hf_detector", "RT-DETR R50", "Apache-2.0", 43, megabytes=172,
        hub=("PekingU/rtdetr_r50vd", "df939e661d8c52e80608d1ec566561aabd25a4e7"),
    ),
    "d-fine": DetectorEntry(
        "detect_hf:load_hf_detector", "D-FINE small", "Apache-2.0",
        hub=("ustc-community/dfine-small-coco", "f79e65b5fbb33ceb9d3ebba042955d7410c608f8"),
    ),
    "grounding-dino": DetectorEntry(
        "detect_hf:load_hf_detector", "Grounding DINO tiny", "Apache-2.0", 172, reads="words",
        hub=("IDEA-Research/grounding-dino-tiny", "a2bb814dd30d776dcf7e30523b00659f4f141c71"),
    ),
    "rf-detr": DetectorEntry(
        "detect_hf:load_hf_detector", "RF-DETR base", "Apache-2.0", 32,
        hub=("Roboflow/rf-detr-base", None),
    ),
    "mm-grounding-dino": DetectorEntry(
        "detect_hf:load_hf_detector", "MM Grounding DINO tiny", "Apache-2.0", 172, reads="words",
        hub=("openmmlab-community/mm_grounding_dino_tiny_o365v1_goldg_v3det", None),
    ),
    "owlv2": DetectorEntry(
        "detect_hf:load_hf_detector", "OWLv2 base", "Apache-2.0", 154, reads="words",
        hub=("google/owlv2-base-patch16-ensemble", None),
    ),
    "omdet-turbo": DetectorEntry(
        "detect_hf:load_hf_detector", "OmDet-Turbo tiny", "Apache-2.0", reads="words",
        hub=("omlab/omdet-turbo-swin-tiny-hf", None),
    ),
    COLOURS: DetectorEntry(
        "segment:ColourRegion", "One colour (GrabCut)", "Apache-2.0",
        reads="points", outlines=True,
    ),
    **{
        name: DetectorEntry(
            "segment_hf:load_tracker", title, licence, millions, "points", True, hub=(hub_id, None)
        )
        for name, title, licence, millions, hub_id in (
            ("sam2-tiny", "SAM 2.1 tiny", "Apache-2.0", 38.9, "facebook/sam2.1-hiera-tiny"),
            ("sam2-small", "SAM 2.1 small", "Apache-2.0", 46.0, "facebook/sam2.1-hiera-small"),
            ("sam2-base", "SAM 2.1 base+", "Apache-2.0", 80.8, "facebook/sam2.1-hiera-base-plus"),
            ("sam2-large", "SAM 2.1 large", "Apache-2.0", 224.4, "facebook/sam2.1-hiera-large"),
            ("edgetam", "EdgeTAM", "Apache-2.0", 13.9, "yonigozlan/EdgeTAM-hf"),
            ("sam3", "SAM 3", "SAM License", None, "facebook/sam3"),
        )
    },
    **{
        f"{family.removesuffix('-seg')}{size}{'-seg' * family.endswith('-seg')}":
            _yolo(family, size, millions)
        for family, row in _MILLIONS.items()
        for size, millions in zip(SIZES, row, strict=True)
        if millions is not None
    },
}  # fmt: skip
FAMILIES = ("yolo11", "yolo26", "yoloe-11", "yoloe-26")
"""Detectors that come in sizes: one name a size."""


def named(kind: Reads | None = None) -> tuple[str, ...]:
    """Names of all detectors, or of those that read that."""
    return tuple(n for n, entry in DETECTORS.items() if kind in (None, entry.reads))


def hub_source(name: str) -> tuple[str, str | None]:
    """Id and revision on the hub, of a detector by name or by its id, ID@REVISION."""
    entry = DETECTORS.get(name)
    if entry is not None and entry.hub is not None:
        return entry.hub
    source, _, revision = name.partition("@")
    return source, revision or None


def reads_words(name: str) -> bool:
    """Whether a detector looks for words instead of classes: by its name, or by a config.json."""
    if name in DETECTORS:
        return DETECTORS[name].reads == "words"
    if name.endswith(".pt"):
        return Path(name).name.lower().startswith("yoloe")
    config = Path(name) / "config.json"
    try:
        values = json.loads(config.read_text()) if config.stat().st_size < 10**6 else {}
        return isinstance(values, dict) and values.get("model_type") in ZERO_SHOT
    except (OSError, ValueError, RecursionError):
        return False


def listed(segmenters: bool = False) -> str:
    """The detectors' names in a few words, those in sizes as a range; or the segmenters' names.

    >>> listed().split(", ")[-4:]
    ['yolo11n … yolo11x-seg', 'yolo26n … yolo26x-seg', 'yoloe-11s-seg … yoloe-11l-seg', \
'yoloe-26n-seg … yoloe-26x-seg']
    """
    if segmenters:
        return ", ".join(named("points"))
    ranges = []
    for family in FAMILIES:
        sizes = [n for n in DETECTORS if n.startswith(family)]
        ranges.append(f"{sizes[0]} … {sizes[-1]}")
    points = named("points")
    others = [n for n in DETECTORS if not n.startswith(FAMILIES) and n not in points]
    return ", ".join([*others, *ranges])


def check_segmenter(name: str) -> None:
    """Raises DetectorError for what is not a segmenter's name, folder or hub id; loads nothing."""
    known = name in named("points") or (name not in DETECTORS and HUB_ID.fullmatch(name))
    if not known and not os.path.isdir(name):
        raise DetectorError(
            f"{shown(name, 200)} is not a known segmenter",
            f"Choose one of {listed(segmenters=True)}, a folder or a hub id",
        )
