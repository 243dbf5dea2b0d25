"""What a run is asked for, beside its clip."""

from __future__ import annotations

from dataclasses import dataclass, field

from macd_studio.core.options import RunOptions
from macd_studio.core.system.shipped import EMBEDDED


@dataclass(frozen=True)
class RunSpec:
    """A question and how it is to be answered: one record from the form to the device.

    methods: beside baseline and MACD. backbone, detector: by name; of a file of objects, its name
    stands in the detector's place.
    """

    question: str
    options: RunOptions = field(default_factory=RunOptions)
    methods: tuple[str, ...] = ()
    backbone: str = EMBEDDED
    detector: str = EMBEDDED
