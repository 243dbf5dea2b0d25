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
HEAD = """# Third-party notices

MACD Studio is licensed under AGPL-3.0-or-later ([LICENSE](LICENSE)), because it uses ultralytics, which is.

## In this repository

| what | where | from | licence |
|---|---|---|---|
| drawings of 16 objects | `assets/toyworld/sprites.png`, and clips and traces in `assets/examples` | Noto Color Emoji, Copyright 2013 Google LLC | font: SIL Open Font License 1.1; images: Apache License 2.0 |
| layout of the embedded detector | `assets/toyworld/detector.pt` | YOLO11n of ultralytics, trained here from nothing | AGPL-3.0 |
| layout of the embedded backbone | `assets/toyworld/backbone` | the Qwen2.5-VL class of transformers, trained here from nothing | Apache License 2.0 |

No weights of others are in this repository. A backbone or a detector that you choose by its hub id comes with a
licence of its own, which `python -m core plan` and the page's list name.

## Installed beside it

Nothing of these is part of the repository; pip installs them as `requirements.txt` says. They bring
further packages, whose licences `pip show` prints.

| package | licence |
|---|---|
"""


def licence(name: str) -> str:
    """What the installed package says about its licence, in a few words."""
    about = importlib.metadata.metadata(name)
    told = about.get("License-Expression") or ""
    if not told:
        kinds = [c.split("::")[-1].strip() for c in about.get_all("Classifier") or ()
                 if c.startswith("License ::")]  # fmt: skip
        told = ", ".join(k for k in kinds if k != "OSI Approved")
    if not told:
        told = (about.get("License") or "see the package").strip().splitlines()[0]
    return re.sub(r"\s+", " ", told).replace("|", "/")


def notices() -> str:
    """The file's text."""
    lines = [z.split("#")[0].strip() for z in (ROOT / "requirements.txt").read_text().splitlines()]
    names = sorted((Requirement(z).name for z in lines if z), key=str.lower)
    return HEAD + "".join(f"| {name} | {licence(name)} |\n" for name in names)


if __name__ == "__main__":
    TARGET.write_text(notices(), encoding="utf-8")
