"""Samples and results that lmms-eval writes, read as version 0.7.3 writes them.

`…_samples_TASK.jsonl` (`evaluation_tracker.save_results_samples`) holds one line a question:
doc_id, doc_hash, target, input, filtered_resps, token_counts, and each metric under its own name, a
number or an object. `…_results.json` of the same time holds model, arguments, seeds and versions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from macd_studio.core.errors import BenchmarkError
from macd_studio.core.text.words import count
from macd_studio.evals.benchmarks.base import LETTERS, Item, Kind
from macd_studio.evals.benchmarks.files import letter_of
from macd_studio.evals.benchmarks.layout import Reader, place, read_json, read_table
from macd_studio.evals.scoring.answered import CLIPS, Scores, scores_of
from macd_studio.evals.scoring.predictions import REMEDY, read_response, samples_by_question
from macd_studio.evals.scoring.rules import rules_for

NAME = "lmms-eval"
LARGEST_MB = 64
MOST = 100_000
OWN = frozenset((
    "doc_id", "doc", "doc_hash", "target", "input", "arguments", "resps", "filtered_resps",
    "token_counts", "input_media", "per_sample_token_counts",
))  # fmt: skip
"""Fields of a sample that are no metric."""
PAIRS = (("pred_answer", "answer"), ("pred_answer", "gt_answer"), ("pred_id", "answer_id"))
MARK = "_samples_"


@dataclass(frozen=True)
class Samples:
    """items, texts, verdicts, clusters, scores: by "doc_id:doc_hash".

    metric: by which they were judged. clusters: of samples that name their clip.
    """

    task: str
    metric: str
    items: dict[str, Item]
    texts: dict[str, str | None]
    verdicts: dict[str, tuple[bool, bool]]
    said: dict[str, str] = field(default_factory=dict)
    clusters: dict[str, str] = field(default_factory=dict)
    scores: dict[str, Scores] = field(default_factory=dict)


def read_samples(path: Path) -> Samples | None:
    """The samples of a file; None for a file of another kind. Raises BenchmarkError."""
    if path.suffix.lower() != ".jsonl":
        return None
    readers = [Reader(path, w, r) for w, r in read_table(path, REMEDY, largest_mb=LARGEST_MB)]
    if not readers or not all({"doc_id", "filtered_resps"} <= set(r.record) for r in readers):
        return None
    if len(readers) > MOST:
        raise BenchmarkError(f"{place(path)} holds more than {MOST:,} samples", REMEDY)
    metric = _metric(path, readers)
    task = path.stem.partition(MARK)[2] or path.stem
    items, texts, verdicts = {}, {}, {}
    clusters, scores = {}, {}
    for reader in readers:
        name = name_of(reader)
        if name in items:
            raise reader.fail("the sample is there twice")
        question = str(reader.record.get("input", ""))[:10_000]
        target = str(reader.record.get("target", ""))[:10_000]
        kind, truth, options = asked_of(question, target)
        items[name] = Item(name, name, task, "", kind, question, truth, options=options)
        texts[name] = read_response(reader)
        verdicts[name] = (bool(_score(reader.record.get(metric))), True)
        if clip := _clip(reader.record):
            clusters[name] = clip
        if found := scores_of(reader):
            scores[name] = found
    return Samples(task, metric, items, texts, verdicts, _said(path), clusters, scores)


_LINE = re.compile(r"^\s*\(?([A-Z])\s*[).:]\s+(.+?)\s*$", re.MULTILINE)


def asked_of(prompt: str, target: str) -> tuple[Kind, str, tuple[str, ...]]:
    """Kind, truth and options of a sample, by its target and the lettered lines of its prompt.

    >>> asked_of("Is it?", "Yes."), asked_of("Which?\\nA. up\\nB. down", "down")
    (('yes-no', 'yes', ()), ('choice', 'B', ('up', 'down')))
    """
    plain = target.strip().rstrip(".").strip()
    if plain.lower() in ("yes", "no"):
        return "yes-no", plain.lower(), ()
    lines = _LINE.findall(prompt)
    first = max((i for i, (letter, _) in enumerate(lines) if letter == "A"), default=0)
    options = tuple(text for _, text in lines[first:])
    whole = [letter for letter, _ in lines[first:]] == list(LETTERS[: len(options)])
    if len(options) < 2 or not whole:
        return "word", target, ()
    letter = plain.strip("()").upper()
    if len(letter) != 1 or letter not in LETTERS[: len(options)]:
        letter = letter_of(options, target.strip()) or ""
    return ("choice", letter, options) if letter else ("word", target, ())


def _clip(record: Mapping[str, Any]) -> str:
    """What a sample says of its clip, in a metric's own fields; "" where it says nothing."""
    for fields in (record, *(v for v in record.values() if isinstance(v, Mapping))):
        lower = {str(k).lower(): v for k, v in fields.items()}
        for name in ("cluster", *CLIPS):
            if isinstance(lower.get(name), str | int) and str(lower[name]):
                return str(lower[name])[:500]
    return ""


def name_of(reader: Reader) -> str:
    """What tells a sample from others of its task."""
    number = reader.number("doc_id")
    whole = f"{number:g}" if number is not None else "?"
    return f"{whole}:{str(reader.record.get('doc_hash', ''))[:16]}"


def names_of(path: Path, items: Mapping[str, Item]) -> dict[str, str]:
    """Sample → the question that it answers. Raises BenchmarkError where that is not clear."""
    readers = [Reader(path, w, r) for w, r in read_table(path, REMEDY, largest_mb=LARGEST_MB)]
    pairs = samples_by_question(path, readers, items)
    names = {name_of(r): name for r, (name, _) in zip(readers, pairs, strict=True)}
    unknown = [n for n in names.values() if n not in items]
    if len(unknown) == len(names):
        raise BenchmarkError(
            f"none of {count(len(names), 'sample')} of {place(path)} belongs to a question of the"
            " other side",
            "Compare answers to the same benchmark",
        )
    return {k: n for k, n in names.items() if n in items}


def rule_of(benchmark: str, item: Item) -> str:
    """The name of lmms-eval's rule for a benchmark of ours; "" where this project has none."""
    return next((r.name for r in rules_for(benchmark, item) if r.name == NAME), "")


def drops(benchmark: str, item: Item, rule: str) -> bool:
    """Whether the rule leaves answers out of the denominator."""
    return any(r.name == rule and r.dropping is not None for r in rules_for(benchmark, item))


def _metric(path: Path, readers: list[Reader]) -> str:
    """The first metric that says right or wrong of every sample."""
    named = [n for n in readers[0].record if n not in OWN]
    for name in named:
        if all(_score(r.record.get(name)) is not None for r in readers):
            return name
    raise BenchmarkError(
        f"{place(path)} holds no metric that says right or wrong of every sample",
        "Give records of id and prediction instead",
    )


def _score(value: Any) -> bool | None:
    """Whether a metric calls an answer right: 1, or an object with score, correct or a pair."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return bool(value) if value in (0, 1) else None
    if not isinstance(value, Mapping):
        return None
    for name in ("score", "correct"):
        if name in value:
            return _score(value[name])
    for said, truth in PAIRS:
        if said in value and truth in value:
            return str(value[said]).strip().lower() == str(value[truth]).strip().lower()
    return None


def _said(path: Path) -> dict[str, str]:
    """What the results beside the samples say of how they were computed; {} without."""
    date, mark, _ = path.name.partition(MARK)
    results = path.with_name(f"{date}_results.json")
    if not mark or not results.is_file():
        return {}
    value = read_json(results, "Leave it out", LARGEST_MB)
    if not isinstance(value, Mapping):
        return {}
    config = _object(value.get("config"))
    arguments = _arguments(config.get("model_args"))
    # the task's own, and what the command line put over them
    task = _object(_object(value.get("configs")).get(path.stem.partition(MARK)[2]))
    generation = _arguments(task.get("generation_kwargs")) | _arguments(config.get("gen_kwargs"))
    said = {"model": str(config.get("model") or "")}
    for name, words in ARGUMENTS.items():
        for word in (w for w in words if w in arguments):
            said[name] = arguments.pop(word)
    said["search"] = _search(generation.pop("do_sample", ""))
    for name, word in (("temperature", "temperature"), ("max_tokens", "max_new_tokens")):
        if word in generation:
            said[name] = generation.pop(word)
    said |= {
        "arguments": ", ".join(f"{n}={v}" for n, v in sorted((arguments | generation).items())),
        "device": said.get("device") or str(config.get("device") or ""),
        "seed": str(config.get("random_seed") if config.get("random_seed") is not None else ""),
        "transformers": str(value.get("transformers_version") or ""),
    }
    return {name: text[:200] for name, text in said.items() if text}


ARGUMENTS = {
    "model": ("backbone", "model_version", "pretrained"),
    "frames": ("frames", "nframes", "num_frames", "max_frames_num", "max_num_frames"),
    "fps": ("fps",), "fit": ("fit",), "dtype": ("torch_dtype", "dtype"), "device": ("device",),
    "alpha": ("alpha",), "beta": ("beta",),
}  # fmt: skip
"""A statement → how models of lmms-eval call it; of several the last counts."""


def _search(sampled: str) -> str:
    """How tokens are chosen, by `do_sample`; "" where that is not stated."""
    return {"true": "sample", "false": "greedy"}.get(sampled.strip().lower(), "")


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _arguments(value: Any) -> dict[str, str]:
    """`a=1,b=2`, or an object, as texts."""
    if isinstance(value, Mapping):
        return {str(k): str(v) for k, v in value.items() if isinstance(v, str | int | float)}
    if not isinstance(value, str):
        return {}
    parts = (p.partition("=") for p in value.split(","))
    return {name.strip(): text.strip() for name, equals, text in parts if equals}
