"""Items whose right rating is known: for training, with feedback, and hidden among the others.

The file is JSON: a list of objects

    {"trace": "clip.macd", "question": "…", "training": false,
     "sides": [{"hide": [3], "low": 4, "high": 5, "why": "…"},
               {"hide": [2], "low": 1, "high": 2, "why": "…"}]}

`hide` names tracks of the trace by their id; the mask hides them and nothing else. `question`
takes the place of the trace's own. Paths are relative to the file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from macd_studio.core.errors import OptionError
from macd_studio.core.text.question import clean_question
from macd_studio.core.validation import Flag, Number, Text, shown
from macd_studio.ratings.source import Source, read_source, without_pixels

MOST = 200
_RATING, _ID, _WHY = Number(1, 5, whole=True), Number(0, 10**9, whole=True), Text(500)


@dataclass(frozen=True)
class KnownSide:
    """Tracks that are hidden, and which ratings are right for that, low to high."""

    hide: tuple[int, ...]
    low: int
    high: int
    why: str = ""


@dataclass(frozen=True, eq=False)
class KnownItem:
    """A clip and a question with one or two masks whose rating is known.

    path: of its trace, where `source` is without the frames until they are needed.
    """

    source: Source
    training: bool
    sides: tuple[KnownSide, ...]
    path: Path | None = None

    def read(self) -> Source:
        """The clip with its frames."""
        if self.path is None:
            return self.source
        return replace(read_source(self.path), question=self.source.question)


def read_gold(path: Path, folder: Path | None = None) -> list[KnownItem]:
    """Reads the file; raises OptionError that names the bad place. folder: of the traces."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise OptionError(
            f"the gold file {path.name[:100]!r} cannot be read ({type(error).__name__})",
            "Give a JSON file as docs/rating.md shows",
        ) from error
    if not isinstance(content, list) or len(content) > MOST:
        raise OptionError("the gold file holds no list of items", f"Give at most {MOST} items")
    return [_item(raw, f"gold[{i}]", folder or path.parent) for i, raw in enumerate(content)]


def _item(raw: Any, path: str, folder: Path) -> KnownItem:
    if not isinstance(raw, dict):
        raise OptionError(f"{path} is {shown(raw)}, not an object", "Give an object")
    unknown = set(raw) - {"trace", "question", "training", "sides"}
    if unknown:
        raise OptionError(f"{path} has an unknown key {shown(min(unknown))}", "Take it out")
    file = folder / Text(4096).read(raw.get("trace"), f"{path}.trace")
    source = without_pixels(read_source(file))
    if raw.get("question") is not None:
        question = Text(2000).read(raw["question"], f"{path}.question")
        source = replace(source, question=clean_question(question))
    sides = raw.get("sides")
    if not isinstance(sides, list) or not 1 <= len(sides) <= 2:
        raise OptionError(f"{path}.sides is {shown(sides)}", "Give a list of one or two sides")
    ids = {t.id for t in source.tracks}
    return KnownItem(
        source=source,
        training=Flag().read(raw.get("training", False), f"{path}.training"),
        sides=tuple(_side(s, f"{path}.sides[{i}]", ids) for i, s in enumerate(sides)),
        path=file,
    )


def _side(raw: Any, path: str, ids: set[int]) -> KnownSide:
    if not isinstance(raw, dict):
        raise OptionError(f"{path} is {shown(raw)}, not an object", "Give an object")
    unknown = set(raw) - {"hide", "low", "high", "why"}
    if unknown:
        raise OptionError(f"{path} has an unknown key {shown(min(unknown))}", "Take it out")
    hide = raw.get("hide")
    if not isinstance(hide, list) or not hide:
        raise OptionError(f"{path}.hide is {shown(hide)}", "Give a list of track ids")
    hidden = tuple(int(_ID.read(z, f"{path}.hide") or 0) for z in hide)
    if not set(hidden) <= ids:
        listed = ", ".join(map(str, sorted(ids))) or "none"
        raise OptionError(f"{path}.hide names a track that is not there", f"Choose one of {listed}")
    low = int(_RATING.read(raw.get("low", 1), f"{path}.low") or 1)
    high = int(_RATING.read(raw.get("high", 5), f"{path}.high") or 5)
    if low > high:
        raise OptionError(f"{path}.low is above {path}.high", "Exchange them")
    return KnownSide(hidden, low, high, _WHY.read(raw.get("why", ""), f"{path}.why"))
