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
from evals.benchmarks import find_benchmark
from evals.benchmarks.base import Benchmark, Item

ROOT = Path(__file__).parents[1]
CODE = tuple(
    "masking decoding objects rules views methods backbones question.py"
    " ../evals/answer.py ../evals/gather.py ../evals/prompting.py".split()
)


@dataclass(frozen=True)
class Row:
    """One method's answer to one item.

    key: sha256 of everything the answer depends on. margin: score of "yes" less that of "no" at
    the first token, None where either was not kept. letters: scores of the options' letters there,
    None likewise; of multiple choice only. grid: first token for every α and β tried,
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
    letters: list[float | None] = field(default_factory=list)


@dataclass(frozen=True)
class Setting:
    """What a run is about, the same for all its items. boxes: "detector" or "truth".

    data: folder of a benchmark of video files. fps, side: see `evals.benchmarks.files.Sampling`.
    published: whether its questions are asked in the published prompt, or bare.
    """

    benchmark: str
    options: RunOptions
    backbone: str = "toyworld"
    detector: str = "toyworld"
    boxes: str = "detector"
    data: str = ""
    fps: float | None = None
    side: int | None = None
    published: bool = True

    def open(self) -> Benchmark:
        """The benchmark, its files checked. Raises OptionError and BenchmarkError."""
        if not self.data:
            return find_benchmark(self.benchmark)
        from evals.benchmarks.files import Sampling

        sampling = Sampling(self.options.video, self.fps, self.side)
        return find_benchmark(self.benchmark, Path(self.data), sampling, self.published)

    def content(self, benchmark: Benchmark) -> str:
        """Names the setting by its content, models and code included."""
        told = asdict(self) | {"of": benchmark.fingerprint(), "code": code_fingerprint()}
        del told["data"]  # the fingerprint tells what lies there
        told["device"] = "cuda" if torch.cuda.is_available() else "cpu"
        told["files"] = [_local(name) for name in (self.backbone, self.detector)]
        if "toyworld" in (self.backbone, self.detector):
            told["weights"] = (TOYWORLD / "manifest.json").read_text()
        return _sha(told)

    def detector_content(self) -> str:
        """Names what tracks depend on beside the clip and the options: detector and code."""
        weights = (TOYWORLD / "manifest.json").read_text() if self.detector == "toyworld" else ""
        return _sha([self.detector, _local(self.detector), weights, code_fingerprint()])


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
