"""Whether two figures answer the same questions: equal ids say so only of equal questions.

Files of other programs number their questions from 1, so that any two of them have ids in common.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath

from macd_studio.core.errors import OptionError
from macd_studio.core.text.words import count
from macd_studio.core.validation import shown
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.protocol.figure import Figure
from macd_studio.evals.scoring.answered import no_clip
from macd_studio.evals.scoring.predictions import same_text

Items = Mapping[str, Item]
MOST = 0.5
"""The share of other questions from which nothing is compared."""
OTHER_NAMES = (
    "The two name their clips differently, such as {} and {} of question {}: whether they are the"
    " same clips cannot be told."
)


def same_questions(
    first: Figure, second: Figure, own: tuple[Items, Items]
) -> tuple[Figure, Figure]:
    """Both figures without what they ask differently under one id, with notes that say so.

    own: the questions as each side itself has them. Texts are the same where one holds the words of
    the other, as a prompt does; clips where their names are, without folder and ending. Raises
    OptionError where more than MOST of the questions in common are others.
    """
    names = [n for n in own[0] if n in own[1]]
    clips = {n: (_clip(own[0][n]), _clip(own[1][n])) for n in names}
    comparable = any(a and a == b for a, b in clips.values())
    other = [
        n for n in names
        if not same_text(own[0][n].question, own[1][n].question)
        or (comparable and all(clips[n]) and clips[n][0] != clips[n][1])
    ]  # fmt: skip
    if len(other) > MOST * len(names):
        n = other[0]
        raise OptionError(
            f"{first.title} and {second.title} ask different questions under the same ids: of"
            f" {shown(n)} {shown(_asked(own[0][n]), 80)} and {shown(_asked(own[1][n]), 80)}",
            "Compare answers to the same questions, or give each question an id of its own",
        )
    notes = []
    if other:
        notes.append(
            f"{count(len(other), 'question')} in common are left out: under one id, such as"
            f" {shown(other[0])}, the two ask different things."
        )
    elif named := [n for n in names if all(clips[n])]:
        if not comparable:
            notes.append(OTHER_NAMES.format(*map(shown, clips[named[0]]), shown(named[0])))
    if not notes:
        return first, second
    gone = set(other)
    sides = [
        replace(
            figure, items={n: i for n, i in figure.items.items() if n not in gone},
            texts={n: t for n, t in figure.texts.items() if n not in gone},
            stated=None if gone else figure.stated, notes=(*figure.notes, *notes),
        )
        for figure in (first, second)
    ]  # fmt: skip
    return sides[0], sides[1]


def _asked(item: Item) -> str:
    return f"{item.question} ({clip})" if (clip := _clip(item)) else item.question


def _clip(item: Item) -> str:
    """The name of a clip's file, of which a cut follows after #; "" where no file is named."""
    if item.clip == item.id or item.clip.endswith(no_clip(item.id)):
        return ""
    return PurePosixPath(item.clip.replace("\\", "/").partition("#")[0]).stem.casefold()
