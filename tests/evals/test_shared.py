"""What studies share: rows that are read once, packed files, the command line."""

import pytest

from macd_studio.core.errors import OptionError
from macd_studio.evals.studies.shared import kept, pack_rows, unpack_rows

ROWS = [
    {"item": "a", "views": {"x": [1.5, 2.0]}, "draws": [{"n": 1}, {"n": 2}], "level": []},
    {"item": "b", "views": {"x": [0.25], "y": [3.0]}, "draws": [], "level": [1.0]},
    {"item": "c", "views": {"x": [], "y": [4.0]}, "draws": [{"n": 3}], "level": [0.5]},
]


@pytest.mark.parametrize("rows", [ROWS, ROWS[:1], [], [{"a": None}, {"a": "text"}]])
def test_packed_rows_come_back_and_are_the_same_bytes(tmp_path, rows):
    for name in ("one", "two"):
        pack_rows(tmp_path / name, rows)
    assert unpack_rows(tmp_path / "one") == rows
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.mark.parametrize("damage", [lambda b: b[:-9], lambda b: b"no xz", lambda b: b""])
def test_damaged_files_are_refused(tmp_path, damage):
    pack_rows(tmp_path / "rows", ROWS)
    (tmp_path / "rows").write_bytes(damage((tmp_path / "rows").read_bytes()))
    for name in ("rows", "none"):
        with pytest.raises(OptionError, match=f"{name} cannot be read"):
            unpack_rows(tmp_path / name)


def test_rows_are_made_once_and_what_was_torn_or_does_not_fit_again(tmp_path):
    path, made = tmp_path / "new" / "rows.jsonl", []

    def start():
        return lambda thing: made.append(thing) or {"value": 2 * thing}

    wanted = [(str(i), i) for i in range(4)]
    rows = kept(path, wanted, start)
    assert [next(rows)["value"] for _ in range(2)] == [0, 2]
    rows.close()  # stopped
    with path.open("a") as file:
        file.write('{"key": "2", "val')
        file.write('\n[1]\n{"key": "3"}\n')
    again = kept(path, wanted, start, fits=lambda row: "value" in row)
    assert [row["value"] for row in again] == [0, 2, 4, 6]
    assert made == [0, 1, 2, 3]
    assert [row["value"] for row in kept(path, wanted, lambda: pytest.fail("loaded"))] == [
        0,
        2,
        4,
        6,
    ]
