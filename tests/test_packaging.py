"""The wheel: what pyproject.toml says is what is there, and what is installed runs by itself."""

import importlib
import inspect
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import macd_studio as macd
from tests.opening import AFTER, TRACE
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
NOT_SHIPPED = {"bench", "examples", "integrations", "scripts", "tests"}
"""Folders of Python that are of use in a checkout only."""


def tracked():
    """The checkout's files, those included that are about to be committed."""
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("this is no git checkout")
    return [
        Path(p)
        for p in done.stdout.split("\0")
        if p and ((ROOT / p).is_file() or (ROOT / p).is_symlink())
    ]


def packages():
    """The folders that the one installed package links to."""
    return sorted(p.name for p in (ROOT / "macd_studio").iterdir() if p.is_symlink())


def code():
    return [name for name in packages() if name != "assets"]


def test_every_package_is_linked():
    folders = {p.parts[0] for p in tracked() if p.suffix == ".py" and len(p.parts) > 1}
    assert {*code(), "macd_studio"} == folders - NOT_SHIPPED
    for name in packages():
        assert os.readlink(ROOT / "macd_studio" / name) == f"../{name}"
    for path in tracked():
        if path.parts[0] in code() and path.suffix == ".py":
            assert (ROOT / path.parent / "__init__.py").is_file(), path.parent
    for name in code():
        assert (ROOT / name / "py.typed").is_file(), name


def test_every_file_of_a_package_is_shipped():
    """A pattern holds for the files of a package itself, not for those of its plain folders."""
    data = PROJECT["tool"]["setuptools"]["package-data"]
    for path in tracked():
        if path.parts[0] in code() and path.suffix != ".py":
            package = next(p for p in path.parents if (ROOT / p / "__init__.py").is_file())
            patterns = [*data["*"], *data.get(".".join(("macd_studio", *package.parts)), [])]
            inside = path.relative_to(package)
            same_depth = [p for p in patterns if len(Path(p).parts) == len(inside.parts)]
            assert any(inside.match(p) for p in same_depth), path
    assert data["macd_studio.assets"] == ["**/*"]


def test_the_version_stands_in_one_place():
    assert {"version", "dependencies", "optional-dependencies"} == set(
        PROJECT["project"]["dynamic"]
    )
    dynamic = PROJECT["tool"]["setuptools"]["dynamic"]
    assert dynamic["version"] == {"attr": "macd_studio.__version__"}
    assert re.fullmatch(r"\d+\.\d+\.\d+", macd.__version__)
    said = re.compile(rf"version\w* *= *[\"']{re.escape(macd.__version__)}[\"']", re.I)
    places = [p for p in tracked() if p.suffix in (".py", ".toml", ".cfg")]
    found = [str(p) for p in places if said.search((ROOT / p).read_text())]
    assert found == ["macd_studio/__init__.py"]


def test_requirements_are_said_once():
    assert not {"dependencies", "optional-dependencies"} & set(PROJECT["project"])
    assert set(PROJECT["tool"]["setuptools"]["dynamic"]) == {"version"}


def test_licence_and_python_are_those_of_the_readme():
    front = yaml.safe_load((ROOT / "README.md").read_text().split("---")[1])
    assert PROJECT["project"]["license"].lower().startswith(front["license"])
    assert PROJECT["project"]["license-files"] == ["LICENSE"]
    assert PROJECT["project"]["requires-python"] == ">=3.11"
    assert "sys.version_info < (3, 11)" in (ROOT / "scripts" / "install.sh").read_text()


@pytest.mark.parametrize("script", PROJECT["project"]["scripts"])
def test_scripts_take_no_argument(script):
    module, name = PROJECT["project"]["scripts"][script].split(":")
    call = getattr(importlib.import_module(module), name)
    inspect.signature(call).bind()


SAMPLE = [
    "tests/core/test_contrast_reference.py",
    "tests/core/test_masks_reference.py",
    "tests/evals/test_stats.py",
    "tests/viewer/test_payload.py",
    "tests/ratings/test_plan.py",
]
INSTALLED = """
import sys
from pathlib import Path
import macd_studio as macd
place = Path(macd.__file__).parents[1]
assert place == Path(sys.argv[1]), place
trace = macd.load(place / "macd_studio" / "assets" / "examples" / "repaired.macd")
assert trace.answers["macd"].text == sys.argv[2], trace.answers
assert "srcdoc" in trace._repr_html_()
assert "torch" not in sys.modules
import macd_studio.evals.benchmarks.toyworld
from macd_studio.toyworld import priors, scenes
from macd_studio.macd_ui.examples import examples, load_first
from macd_studio.macd_ui.layout import CSS
from macd_studio.macd_ui.panels import viewer_component
assert len(examples()) > 5 and load_first(examples()) and CSS.is_file()
assert priors.priors() and scenes.SPRITES.is_file()
viewer_component()
"""


def run(words, **how):
    done = subprocess.run(
        list(map(str, words)), capture_output=True, text=True, timeout=PATIENCE_S, **how
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of the checkout, which a build may write into."""
    folder = tmp_path_factory.mktemp("build") / "checkout"
    for path in tracked():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, folder / path, follow_symlinks=False)
    return folder


def pip(*words, **how):
    quiet = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-index")
    run([sys.executable, "-m", "pip", words[0], *quiet, *words[1:]], **how)


def outside(place, folder):
    """Runs in an empty folder, where only the installed project is found."""
    kept = {n: v for n, v in os.environ.items() if n in ("PATH", "LANG", "HF_HUB_OFFLINE")}
    empty = folder / "empty"
    empty.mkdir()
    return {"cwd": empty, "env": kept | {"PYTHONPATH": str(place), "HOME": str(folder)}}


@pytest.mark.long
def test_the_wheel_runs_where_the_checkout_is_not_found(checkout, tmp_path):
    pip("wheel", "--no-build-isolation", "--wheel-dir", tmp_path, checkout)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name == f"macd_studio-{macd.__version__}-py3-none-any.whl"
    place = tmp_path / "installed"
    pip("install", "--target", place, wheel)
    assert {p.name for p in place.iterdir() if p.is_dir()} == {
        "macd_studio", "bin", f"macd_studio-{macd.__version__}.dist-info"}  # fmt: skip
    wanted = [
        line.split("#")[0].strip() for line in (ROOT / "requirements.txt").read_text().splitlines()
    ]
    metadata = (place / f"macd_studio-{macd.__version__}.dist-info" / "METADATA").read_text()
    extras = re.findall(r'\nRequires-Dist: (\w+).*extra == "(\w+)"', metadata)
    assert extras == [("gradio", "page"), ("ray", "ray")]
    assert metadata.count("\nRequires-Dist: ") == len([w for w in wanted if w]) + 1  # Ray
    there = outside(place, tmp_path)
    run([sys.executable, "-c", INSTALLED, place, AFTER], **there)
    clip = place / "macd_studio" / "assets" / "examples" / "repaired.mp4"
    words = [clip, TRACE.question, "--out", "clip.macd"]
    assert AFTER in run([sys.executable, "-m", "macd_studio.core", "trace", *words], **there)
    assert AFTER in run([place / "bin" / "macd", "show", "clip.macd"], **there)
    assert "--public" in run([place / "bin" / "macd-studio", "--help"], **there)
    lacks = "import sys; sys.modules['gradio'] = None; from macd_studio.macd_ui import main; main()"
    done = subprocess.run([sys.executable, "-c", lacks], capture_output=True, text=True, **there)
    assert "pip install 'macd-studio[page]'" in done.stderr
    assert "Traceback" not in done.stderr
    beside_other_packages(there["cwd"], there["env"])


def beside_other_packages(folder, env):
    """A part of the tests uses what is installed, in a folder with other packages of our names."""
    for name in ("core", "evals", "viewer", "ratings"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(f"raise SystemExit('{name}/ was imported')")
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "assets").symlink_to(ROOT / "assets")
    shutil.copy(ROOT / "pyproject.toml", folder)
    words = [sys.executable, "-m", "pytest", "-n", "0", "-m", "not long", *SAMPLE]
    assert re.search(r"\d{2,} passed", run([*words, "-o", "addopts=-v"], cwd=folder, env=env))


def test_a_checkout_without_its_links_runs(checkout, tmp_path):
    """A zip file of the checkout, or an upload of it, may lack them."""
    links = [p for p in (checkout / "macd_studio").iterdir() if p.is_symlink()]
    assert len(links) == len(packages())
    for link in links:
        link.unlink()
    code = "import macd_studio as macd, macd_studio.core.words as m; print(macd.load, m.__file__)"
    try:
        said = run([sys.executable, "-c", code], cwd=checkout)
    finally:
        for link in links:
            link.symlink_to(f"../{link.name}")
    assert str(checkout / "core" / "words.py") in said


@pytest.mark.long
def test_an_editable_install_uses_the_checkout(checkout, tmp_path):
    pip("install", "--no-build-isolation", "--prefix", tmp_path / "prefix", "--editable", checkout)
    (site,) = (tmp_path / "prefix").glob("lib*/python*/site-packages")
    there = outside(tmp_path, tmp_path)
    code = (
        f"import site; site.addsitedir({str(site)!r});"
        "import macd_studio as macd; from macd_studio.core.shipped import assets, shipped;"
        "shipped('backbone');"
        f"assert str(assets()) == {str(checkout / 'assets')!r}, assets();"
        "print(macd.load(assets() / 'examples' / 'repaired.macd').answers['macd'].text)"
    )
    assert run([sys.executable, "-c", code], **there).strip() == AFTER
