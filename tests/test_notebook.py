"""The notebook of `examples/`: every cell runs, from first to last, and leaves its files."""

import ast
import json
import re
from pathlib import Path

import pytest

from tests.opening import AFTER, BEFORE, LABELS, TRACE

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "examples" / "evidence.ipynb"
CONTENT = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
CODE = ["".join(c["source"]) for c in CONTENT["cells"] if c["cell_type"] == "code"]


def run_cell(source, names):
    """What Jupyter does: runs the cell; gives the value of an expression at its end."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), str(NOTEBOOK), "exec"), names)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)


def check_shape():
    assert (CONTENT["nbformat"], CONTENT["nbformat_minor"]) == (4, 5)
    for cell in CONTENT["cells"]:
        assert set(cell) >= {"cell_type", "id", "metadata", "source"}
        if cell["cell_type"] == "code":  # figures would age; whoever opens it computes them
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
    assert len({c["id"] for c in CONTENT["cells"]}) == len(CONTENT["cells"])


def test_it_is_a_notebook_without_outputs_that_goes_through_the_one_door():
    check_shape()
    imports = [n for c in CODE for n in ast.walk(ast.parse(c))
               if isinstance(n, ast.Import | ast.ImportFrom)]  # fmt: skip
    assert {ast.unparse(n) for n in imports} == {
        "import macd_studio as macd",
        "from macd_studio.core.system.shipped import assets",
    }


def test_its_links_lead_somewhere():
    text = "".join("".join(c["source"]) for c in CONTENT["cells"] if c["cell_type"] == "markdown")
    links = re.findall(r"\]\((\.\./[^)#]+)(?:#([^)]+))?\)", text)
    assert len(links) >= 3
    for path, anchor in links:
        page = (NOTEBOOK.parent / path).read_text(encoding="utf-8")
        titles = re.findall(r"^#+ (.+)$", page, re.M)
        assert not anchor or anchor in {t.lower().replace(" ", "-") for t in titles}


def test_its_cells_read_and_show_a_run(capsys):
    """With the saved run in the place of the computed one, which the long test makes."""
    names = {}
    run_cell(CODE[0], names)
    assert Path(names["clip"]).is_file()
    names["trace"] = TRACE
    run_cell(CODE[2], names)
    said = capsys.readouterr().out
    assert all(label in said for label in LABELS.values())
    assert "<iframe" in run_cell(CODE[3], names)._repr_html_()


@pytest.mark.long
def test_every_cell_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    shown = [run_cell(source, names) for source in CODE]
    said = capsys.readouterr().out
    assert f"{BEFORE} → {AFTER}" in said
    for kind in ("gradient", "attention", "occlusion"):
        for view in ("video", "counterfactual"):
            assert f"{kind:10} under {view}: " in said
    values = [v for v in shown if v is not None]
    assert [type(v).__name__ for v in values] == ["Trace", "Figure", "tuple"]
    assert "<iframe" in values[0]._repr_html_()
    assert "plotly" in values[1]._repr_html_()
    assert len(values[2]) == 3
    assert (tmp_path / "evidence.pdf").read_bytes().startswith(b"%PDF")
    assert names["macd"].load(tmp_path / "evidence.macd").evidence
