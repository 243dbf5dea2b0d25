"""Files of questions as spreadsheets, pandas and other harnesses write them."""

import codecs
import json

import pytest

from macd_studio.core.errors import BenchmarkError
from macd_studio.evals.benchmarks.questions import Questions

HEADER = "id,video,question,options,answer"
CHOICE = ("choice", "B", ("red", "blue"))


def read(folder, content, name="questions.csv"):
    (folder / "clip.mp4").write_bytes(b"")
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return [(a.kind, a.truth, a.options) for a in Questions(path).asked]


@pytest.mark.parametrize("options", [
    "red|blue", '"[""red"", ""blue""]"', "\"['red', 'blue']\"", "A. red|B. blue",
    "(A) red|(B) blue", "a) red|b) blue", "1. red|2. blue", "A、red|B、blue", "A．red|B．blue",
    "（A）red|（B）blue",
])  # fmt: skip
@pytest.mark.parametrize("answer", ["B", "blue"])
def test_options_are_those_in_any_notation(tmp_path, options, answer):
    assert read(tmp_path, f"{HEADER}\n1,clip.mp4,Which?,{options},{answer}\n") == [CHOICE]


def test_a_number_names_an_option_where_options_are_numbered(tmp_path):
    rows = f"{HEADER}\n1,clip.mp4,Which?,1. red|2. blue,2\n"
    assert read(tmp_path, rows) == [CHOICE]
    with pytest.raises(BenchmarkError, match="'2' is not one of the options"):
        read(tmp_path, f"{HEADER}\n1,clip.mp4,Which?,red|blue,2\n")
    measures = read(tmp_path, f"{HEADER}\n1,clip.mp4,How far?,1.5 m|2.5 m,2.5 m\n")
    assert measures == [("choice", "B", ("1.5 m", "2.5 m"))]


@pytest.mark.parametrize(("mark", "name"), [(";", "q.csv"), ("\t", "q.csv"), ("\t", "q.tsv"),
                                            (", ", "q.csv")])  # fmt: skip
def test_cells_are_separated_as_the_header_says(tmp_path, mark, name):
    rows = [HEADER.split(","), ["1", "clip.mp4", "Which?", "red|blue", "blue"]]
    assert read(tmp_path, "\n".join(map(mark.join, rows)), name) == [CHOICE]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_letters_are_those_of_the_program_that_saved_it(tmp_path, encoding):
    content = f"{HEADER}\r\n1,clip.mp4,Is the café open?,,yes\r\n".encode(encoding)
    assert content.startswith(codecs.BOM_UTF8) == (encoding == "utf-8-sig")
    read(tmp_path, content)
    (one,) = Questions(tmp_path / "questions.csv").asked
    assert one.question == "Is the café open?"


def test_other_encodings_are_refused(tmp_path):
    with pytest.raises(BenchmarkError, match=r"neither UTF-8 nor UTF-16\. Save it as CSV UTF-8"):
        read(tmp_path, f"{HEADER}\n1,clip.mp4,门开着吗？,,yes\n".encode("gbk"))


def test_columns_of_letters_are_options(tmp_path):
    """VLMEvalKit's: none of them becomes an open question."""
    rows = "index,video,question,A,B,C,D,answer\n7,clip.mp4,Which?,red,blue,,,B\n"
    assert read(tmp_path, rows, "questions.csv") == [CHOICE]
    assert [a.id for a in Questions(tmp_path / "questions.csv").asked] == ["7"]


def test_blank_rows_and_capitals_of_a_header_are_passed_over(tmp_path):
    rows = "ID, Video, Question, Answer\n1, clip.mp4, Red?, yes\n,,,\n , , ,\n"
    assert read(tmp_path, rows) == [("yes-no", "yes", ())]


@pytest.mark.parametrize(("answer", "truth"), [("Yes, it is.", "yes"), ("No. It is not.", "no"),
                                               ("y", "yes"), ("N", "no")])  # fmt: skip
def test_an_answer_in_a_sentence_is_yes_or_no(tmp_path, answer, truth):
    rows = f'id,video,question,answer\n1,clip.mp4,Red?,"{answer}"\n'
    assert read(tmp_path, rows) == [("yes-no", truth, ())]


def test_parquet(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    (tmp_path / "clip.mp4").write_bytes(b"")
    row = {"id": "1", "video": "clip.mp4", "question": "Which?", "options": ["red", "blue"],
           "answer": "B"}  # fmt: skip
    path = tmp_path / "questions.parquet"
    parquet.write_table(arrow.Table.from_pylist([row]), path)
    assert [(a.kind, a.truth, a.options) for a in Questions(tmp_path).asked] == [CHOICE]
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(BenchmarkError, match="cannot be read as Parquet"):
        Questions(path)


def test_a_missing_column_is_named_with_those_there(tmp_path):
    with pytest.raises(BenchmarkError, match="no column answer; it has 'video', 'question', 'gt'"):
        read(tmp_path, "video,question,gt\nclip.mp4,Red?,yes\n")
    (tmp_path / "q.jsonl").write_text(json.dumps({"clip": "a"}) + "\n")
    with pytest.raises(BenchmarkError, match="no column video and no question and no answer"):
        Questions(tmp_path / "q.jsonl")
