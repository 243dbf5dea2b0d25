"""What a run is asked for, beside its clip."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from macd_studio.core.embedded import AUTO, backbone_for, detector_for
from macd_studio.core.options import RunOptions


@dataclass(frozen=True)
class RunSpec:
    """A question and how it is to be answered: one record from the form to the device.

    methods: beside baseline and MACD. backbone, detector: by name; of a file of objects, its name
    stands in the detector's place.
    """

    question: str
    options: RunOptions = field(default_factory=RunOptions)
    methods: tuple[str, ...] = ()
    backbone: str = AUTO
    detector: str = AUTO

    def for_clip(self, title: str) -> RunSpec:
        """The request with the models that AUTO stands for. title: of the clip."""
        return replace(
            self,
            backbone=backbone_for(self.backbone, title),
            detector=detector_for(self.detector, title),
        )
