"""What a task of MACD Studio's benchmarks does; copied next to its YAML, as lmms-eval requires."""

from __future__ import annotations

from typing import Any

from macd_studio.core.errors import OptionError
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.scoring.rules import rules_for


def doc_to_visual(doc: dict[str, Any]) -> list[str]:
    """The video's path."""
    return [doc["video"]]


def doc_to_text(doc: dict[str, Any], lmms_eval_specific_kwargs: Any = None) -> str:
    """The published prompt. Raises OptionError where another model is asked by a method."""
    if lmms_eval_specific_kwargs is not None and "by_method" not in lmms_eval_specific_kwargs:
        raise OptionError(
            "video_controls asks by a method, and only macd_studio reads which",
            "Run it with --model macd_studio --model_args inner=NAME,..., or the task without one",
        )
    return str(doc["before"] + doc["question"] + doc["after"])


def doc_to_messages(doc: dict[str, Any], lmms_eval_specific_kwargs: Any = None) -> list[Any]:
    """The video, then the prompt: the query loss could not see the pixels otherwise."""
    parts = [
        {"type": "video", "url": doc["video"]},
        {"type": "text", "text": doc_to_text(doc, lmms_eval_specific_kwargs)},
    ]
    return [{"role": "user", "content": parts}]


def process_results(doc: dict[str, Any], results: list[str]) -> dict[str, Any]:
    """Right or wrong by the benchmark's rule; score and cluster are for lmms-eval's errors."""
    item = Item(doc["question_id"], doc["video"], doc["split"], "", "yes-no", doc["question"],
                doc["answer"])  # fmt: skip
    rule = rules_for(doc["benchmark"], item)[0]
    right = rule.right(results[0], item)
    return {"macd_accuracy": {"score": float(right), "cluster": doc["cluster"],
                              "split": doc["split"], "prediction": results[0],
                              "question_id": doc["question_id"]}}  # fmt: skip


def accuracy(results: list[dict[str, Any]]) -> float:
    """Share of right answers, 0 to 1, the unit of the scores and so of lmms-eval's errors."""
    return sum(r["score"] for r in results) / len(results) if results else 0.0
