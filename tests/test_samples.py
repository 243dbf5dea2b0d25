"""The list of what `make test` leaves out names tests that exist, and leaves some of each file."""

import ast
from types import SimpleNamespace

import pytest

from tests import samples
from tests.conftest import ROOT

FILES = sorted({name.partition("::")[0] for name in samples.kept()})


@pytest.mark.parametrize("file", FILES)
def test_each_file_keeps_tests_and_holds_those_that_are_named(file):
    tree = ast.parse((ROOT / file).read_text())
    defined = {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
    named = {k.partition("::")[2]: n for k, n in samples.kept().items() if k.startswith(file)}
    assert named.keys() <= defined
    assert {n for n in defined if n.startswith("test_")} - {k for k, n in named.items() if not n}


class Item(SimpleNamespace):
    def get_closest_marker(self, name):
        return name if name in self.marks else None

    def add_marker(self, marker):
        self.marks.append(marker.name)


def test_the_kept_cases_stand_at_equal_distances(monkeypatch):
    monkeypatch.setattr(samples, "kept", lambda: {"a.py::test_x": 2, "a.py::test_none": 0})
    names = [f"a.py::test_x[{i}]" for i in range(6)]
    items = [Item(nodeid=n, marks=["long"] if "[5]" in n else []) for n in names]
    items += [Item(nodeid="a.py::test_none", marks=[]), Item(nodeid="a.py::test_y", marks=[])]
    samples.mark(items)
    left = [item.nodeid for item in items if not item.marks]
    assert left == [names[0], names[2], "a.py::test_y"]
