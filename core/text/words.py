"""How counts and foreign texts read in messages."""

import re
from decimal import ROUND_HALF_UP, Decimal
from html import escape

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters except line break and tab, marks that turn text around, halves of pairs."""


def visible(text: str) -> str:
    r"""A text with a terminal's control characters escaped; nothing else is changed.

    >>> visible("a\x1b[2Jb\u202ec é\n")
    'a\\x1b[2Jb\\u202ec é\n'
    """
    return _UNSEEN.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def visible_json(text: str) -> str:
    """JSON with its invisible characters escaped; it stays JSON of the same values."""
    return _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def writable(text: str) -> str:
    r"""A text that can be written as UTF-8: halves of pairs are replaced.

    A file name that is not UTF-8 holds some.

    >>> writable("a\udcffb")
    'a\ufffdb'
    """
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


_MARKS = re.compile(r"[\\`*_\[\]|~$]")


def in_markdown(text: str) -> str:
    r"""A foreign text as Markdown, within a line or a table: it makes no link, picture or tag.

    >>> in_markdown("<b> & [x](y) a|b *c*")
    '&lt;b&gt; &amp; \\[x\\](y) a\\|b \\*c\\*'
    """
    return _MARKS.sub(r"\\\g<0>", escape(visible(text), quote=False))


FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What a text begins with that a spreadsheet would run, or split."""


def spreadsheet_text(text: str) -> str:
    """A text as a cell of CSV: what a spreadsheet would compute begins with ' and is only shown.

    >>> spreadsheet_text("=1+1"), spreadsheet_text("a dog")
    ("'=1+1", 'a dog')
    """
    plain = text.replace("\0", "")
    return f"'{plain}" if plain.startswith(FORMULA) else plain


def count(n: int, noun: str) -> str:
    """A number with its noun, which is in the plural except for one.

    >>> count(1, "object"), count(0, "object")
    ('1 object', '0 objects')
    """
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def ordinal(n: int) -> str:
    """A place as it is read.

    >>> [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 13, 22, 101, 111)]
    ['1st', '2nd', '3rd', '4th', '11th', '12th', '13th', '22nd', '101st', '111th']
    """
    ending = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{ending}"


def signed(x: float) -> str:
    """A finite number with its sign and two decimals, or as a power of ten where it is small.

    As `signed` of viewer/js/text.js writes it.

    >>> signed(1.125), signed(-0.5), signed(0.004), signed(0)
    ('+1.13', '−0.50', '+4.0e−3', '+0.00')
    """
    amount = Decimal(abs(x))
    if x == 0 or amount >= Decimal("0.01"):
        text = str(amount.quantize(Decimal("0.01"), ROUND_HALF_UP))
    else:
        power = amount.adjusted()
        digits = amount.scaleb(-power).quantize(Decimal("0.1"), ROUND_HALF_UP)
        if digits >= 10:
            digits, power = Decimal("1.0"), power + 1
        text = f"{digits}e−{-power}"
    return f"{'−' if x < 0 else '+'}{text}"
