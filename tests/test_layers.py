"""The import rules: core ← viewer, evals, ratings ← macd_ui ← app.py; who imports which library."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HOUSES = {
    "core": set(),
    "viewer": {"core"},
    "toyworld": {"core"},
    "everyday": {"core", "toyworld"},
    "evals": {"core", "toyworld", "everyday"},
    "ratings": {"core"},
    "macd_ui": {"core", "viewer", "evals", "ratings"},
    "bench": {"core", "viewer", "toyworld", "macd_ui", "evals", "ratings"},
}
OWNERS = {
    "ultralytics": ["core/objects/detect.py", "toyworld/train_detector.py"],
    "transformers": [
        "core/generate.py",
        "core/backbones/",
        "core/objects/detect_hf.py",
        "core/objects/segment_hf.py",
        "toyworld/",
        "everyday/",
        "bench/large.py",
    ],
    "gradio": ["macd_ui/", "app.py"],
    "jinja2": ["core/pages/frame.py", "macd_ui/serving/upstream.py"],
    "spaces": ["macd_ui/zerogpu.py"],
    "ray": ["evals/running/ray_engine.py"],
    "plotly": ["core/figures/"],
    "matplotlib": ["core/figures/", "evals/printing/plots.py", "bench/report.py", "toyworld/"],
    "trackers": ["core/objects/track.py"],
    "supervision": ["core/objects/track.py", "core/figures/drawing.py"],
    "av": [
        "core/media/source.py",
        "core/media/upright.py",
        "core/media/worker.py",
        "core/media/reports.py",
        "core/media/film.py",
        "toyworld/clips.py",
        "everyday/fit.py",
        "bench/",
    ],
}
LAZY_IMPORTS = {
    "core/figures/notebook.py": {"viewer.export"},  # a notebook shows a trace in the page's viewer
    "macd_ui/random_clips.py": {
        "toyworld.clips",
        "toyworld.scenes",
        "toyworld.world",
    },  # a random draw
    "macd_ui/chosen.py": {"toyworld.example_draws"},  # a clip of a search
    "core/evidence/kinds.py": {"torch", "core.backbones.local", "core.backbones.host"},  # likewise
    "core/macd.py": {
        "torch",
        "torch.autograd",
        "torch.nn.functional",
        "core.backbones.host",
    },  # a stored answer is scored without
    "core/views.py": {
        "torch",
        "core.backbones.base",
        "core.masking.composite",
    },
    "core/masking/measured.py": {"torch", "core.masking.composite"},
    "core/types/trace.py": {
        "core.figures.notebook",
        "core.traces.summary",
        "core.figures",
    },  # Trace shows itself
}
"""File → what it may import against the rules, inside a function only: when it is first called."""
HEAVY = {"torch", "transformers", "ultralytics"}
BASICS = {
    "types", "types.clips", "types.objects", "types.answers", "types.trace", "options",
    "options.objects", "options.ascent", "options.decoding", "options.run", "description",
    "records", "errors", "validation", "view_records", "repeats", "rows", "evidence",
    "evidence.choices", "evidence.records", "text", "text.numbers", "text.words", "system",
    "system.recent", "system.unix", "embedded",
}  # fmt: skip
SETS = ("system", "text")
"""Packages whose modules have nothing to do with each other: what is imported is said by module."""
WITHOUT_TORCH = {
    *BASICS,
    "__init__",
    "figures.notebook",
    "statistics",
    "recording",
    "recording.answers",
    "recording.arrays",
    "recording.build",
    "media.frames",
    "media.kinds",
    "pages",
    "pages.blocks",
    "pages.frame",
    "recording.model_check",
    "media.video",
    "media.webp",
    "masking.masks",
    "masking.random_masks",
    "masking.controls",
    "methods",
    "decoding.certificate",
    "decoding.contrast",
    "decoding.steps",
    "figures",
    "figures.decision",
    "figures.evidence",
    "figures.logits",
    "figures.overview",
    "figures.strengths",
    "figures.pictures",
    "figures.style",
    "rules",
    "second_view",
    "views",
    "text.question",
    "text.phrases",
    "description",
    "backbones.weights_options",
    "backbones.remote_address",
    "traces.archive",
    "traces.bundle",
    "traces.codec",
    "traces.container",
    "traces.fewer",
    "traces.format",
    "traces.read",
    "traces.write",
    "traces.summary",
    "traces.reproduce",
    "objects.registry",
    "system.process",
    "system.beside",
    "system.bounded",
    "system.bounded_job",
    "objects.annotations",
    "objects.placing",
    "objects.outlines",
    "objects.formats",
    "whatif.constant",
    "whatif.marks",
    "whatif.verdict",
    "whatif.edits",
    "whatif.redecodable",
    "objects.truth",
    "system.cache",
    "macd",
    "cli.flags",
    "evidence.kinds",
    "evidence.maps",
    "evidence.options",
    "evidence.report",
    "evidence.search",
    "masking.measured",
    "masking.plates",
    "system.shipped",
} | {f"objects.formats.{file.stem}" for file in (ROOT / "core/objects/formats").glob("[a-z]*.py")}
STAGES: dict[str, set[str]] = {
    "media.video": {"system.bounded", "media"},
    "objects.reading": {"system.bounded_job", "objects"},
    "objects.formats": {"objects"},
    "objects.detect": {
        "checkpoint",
        "system.fetching",
        "system.library_notes",
        "system.hub",
        "objects",
        "text.phrases",
        "system.shipped",
    },
    "objects.registry": set(),
    "objects.regions": set(),
    "objects.detect_hf": {
        "checkpoint",
        "system.fetching",
        "system.library_notes",
        "system.hub",
        "objects",
        "text.phrases",
    },
    "objects.segment": {"objects"},
    "objects.segment_hf": {
        "checkpoint",
        "system.fetching",
        "system.library_notes",
        "system.hub",
        "system.machine",
        "objects",
    },
    "system.hub": set(),
    "system.fetching": set(),
    "objects.track": set(),
    "masking.masks": set(),
    "masking.random_masks": {"masking"},
    "masking.controls": {"masking"},
    "macd": {"backbones", "decoding", "rules"},
    "masking.plates": set(),
    "masking.composite": {"backbones", "macd", "masking"},
    "masking.ascent": {"backbones", "macd", "masking"},
    "decoding.contrast": {"macd"},
    "decoding.steps": {"decoding", "rules", "backbones"},
    "decoding.views": {"decoding", "backbones", "rules", "macd"},
    "decoding.asked": {"decoding", "backbones", "rules"},
    "decoding.batch": {"decoding", "backbones", "rules", "macd"},
    "decoding.answers": {"decoding", "backbones", "rules", "macd"},
    "decoding.search": {"decoding", "backbones", "rules", "macd"},
    "text.question": set(),
    "whatif.occlusion": {"masking", "backbones", "macd"},
    "evidence.maps": set(),
    "evidence.search": set(),
    "evidence.case": {"evidence", "masking", "backbones", "run", "macd"},
    "evidence.kinds": {"evidence", "backbones"},
    "evidence.layers": {"evidence", "backbones"},
}
"""Stage → the packages and modules of core it may import beside the basics."""


def module_path(name):
    path = ROOT / "core" / name.replace(".", "/")
    package = path / "__init__.py"
    return package if package.exists() else path.with_suffix(".py")


def sources(folder):
    return [p for p in (ROOT / folder).rglob("*.py") if ".venv" not in p.parts]


def statements(tree, typing, functions=True):
    """All nodes; without `typing` not those that only a type checker reads, without `functions`
    not those inside of them.
    """
    for node in ast.iter_child_nodes(tree):
        if not typing and isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if functions or not isinstance(node, ast.FunctionDef):
            yield node
            yield from statements(node, typing, functions)


@cache
def is_module(name):
    """Of ours: `from core import rules` names one, `from core import Trace` does not."""
    path = ROOT.joinpath(*name.split(".")).with_suffix(".py")
    return name.startswith("macd_studio.") and (path.exists() or path.with_suffix("").is_dir())


@cache
def tree(path):
    return ast.parse(path.read_text())


@cache
def imports(path, typing=True, functions=True):
    found = []
    for node in statements(tree(path), typing, functions):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.append(node.module)
            modules = (f"{node.module}.{alias.name}" for alias in node.names)
            found += [m for m in modules if is_module(m)]
    return [name.removeprefix("macd_studio.") for name in found]


def exceptions(path):
    """Imports that the file is allowed inside its functions."""
    return LAZY_IMPORTS.get(str(path.relative_to(ROOT)), set())


@pytest.mark.parametrize("file", LAZY_IMPORTS)
def test_exceptions_are_imported_inside_functions(file):
    early = imports(ROOT / file, typing=False, functions=False)
    for name in LAZY_IMPORTS[file]:
        assert name in imports(ROOT / file), f"{file} does not import {name} any more"
        assert name not in early


@pytest.mark.parametrize("house", [h for h in HOUSES if (ROOT / h).is_dir()])
def test_houses_import_one_way(house):
    for path in sources(house):
        for name in set(imports(path)) - exceptions(path):
            top = name.split(".")[0]
            if top in HOUSES and top != house:
                assert top in HOUSES[house], f"{path.relative_to(ROOT)} imports {name}"


def test_toyworld_needs_core_only_to_evaluate():
    names = (
        "clips",
        "example_kinds",
        "example_search",
        "example_truth",
        "make_examples",
        "make_lessons",
    )
    allowed = {f"toyworld/{name}.py" for name in names}
    basics = {"core.system.shipped", "core.errors", "core.backbones.positions"}
    for path in sources("toyworld"):
        if any(n.split(".")[0] == "core" and n not in basics for n in imports(path)):
            assert str(path.relative_to(ROOT)) in allowed


@pytest.mark.parametrize("library", OWNERS)
def test_each_library_has_its_owners(library):
    for path in [p for h in HOUSES for p in sources(h)] + [ROOT / "app.py"]:
        place = str(path.relative_to(ROOT))
        if any(n.split(".")[0] == library for n in imports(path)):
            assert place.startswith(tuple(OWNERS[library])), f"{place} imports {library}"


@pytest.mark.parametrize("module", sorted(WITHOUT_TORCH))
def test_a_trace_opens_without_torch(module):
    path = module_path(module)
    for name in set(imports(path, typing=False)) - exceptions(path):
        assert name.split(".")[0] not in HEAVY
        if name.startswith("core."):
            assert name.removeprefix("core.") in WITHOUT_TORCH, f"{module} imports {name}"


@pytest.mark.parametrize("house", ["viewer", "ratings"])
def test_neither_torch_nor_gradio_is_needed(house):
    for path in sources(house):
        for name in imports(path, typing=False):
            assert name.split(".")[0] not in {*HEAVY, "gradio"}, f"{path.name} imports {name}"
            if name.startswith("core."):
                assert name.removeprefix("core.") in WITHOUT_TORCH, f"{path.name} imports {name}"


@pytest.mark.parametrize("stage", STAGES)
def test_stages_do_not_import_each_other(stage):
    for name in imports(module_path(stage)):
        if name.startswith("core."):
            assert _named(name) in BASICS | STAGES[stage], f"{stage} imports {name}"


def _named(name):
    """What a stage names of an import: the package, or the module in one of SETS."""
    parts = name.split(".")[1:]
    return ".".join(parts[:2] if parts[0] in SETS else parts[:1])


def test_views_and_rules_know_nothing_of_methods():
    order = ["rules", "views", "methods"]
    for i, module in enumerate(order):
        later = {n.split(".")[1] for n in imports(module_path(module)) if n.startswith("core.")}
        assert not later & set(order[i + 1 :]), module


def test_basics_import_nothing_of_ours_but_basics():
    for module in BASICS:
        path = module_path(module)
        for name in set(imports(path, typing=False)) - exceptions(path):
            if name.split(".")[0] in HOUSES:
                assert name.removeprefix("core.") in BASICS


def test_no_module_imports_private_names_of_another():
    for path in [p for house in HOUSES for p in sources(house)]:
        for node in statements(tree(path), typing=True):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("macd_studio"):
                private = [a.name for a in node.names if a.name[0] == "_" and a.name[:2] != "__"]
                assert not private, f"{path.relative_to(ROOT)} imports {private}"


def test_no_imports_go_in_a_circle():
    """Of what is imported when a module is: imports inside functions wait until they are called."""
    waiting = {}
    for path in [p for house in HOUSES for p in sources(house)]:
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        waiting[name] = set(imports(path, typing=False, functions=False)) - {name}
    while waiting:
        ready = {name for name, needs in waiting.items() if not needs & waiting.keys()}
        assert ready, f"in a circle, or above one: {sorted(waiting)}"
        waiting = {n: needs for n, needs in waiting.items() if n not in ready}


def test_one_module_writes_the_head_of_a_page():
    for path in [p for house in HOUSES for p in sources(house)]:
        if path != ROOT / "core/pages/frame.py":
            assert "<html lang" not in path.read_text(), path


def test_fields_are_described_below_them():
    """Six fields or more of a class are not described in a paragraph of its docstring."""
    for path in [p for house in HOUSES for p in sources(house)]:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef):
                fields = {s.target.id for s in node.body if isinstance(s, ast.AnnAssign)}
                told = re.findall(r"(?:^|\s)((?:\w+,\s+)*\w+):\s", ast.get_docstring(node) or "")
                names = {n for part in told for n in re.split(r",\s+", part)} & fields
                assert len(names) < 6, f"{path.relative_to(ROOT)}: {node.name} {sorted(names)}"


def test_app_is_short():
    assert len((ROOT / "app.py").read_text().splitlines()) <= 60


LONGEST = 700


def test_no_file_has_grown_too_long():
    for path in [p for house in HOUSES for p in sources(house)]:
        assert len(path.read_text().splitlines()) <= LONGEST, path
    for path in sources("tests"):
        assert len(path.read_text().splitlines()) <= 500, path


@pytest.mark.parametrize("package", ["core.types", "core.options"])
def test_a_package_that_is_imported_as_one(package):
    """Its modules are where its names are written, and no second address of them."""
    inside = ROOT.joinpath(*package.split("."))
    for path in [p for h in (*HOUSES, "tests") for p in sources(h) if inside not in p.parents]:
        assert not any(n.startswith(f"{package}.") for n in imports(path)), path


def test_no_test_is_in_a_hurry():
    """Limits on other processes come from tests/patience.py: a loaded machine is no failure."""
    hurried = re.compile(r"timeout=[0-9]|(?<!wait_for_)timeout\([0-9]|monotonic\(\) \+ [0-9]")
    for path in sources("tests"):
        if path.name != "test_layers.py":
            found = [n for n in hurried.findall(path.read_text()) if n != "timeout=2"]
            assert not found, f"{path}: {found}"


def told_of(house):
    """Package → what it imports of the others: rows of docs/architecture.md, in their order."""
    pattern = rf"^\| `{house}\.(\w+)` \| [^|]+ \| ([^|]+) \|$"
    text = (ROOT / "docs" / "architecture.md").read_text()
    rows = re.findall(pattern, text, re.M)
    return {name: set(listed.split(", ")) - {"—"} for name, listed in rows}


def packages_of(house):
    return {p.parent.name for p in (ROOT / house).glob("*/__init__.py")}


def test_the_page_of_the_architecture_says_what_is_imported():
    """docs/architecture.md has a row for each package of core: what it imports of the others."""
    told = told_of("core")
    found = {name: set() for name in told}
    for path in sources("core"):
        own = path.relative_to(ROOT / "core").with_suffix("").parts[0]
        for name in imports(path, typing=False, functions=False):
            basic = name.removeprefix("core.") in BASICS
            other = name.split(".")[1] if name.startswith("core.") and not basic else own
            if own in told and other in told and other != own:
                found[own].add(other)
    assert told == found
    assert packages_of("core") - BASICS <= set(told)


def test_packages_of_evals_import_one_way():
    """In the order of the rows of docs/architecture.md, inside functions and for types too."""
    told = told_of("evals")
    assert set(told) == packages_of("evals")
    above = set()
    for package, listed in told.items():
        found = set()
        for path in sources(f"evals/{package}"):
            others = {n.split(".")[1] for n in imports(path) if n.startswith("evals.")} - {package}
            late = others - above
            assert not late, f"{path.relative_to(ROOT)} imports {late}, which stand below it"
            found |= others
        assert found == listed, package
        above.add(package)
