"""The clip's partner in the form: another clip of its scene to contrast the answer with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from macd_studio.core.errors import VideoError, VideoNotFound
from macd_studio.core.media.sampling import check_partner
from macd_studio.core.types import Clip
from macd_studio.macd_ui import sentences


def path_of(values: Mapping[str, Any]) -> str | None:
    """The uploaded file of the form's values. Raises VideoNotFound where it is gone."""
    if (path := values.get("counterpart")) and not Path(path).is_file():
        raise VideoNotFound(*sentences.PARTNER_GONE)
    return str(path) if path else None


def read_partner(read: Callable[[], Clip], clip: Clip) -> Clip:
    """The partner of a clip. Raises the VideoErrors of `read`, which then name the partner."""
    try:
        partner = read()
    except VideoError as error:
        raise type(error)(sentences.of_partner(error.cause), error.remedy) from error
    check_partner(clip, partner)
    return partner
