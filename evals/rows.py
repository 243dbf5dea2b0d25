"""What is kept of an answered question: one JSON line a method, found again by its content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch

from core.options import RunOptions
from core.shipped import TOYWORLD
from evals.benchmarks.base import Benchmark, Item

ROOT = Path(__file__).parents[1]
CODE = tuple(
    "masking decoding objects rules views methods backbones question.py"
    " ../evals/answer.py ../evals/gather.py".split()
)


@dataclass(frozen=True)
class Row:
    """One method's answer to one item.

    key: sha256 of everything the answer depends on. margin: score of "yes" less that of "no" at
    the first token, None where either was not kept. grid: first token for every α and β tried,
    split "choose" only. gradient: (label, dL/dr) of each track, of MACD only. error: why there is
    no answer.
    """

    key: str
    item: str
    method: str
    text: str = ""
    margin: float | None = None
    grid: list[str] = field(default_factory=list)
    gradient: list[tuple[str, float]] = field(default_factory=list)
    error: str = ""


@dataclass(frozen=True)
class Setting:
    """What a run is about, the same for all its items. boxes: "detector" or "truth"."""

    benchmark: str
    options: RunOptions
    backbone: str = "toyworld"
    detector: str = "toyworld"
    boxes: str = "detector"

    def content(self, benchmark: Benchmark) -> str:
        """Names the setting by its content, models and code included."""
        told = asdict(self) | {"of": benchmark.fingerprint(), "code": code_fingerprint()}
        told["device"] = "cuda" if torch.cuda.is_available() else "cpu"
        told["files"] = [_local(name) for name in (self.backbone, self.detector)]
        if "toyworld" in (self.backbone, self.detector):
            told["weights"] = (TOYWORLD / "manifest.json").read_text()
        return _sha(told)


def _local(name: str) -> list[tuple[str, int, int]]:
    """Name, size and time of a local model's files: another training is another model."""
    path = Path(name)
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    stats = [(f.name, f.stat()) for f in files if f.is_file()]
    return [(file, s.st_size, s.st_mtime_ns) for file, s in stats]


def row_key(content: str, item: Item, method: str, contrast: tuple[float, float] | None) -> str:
    """The key of an answer; contrast: (α, β), None where a whole grid was tried."""
    return _sha([content, asdict(item), method, contrast])


def _sha(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:20]


@cache
def code_fingerprint() -> str:
    """Of the code that an answer depends on."""
    digest = hashlib.sha256()
    for name in CODE:
        path = ROOT / "core" / name
        for file in sorted(path.glob("*.py")) if path.is_dir() else [path]:
            digest.update(file.read_bytes())
    return digest.hexdigest()


def append(path: Path, row: Row) -> None:
    """Adds one line, flushed; a line torn by a kill is dropped by `read`."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(row)) + "\n")


def read(folder: Path) -> Iterator[Row]:
    """Every whole row of a folder's files."""
    for path in sorted(folder.glob("rows-*.jsonl")):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                raw = json.loads(line)
                raw["gradient"] = [tuple(pair) for pair in raw["gradient"]]
                yield Row(**raw)
            except (ValueError, TypeError, KeyError):
                continue
