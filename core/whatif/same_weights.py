"""Whether a model's weights are those that made a trace, by the first token's logits.

A trace names its backbone, but a folder of weights may have been trained on, and the embedded
models change from version to version. A change by hand would then set answers of two models side
by side without saying so.
"""

from __future__ import annotations

import numpy as np

from macd_studio.core.backbones.base import Encoded, VideoLM
from macd_studio.core.backbones.host import to_host
from macd_studio.core.context import MethodContext
from macd_studio.core.errors import OptionError
from macd_studio.core.macd import Float64Array
from macd_studio.core.masking.ascent import BaseRead
from macd_studio.core.types import Trace

CANDIDATES = 10
TOLERANCE = 0.75
"""Mean difference, in logits, of the best `CANDIDATES` that may come from rounding.

Five traces of the embedded backbone before its last training differ by 1.06 to 2.12, eleven of the
present one by 0.000. The room is for half precision and other devices, which were not measured.
"""


class TraceContext(MethodContext):
    """A trace's frames and question, for the model that made the trace to read again.

    The first read of the video raises OptionError where other weights made the trace.
    """

    def __init__(self, trace: Trace, lm: VideoLM, encoded: Encoded) -> None:
        super().__init__(lm, encoded, trace.tracks, trace.options)
        self._trace: Trace | None = trace

    @property
    def read(self) -> BaseRead:
        """See `MethodContext.read`."""
        read = super().read
        if self._trace is not None:
            check_same_weights(self._trace, to_host(read.state.logits[0]).astype(np.float64))
            self._trace = None
        return read


def check_same_weights(trace: Trace, logits: Float64Array) -> None:
    """Compares the baseline's first token. logits: (V,) given the video, of the model at hand.

    Raises OptionError where their best candidates differ by more than `TOLERANCE` on average.
    """
    tokens = trace.answers["baseline"].tokens
    if not tokens:
        return
    first = tokens[0]
    stored = first.base[:CANDIDATES].astype(np.float64)
    difference = float(np.abs(logits[first.candidates[:CANDIDATES]] - stored).mean())
    if not difference <= TOLERANCE:
        raise OptionError(
            f"{trace.backbone.name} has other weights here than the ones that made this trace: "
            f"its logits differ by {difference:.1f} on average",
            "Run the clip again with these weights, or open the trace with those that made it",
        )
