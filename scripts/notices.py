"""Writes THIRD_PARTY_NOTICES.md: what ships with the project, and what it is installed with.

`python -m scripts.notices` after a change of requirements.txt; tests/test_release.py compares.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import re
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "THIRD_PARTY_NOTICES.md"
TABLE = "| package | licence |\n|---|---|\n"
BUNDLED = "| library | comes with | licence |\n|---|---|---|\n"
"""The text above these lines is written by hand; the rows below them are generated."""
GPL_PARTS = ("libx264", "libx265")
"""Encoders under GPL-2.0-or-later that FFmpeg may be built with."""
NVIDIA = ("nvidia-", "cuda-", "triton")
"""How the names of the packages begin that torch wants for a GPU."""


def licence(name: str) -> str:
    """What the installed package says about its licence, in a few words."""
    about = importlib.metadata.metadata(name)
    license = about.get("License-Expression") or ""
    if not license:
        kinds = [c.split("::")[-1].strip() for c in about.get_all("Classifier") or ()
                 if c.startswith("License ::")]  # fmt: skip
        license = ", ".join(k for k in kinds if k != "OSI Approved")
    if not license:
        license = (about.get("License") or "see the package").strip().splitlines()[0]
    return re.sub(r"\s+", " ", license).replace("|", "/")


def notices() -> str:
    """The file's text."""
    lines = [z.split("#")[0].strip() for z in (ROOT / "requirements.txt").read_text().splitlines()]
    names = sorted((Requirement(z).name for z in lines if z), key=str.lower)
    above = TARGET.read_text(encoding="utf-8").split(TABLE)[0]
    between = TARGET.read_text(encoding="utf-8").split(TABLE)[1].split(BUNDLED)[0]
    between = between[between.index("\n\n") :]
    packages = "".join(f"| {name} | {licence(name)} |\n" for name in names).rstrip("\n")
    return above + TABLE + packages + between + BUNDLED + "".join(bundled())


def bundled() -> Iterator[str]:
    """Rows of the libraries that the Linux packages hold or ask for, with their own licences."""
    site = Path(str(importlib.metadata.distribution("av").locate_file("")))
    for package, folder in (("av", "av.libs"), ("opencv-python", "opencv_python*.libs")):
        (path,) = site.glob(f"{folder}/libavutil*")
        terms = ffmpeg(path)
        parts = [part for part in GPL_PARTS if f"--enable-{part}" in terms[2].split()]
        also = f"; with {' and '.join(parts)}: GPL-2.0-or-later" if parts else ""
        yield f"| FFmpeg {terms[0]} | {package} | {terms[1]}{also} |\n"
    for name in sorted(gpu_packages("torch", {""})):
        yield f"| {name} | torch, on Linux | {licence(name)} |\n"


def gpu_packages(package: str, extras: set[str]) -> set[str]:
    """The packages for a GPU that a package wants on Linux, and those that they want."""
    found: set[str] = set()
    for line in importlib.metadata.requires(package) or ():
        wanted = Requirement(line)
        where = [{"platform_system": "Linux", "sys_platform": "linux", "extra": e} for e in extras]
        asked = wanted.marker is None or any(wanted.marker.evaluate(w) for w in where)
        if asked and wanted.name.startswith(NVIDIA) and wanted.name not in found:
            found |= {wanted.name} | gpu_packages(wanted.name, wanted.extras or {""})
    return found


def ffmpeg(path: Path) -> list[str]:
    """Version, licence and configuration, as the library itself tells them."""
    library = ctypes.CDLL(str(path))
    told = []
    for name in ("av_version_info", "avutil_license", "avutil_configuration"):
        function = getattr(library, name)
        function.restype = ctypes.c_char_p
        told.append(function().decode())
    return told


if __name__ == "__main__":
    TARGET.write_text(notices(), encoding="utf-8")
