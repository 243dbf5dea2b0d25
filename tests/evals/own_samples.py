"""Answers of the embedded model by transformers alone, in the files of lmms-eval's --log_samples.

`python -m tests.evals.own_samples docs/audit.json` answers the same questions in several settings,
compares each with the plain one by `evals diff`, and writes which causes were given and named.
Nothing of this project answers: its clips are drawn, the rest is a processor and `generate`.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoModelForImageTextToText, AutoProcessor

from macd_studio.core.system.shipped import TOYWORLD
from macd_studio.evals.benchmarks import find_benchmark
from macd_studio.evals.protocol.inputs import Asked, read_pair
from macd_studio.evals.protocol.split import split

N = 120
REGIMES = ("presence, both habits", "which, in thirds")
TASK = "drawn"
END = " in the video?"


def lenient(said: str, truth: str) -> float:
    """The right word is somewhere in the answer."""
    return float(truth.lower() in said.lower())


def exact(said: str, truth: str) -> float:
    """The answer is the right word with a full stop, and nothing else."""
    return float(said == f"{truth}.")


@dataclass(frozen=True)
class Way:
    """How questions are answered, and what the results file says of it."""

    frames: int = 8
    after: str = END
    dtype: str = "float32"
    score: Callable[[str, str], float] = lenient
    temperature: float = 0.0
    seed: int = 0
    results: bool = True
    half: bool = False
    """Whether the first half of the frames is shown, each twice; no file says so."""


WAYS = {
    "nothing": (Way(), ()),
    "frames": (Way(frames=4), ("frames",)),
    "prompt": (Way(after="?"), ("template",)),
    "precision": (Way(dtype="bfloat16"), ("dtype",)),
    "scoring": (Way(score=exact), ("parser",)),
    "frames and scoring": (Way(frames=4, score=exact), ("frames", "parser")),
    "prompt and precision": (Way(after="?", dtype="bfloat16"), ("dtype", "template")),
    "the seed of greedy decoding": (Way(seed=1), ()),
    "sampling": (Way(temperature=1.5), ("search",)),
    "frames, and no results file": (Way(frames=4, results=False), ("frames",)),
    "other frames, as many": (Way(half=True), ("frames",)),
    "precision, and other frames, as many": (Way(dtype="bfloat16", half=True), ("dtype", "frames")),
}
"""What is changed → how, and the causes as `diff` calls them."""


class Model:
    """The embedded Qwen2.5-VL by transformers' own classes."""

    def __init__(self, dtype: str) -> None:
        folder = TOYWORLD / "backbone"
        self.processor = AutoProcessor.from_pretrained(folder)
        self.model = AutoModelForImageTextToText.from_pretrained(folder, dtype=dtype).eval()

    def answer(self, frames: torch.Tensor, prompt: str, way: Way) -> str:
        """frames: (T, 3, H, W) uint8."""
        message = [{"role": "user", "content": [{"type": "video", "video": frames},
                                                {"type": "text", "text": prompt}]}]  # fmt: skip
        given = self.processor.apply_chat_template(
            message, tokenize=True, return_dict=True, return_tensors="pt",
            add_generation_prompt=True, processor_kwargs={"do_sample_frames": False},
        )  # fmt: skip
        given.pop("video_metadata", None)
        given = {k: v.to(self.model.dtype) if torch.is_floating_point(v) else v
                 for k, v in given.items()}  # fmt: skip
        torch.manual_seed(way.seed)
        sampled = {"do_sample": False}
        if way.temperature:
            sampled = {"do_sample": True, "temperature": way.temperature, "top_k": 0}
        with torch.no_grad():
            out = self.model.generate(**given, max_new_tokens=8, **sampled)
        told: str = self.processor.tokenizer.decode(
            out[0, given["input_ids"].shape[1] :], skip_special_tokens=True
        )
        return told.strip()


def questions(n: int) -> list[tuple[Any, torch.Tensor]]:
    """n questions with the frames of their clips, (8, 3, H, W)."""
    benchmark = find_benchmark("toyworld-balanced")
    items = [i for i in benchmark.items("test", n // 2) if i.regime in REGIMES]
    chosen = [i for r in REGIMES for i in [z for z in items if z.regime == r][: n // 2]]
    return [(i, torch.from_numpy(benchmark.clip(i.clip).frames.copy()).permute(0, 3, 1, 2))
            for i in chosen]  # fmt: skip


def write(folder: Path, way: Way, model: Model, asked: list[tuple[Any, torch.Tensor]]) -> Path:
    """The samples and, where wanted, the results, as lmms-eval 0.7 names and fills them."""
    folder.mkdir(parents=True)
    path = folder / f"20261128_120000_samples_{TASK}.jsonl"
    lines = []
    for number, (item, frames) in enumerate(asked):
        shown = frames[: len(frames) // 2].repeat_interleave(2, 0) if way.half else frames
        shown = shown[:: len(frames) // way.frames]
        prompt = item.question.removesuffix(END) + way.after
        said = model.answer(shown, prompt, way)
        doc = json.dumps({"question": item.question, "answer": item.truth, "video": item.clip})
        lines.append({
            "doc_id": number, "target": item.truth, "filtered_resps": said, "token_counts": [None],
            "doc_hash": hashlib.sha256(doc.encode()).hexdigest(), "input": prompt,
            "accuracy": {"score": way.score(said, item.truth), "video_name": item.clip},
        })  # fmt: skip
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    if way.results:
        generation = {"max_new_tokens": 8, "temperature": way.temperature,
                      "do_sample": way.temperature > 0}  # fmt: skip
        results = {
            "config": {
                "model": "qwen2_5_vl", "device": "cpu", "gen_kwargs": "", "random_seed": way.seed,
                "model_args": f"pretrained=toyworld,max_num_frames={way.frames},dtype={way.dtype}",
            },
            "configs": {TASK: {"generation_kwargs": generation}},
            "transformers_version": transformers.__version__,
        }  # fmt: skip
        (folder / "20261128_120000_results.json").write_text(json.dumps(results))
    return path


def compare(folder: Path, n: int, names: tuple[str, ...] = tuple(WAYS)) -> list[dict[str, Any]]:
    """A row for each change: given and named causes, and how many answers and verdicts differ."""
    asked, models, rows = questions(n), {}, []
    for way, _ in WAYS.values():
        if way.dtype not in models:
            models[way.dtype] = Model(way.dtype)
    plain = write(folder / "plain", Way(), models["float32"], asked)
    for name in names:
        way, given = WAYS[name]
        other = write(folder / name.replace(" ", "-"), way, models[way.dtype], asked)
        first, second = read_pair(Asked(str(plain)), Asked(str(other)))
        found = split(first, second)
        rows.append({
            "changed": name, "given": sorted(given), "named": sorted(found.named), "n": len(asked),
            "answers": sum(first.texts[k] != second.texts[k] for k in first.texts),
            "first": round(found.first, 4), "second": round(found.second, 4),
        })  # fmt: skip
    return rows


def main(out: Path, n: int = N) -> None:
    """Writes the rows of n questions."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        rows = compare(Path(folder), n)
    report = json.loads(out.read_text(encoding="utf-8")) if out.is_file() else {}
    report["diff"] = rows
    out.write_text(json.dumps(report) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
