"""The parts of a report, each as Markdown and as HTML; both from the same words.

A block is its own Markdown, so that blocks are joined, written and compared as text; `as_html`
reads the words it was made of. Words of our own are `Marked`; all others are anybody's and escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import zip_longest

from markupsafe import Markup, escape

from macd_studio.core.text.words import visible

BOLD = "\0"
"""Around words of a foreign text that stand out: a sign that no text from outside holds."""


class Marked(str):
    """Markdown of our own, with `**bold**` and `*italic*`; nothing in it is escaped."""


Link = Callable[[str, str, str, str], str]
"""(heading above a table, its first head, a row's name, a column's) → where the cell leads, or "".

The row's name is "" for the heads themselves.
"""


def no_link(heading: str, kind: str, row: str, column: str) -> str:
    """A `Link` by which no cell leads anywhere."""
    return ""


class Heading(str):
    """A heading of a level, 1 to 6."""

    words: str
    level: int

    def __new__(cls, words: str, level: int = 2) -> Heading:
        """See the class."""
        made = super().__new__(cls, f"{'#' * level} {_marked(words)}")
        made.words, made.level = words, level
        return made


class Paragraph(str):
    """Words on one line."""

    words: str

    def __new__(cls, words: str) -> Paragraph:
        """See the class."""
        made = super().__new__(cls, _marked(words))
        made.words = words
        return made


class Table(str):
    """Rows under heads.

    >>> print(Table(["a", "b"], [[1, ""], ["x|y", 2]]))
    | a | b |
    |---|---|
    | 1 | |
    | x\\|y | 2 |
    """

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __new__(cls, heads: Sequence[object], rows: Iterable[Sequence[object]]) -> Table:
        """See the class. A cell that is no text is written as `str` does."""
        first, *rest = (
            tuple(z if isinstance(z, str) else str(z) for z in row) for row in (heads, *rows)
        )
        lines = ("".join(f" {_marked(z)} |" if z else " |" for z in row) for row in (first, *rest))
        top, *below = (f"|{line}" for line in lines)
        made = super().__new__(cls, "\n".join([top, "|" + "---|" * len(first), *below]))
        made.heads, made.rows = first, tuple(rest)
        return made


def as_markdown(blocks: Iterable[str]) -> str:
    """Blocks with an empty line between them, as the text of a file."""
    return "\n\n".join(blocks) + "\n"


def as_html(blocks: Iterable[str], link: Link = no_link, pictures: Sequence[str] = ()) -> Markup:
    """The blocks as HTML. pictures: SVG of our own, after the first table.

    A block that is plain text is Markdown of our own: headings, items and paragraphs by line. Its
    links to pictures are left out, because the page holds its pictures itself.
    """
    parts: list[Markup] = []
    heading, waiting = "", [Markup(f'<figure class="picture">{p}</figure>') for p in pictures]
    for block in _parsed(blocks):
        if isinstance(block, Table):
            parts += [_table(block, partial(link, heading)), *waiting]
            waiting = []
        elif isinstance(block, Heading):
            heading = block.words
            name = f"h{block.level}"
            parts.append(Markup(f"<{name}>{{}}</{name}>").format(_inline(block.words)))
        elif isinstance(block, Paragraph):
            parts.append(Markup("<p>{}</p>").format(_inline(block.words)))
    return Markup("\n").join(parts)


def _parsed(blocks: Iterable[str]) -> Iterator[str]:
    """Blocks alone: a text in our own Markdown by its lines."""
    for block in blocks:
        if isinstance(block, Table | Heading | Paragraph):
            yield block
            continue
        for line in block.splitlines():
            if line.startswith("#"):
                depth = len(line) - len(line.lstrip("#"))
                yield Heading(Marked(line[depth:].strip()), depth)
            elif line and not line.startswith("!["):
                yield Paragraph(Marked(line))


def _table(table: Table, link: Callable[[str, str, str], str]) -> Markup:
    to = partial(link, table.heads[0])
    head = Markup("").join(Markup("<th>{}</th>").format(_linked(c, to("", c))) for c in table.heads)
    rows = Markup("").join(
        Markup("<tr>{}</tr>").format(
            Markup("").join(
                Markup("<td>{}</td>").format(_linked(c, to(row[0], n)))
                for c, n in zip_longest(row, table.heads, fillvalue="")
            )
        )
        for row in table.rows
    )
    return Markup('<table tabindex="0"><thead><tr>{}</tr></thead><tbody>{}</tbody></table>').format(
        head, rows
    )


def _linked(words: str, target: str) -> Markup:
    text = _inline(words)
    return Markup('<a href="{}">{}</a>').format(target, text) if target else text


def _inline(words: str) -> Markup:
    """Words within a line as HTML."""
    if not isinstance(words, Marked):
        return _striped(map(escape, _parts(words)), "b")
    bold = _striped(escape(words).split("**"), "b")
    return _striped(bold.split("*"), "i")


def _striped(parts: Iterable[Markup], name: str) -> Markup:
    """Every second part within an element of that name."""
    return Markup("").join(
        Markup(f"<{name}>{{}}</{name}>").format(p) if i % 2 else p for i, p in enumerate(parts)
    )


def _marked(words: str) -> str:
    """Words within a line as Markdown: of others without markup and line breaks."""
    if isinstance(words, Marked):
        return words
    flat = BOLD.join(_parts(words))
    for sign in ("\\", "|", "`", "_", "*"):
        flat = flat.replace(sign, f"\\{sign}")
    return flat.replace("<", "&lt;").replace("](", "]\\(").replace(BOLD, "**")


def _parts(words: str) -> list[str]:
    """The text on one line, cut where bold begins and ends: every second part is bold."""
    return [visible(part) for part in " ".join(words.split()).split(BOLD)]
