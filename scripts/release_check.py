"""A release: versions agree, weights are whole, files are small, and a clean clone works.

`make release-check`. A clean clone of the last commit is checked, not the working tree: its wheel
is built, and its tests run in an environment of its own (`make test`), or by --venv in one that is
there. Exit codes: 0 everything holds, 1 something does not.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from macd_studio.parts import LIST, PACKAGE, REST
from scripts import verified

ROOT = Path(__file__).parents[1]
CLONE_MB = 200
"""Downloaded by a clone with its whole history, which each training lets grow by about 10 MB."""
SHALLOW_MB = 50
"""Downloaded by `git clone --depth 1`: what ships and the rows of its studies, compressed."""
LARGEST_MB = 2.0
"""Of a tracked file; weights have limits of their own."""
LARGER_MB = {
    "assets/toyworld/backbone/model.safetensors": 15.0,
    "assets/toyworld/detector.pt": 8.0,
    "assets/everyday/backbone/model-00001-of-00002.safetensors": 6.0,
    "assets/everyday/backbone/model-00002-of-00002.safetensors": 8.0,
}
WHEEL_HOLDS = (
    "macd_studio/assets/toyworld/backbone/model.safetensors",
    "macd_studio/assets/everyday/backbone/model-00001-of-00002.safetensors",
    "macd_studio/assets/examples/index.json",
    "macd_studio/assets/look.css",
    "macd_studio/macd_ui/js/gallery.js",
    "macd_studio/macd_ui/gallery/gallery.css",
    "macd_studio/viewer/viewer.css",
)
WHEEL_MAKES = (LIST, f"{PACKAGE}/{REST}")
"""What the build adds: the source that is not installed."""
WHEEL_MB = 50
PRIVATE = re.compile(r"(?i)(\.env|id_rsa|\.pem|credentials.*|.*\.sqlite3?|\.netrc)")
"""Names of files that are not part of a release."""


class Failed(Exception):
    """A check that does not hold, in words."""


def check_versions(root: Path, final: bool = False) -> str:
    """The version, which CITATION.cff, CHANGELOG.md and README.md must agree with.

    final: CHANGELOG.md must name it and CITATION.cff its date.
    """
    code = (root / "macd_studio" / "__init__.py").read_text(encoding="utf-8")
    match = re.search(r'^__version__ = "(.*)"$', code, re.M)
    if match is None:
        raise Failed("macd_studio/__init__.py has no __version__")
    version = match[1]
    cited = re.search(r"^version: (\S+)$", (root / "CITATION.cff").read_text(), re.M)
    if cited is None or cited[1] != version:
        raise Failed(f"CITATION.cff says {cited and cited[1]}, the code {version}")
    newest = re.search(r"^## (.+)$", (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    noted = newest[1].split()[0] if newest else ""
    if noted not in ((version,) if final else (version, "Unreleased")):
        raise Failed(f"CHANGELOG.md begins with {noted or 'nothing'}, the code says {version}")
    if final and not re.search(
        r"^date-released: .?\d{4}-\d\d-\d\d", (root / "CITATION.cff").read_text(), re.M
    ):
        raise Failed("CITATION.cff has no date-released")
    pins = dict(z.split("==") for z in (root / "constraints.txt").read_text().split())
    sdk = re.search(r"^sdk_version: (\S+)$", (root / "README.md").read_text(encoding="utf-8"), re.M)
    if sdk is None or sdk[1] != pins.get("gradio"):
        raise Failed(
            f"README.md says Gradio {sdk and sdk[1]}, constraints.txt {pins.get('gradio')}"
        )
    return version + (" (CHANGELOG.md says Unreleased)" if noted == "Unreleased" else "")


def check_hashes(root: Path) -> str:
    """Every shipped weight is the one of the manifest, and each trace the one of its clip."""
    folder = root / "assets" / "toyworld"
    manifest: dict[str, str] = json.loads((folder / "manifest.json").read_text())
    for name, digest in manifest.items():
        path = folder / name
        if not path.is_file():
            raise Failed(f"assets/toyworld/{name} is missing")
        if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            raise Failed(f"assets/toyworld/{name} is not the one of manifest.json")
    rows = json.loads((root / "assets" / "examples" / "index.json").read_text())
    for row in rows:
        clip = root / "assets" / "examples" / row["video"]
        with zipfile.ZipFile(clip.with_suffix(".macd")) as file:
            trace = json.loads(file.read("manifest.json"))
        if trace["clip"]["sha256"] != hashlib.sha256(clip.read_bytes()).hexdigest():
            raise Failed(f"the trace of {row['video']} was made from another clip")
    return f"{len(manifest)} files of weights, {len(rows)} examples"


def tracked(root: Path) -> list[str]:
    """Paths of the files under version control."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True)
    return [name for name in done.stdout.decode().split("\0") if name]


def check_files(root: Path) -> str:
    """No file is larger than it should be, or is not the project's."""
    total = 0.0
    for name in tracked(root):
        if PRIVATE.fullmatch(Path(name).name):
            raise Failed(f"{name} looks private")
        size = (root / name).lstat().st_size / 1e6
        total += size
        if size > LARGER_MB.get(name, LARGEST_MB):
            raise Failed(f"{name} has {size:.1f} MB, at most {LARGER_MB.get(name, LARGEST_MB):g}")
    return f"{total:.1f} MB of files"


def check_clone_size(clone: Path) -> str:
    """The history that a clone downloads; the files are checked out from it."""
    downloaded, size = _downloaded(clone), _megabytes(clone.rglob("*"))
    largest = ", ".join(f"{name} {mb:.1f}" for name, mb in history_of(clone)[:3])
    why = f"all versions of {largest}"
    if downloaded > CLONE_MB:
        raise Failed(f"a clone downloads {downloaded:.1f} MB, at most {CLONE_MB:g}; {why}")
    return f"{downloaded:.1f} MB with its history, {size:.0f} MB on the disk; {why}"


def check_shallow_size(root: Path, folder: Path) -> str:
    """What `git clone --depth 1` downloads."""
    clone = folder / "shallow"
    run(["git", "clone", "--quiet", "--depth", "1", root.resolve().as_uri(), str(clone)], folder)
    downloaded = _downloaded(clone)
    if downloaded > SHALLOW_MB:
        raise Failed(f"--depth 1 downloads {downloaded:.1f} MB, at most {SHALLOW_MB:g}")
    return f"{downloaded:.1f} MB"


def history_of(root: Path) -> list[tuple[str, float]]:
    """Paths and the megabytes of all their versions as git keeps them, the largest first."""
    listed = subprocess.run(
        ["git", "rev-list", "--objects", "--all"], cwd=root, check=True, capture_output=True
    ).stdout
    sizes = subprocess.run(
        ["git", "cat-file", "--batch-check=%(objecttype) %(objectsize:disk) %(rest)"],
        cwd=root, check=True, capture_output=True, input=listed,
    ).stdout  # fmt: skip
    total: dict[str, float] = {}
    for line in sizes.decode().splitlines():
        kind, size, name = line.split(" ", 2)
        if kind == "blob":
            total[name] = total.get(name, 0.0) + int(size) / 1e6
    return sorted(total.items(), key=lambda pair: -pair[1])


def _downloaded(clone: Path) -> float:
    """Megabytes of a clone's objects; git computes their index and its reverse afterwards."""
    objects = (clone / ".git" / "objects").rglob("*")
    return _megabytes(p for p in objects if p.suffix not in (".idx", ".rev"))


def _megabytes(paths: Iterable[Path]) -> float:
    return sum(p.lstat().st_size for p in paths if not p.is_dir()) / 1e6


def describe(root: Path) -> str:
    """The commit that is checked, and whether the checkout has changes that are not."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=root, check=True, capture_output=True)
        return done.stdout.decode().strip()

    changed = git("status", "--porcelain")
    return git("log", "-1", "--format=%h %s") + (
        f"; {len(changed.splitlines())} uncommitted changes are not checked" if changed else ""
    )


def check_notices(root: Path) -> str:
    """THIRD_PARTY_NOTICES.md names every package of requirements.txt."""
    lines = [z.split("#")[0].strip() for z in (root / "requirements.txt").read_text().splitlines()]
    names = [re.split(r"[^\w.-]", z)[0] for z in lines if z]
    text = (root / "THIRD_PARTY_NOTICES.md").read_text(encoding="utf-8")
    missing = [n for n in names if f"| {n} |" not in text]
    if missing:
        raise Failed(f"{missing[0]} is not named; run `python -m scripts.notices`")
    return f"{len(names)} packages"


def check_wheel(clone: Path, folder: Path) -> str:
    """The wheel builds from the clone and holds weights, examples and the licence."""
    run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
         "--disable-pip-version-check", "--wheel-dir", str(folder), str(clone)], folder,
    )  # fmt: skip
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
    missing = [w for w in (*WHEEL_HOLDS, *WHEEL_MAKES) if w not in names]
    if missing or not any(n.endswith("licenses/LICENSE") for n in names):
        raise Failed(f"the wheel has no {missing[0] if missing else 'licence'}")
    size = wheel.stat().st_size / 1e6
    if size > WHEEL_MB:
        raise Failed(f"the wheel takes {size:.0f} MB, at most {WHEEL_MB}")
    return f"{wheel.name}, {size:.1f} MB"


def check_verified(root: Path) -> str:
    """Every check has passed since a file that it guards was changed last."""
    wrong = verified.problems(root)
    if wrong:
        raise Failed(f"{wrong[0]}" + (f"; {len(wrong) - 1} more" if len(wrong) > 1 else ""))
    return f"{len(verified.CHECKS)} checks"


def check_tests(clone: Path, venv: Path | None) -> str:
    """The tests pass in the clone."""
    if venv is not None:
        (clone / ".venv").symlink_to(venv.resolve())
        run([str(clone / ".venv" / "bin" / "python"), "-m", "pytest", "-m", "not long"], clone)
        return f"in {venv}"
    run(["make", "test"], clone)
    return "in an environment of its own"


def run(words: Sequence[str], where: Path) -> None:
    """Runs a command, whose output goes to stderr. Raises Failed."""
    kept = {n: v for n, v in os.environ.items() if n not in ("PYTHONPATH", "VIRTUAL_ENV")}
    if subprocess.run(words, cwd=where, env=kept, stdout=sys.stderr).returncode:
        raise Failed(f"`{' '.join(words)[:100]}` failed")


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a line for each check; gives the exit code."""
    parser = argparse.ArgumentParser(prog="python -m scripts.release_check", description=__doc__)
    parser.add_argument(
        "--quick",
        action="store_true",
        help="without the tests, and without what docs/verified.md says of the long ones",
    )
    parser.add_argument("--venv", type=Path, metavar="FOLDER", help="environment for the tests")
    parser.add_argument(
        "--final", action="store_true", help="CHANGELOG.md and CITATION.cff must name the release"
    )
    options = parser.parse_args(arguments)
    passed = True

    def check(name: str, call: Callable[[], str]) -> None:
        nonlocal passed
        try:
            line = f"ok      {name:12} {call()}"
        except Failed as problem:
            passed, line = False, f"FAILED  {name:12} {problem}"
        except (OSError, ValueError, KeyError, subprocess.CalledProcessError) as error:
            passed, line = False, f"FAILED  {name:12} {type(error).__name__}: {error}"
        print(line, flush=True)

    with tempfile.TemporaryDirectory() as folder:
        clone, wheels = Path(folder) / "clone", Path(folder) / "wheels"
        wheels.mkdir()
        run(
            ["git", "clone", "--quiet", "--no-local", "--single-branch", str(ROOT), str(clone)],
            Path(folder),
        )
        check("commit", lambda: describe(ROOT))
        check("clone", lambda: check_clone_size(clone))
        check("shallow", lambda: check_shallow_size(ROOT, Path(folder)))
        check("versions", lambda: check_versions(clone, options.final))
        for name, call in (("hashes", check_hashes), ("files", check_files),
                           ("notices", check_notices)):  # fmt: skip
            check(name, lambda call=call: call(clone))  # type: ignore[misc]
        check("wheel", lambda: check_wheel(clone, wheels))
        if not options.quick:
            check("verified", lambda: check_verified(clone))
            check("tests", lambda: check_tests(clone, options.venv))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
