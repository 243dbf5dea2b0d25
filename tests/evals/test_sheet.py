"""Workbooks of others, whole, odd and hostile."""

import zipfile

import pytest

from macd_studio.core.errors import BenchmarkError
from macd_studio.evals.benchmarks import open_files
from macd_studio.evals.benchmarks.layout import read_table
from macd_studio.evals.benchmarks.sheet import SHEET, STRINGS

HEAD = '<?xml version="1.0"?><{} xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'


def book(path, rows, strings="", **parts):
    sheet = f"{HEAD.format('worksheet')}<sheetData>{rows}</sheetData></worksheet>"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in {SHEET: sheet, STRINGS: f"{HEAD.format('sst')}{strings}</sst>",
                              **parts}.items():  # fmt: skip
            if content is not None:
                file.writestr(name, content)
    return path


def cell(place, text, kind="inlineStr"):
    where = f' r="{place}"' if place else ""
    inner = f"<is><t>{text}</t></is>" if kind == "inlineStr" else f"<v>{text}</v>"
    return f'<c{where} t="{kind}">{inner}</c>'


def row(*cells):
    return f"<row>{''.join(cells)}</row>"


def test_every_way_to_write_a_cell_is_read(tmp_path):
    strings = ("<si><t>video</t></si>"
               "<si><r><t>a </t></r><r><t>b</t></r><rPh sb='0' eb='1'><t>sound</t></rPh></si>"
               "<si><t>line_x000D_ end</t></si>")  # fmt: skip
    rows = [
        row(cell("A1", 0, "s"), cell("B1", "n"), cell("D1", "told")),
        row(cell("A2", 1, "s"), cell("B2", "1.5", "n"), cell("C2", "lost"), cell("D2", 1, "b")),
        row(cell("", 2, "s"), cell("", "#N/A", "e"), "<c/>", cell("", "x &amp; y", "str")),
        row(cell("A4", " ")), row(),
        row(cell("D6", "<![CDATA[last]]>")),
    ]  # fmt: skip
    found = read_table(book(tmp_path / "a.xlsx", "".join(rows), strings), "Mend it")
    assert found == [
        ("row 2", {"video": "a b", "n": "1.5", "told": "true"}),
        ("row 3", {"video": "line\r end", "n": "", "told": "x & y"}),
        ("row 6", {"video": "", "n": "", "told": "last"}),
    ]


DTD = '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY x "y">]><worksheet/>'
HOSTILE = {
    "no zip": (None, "cannot be read as a workbook (BadZipFile)"),
    "no sheet": ({SHEET: None}, "is no workbook of Excel"),
    "document type": ({SHEET: DTD}, "cannot be read as a workbook (ValueError)"),
    "broken off": ({SHEET: "<worksheet><row>"}, "cannot be read as a workbook (ExpatError)"),
    "bomb": ({SHEET: b" " * (3 * 2**20)}, "unpacks to more than 2 MB"),
    "bomb of texts": ({STRINGS: b" " * (3 * 2**20)}, "unpacks to more than 2 MB"),
    "no such text": (row(cell("A1", 9, "s")), "cannot be read as a workbook (IndexError)"),
    "a text before the first": (row(cell("A1", -1, "s")), "cannot be read as a workbook (Value"),
    "far column": (row(cell("XFD1", "x")), "cannot be read as a workbook (ValueError)"),
    "a name twice": (row(cell("A1", "x"), cell("B1", "x ")), "has two columns of one name"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_workbook_is_one_line(name, tmp_path):
    given, message = HOSTILE[name]
    path = tmp_path / "a.xlsx"
    if given is None:
        path.write_text("id,prediction\n1,yes\n")
    elif isinstance(given, str):
        book(path, given)
    else:
        book(path, "", **given)
    with pytest.raises(BenchmarkError) as error:
        read_table(path, "Save it again", largest_mb=2)
    assert message in error.value.cause
    assert error.value.remedy == "Save it again"


def test_own_questions_may_be_a_workbook(tmp_path):
    heads = row(*(cell("", z) for z in ("video", "question", "answer", "candidates", "index")))
    rows = heads + row(
        *(cell("", z) for z in ("a.mp4", "Which?", "B", "['A. up', 'B. down']", "7"))
    )
    (tmp_path / "a.mp4").write_text("x")
    book(tmp_path / "questions.xlsx", rows)
    (item,) = open_files("questions", tmp_path).everything
    assert (item.id, item.kind, item.truth, item.options) == ("7", "choice", "B", ("up", "down"))
