"""What a class predicted, as an SVG picture that needs no other file: bars by question."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

from markupsafe import Markup

from macd_studio.core.text.words import count
from macd_studio.macd_ui.learn.chapters import Chapter
from macd_studio.macd_ui.learn.collect import Asked, Class
from macd_studio.macd_ui.learn.markup import plain

WIDTH, LEFT, BAR, ROW, STEP, GAP, MARGIN = 900, 420, 320, 26, 18, 34, 24
"""In pixels: of the picture, of the texts at its left, of the longest bar, of a row, of a line,
between questions, around."""
LONGEST = 62
"""Characters of a text at the left of a bar."""
LINE = 110
"""Characters of a line of a question."""
RIGHT, BELIEF, OTHER = "#009E73", "#D55E00", "#9a9a9a"
"""Colours of the right answer, of one that shows a misconception, and of the others."""
KINDS = {"right": RIGHT, "shows a misconception": BELIEF, "another answer": OTHER}


def picture(found: Class, chapters: Sequence[Chapter]) -> str:
    """A self-contained SVG: for each question how many chose each answer, as shares of the class.

    Counts of the class alone; names are not in it.
    """
    asked = [
        (number, chapter, found.asked[chapter.name])
        for number, chapter in enumerate(chapters)
        if chapter.prediction is not None and chapter.name in found.asked
    ]
    rows, y = [], float(MARGIN + 22)
    rows.append(_text(MARGIN, y, f"What {count(found.files, 'file')} of saved answers hold", 17))
    y += 26
    for place, (name, colour) in enumerate(KINDS.items()):
        x = MARGIN + 210 * place
        rows += [_bar(x, y - 11, 14, 14, colour), _text(x + 20, y, name, 13)]
    for number, chapter, answers in asked:
        y += GAP
        rows += _question(number, chapter, answers, y)
        assert chapter.prediction is not None
        lines = len(_lines(number, chapter))
        y += 16 + STEP * (lines - 1) + ROW * len(chapter.prediction.options)
    if not asked:
        y += GAP
        rows.append(_text(MARGIN, y, "No file holds a prediction of a chapter.", 13))
    height = round(y + MARGIN)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}"'
        f' viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" role="img">\n'
        "<title>What a class predicted</title>\n"
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>\n'
        + "\n".join(rows)
        + "\n</svg>\n"
    )


def _question(number: int, chapter: Chapter, asked: Asked, y: float) -> Iterator[str]:
    prediction = chapter.prediction
    assert prediction is not None
    shows = {option for _, options in chapter.shown_by for option in options}
    for line in _lines(number, chapter):
        yield _text(MARGIN, y, line, 14, bold=True)
        y += STEP
    y += 22 - STEP
    for i, option in enumerate(prediction.options):
        n = asked.options[i]
        kind = RIGHT if i == prediction.answer else BELIEF if i in shows else OTHER
        share = n / asked.people if asked.people else 0.0
        yield _text(LEFT, y, _short(plain(option), LONGEST), 13, end=True)
        yield _bar(LEFT + 10, y - 13, max(share * BAR, 1.0), 16, kind)
        yield _text(LEFT + 18 + share * BAR, y, f"{n} of {asked.people} ({share:.0%})", 13)
        y += ROW


def _lines(number: int, chapter: Chapter) -> list[str]:
    assert chapter.prediction is not None
    return wrap(f"{number}. {plain(chapter.prediction.question)}", LINE)


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def _text(
    x: float, y: float, text: str, size: int, *, end: bool = False, bold: bool = False
) -> str:
    anchor = ' text-anchor="end"' if end else ""
    weight = ' font-weight="bold"' if bold else ""
    opened = f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="#1c1c1c"{anchor}{weight}>'
    return str(Markup(f"{opened}{{}}</text>").format(text))


def _bar(x: float, y: float, width: float, height: float, colour: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"/>'
    )
