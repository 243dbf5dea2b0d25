"""Whether a model's weights are those that made a trace, by the first token's logits.

A trace names its backbone, but a folder of weights may have been trained on, and the embedded
models change from version to version. A change by hand would then set answers of two models side
by side without saying so.
"""

from __future__ import annotations

import numpy as np

from core.backbones.base import Encoded, VideoLM
from core.backbones.host import to_host
from core.errors import OptionError
from core.masking.ascent import BaseRead
from core.types import Trace
from core.views.context import MethodContext

CANDIDATES = 10
TOLERANCE = 0.75
"""Mean difference, in logits, of the best candidates that may come from rounding.

Half precision on another device moves single logits by some tenths. Two trainings of the embedded
backbone differ by 1.0 and more; the same weights on another CPU by less than 0.001.
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


def check_same_weights(trace: Trace, logits: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
    """Compares the baseline's first token. logits: (V,) of the model that is to go on from here.

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
