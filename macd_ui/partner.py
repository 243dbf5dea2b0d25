"""The clip's partner in the form: another clip of its scene to contrast the answer with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from macd_studio.core.errors import OptionError, VideoError, VideoNotFound
from macd_studio.core.media.sampling import check_partner
from macd_studio.core.types import Clip
from macd_studio.macd_ui import sentences
from macd_studio.macd_ui.session_view import TOY_WORLD


def path_of(values: Mapping[str, Any]) -> str | None:
    """The uploaded file of the form's values. Raises VideoNotFound where it is gone."""
    if (path := values.get("counterpart")) and not Path(path).is_file():
        raise VideoNotFound(*sentences.PARTNER_GONE)
    return str(path) if path else None


def read_partner(read: Callable[[], Clip], clip: Clip, answers: bool, drawn_only: bool) -> Clip:
    """The partner of a clip. answers: whether the run gives any; drawn_only: only about drawings.

    Raises OptionError where a partner means nothing, and the VideoErrors of `read`, which then name
    the partner.
    """
    if not answers:
        raise OptionError(*sentences.PARTNER_UNANSWERED)
    try:
        partner = read()
    except VideoError as error:
        raise type(error)(sentences.of_partner(error.cause), error.remedy) from error
    if drawn_only and partner.title != TOY_WORLD:
        raise OptionError(*sentences.PARTNER_UNANSWERED)
    check_partner(clip, partner)
    return partner
