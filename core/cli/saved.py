"""What commands on a saved trace share: the model that it needs, and where a changed one goes."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from macd_studio.core.embedded import SHIPPED
from macd_studio.core.errors import OptionError
from macd_studio.core.traces.bundle import check_target
from macd_studio.core.validation import shown

if TYPE_CHECKING:
    from macd_studio.core.types import Trace


def backbone_of(trace: Trace, named: str | None) -> str:
    """What to load. A file is not trusted to name anything but what ships."""
    made_by = trace.backbone.name
    if named is None and made_by not in SHIPPED:
        raise OptionError(
            f"this trace was made by {shown(made_by)}, which a file cannot have loaded",
            f"Name it yourself: --backbone {shlex.quote(made_by[:200])}",
        )
    if named is not None and made_by in SHIPPED and named != made_by:
        raise OptionError(
            f"this trace was made by the embedded backbone {made_by}, not by {named!r}",
            "Leave --backbone out",
        )
    return named or made_by


def check_out(out: Path | None) -> None:
    """Raises where `--out` cannot be written, before anything is computed."""
    if out is not None:
        check_target(out)
