"""The package on other releases of Python, as a table: `make test-pythons`.

The locked packages must resolve for every release and platform of README.md. On each release that
is found here the sdist is built and installed into an environment of its own, with the locked
packages, and smoke.py runs there. A release that is not found is only resolved, and counts as
skipped. Exit codes: 0 nothing failed, 1 something did.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
RELEASES = ("3.11", "3.12", "3.13", "3.14")
PLATFORMS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "aarch64-apple-darwin")
LOCK = ROOT / "locks" / "run.txt"
UV = Path(sys.executable).with_name("uv")
MACOS = {"MACOSX_DEPLOYMENT_TARGET": "14.0"}
"""The oldest macOS for which onnxruntime has a wheel; uv takes an older one where none is named."""


def uv(*words: str | Path, **more: str) -> str:
    """What is wrong in the end; "" where uv did it."""
    done = subprocess.run(
        [str(UV), *map(str, words)], cwd=ROOT, env=os.environ | more, capture_output=True, text=True
    )
    return done.stderr.strip()[-300:] if done.returncode else ""


def resolves(release: str, platform: str) -> str:
    """A row: whether every locked package has a file for them."""
    words = ("--python-version", release, "--python-platform", platform, "--require-hashes")
    with tempfile.TemporaryDirectory() as nowhere:
        wrong = uv("pip", "install", "--dry-run", "--target", nowhere, *words, "-r", LOCK, **MACOS)
    return (
        f"{'FAILED' if wrong else 'ok':7} Python {release} resolves on {platform} {wrong}".strip()
    )


def python_of(release: str) -> str | None:
    """The interpreter of a release, which starts and is it."""
    say = "import sys; print(sys.executable)"
    if sys.version.startswith(f"{release}."):
        return sys.executable
    homes = [Path(p) for p in (os.environ.get("PYENV_ROOT"), Path.home() / ".pyenv") if p]
    found = [str(p) for h in homes for p in h.glob(f"versions/{release}.*/bin/python")]
    for name in (*found, shutil.which(f"python{release}")):
        if name:
            done = subprocess.run([name, "-c", say], capture_output=True, text=True)
            if done.returncode == 0:
                return done.stdout.strip()
    return None


def installs(release: str, sdist: Path, folder: Path) -> str:
    """A row: whether the sdist is installed there and does what it should."""
    python, place = python_of(release), folder / release
    if python is None:
        return f"skipped Python {release} is not found here"
    steps = (
        ("venv", "--quiet", "--python", python, place),
        ("pip", "install", "--quiet", "--python", place, "--require-hashes", "-r", LOCK),
        ("pip", "install", "--quiet", "--python", place, "--no-deps", "--no-build-isolation",
         sdist),
    )  # fmt: skip
    for step in steps:
        if wrong := uv(*step):
            return f"FAILED  Python {release}: uv {step[0]}: {wrong}"
    words = [str(place / "bin" / "python"), str(ROOT / "scripts" / "smoke.py")]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    shutil.rmtree(place)  # 6 GB each
    told = done.stderr.strip()[-500:] if done.returncode else "trace, page, evaluation and study"
    return f"{'FAILED' if done.returncode else 'ok':7} Python {release} runs: {told}"


def main(words: Sequence[str]) -> int:
    """Releases, all of them by default; prints the rows."""
    failed = False

    def tell(row: str) -> None:
        nonlocal failed
        failed |= row.startswith("FAILED")
        print(row, flush=True)

    releases = [z for z in words if not z.startswith("-")] or RELEASES
    for release in releases:
        for platform in PLATFORMS:
            tell(resolves(release, platform))
    if "--resolve" not in words:
        with tempfile.TemporaryDirectory(prefix="macd-pythons-") as place:
            build = f"from setuptools import build_meta; print(build_meta.build_sdist({place!r}))"
            done = subprocess.run(
                [sys.executable, "-c", build], cwd=ROOT, capture_output=True, text=True, check=True
            )
            sdist = Path(place) / done.stdout.strip().splitlines()[-1]
            for release in releases:
                tell(installs(release, sdist, Path(place)))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
