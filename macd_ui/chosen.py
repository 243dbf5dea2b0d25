"""How an example was chosen: the counts of the search for it, and its clips that were not chosen.

An index names the file of its search; `toyworld.example_search` writes the shipped one.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from macd_studio.macd_ui import sentences
from macd_studio.macd_ui.random_clips import RandomClip, can_draw, write_clip

log = logging.getLogger(__name__)
COUNTS = ("clips", "errs", "repairs", "watched", "spoils", "any_mask")
MOST = 10**9
MAX_BYTES = 1_000_000


@dataclass(frozen=True)
class Search:
    """What a search for the opening example found."""

    clips: int
    """Clips that were drawn."""
    errs: int
    """Clips of which the model's own answer is wrong."""
    repairs: int
    """Of these, clips that MACD answers right."""
    watched: int
    """Right answers on which MACD was tried."""
    spoils: int
    """Of these, answers that MACD makes wrong."""
    any_mask: int
    """Repairs that most random masks give too."""
    seed: int
    numbers: tuple[int, ...]
    """`seed` and `numbers` of the clips that MACD repairs, where they are read from a file."""
    masks: tuple[tuple[str, int, int], ...] = ()
    """Of the example: kind of random mask, how many of them give its answer, of how many."""

    def payload(self) -> dict[str, str]:
        """What the viewer shows under the headline: a sentence, all counts, a button's words."""
        return shown(sentences.CHOSEN, sentences.chosen_from(self))

    def draw(self, folder: Path) -> RandomClip:
        """One of all clips that MACD repairs, drawn as a file into a new folder in `folder`."""
        from macd_studio.toyworld.example_draws import searched_case

        number = secrets.choice(self.numbers)
        case = searched_case(number, self.seed)
        video = write_clip(case.spec, folder, f"repair-{number}")
        about = sentences.one_of_repairs(self, number)
        return RandomClip(number, str(video), case.question, case.truth, about)


def shown(text: str, more: str) -> dict[str, str]:
    """How a clip was chosen, in a sentence and in full; the button's words where it can draw."""
    return {"text": text, "more": more, "button": sentences.TYPICAL_CLIP if can_draw() else ""}


def search_of(row: Mapping[str, Any], folder: Path) -> Search | None:
    """The search that a row of an index names; None without one, or where it cannot be read."""
    name = row.get("search")
    if not isinstance(name, str) or Path(name).name != name:
        return None
    try:
        file = folder / name
        if file.stat().st_size > MAX_BYTES:
            raise ValueError("the file is too large")
        read = json.loads(file.read_text(encoding="utf-8"))
        counts = {key: _count(read[key]) for key in (*COUNTS, "seed")}
        numbers = tuple(_count(number) for number in read["numbers"])
        drawn = row.get("draws", {})
        masks = tuple(
            (str(kind)[:40], _count(same), _count(of)) for kind, (same, of) in drawn.items()
        )
        if not numbers:
            raise ValueError("no clip is named")
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        log.warning("%s: the search cannot be read (%s)", folder / name, error)
        return None
    return Search(**counts, numbers=numbers, masks=masks)


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < MOST:
        raise ValueError(f"{value!r} is no count")
    return value
