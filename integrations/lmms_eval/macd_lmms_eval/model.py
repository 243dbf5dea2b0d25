"""The chat model `macd_studio`: a backbone of ours or a model of lmms-eval, by any method."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from lmms_eval.api.instance import GenerationResult, TokenCounts
from lmms_eval.api.model import lmms
from tqdm import tqdm

from macd_studio.core.backbones import LocalLM, load_backbone
from macd_studio.core.embedded import AUTO, DRAWN, EMBEDDED, detector_for
from macd_studio.core.errors import OptionError, VideoTooLong
from macd_studio.core.generate import wrap
from macd_studio.core.media.video import read_clip
from macd_studio.core.methods import find_method
from macd_studio.core.objects.detect import check_detector, load_detector
from macd_studio.core.options import ContrastOptions, Fit
from macd_studio.core.text.words import visible
from macd_studio.core.types import Clip
from macd_studio.core.validation import shown
from macd_studio.evals.benchmarks.base import FIT, LONG, Item, evaluation_options
from macd_studio.evals.running.answer import PendingAnswer, answer_clip
from macd_studio.evals.running.contrasts import takes_contrast
from macd_studio.evals.running.output import MAX_REASONS, failures_line
from macd_studio.evals.running.tracks import Preparing
from macd_studio.evals.scoring.rules import FAILED

ARGUMENTS = (
    "backbone", "inner", "method", "alpha", "beta", "detector", "frames", "fit", "max_seconds",
    "max_megabytes",
)  # fmt: skip
"""What --model_args may hold; with `inner` also what that model takes."""
DEFAULT = ContrastOptions(1.0, 0.1)


class MacdStudio(lmms):
    """--model macd_studio --model_args backbone=ID,method=vcd,alpha=1,beta=0.1,frames=8.

    The prompt is what the task makes of its question; MACD's query loss is over the document's own
    field `question` where the prompt holds it, else over the whole text. An id in the document's
    field `question_id` seeds noise and random masks, as in `python -m evals`. A task's own
    generation_kwargs may name another `method`; what several tasks ask about one document is
    answered together, so that they share its frames, objects and ascent.

    inner: a model of lmms-eval, such as qwen2_5_vl, which is made with the arguments that are not
    this class's own, and wrapped; backbone is not used then. Raises OptionError for arguments that
    it does not know, and for α or β of a method without a contrast.
    """

    is_simple = False

    def __init__(
        self,
        backbone: str = EMBEDDED,
        inner: str | None = None,
        method: str | None = None,
        alpha: float | None = None,
        beta: float | None = None,
        detector: str = AUTO,
        frames: int = 8,
        fit: Fit = FIT,
        max_seconds: float = LONG["max_seconds"],
        max_megabytes: float = LONG["max_megabytes"],
        batch_size: int = 1,
        max_batch_size: int | None = None,
        device: str | None = None,
        **unknown: Any,
    ) -> None:
        super().__init__()
        if inner is None:
            refuse_unknown(unknown)
        self.method = None if method is None else find_method(method).name
        self.strength = {n: v for n, v in (("alpha", alpha), ("beta", beta)) if v is not None}
        if self.method is not None:
            self._check_strength({self.method})
        self.contrast = replace(DEFAULT, **self.strength)
        self.options = evaluation_options(
            {
                "video": {
                    "frames": frames,
                    "fit": fit,
                    "max_seconds": max_seconds,
                    "max_megabytes": max_megabytes,
                }
            }
        )
        drawn = inner is None and backbone == EMBEDDED
        self.detector = detector_for(str(detector), DRAWN if drawn else "")
        check_detector(self.detector)
        if inner is None:
            self.lm = load_backbone(str(backbone), device or "auto")
        else:
            self.lm = wrapped(inner, unknown | ({"device": device} if device else {}))
        self.preparing = Preparing(SimpleNamespace(clip=self._clip), None, self.options)  # type: ignore[arg-type]
        self.batch_size = int(batch_size)
        self.failures: list[str] = []

    def generate_until(self, requests: list[Any]) -> list[GenerationResult]:
        """One answer a request, in their order; requests hold six values.

        An answer that fails, as of a video that cannot be read, is FAILED, which every rule of this
        project counts as wrong; how many there are is said at the end. Raises OptionError for a
        method that there is not, before anything is answered.
        """
        self.failures = []
        groups: dict[tuple[Any, ...], list[tuple[int, str]]] = {}
        for number, request in enumerate(requests):
            asked, method = self._asked(*request.args)
            groups.setdefault(asked, []).append((number, method))
        methods = {m for group in groups.values() for _, m in group}
        self._check_strength(methods)
        if self.preparing.detector is None and any(find_method(m).needs_objects for m in methods):
            self.preparing.detector = load_detector(self.detector, self.lm.info.device)
        results: dict[int, GenerationResult] = {}
        for asked, group in tqdm(groups.items(), desc="macd_studio"):
            answers = self._answer(*asked, tuple(dict.fromkeys(m for _, m in group)))
            for number, method in group:
                text, why = answers[method]
                if why:
                    self.failures.append(why)
                counts = TokenCounts(output_tokens=0 if why else len(self.lm.tokens(text)))
                results[number] = GenerationResult(text, counts)
        counted = {"failed": len(self.failures), "asked": len(requests),
                   "reasons": dict(Counter(self.failures).most_common(MAX_REASONS))}  # fmt: skip
        if line := failures_line(counted):
            print(f"macd_studio: {visible(line)} Marked as {FAILED}.", file=sys.stderr)
        return [results[number] for number in range(len(requests))]

    def _check_strength(self, methods: set[str]) -> None:
        taking = any(takes_contrast(find_method(m)) for m in methods)
        if methods and self.strength and not taking:
            raise OptionError(
                f"{', '.join(sorted(methods))} takes no alpha or beta",
                "Leave them out of --model_args",
            )

    def _asked(
        self, context: str, to_messages: Any, kwargs: dict[str, Any], doc_id: int, task: str,
        split: str,
    ) -> tuple[tuple[Item, int], str]:  # fmt: skip
        """What is asked, how long an answer may be, and by which method."""
        doc = self.task_dict[task][split][doc_id]
        text, video = parts_of(to_messages(doc))
        asked = str(doc.get("question", ""))
        before, _, after = text.partition(asked) if asked and asked in text else ("", "", "")
        question = asked if asked and asked in text else text
        name = str(doc.get("question_id", f"{task}/{doc_id}"))
        item = Item(name, video, "", "", "word", question, "", before=before, after=after)
        longest = min(1024, int(kwargs.get("max_new_tokens") or 64))
        return (item, longest), find_method(
            str(kwargs.get("method") or self.method or "baseline")
        ).name

    def _answer(
        self, item: Item, longest: int, methods: tuple[str, ...]
    ) -> dict[str, tuple[str, str]]:
        """By method: the answer's text, FAILED where there is none, and why; "" where there is."""
        objects = any(find_method(m).needs_objects for m in methods)
        prepared = self.preparing.prepare(item.clip, (item.question,), objects)
        if prepared.clip is None:
            why = str(prepared.error or f"{item.clip} cannot be read")
            return dict.fromkeys(methods, (FAILED, why))
        pair = (self.contrast.alpha, self.contrast.beta)
        wanted = [PendingAnswer(item, method, pair, method) for method in methods]
        options = replace(self.options, decode=replace(self.options.decode, max_tokens=longest))
        try:
            rows = list(answer_clip(wanted, self.lm, prepared.clip, prepared.tracks, options))
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            return dict.fromkeys(methods, (FAILED, "the device ran out of memory"))
        whys = {row.method: row.error or row.left_out or "" for row in rows}
        return {r.method: (FAILED if whys[r.method] else r.text, whys[r.method]) for r in rows}

    def _clip(self, video: str) -> Clip:
        try:
            return read_clip(Path(video), self.options.video)
        except VideoTooLong as error:
            if "--start" not in error.remedy:
                raise
            raise VideoTooLong(error.cause, "Give a larger max_seconds in --model_args") from None

    def loglikelihood(self, requests: list[Any]) -> list[tuple[float, bool]]:
        """Not offered: contrastive scores are not likelihoods."""
        raise NotImplementedError("macd_studio generates; it has no likelihoods")

    def generate_until_multi_round(self, requests: list[Any]) -> list[str]:
        """Not offered."""
        raise NotImplementedError("macd_studio answers single questions")


def refuse_unknown(arguments: Iterable[str]) -> None:
    """Raises OptionError for arguments that are none, with the nearest that is one."""
    for name in arguments:
        near = get_close_matches(name, ARGUMENTS, 1)
        raise OptionError(
            f"macd_studio takes no {shown(name)}",
            f"Write {near[0]}" if near else f"Give some of {', '.join(ARGUMENTS)}",
        )


def wrapped(name: str, arguments: dict[str, Any]) -> LocalLM:
    """A model of lmms-eval as a backbone. Raises OptionError where it shows no weights."""
    from lmms_eval.models import get_model

    made = get_model(name)(batch_size=1, **arguments)
    model, processor = (getattr(made, part, None) for part in ("model", "processor"))
    if not callable(getattr(model, "generate", None)) or processor is None:
        raise OptionError(
            f"{name} of lmms-eval has no transformers model and processor to read second views by",
            "Choose another, such as qwen2_5_vl, or give backbone= instead of inner=",
        )
    return wrap(model, processor, str(getattr(model, "name_or_path", "") or name))


def parts_of(messages: list[dict[str, Any]]) -> tuple[str, str]:
    """The text and the one video of chat messages. Raises OptionError for anything else."""
    texts: list[str] = []
    videos: list[str] = []
    for message in messages:
        for part in message["content"]:
            if part["type"] == "text":
                texts.append(part["text"])
            elif part["type"] == "video":
                videos.append(str(part["url"]))
            else:
                raise OptionError(f"a request holds {part['type']}", "Choose a task of videos")
    if len(videos) != 1:
        raise OptionError(f"a request holds {len(videos)} videos", "Choose a task of one each")
    return "".join(texts), videos[0]
