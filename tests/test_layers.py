"""The import rules of `.importlinter`, and what opens without torch."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

from scripts import imports
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[1]
PARTS = ["core", "viewer", "toyworld", "everyday", "evals", "ratings", "macd_ui", "bench"]


def sources(folder):
    return [p for p in (ROOT / folder).rglob("*.py") if ".venv" not in p.parts]


def test_imports_follow_the_order_of_the_file(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(str(ROOT))
    assert lint_imports(no_cache=True) == EXIT_STATUS_SUCCESS


def test_the_drawing_of_the_architecture_is_up_to_date():
    assert imports.written(imports.FILE.read_text()) == imports.FILE.read_text()


@pytest.mark.parametrize(
    "modules",
    [
        "core.cli.main core.traces.bundle core.report.export core.report.summary core.recording"
        " core.figures core.views.table core.rules core.methods core.whatif.verdict"
        " core.masking.random_masks core.objects.reading core.media.video core.evidence.options",
        "viewer viewer.export viewer.payload",
        "ratings.cli ratings.stats ratings.export",
    ],
    ids=["core", "viewer", "ratings"],
)
def test_a_trace_opens_without_torch(modules):
    names = [f"macd_studio.{name}" for name in modules.split()]
    code = (
        "import sys, importlib; import macd_studio as macd\n"
        f"for name in {names}: importlib.import_module(name)\n"
        "trace = macd.load(sys.argv[1]); trace.to_dict(); trace.figure('strengths')\n"
        "heavy = {'torch', 'transformers', 'ultralytics', 'gradio'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    file = next((ROOT / "assets/examples").rglob("*.macd"))
    subprocess.run(
        [sys.executable, "-c", code, str(file)], check=True, cwd=ROOT, timeout=PATIENCE_S
    )


def test_no_module_imports_private_names_of_another():
    for path in [p for part in PARTS for p in sources(part)]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("macd_studio"):
                private = [a.name for a in node.names if a.name[0] == "_" and a.name[:2] != "__"]
                assert not private, f"{path.relative_to(ROOT)} imports {private}"


def test_one_module_writes_the_head_of_a_page():
    for path in [p for part in PARTS for p in sources(part)]:
        if path != ROOT / "core/pages/frame.py":
            assert "<html lang" not in path.read_text(), path


def test_no_test_is_in_a_hurry():
    """Limits on other processes come from tests/patience.py: a loaded machine is no failure."""
    hurried = re.compile(r"timeout=[0-9]|(?<!wait_for_)timeout\([0-9]|monotonic\(\) \+ [0-9]")
    for path in sources("tests"):
        if path.name != "test_layers.py":
            found = [n for n in hurried.findall(path.read_text()) if n != "timeout=2"]
            assert not found, f"{path}: {found}"
