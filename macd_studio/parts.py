"""What the project consists of, said once: for the package, the sdist, a Space and /source.zip.

Imports the standard library alone: setup.py reads it before anything is installed.
"""

from __future__ import annotations

import subprocess
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = "macd_studio"
CODE = ("core", "evals", "everyday", "macd_ui", "ratings", "toyworld", "viewer")
"""Packages inside the one installed package; in a checkout, folders at its top."""
DATA = ("assets",)
"""Folders there without code: weights, examples, styles."""
BESIDE = (".ci", "bench", "docs", "examples", "integrations", "locks", "scripts", "tests")
"""Folders of a checkout that are not installed."""
FILES = (
    ".gitignore", ".importlinter", ".pre-commit-config.yaml", "CHANGELOG.md", "CITATION.cff",
    "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md", "THIRD_PARTY_NOTICES.md", "app.py",
    "constraints-mcp.txt", "constraints.txt", "overrides-vllm.txt", "pyproject.toml",
    "requirements-dev.txt", "requirements-mcp.txt", "requirements-vllm.txt", "requirements.txt",
    "setup.py",
)  # fmt: skip
"""Files at the top of a checkout."""
LINKS = frozenset(f"{PACKAGE}/{part}" for part in (*CODE, *DATA))
"""What links to those folders in a checkout, and is left out elsewhere: nothing needs it."""
LIST = f"{PACKAGE}/files.txt"
"""Every file of the project, a line each: written where there is no git to ask."""
REST = "beside.zip"
"""In the installed package: those of the files that are not installed."""
CACHES = ("__pycache__", "node_modules")
PACKED = (".mp4", ".macd", ".png", ".gz", ".webp", ".safetensors", ".pt", ".zip", ".onnx")
"""Kinds of files that compressing again makes no smaller."""
ROOT = Path(__file__).resolve().parents[1]
"""The checkout; of an installed package the folder that it is installed in."""


@cache
def is_checkout(root: Path = ROOT) -> bool:
    """Whether a folder is a checkout, an unpacked sdist or /source.zip: not an installed package.

    >>> is_checkout(Path("/nowhere"))
    False
    """
    return (root / "setup.py").is_file() and (root / "core" / "__init__.py").is_file()


def listed(root: Path = ROOT) -> list[str]:
    """Paths of the project's files below a checkout, sorted.

    What git tracks; without git what LIST says; without either every file in the project's folders
    that is no cache and is not hidden. Links are left out.
    """
    names = _tracked(root)
    if names is None and (root / LIST).is_file():
        names = (root / LIST).read_text(encoding="utf-8").splitlines()
    if names is None:
        names = list(_found(root))
    return sorted(n for n in names if n not in LINKS and n != LIST and (root / n).is_file())


def list_of(names: list[str]) -> str:
    """The content of LIST."""
    return "".join(f"{name}\n" for name in names)


def _tracked(root: Path) -> list[str] | None:
    """None: this is not the top of a git checkout, or git is missing or refuses."""
    if not (root / ".git").exists():
        return None
    try:
        done = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True)
    except OSError:
        return None
    return None if done.returncode else [n for n in done.stdout.decode().split("\0") if n]


def _found(root: Path) -> Iterator[str]:
    yield from FILES
    for part in (PACKAGE, *CODE, *DATA, *BESIDE):
        for path in (root / part).rglob("*"):
            inside = path.relative_to(root / part).parts
            if not any(p.startswith(".") or p in CACHES for p in inside) and path.is_file():
                yield path.relative_to(root).as_posix()


def is_installed(name: str) -> bool:
    """Whether the package holds a file of the checkout.

    >>> is_installed("core/macd.py"), is_installed("macd_studio/py.typed"), is_installed("app.py")
    (True, True, False)
    """
    return name.partition("/")[0] in (PACKAGE, *CODE, *DATA)


def write_rest(root: Path, package: Path) -> None:
    """Writes LIST and REST of a checkout into a package that is built from it."""
    names = listed(root)
    (package / Path(LIST).name).write_text(list_of(names), encoding="utf-8")
    with zipfile.ZipFile(package / REST, "w", zipfile.ZIP_DEFLATED) as rest:
        for name in names:
            if not is_installed(name):
                rest.write(root / name, name)


def write_source(out: zipfile.ZipFile) -> None:
    """Writes every file of the project into a zip file, LIST among them.

    Of an installed package, what is installed is written as it lies there, changed or not.
    """
    if is_checkout():
        names = listed()
        for name in names:
            _write(out, ROOT / name, name)
    else:
        here = ROOT / PACKAGE
        names = (ROOT / LIST).read_text(encoding="utf-8").splitlines()
        with zipfile.ZipFile(here / REST) as rest:
            for name in names:
                place = (ROOT if name.startswith(f"{PACKAGE}/") else here) / name
                if not is_installed(name):
                    out.writestr(rest.getinfo(name), rest.read(name), zipfile.ZIP_DEFLATED)
                elif place.is_file():
                    _write(out, place, name)
    out.writestr(LIST, list_of(names))


def _write(out: zipfile.ZipFile, place: Path, name: str) -> None:
    how = zipfile.ZIP_STORED if place.suffix in PACKED else zipfile.ZIP_DEFLATED
    out.write(place, name, how)
