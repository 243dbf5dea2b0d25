"""Reads a benchmark's files at the border: what is wrong with them, in one line."""

from __future__ import annotations

import codecs
import csv
import hashlib
import io
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from macd_studio.core.errors import BenchmarkError
from macd_studio.core.text.words import count, visible
from macd_studio.core.validation import shown
from macd_studio.evals.benchmarks.sheet import read_sheet

LARGEST_MB = 500
"""A file of questions or predictions above this is something else."""
Record = dict[str, Any]


def place(path: Path) -> str:
    """A path in a message: printable and short."""
    return visible(shown(str(path), 200))


_noted: ContextVar[list[Path] | None] = ContextVar("_noted", default=None)


@contextmanager
def noting_files() -> Iterator[list[Path]]:
    """The files that are read meanwhile, in order; some may be there more than once."""
    files: list[Path] = []
    token = _noted.set(files)
    try:
        yield files
    finally:
        _noted.reset(token)


def note_file(path: Path) -> None:
    """Tells `noting_files` of a file that is read by other means than `read_text`."""
    if (files := _noted.get()) is not None:
        files.append(path)


def hashed(root: Path, files: Iterable[Path]) -> list[list[Any]]:
    """[name within the folder, SHA-256, bytes] of files, each once."""
    rows: list[list[Any]] = []
    for path in dict.fromkeys(files):
        name = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
        with path.open("rb") as opened:
            found = hashlib.file_digest(opened, "sha256").hexdigest()
        rows.append([name, found, path.stat().st_size])
    return rows


def check_size(path: Path, remedy: str, largest_mb: int) -> None:
    """Raises BenchmarkError where there is no such file, or it is larger."""
    if not path.is_file():
        raise BenchmarkError(f"there is no file {place(path)}", remedy)
    if path.stat().st_size > largest_mb * 2**20:
        raise BenchmarkError(f"{place(path)} is larger than {largest_mb} MB", remedy)


def read_text(
    path: Path, remedy: str, largest_mb: int = LARGEST_MB, spreadsheet: bool = False
) -> str:
    """A file's text, UTF-8 with or without a byte order mark. Raises BenchmarkError.

    spreadsheet: UTF-16 with a mark, and Windows' Latin letters, are read as well.
    """
    try:
        check_size(path, remedy, largest_mb)
        note_file(path)
        if not spreadsheet:
            return path.read_text(encoding="utf-8-sig")
        content = path.read_bytes()
        if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return content.decode("utf-16")
        with suppress(UnicodeDecodeError):
            return content.decode("utf-8-sig")
        if re.search(rb"[\x80-\xff]{3}", content):  # of no Latin language: Chinese, Cyrillic …
            raise BenchmarkError(
                f"{place(path)} is neither UTF-8 nor UTF-16", "Save it as CSV UTF-8"
            )
        return content.decode("cp1252")
    except (UnicodeDecodeError, OSError, ValueError) as error:
        raise BenchmarkError(
            f"{place(path)} cannot be read as text ({type(error).__name__})", remedy
        ) from None


def read_json(path: Path, remedy: str = "Download it again", largest_mb: int = LARGEST_MB) -> Any:
    """A JSON file's value. Raises BenchmarkError that names the line where it breaks off."""
    text = read_text(path, remedy, largest_mb)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise BenchmarkError(
            f"{place(path)} is not valid JSON (line {error.lineno}: {error.msg})", remedy
        ) from None
    except RecursionError:
        raise BenchmarkError(f"{place(path)} is nested too deeply", remedy) from None


def read_table(
    path: Path, remedy: str, lines: bool = False, largest_mb: int = LARGEST_MB
) -> list[tuple[str, Record]]:
    """The records of a CSV, TSV, XLSX, JSONL or Parquet file, or of a JSON list, with their places.

    In CSV the header's own mark separates cells: a comma, semicolon or tab. Of a workbook the first
    sheet is read. Rows without any text are passed over. lines: a file whose name ends in .json
    holds JSON Lines.
    """
    if path.suffix.lower() in (".csv", ".tsv"):
        return _read_csv(path, remedy, largest_mb)
    if path.suffix.lower() == ".parquet":
        return _read_parquet(path, remedy, largest_mb)
    if path.suffix.lower() == ".xlsx":
        return _read_workbook(path, remedy, largest_mb)
    if path.suffix.lower() == ".json" and not lines:
        value = read_json(path, remedy, largest_mb)
        if not isinstance(value, list):
            raise BenchmarkError(f"{place(path)} holds {shown(value)} instead of a list", remedy)
        return [(f"entry {i}", _record(path, f"entry {i}", v)) for i, v in enumerate(value, 1)]
    records = []
    # by \n alone: a text in JSON may hold what `splitlines` takes for the end of a line, too
    for line, text in enumerate(read_text(path, remedy, largest_mb).split("\n"), 1):
        if not text.strip():
            continue
        try:
            value = json.loads(text)
        except (json.JSONDecodeError, RecursionError):
            raise BenchmarkError(
                f"{place(path)} is not valid JSON Lines (line {line})", remedy
            ) from None
        records.append((f"line {line}", _record(path, f"line {line}", value)))
    return records


def _read_csv(path: Path, remedy: str, largest_mb: int) -> list[tuple[str, Record]]:
    text = read_text(path, remedy, largest_mb, spreadsheet=True)
    header = text.partition("\n")[0]
    mark = max(",;\t", key=header.count)  # a comma where none is there
    blanks = f"{mark} " in header and mark != "\t"
    rows = csv.DictReader(io.StringIO(text), strict=True, delimiter=mark, skipinitialspace=blanks)
    try:
        numbered = [(rows.line_num, row) for row in rows]
    except csv.Error as error:
        raise BenchmarkError(
            f"{place(path)} is not valid CSV (line {rows.line_num}: {error})", remedy
        ) from None
    records = []
    for line, row in numbered:
        if None in row or None in row.values():
            raise BenchmarkError(
                f"{place(path)}, line {line} has another number of cells than the header",
                remedy,
            )
        if any(cell.strip() for cell in row.values()):
            records.append((f"line {line}", {k.strip(): v for k, v in row.items()}))
    return records


def _read_workbook(path: Path, remedy: str, largest_mb: int) -> list[tuple[str, Record]]:
    check_size(path, remedy, largest_mb)
    note_file(path)
    (_, header), *rows = read_sheet(path, largest_mb, remedy) or [(0, {})]
    names = {column: name.strip() for column, name in header.items() if name.strip()}
    if len(set(names.values())) < len(names):
        raise BenchmarkError(f"{place(path)} has two columns of one name", remedy)
    return [
        (f"row {number}", {name: cells.get(column, "") for column, name in names.items()})
        for number, cells in rows
        if any(cell.strip() for cell in cells.values())
    ]


def _read_parquet(path: Path, remedy: str, largest_mb: int) -> list[tuple[str, Record]]:
    try:
        import pyarrow as arrow  # type: ignore[import-untyped]
        from pyarrow import parquet
    except ImportError:
        raise BenchmarkError(
            f"{place(path)} is Parquet, which pyarrow reads", "pip install pyarrow"
        ) from None
    try:
        if not path.is_file():
            raise BenchmarkError(f"there is no file {place(path)}", remedy)
        with parquet.ParquetFile(path) as file:
            groups = (file.metadata.row_group(i) for i in range(file.metadata.num_row_groups))
            unpacked = sum(group.total_byte_size for group in groups)
            if max(unpacked, path.stat().st_size) > largest_mb * 2**20:
                raise BenchmarkError(f"{place(path)} is larger than {largest_mb} MB", remedy)
            note_file(path)
            rows = file.read().to_pylist()
    except (arrow.ArrowException, OSError) as error:
        raise BenchmarkError(
            f"{place(path)} cannot be read as Parquet ({type(error).__name__})", remedy
        ) from None
    return [(f"row {i}", _record(path, f"row {i}", row)) for i, row in enumerate(rows, 1)]


def _record(path: Path, where: str, value: Any) -> Record:
    if not isinstance(value, Mapping):
        raise BenchmarkError(
            f"{place(path)}, {where} is {shown(value)} instead of an object", "Mend the file"
        )
    return dict(value)


class Reader:
    """Takes fields of one record; every complaint names the file and the record."""

    def __init__(self, path: Path, where: str, record: Any) -> None:
        self.path, self.where = path, where
        self.record: Mapping[str, Any] = _record(path, where, record)

    def fail(self, what: str) -> BenchmarkError:
        """The error to raise."""
        return BenchmarkError(
            f"{place(self.path)}, {self.where}: {what}", "Mend the file, or download it again"
        )

    def text(self, *names: str, default: str | None = None) -> str:
        """The first of the named fields that is there, as text without surrounding blanks."""
        value = self._first(names)
        if value is None or value == "":
            if default is None:
                raise self.fail(f"{' or '.join(map(repr, names))} is missing")
            return default
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise self.fail(f"{names[0]!r} is {shown(value)} instead of text")
        return str(value).strip()

    def number(self, *names: str) -> float | None:
        """A finite number, None where there is none."""
        value = self._first(names)
        if value is None or value == "":
            return None
        try:
            parsed = float(value)
        except (TypeError, ValueError):
            parsed = float("nan")
        if isinstance(value, bool) or not abs(parsed) < 1e9:
            raise self.fail(f"{names[0]!r} is {shown(value)} instead of a number")
        return parsed

    def texts(self, *names: str) -> tuple[str, ...]:
        """A list of texts; empty where there is none."""
        value = self._first(names)
        if value is None:
            return ()
        if not isinstance(value, Sequence) or isinstance(value, str | bytes):
            raise self.fail(f"{names[0]!r} is {shown(value)} instead of a list")
        if not all(isinstance(v, str | int | float) for v in value):
            raise self.fail(f"{names[0]!r} holds something that is not text")
        return tuple(str(v) for v in value)

    def list(self, name: str) -> list[Any]:
        """A list of anything. Raises BenchmarkError where there is none."""
        value = self.record.get(name)
        if not isinstance(value, list):
            raise self.fail(f"{name!r} is missing" if value is None else f"{name!r} is not a list")
        return value

    def _first(self, names: Iterable[str]) -> Any:
        return next((self.record[n] for n in names if self.record.get(n) is not None), None)


def require_unique(path: Path, ids: Iterable[str]) -> None:
    """Raises BenchmarkError for the first id that comes twice."""
    seen: set[str] = set()
    for one in ids:
        if one in seen:
            raise BenchmarkError(
                f"{place(path)} has the id {shown(one)} twice", "Give every question its own id"
            )
        seen.add(one)


PICTURES = {".jpg", ".jpeg", ".png", ".webp", ".bmp"}


def require_videos(root: Path, videos: Collection[Path]) -> None:
    """Raises BenchmarkError with the number of videos that are missing and the first of them.

    Files that are pictures by name, all of them, are called so.
    """
    missing = [p for p in dict.fromkeys(videos) if not p.exists()]
    if missing:
        first = missing[0]
        if first.is_relative_to(root):
            first = first.relative_to(root)
        noun = "picture" if {p.suffix.lower() for p in videos} <= PICTURES else "video"
        whole = count(len(set(videos)), noun)
        raise BenchmarkError(
            f"{len(missing)} of {whole} missing in {place(root)}, the first is {place(first)}",
            f"Unpack the {noun}s there; docs/benchmarks.md shows the folder",
        )


def require_folder(root: Path, layout: str) -> None:
    """Raises BenchmarkError where there is no data folder. layout: which layout is expected."""
    if not root.is_dir():
        raise BenchmarkError(
            f"there is no folder {place(root)}",
            f"Give --data the folder of {layout}; docs/benchmarks.md shows what it holds",
        )
