"""The import rules: core ← evals, ratings ← macd_ui ← app.py; who may import which library."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HOUSES = {
    "core": set(),
    "toyworld": {"core"},
    "evals": {"core", "toyworld"},
    "ratings": {"core"},
    "macd_ui": {"core", "evals", "ratings"},
    "bench": {"core", "toyworld", "macd_ui", "evals"},
}
OWNERS = {
    "ultralytics": ["core/detect.py", "toyworld/train_detector.py"],
    "transformers": ["core/backbones/", "core/detect_hf.py", "toyworld/", "bench/large.py"],
    "gradio": ["macd_ui/", "app.py"],
    "spaces": ["macd_ui/handlers.py"],
    "plotly": ["macd_ui/figures/"],
    "trackers": ["core/track.py"],
    "av": ["core/video_source.py", "core/video_worker.py", "toyworld/clips.py", "bench/"],
}
WITHOUT_TORCH = ["types", "errors", "options", "bundle", "bundle_format", "bundle_read",
                 "bundle_write", "pictures", "summary", "masks", "contrast", "video",
                 "random_masks"]  # fmt: skip
WITHOUT_TORCH += [
    "words",
    "rules",
    "edits",
    "bundle_open",
    "trace_rules",
    "flags",
    "edit_flags",
    "reproduce",
]
STAGES = {
    "detect": {"shipped", "detect_hf"},
    "detect_hf": {"hub"},
    "hub": set(),
    "track": set(),
    "masks": set(),
    "random_masks": {"masks"},
    "contrast": set(),
    "question": set(),
    "video": set(),
    "objective": {"backbones"},
    "views": {"backbones"},
    "ascent": {"objective", "backbones", "masks", "views"},
    "decode": {"contrast", "backbones"},
    "search": {"decode", "contrast", "backbones"},
    "ledger": {"objective", "backbones", "views"},
}
BASICS = {"types", "errors", "options", "rules", "words"}


def sources(folder):
    return [p for p in (ROOT / folder).rglob("*.py") if ".venv" not in p.parts]


@cache
def imports(path):
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.append(node.module)
    return found


@pytest.mark.parametrize("house", [h for h in HOUSES if (ROOT / h).is_dir()])
def test_houses_import_one_way(house):
    for path in sources(house):
        for name in imports(path):
            top = name.split(".")[0]
            if top in HOUSES and top != house:
                assert top in HOUSES[house], f"{path.relative_to(ROOT)} imports {name}"


def test_toyworld_needs_core_only_to_evaluate():
    allowed = {"toyworld/make_examples.py", "toyworld/clips.py"}
    for path in sources("toyworld"):
        if any(n.split(".")[0] == "core" for n in imports(path)):
            assert str(path.relative_to(ROOT)) in allowed


@pytest.mark.parametrize("library", OWNERS)
def test_each_library_has_its_owners(library):
    for path in [p for h in HOUSES for p in sources(h)] + [ROOT / "app.py"]:
        place = str(path.relative_to(ROOT))
        if any(n.split(".")[0] == library for n in imports(path)):
            assert place.startswith(tuple(OWNERS[library])), f"{place} imports {library}"


@pytest.mark.parametrize("module", WITHOUT_TORCH)
def test_a_trace_opens_without_torch(module):
    for name in imports(ROOT / "core" / f"{module}.py"):
        assert name.split(".")[0] not in ("torch", "transformers", "ultralytics")
        if name.startswith("core."):
            assert name.split(".")[1] in {*WITHOUT_TORCH, "shipped"}


@pytest.mark.parametrize("stage", STAGES)
def test_stages_do_not_import_each_other(stage):
    for name in imports(ROOT / "core" / f"{stage}.py"):
        if name.startswith("core."):
            assert name.split(".")[1] in BASICS | STAGES[stage], f"{stage} imports {name}"


def test_basics_import_nothing_of_ours_but_basics():
    for module in BASICS:
        for name in imports(ROOT / "core" / f"{module}.py"):
            if name.split(".")[0] in HOUSES:
                assert name.split(".")[1] in BASICS


def test_app_is_short():
    assert len((ROOT / "app.py").read_text().splitlines()) <= 60


def test_no_file_has_grown_past_five_hundred_lines():
    for path in [p for h in (*HOUSES, "tests") for p in sources(h)]:
        assert len(path.read_text().splitlines()) <= 500, path


def test_no_test_is_in_a_hurry():
    """Limits on other processes come from tests/patience.py: a loaded machine is no failure."""
    hurried = re.compile(r"timeout=[0-9]|(?<!wait_for_)timeout\([0-9]|monotonic\(\) \+ [0-9]")
    for path in sources("tests"):
        if path.name != "test_layers.py":
            found = [n for n in hurried.findall(path.read_text()) if n != "timeout=2"]
            assert not found, f"{path}: {found}"
