"""The course's markup: paragraphs, lists and quotes, and what is marked within a line."""

from __future__ import annotations

import re
from typing import Any

from macd_studio.core.errors import OptionError
from macd_studio.viewer.glossary import terms

Span = str | list[str]
Block = list[Any]
SYMBOLS = {
    "V": "video", "z": "video", "p": "video",
    "V_d": "counter", "z′": "counter", "p′": "counter",
    "s": "score", "α": "score", "β": "cut", "δ": "cut",
    "r": "strength", "L": "strength", "∂L/∂r": "strength", "η": "strength",
}  # fmt: skip
"""Symbol → the role whose colour it has; learn.css has a class for each role."""


_SPAN = re.compile(
    r"\*\*(?P<strong>[^*]+)\*\*|\*(?P<em>[^*\s][^*]*)\*|`(?P<code>[^`]+)`"
    r"|\[\[(?P<term>[^\[\]]+)\]\]|\$(?P<sym>[^$\s]+)\$"
)


def blocks(text: str) -> list[Block]:
    """The blocks of a text. Raises OptionError for an unknown term or symbol."""
    parsed: list[Block] = []
    for part in re.split(r"\n\s*\n", text.strip()):
        lines = [line.strip() for line in part.splitlines()]
        if all(line.startswith("- ") for line in lines):
            parsed.append(["ul", [spans(line[2:]) for line in lines]])
        elif all(line.startswith("= ") for line in lines):
            parsed += [["formula", spans(line[2:])] for line in lines]
        else:
            parsed.append(["p", spans(" ".join(lines))])
    return parsed


def spans(text: str) -> list[Span]:
    """The spans of one line. Raises OptionError for an unknown term or symbol.

    >>> spans("the [[masks|mask]] of $V_d$")
    ['the ', ['term', 'masks', 'mask'], ' of ', ['counter', 'V_d']]
    """
    out: list[Span] = []
    at = 0
    for match in _SPAN.finditer(text):
        if match.start() > at:
            out.append(text[at : match.start()])
        kind = str(match.lastgroup)
        out.append(_span(kind, match[kind]))
        at = match.end()
    if at < len(text):
        out.append(text[at:])
    return out


def _span(kind: str, text: str) -> Span:
    if kind == "sym":
        if text not in SYMBOLS:
            raise OptionError(
                f"${text}$ is not a symbol of the lessons", f"Choose one of {', '.join(SYMBOLS)}"
            )
        return [SYMBOLS[text], text]
    if kind == "term":
        shown, _, name = text.partition("|")
        name = name or shown
        if name not in {term.name for term in terms()}:
            raise OptionError(
                f"the glossary has no term {name!r}", "Define it in viewer/glossary.toml"
            )
        return ["term", shown, name]
    return [kind, text]


def plain(parts: list[Span]) -> str:
    """Spans as text, for print.

    >>> plain(spans("**Two** [[masks|mask]]"))
    'Two masks'
    """
    return "".join(part if isinstance(part, str) else part[1] for part in parts)
