"""Writes THIRD_PARTY_NOTICES.md: what ships with the project, and what it is installed with.

`python -m scripts.notices` after a change of requirements.txt; tests/test_release.py compares.
"""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "THIRD_PARTY_NOTICES.md"
TABLE = "| package | licence |\n|---|---|\n"
"""The text above this line is written by hand; the rows below it are generated."""


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
    return above + TABLE + "".join(f"| {name} | {licence(name)} |\n" for name in names)


if __name__ == "__main__":
    TARGET.write_text(notices(), encoding="utf-8")
