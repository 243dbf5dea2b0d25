"""One answering of some questions in one setting, here or by another Python.

`PYTHON -m macd_studio.evals.protocol.jobs JOB.json` answers and writes JOB.out.json; so another
environment, with other packages, can do what this one cannot.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import torch

from macd_studio.core.embedded import SHIPPED
from macd_studio.core.errors import BenchmarkError, MacdError, OptionError
from macd_studio.core.system.shipped import shipped
from macd_studio.core.validation import shown
from macd_studio.evals.benchmarks import DRAWN
from macd_studio.evals.benchmarks.base import Benchmark, Item
from macd_studio.evals.running.answer import ONE_VIEW, PendingAnswer
from macd_studio.evals.running.given import FILES
from macd_studio.evals.running.output import write_json
from macd_studio.evals.running.rows import Setting, read_setting, row_key
from macd_studio.evals.running.run import complete
from macd_studio.parts import ROOT

Texts = dict[str, str | None]


@dataclass(frozen=True)
class Job:
    """What is asked, and of which Python. contrast: α and β; python: another interpreter, None for
    this one.

    device: of DEVICES, "" for the one that this process computes on.
    parts: role of a model's files, of `given.FILES` or "weights" → the folder they are taken from,
    where that is not the setting's own.
    """

    setting: Setting
    method: str
    contrast: tuple[float, float] | None
    python: str | None = None
    parts: tuple[tuple[str, str], ...] = ()
    device: str = ""


DEVICES = ("cpu", "cuda")
USUAL_CONTRAST = (1.0, 0.1)
"""α and β where a job names none."""


def here() -> str:
    """The kind of device that models of this process are loaded on."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def has_device(name: str) -> bool:
    """Whether a job can be answered on such a device; a GPU can be hidden, and not be made."""
    return name in (DEVICES[0], here())


def environment() -> str:
    """The name of what answers here: a digest of the interpreter, its packages and its device.

    The key of a row says nothing of packages, so the rows of each environment are kept separately.
    A package counts with its version and the folder that it lies in.
    """
    packages = sorted({f"{d.name} {d.version} {d.locate_file('')}" for d in distributions()})
    told = json.dumps([sys.prefix, sys.version, here(), packages])
    return f"python-{hashlib.sha256(told.encode()).hexdigest()[:16]}"


def answer(job: Job, ids: Sequence[str], out: Path) -> Texts:
    """Question → answer, None where it failed.

    Rows are kept in out and used again by the same `environment`. Raises MacdError.
    """
    if job.python is not None or job.device not in ("", here()):
        return _elsewhere(job, ids, out)
    setting = job.setting
    if job.parts:
        folder = assembled(setting.backbone, dict(job.parts), out / "models")
        setting = replace(setting, backbone=str(folder))
    benchmark = setting.open()
    items = items_of(benchmark, ids)
    if missing := [i for i in ids if i not in items]:
        raise BenchmarkError(
            f"{shown(setting.data or benchmark.name, 200)} does not have the question"
            f" {shown(missing[0])}",
            "Name the folders of both figures' questions by --data and --second-data",
        )
    own = (1.0, 0.0) if job.method in ONE_VIEW else job.contrast or USUAL_CONTRAST
    content = setting.content(benchmark)
    planned = [
        PendingAnswer(items[i], job.method, own, row_key(content, items[i], job.method, own))
        for i in ids
    ]
    rows = complete(planned, setting, out / environment() / "rows")
    return {w.item.id: _text(rows[w.key]) for w in planned}


def items_of(benchmark: Benchmark, ids: Sequence[str]) -> dict[str, Item]:
    """These questions of a benchmark, by id; those that it does not have are left out."""
    if benchmark.name not in DRAWN:
        return {i.id: i for i in benchmark.items("all", 10**9)}
    find: Any = getattr(benchmark, "item")  # noqa: B009  (only drawn ones have it)
    found = {}
    for name in ids:
        key, _, which = name.rpartition("/")
        with suppress(ValueError, IndexError, KeyError):
            found[name] = find(key, int(which))
    return found


def _text(row: Any) -> str | None:
    return None if row.error or row.left_out else str(row.text)


def folder_of(backbone: str) -> Path | None:
    """The folder of a model's files, None where its name is no folder."""
    path = shipped("backbone", backbone) if backbone in SHIPPED else Path(backbone)
    return path if path.is_dir() else None


def role_of(name: str) -> str:
    """Which part of a model a file of its folder belongs to: of `given.FILES`, else "weights".

    A model's configuration comes with its weights.

    >>> role_of("tokenizer.json"), role_of("model.safetensors"), role_of("config.json")
    ('tokenizer', 'weights', 'weights')
    """
    roles = (role for role, names in FILES.items() if name in names and role != "config")
    return next(roles, "weights")


def assembled(backbone: str, parts: dict[str, str], out: Path) -> Path:
    """A folder of links: a model with some of its parts of other folders. Raises OptionError."""
    own = folder_of(backbone)
    if own is None:
        raise OptionError(f"{shown(backbone)} is no folder", "Give the model as a folder")
    place = out / "-".join(f"{role}-{Path(folder).name}" for role, folder in sorted(parts.items()))
    place.mkdir(parents=True, exist_ok=True)
    for file in place.iterdir():
        file.unlink()
    for folder in (own, *map(Path, dict.fromkeys(parts.values()))):
        for file in folder.iterdir():
            wanted = parts.get(role_of(file.name), str(own))
            if file.is_file() and Path(wanted) == folder:
                (place / file.name).symlink_to(file.resolve())
    return place


def _elsewhere(job: Job, ids: Sequence[str], out: Path) -> Texts:
    out.mkdir(parents=True, exist_ok=True)
    path = out / "job.json"
    plain = {"setting": job.setting.as_dict(), "method": job.method, "contrast": job.contrast,
             "parts": job.parts, "ids": list(ids)}  # fmt: skip
    write_json(path, plain)
    python = job.python or sys.executable
    words = [python, "-m", "macd_studio.evals.protocol.jobs", str(path)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    if job.device == DEVICES[0]:
        environment |= {"CUDA_VISIBLE_DEVICES": ""}
    try:
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    except OSError as error:
        raise OptionError(
            f"{shown(python, 200)} cannot be started ({error.strerror})",
            "Give the python of an environment",
        ) from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise OptionError(
            f"{shown(python, 200)} could not answer ({shown(last, 300)})",
            "Install what this project needs there, or leave --python out",
        )
    texts: Texts = json.loads(path.with_suffix(".out.json").read_text(encoding="utf-8"))
    return texts


def main(argv: Sequence[str]) -> int:
    """Answers the job of a file that `answer` wrote."""
    path = Path(argv[0])
    plain = json.loads(path.read_text(encoding="utf-8"))
    contrast = plain["contrast"]
    parts = tuple((role, folder) for role, folder in plain["parts"])
    job = Job(
        read_setting(plain["setting"]),
        plain["method"],
        None if contrast is None else (contrast[0], contrast[1]),
        parts=parts,
    )
    try:
        texts = answer(job, plain["ids"], path.parent)
    except MacdError as error:
        print(error, file=sys.stderr)
        return 2
    write_json(path.with_suffix(".out.json"), texts)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
