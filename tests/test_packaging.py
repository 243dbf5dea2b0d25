"""What is built, of whatever form of the source, and what is installed runs by itself."""

import importlib
import inspect
import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

import macd_studio as macd
from macd_studio.parts import (
    BESIDE,
    CODE,
    DATA,
    FILES,
    LINKS,
    LIST,
    PACKAGE,
    is_installed,
    list_of,
    listed,
    write_source,
)
from tests.opening import AFTER
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def tracked():
    """The checkout's files, those included that are about to be committed."""
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("this is no git checkout")
    return [Path(p) for p in done.stdout.split("\0") if (ROOT / p).is_file() or p in LINKS]


def test_every_part_is_named_and_every_package_is_linked():
    """A new folder or file at the top has its place in macd_studio/parts.py."""
    paths = tracked()
    assert {p.parts[0] for p in paths if len(p.parts) > 1} == {PACKAGE, *CODE, *DATA, *BESIDE}
    assert {p.name for p in paths if len(p.parts) == 1} == set(FILES)
    assert {str(p) for p in paths if (ROOT / p).is_symlink()} == LINKS
    for name in LINKS:
        assert os.readlink(ROOT / name) == f"../{Path(name).name}"
    for path in paths:
        if path.parts[0] in CODE and path.suffix == ".py":
            assert (ROOT / path.parent / "__init__.py").is_file(), path.parent
    for name in CODE:
        assert (ROOT / name / "py.typed").is_file(), name


def test_every_file_of_a_package_is_shipped():
    """A pattern holds for the files of a package itself, not for those of its plain folders."""
    data = PROJECT["tool"]["setuptools"]["package-data"]
    for path in tracked():
        if path.parts[0] in CODE and path.suffix != ".py":
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


def run(words, **how):
    done = subprocess.run(
        list(map(str, words)), capture_output=True, text=True, timeout=PATIENCE_S, **how
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def copy(target):
    """A copy of the checkout, which a build may write into; without git, which lists its files."""
    for path in (*listed(), *LINKS):
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, target / path, follow_symlinks=False)
    return target


def without_links(checkout, as_text=False):
    """The same as a zip file or Windows leaves it: links are missing, or files of text."""
    for name in LINKS:
        (checkout / name).unlink()
        if as_text:
            (checkout / name).write_text(f"../{Path(name).name}")
    return checkout


def unpacked_source(target):
    """What /source.zip holds."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        write_source(archive)
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(target)
    return target


def test_the_source_is_every_file_and_knows_which(tmp_path):
    source = unpacked_source(tmp_path)
    names = listed()
    assert len(names) > 800
    found = {p.relative_to(source).as_posix() for p in source.rglob("*") if p.is_file()}
    assert found == {*names, LIST}
    for name in names:
        assert (source / name).read_bytes() == (ROOT / name).read_bytes(), name
    assert listed(source) == names, "without git, by its list"
    (source / LIST).unlink()
    (source / "core" / "__pycache__").mkdir()
    (source / "core" / "__pycache__" / "x.pyc").write_bytes(b"")
    (source / "notes.txt").write_text("of somebody")
    # files that git does not track and that lie in a folder of the project cannot be told apart
    assert set(names) <= set(listed(source))
    assert not [n for n in listed(source) if "pycache" in n or n == "notes.txt"]


@pytest.mark.parametrize("as_text", [False, True])
def test_a_checkout_without_its_links_runs(tmp_path, as_text):
    """A zip file of the checkout, or an upload of it, may lack them."""
    checkout = without_links(copy(tmp_path / "checkout"), as_text)
    code = (
        "import macd_studio as macd, macd_studio.core.text.words as m; print(macd.load, m.__file__)"
    )
    words = str(checkout / "core" / "text" / "words.py")
    assert words in run([sys.executable, "-c", code], cwd=checkout)


class Environment:
    """A virtual environment of its own that sees the packages of the running one.

    `pip install` there cannot change the running one: what lies outside stays as it is.
    """

    def __init__(self, folder):
        self.folder = folder
        venv.create(folder, with_pip=False, symlinks=True)
        (self.site,) = folder.glob("lib/python*/site-packages")
        outside = dict.fromkeys(sysconfig.get_paths()[n] for n in ("purelib", "platlib"))
        (self.site / "beside.pth").write_text("".join(f"{path}\n" for path in outside))
        kept = {n: v for n, v in os.environ.items() if n in ("PATH", "LANG", "OMP_NUM_THREADS")}
        self.env = kept | {"HOME": str(folder), "HF_HUB_OFFLINE": "1"}
        self.python = folder / "bin" / "python"

    def pip(self, *words):
        """Installs without a network."""
        quiet = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-index")
        words = ("install", *quiet, "--no-build-isolation", *words)
        run([self.python, "-m", "pip", *words], cwd=self.folder, env=self.env)

    def run(self, *words):
        """What a command prints in an empty folder, where only what is installed is found."""
        empty = self.folder / "empty"
        empty.mkdir(exist_ok=True)
        return run(words, cwd=empty, env=self.env)


@pytest.fixture(autouse=True)
def _the_running_environment_stays_as_it_is():
    site = Path(sysconfig.get_paths()["purelib"])
    before = {p: p.stat().st_mtime_ns for p in site.glob("*macd*")}
    yield
    assert {p: p.stat().st_mtime_ns for p in site.glob("*macd*")} == before


def built(checkout, folder, what):
    """The sdist or the wheel of a checkout, as `python -m build` makes them."""
    code = f"from setuptools import build_meta; print(build_meta.build_{what}({str(folder)!r}))"
    name = run([sys.executable, "-c", code], cwd=checkout).strip().split("\n")[-1]
    return folder / name


SOURCES = {
    "checkout": copy,
    "without links": lambda folder: without_links(copy(folder)),
    "links as text": lambda folder: without_links(copy(folder), as_text=True),
    "source.zip": unpacked_source,
    "sdist": lambda folder: built(copy(folder / "checkout"), folder, "sdist"),
}
PACKED = ("links as text", "source.zip", "sdist")


@pytest.mark.long
@pytest.mark.parametrize("kind", SOURCES)
def test_what_is_built_from_each_form_runs(kind, tmp_path):
    """The package of each holds the same files.

    Those of a packed form trace a clip, open the page, evaluate and make a study; an installed
    copy hands out the whole source again.
    """
    source = SOURCES[kind](tmp_path / "source")
    there = Environment(tmp_path / "installed")
    there.pip(source)
    package = there.site / PACKAGE
    here = {n.removeprefix(f"{PACKAGE}/") for n in listed() if is_installed(n)}
    found = {p.relative_to(package).as_posix() for p in package.rglob("*") if p.is_file()}
    made = {LIST.removeprefix(f"{PACKAGE}/"), "beside.zip"}
    assert {n for n in found if not n.endswith(".pyc")} == here | made
    assert (there.site / LIST).read_text() == list_of(listed())
    if kind not in PACKED:
        return
    said = there.run(there.python, ROOT / "scripts" / "smoke.py")
    assert f"{len(listed()) + 1} files of source" in said
    assert said.count("ok ") == 5
    assert there.run(there.folder / "bin" / "macd", "--help").startswith("usage: macd ")
    main = there.run(there.python, "-m", "macd_studio", "--help")
    assert main.startswith("usage: python -m macd_studio "), "no macd is on the path there"
    refused = [there.python, "-m", "macd_studio.viewer.describe"]
    done = subprocess.run(refused, cwd=there.folder, env=there.env, capture_output=True, text=True)
    assert done.returncode == 1
    assert "needs a checkout" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_the_wheel_says_what_it_needs(tmp_path):
    wheel = built(copy(tmp_path / "checkout"), tmp_path, "wheel")
    assert wheel.name == f"macd_studio-{macd.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as file:
        info = f"macd_studio-{macd.__version__}.dist-info"
        metadata = file.read(f"{info}/METADATA").decode()
        assert f"{info}/licenses/LICENSE" in file.namelist()
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    wanted = [z for z in (line.split("#")[0].strip() for line in lines) if z]
    extras = re.findall(r'\nRequires-Dist: ([\w-]+).*extra == "(\w+)"', metadata)
    assert sorted(extras) == [
        ("accelerate", "quantised"), ("bitsandbytes", "quantised"), ("gradio", "page"),
        ("ray", "ray"),
    ]  # fmt: skip
    assert metadata.count("\nRequires-Dist: ") == len(wanted) - 1 + len(extras)


@pytest.mark.long
def test_an_installed_copy_without_gradio_says_what_to_install(tmp_path):
    there = Environment(tmp_path / "installed")
    there.pip(copy(tmp_path / "checkout"))
    lacks = "import sys; sys.modules['gradio'] = None; from macd_studio.macd_ui import main; main()"
    empty = [there.python, "-c", lacks]
    done = subprocess.run(empty, cwd=there.folder, env=there.env, capture_output=True, text=True)
    assert "pip install 'macd-studio[page]'" in done.stderr
    assert "Traceback" not in done.stderr
    beside_other_packages(there)


SAMPLE = [
    "tests/core/test_contrast_reference.py",
    "tests/core/test_masks_reference.py",
    "tests/evals/test_stats.py",
    "tests/viewer/test_payload.py",
    "tests/ratings/test_plan.py",
]


def beside_other_packages(there):
    """A part of the tests uses what is installed, in a folder with other packages of our names."""
    folder = there.folder / "beside"
    for name in ("core", "evals", "viewer", "ratings"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(f"raise SystemExit('{name}/ was imported')")
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "assets").symlink_to(ROOT / "assets")
    shutil.copy(ROOT / "pyproject.toml", folder)
    words = [there.python, "-m", "pytest", "-n", "0", "-m", "not long", *SAMPLE]
    words += ["-k", "not description and not described"]  # what writes docs/ needs a checkout
    said = run([*words, "-o", "addopts=-v"], cwd=folder, env=there.env)
    assert re.search(r"\d{2,} passed", said)


@pytest.mark.long
@pytest.mark.parametrize("links", [True, False])
def test_an_editable_install_uses_the_checkout(tmp_path, links):
    checkout = copy(tmp_path / "checkout")
    if not links:
        without_links(checkout, as_text=True)
    there = Environment(tmp_path / "installed")
    there.pip("--editable", checkout)
    code = (
        "import macd_studio as macd; from macd_studio.core.system.shipped import assets, shipped;"
        "shipped('backbone'); import macd_studio.macd_ui.layout;"
        f"assert str(assets()) == {str(checkout / 'assets')!r}, assets();"
        "print(macd.load(assets() / 'examples' / 'repaired.macd').answers['macd'].text)"
    )
    assert there.run(there.python, "-c", code).strip() == AFTER
