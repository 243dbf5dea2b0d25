"""Every detector that has a name: what it reads, what it gives, and what makes it.

One row a detector; the command line, the page, errors and the loading of weights follow from it.
Importing this module imports no detector.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Reads = Literal["classes", "words", "nothing"]


@dataclass(frozen=True)
class DetectorEntry:
    """One detector by name.

    make: module of `core.objects` and a function in it, called with the name, the device and the
    progress of a download. title, parameters (in millions, where known), licence: for people.
    reads: fixed classes, the words of the question, or nothing, for regions without a class.
    outlines: whether it gives the outlines of objects beside their boxes. hub: id and revision of
    its weights, where they come from the hub. megabytes: of their download, where known.
    """

    make: str
    title: str
    licence: str
    parameters: float | None = None
    reads: Reads = "classes"
    outlines: bool = False
    megabytes: float | None = None
    hub: tuple[str, str | None] | None = None

    @property
    def facts(self) -> str:
        """Title, size and licence in one line."""
        size = None if self.parameters is None else f"{self.parameters:g} M parameters"
        return " · ".join(filter(None, (self.title, size, self.licence)))


def _yolo(size: str, kind: str) -> DetectorEntry:
    title = f"YOLO11{size}{kind}"
    parameters, megabytes = (2.6, 5.6) if (size, kind) == ("n", "") else (None, None)
    return DetectorEntry(
        "detect:load_yolo", title, "AGPL-3.0", parameters, outlines=bool(kind), megabytes=megabytes
    )


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
        "detect_hf:load_hf_detector", "Grounding DINO tiny", "Apache-2.0", reads="words",
        hub=("IDEA-Research/grounding-dino-tiny", "a2bb814dd30d776dcf7e30523b00659f4f141c71"),
    ),
    **{f"yolo11{size}{kind}": _yolo(size, kind) for size in "nsmlx" for kind in ("", "-seg")},
}  # fmt: skip


def named(kind: Reads | None = None) -> tuple[str, ...]:
    """Names of all detectors, or of those that read that."""
    return tuple(n for n, entry in DETECTORS.items() if kind in (None, entry.reads))


def reads_words(name: str) -> bool:
    """Whether a detector by this name looks for words instead of fixed classes."""
    return name in DETECTORS and DETECTORS[name].reads == "words"


def listed() -> str:
    """All names in a few words; those of YOLO11's sizes as a range.

    >>> listed()
    'toyworld, grid, motion, rt-detr, d-fine, grounding-dino, yolo11n … yolo11x-seg'
    """
    sizes = [n for n in DETECTORS if n.startswith("yolo11")]
    others = [n for n in DETECTORS if n not in sizes]
    return ", ".join([*others, f"{sizes[0]} … {sizes[-1]}"])
