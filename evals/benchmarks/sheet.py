"""The first sheet of an .xlsx workbook (ECMA-376), as VLMEvalKit and pandas write it, as text."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from xml.parsers import expat

from macd_studio.core.errors import BenchmarkError
from macd_studio.core.text.words import visible
from macd_studio.core.validation import shown

SHEET, STRINGS = "xl/worksheets/sheet1.xml", "xl/sharedStrings.xml"
MAX_COLUMNS = 1000
_COLUMN = re.compile(r"([A-Z]{1,3})[0-9]+")


def read_sheet(path: Path, largest_mb: int, remedy: str) -> list[tuple[int, dict[int, str]]]:
    """[row number, column → text] of each row that holds any. Raises BenchmarkError.

    No more than `largest_mb` is unpacked of either part, and a document type is refused. Numbers
    are as the file writes them, a formula is its stored value, and an error is "".
    """
    try:
        with zipfile.ZipFile(path) as book:
            names = set(book.namelist())
            if SHEET not in names:
                raise _refused(path, "is no workbook of Excel", remedy)
            parts = [
                _part(book, name, largest_mb * 2**20, path, remedy) if name in names else b""
                for name in (STRINGS, SHEET)
            ]
        strings = _Strings()
        strings.parse(parts[0])
        cells = _Cells(strings.found)
        cells.parse(parts[1])
    except BenchmarkError:
        raise
    except Exception as error:  # whatever a damaged archive or document leads to
        raise _refused(
            path, f"cannot be read as a workbook ({type(error).__name__})", remedy
        ) from None
    return cells.rows


def _refused(path: Path, what: str, remedy: str) -> BenchmarkError:
    return BenchmarkError(f"{visible(shown(str(path), 200))} {what}", remedy)


def _part(book: zipfile.ZipFile, name: str, most: int, path: Path, remedy: str) -> bytes:
    with book.open(name) as opened:
        content = opened.read(most + 1)
    if len(content) > most:
        raise _refused(path, f"unpacks to more than {most // 2**20} MB", remedy)
    return content


class _Strings:
    """The texts that cells refer to by number."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.text: list[str] = []
        self.taking = False
        self.spoken = 0

    def parse(self, content: bytes) -> None:
        """Reads one part of the workbook."""
        if not content:
            return
        parser = expat.ParserCreate()
        parser.StartElementHandler = self.begin
        parser.EndElementHandler = self.end
        parser.CharacterDataHandler = lambda data: self.text.append(data) if self.taking else None
        parser.StartDoctypeDeclHandler = _no_type
        parser.Parse(content, True)

    def begin(self, tag: str, attributes: dict[str, str]) -> None:
        """A text begins at `si`; of what is inside `t` alone is text, and `rPh` its sound."""
        if tag == "si":
            self.text = []
        self.spoken += tag == "rPh"
        self.taking = tag == "t" and not self.spoken

    def end(self, tag: str) -> None:
        """A text ends."""
        self.spoken -= tag == "rPh"
        self.taking = False
        if tag == "si":
            self.found.append(_unescaped("".join(self.text)))


class _Cells(_Strings):
    """The cells of a sheet, row by row."""

    def __init__(self, strings: list[str]) -> None:
        super().__init__()
        self.strings = strings
        self.rows: list[tuple[int, dict[int, str]]] = []
        self.number = self.column = 0
        self.kind = ""

    def begin(self, tag: str, attributes: dict[str, str]) -> None:
        """A row, a cell, or what a cell holds."""
        if tag == "row":
            self.number = int(attributes.get("r", self.number + 1))
            self.column = 0
            self.rows.append((self.number, {}))
        elif tag == "c":
            place = _COLUMN.fullmatch(attributes.get("r", ""))
            self.column = _column(place[1]) if place else self.column + 1
            self.kind, self.text = attributes.get("t", "n"), []
            if self.column > MAX_COLUMNS:
                raise ValueError("too many columns")
        self.spoken += tag == "rPh"
        self.taking = tag in ("v", "t") and not self.spoken

    def end(self, tag: str) -> None:
        """A cell ends."""
        self.spoken -= tag == "rPh"
        self.taking = False
        if tag != "c":
            return
        text = "".join(self.text)
        if self.kind == "s" and text:
            if not text.isdecimal():
                raise ValueError("the number of a text")
            text = self.strings[int(text)]
        elif self.kind == "b":
            text = {"1": "true", "0": "false"}[text]
        elif self.kind == "e":
            text = ""
        elif self.kind in ("str", "inlineStr"):
            text = _unescaped(text)
        if text:
            self.rows[-1][1][self.column] = text


def _no_type(*_: object) -> None:
    raise ValueError("document type")


def _unescaped(text: str) -> str:
    """Signs that XML cannot hold are written as _x000D_."""
    return re.sub(r"_x([0-9A-Fa-f]{4})_", lambda m: chr(int(m[1], 16)), text)


def _column(letters: str) -> int:
    """
    >>> _column("A"), _column("AA")
    (1, 27)
    """
    number = 0
    for letter in letters:
        number = 26 * number + ord(letter) - 64
    return number
