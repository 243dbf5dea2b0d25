"""The chat model `macd_studio`: any backbone of MACD Studio under any of its methods."""

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

from macd_studio.core.backbones import load_backbone
from macd_studio.core.errors import OptionError, VideoTooLong
from macd_studio.core.media.video import read_clip
from macd_studio.core.methods import find_method
from macd_studio.core.objects.detect import load_detector
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
    "backbone", "method", "alpha", "beta", "detector", "frames", "fit", "max_seconds",
    "max_megabytes",
)  # fmt: skip
"""What --model_args may hold."""
DEFAULT = ContrastOptions(1.0, 0.1)


class MacdStudio(lmms):
    """--model macd_studio --model_args backbone=ID,method=vcd,alpha=1,beta=0.1,frames=8.

    The prompt is what the task makes of its question; MACD's query loss is over the document's own
    field `question` where the prompt holds it, else over the whole text. An id in the document's
    field `question_id` seeds noise and random masks, as in `python -m evals`. Raises OptionError
    for arguments that it does not know, and for α or β of a method without a contrast.
    """

    is_simple = False

    def __init__(
        self,
        backbone: str = "toyworld",
        method: str = "baseline",
        alpha: float | None = None,
        beta: float | None = None,
        detector: str = "toyworld",
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
        refuse_unknown(unknown)
        chosen = find_method(method)
        if not takes_contrast(chosen) and (alpha, beta) != (None, None):
            raise OptionError(
                f"{chosen.name} takes no alpha or beta", "Leave them out of --model_args"
            )
        self.method = chosen.name
        self.contrast = ContrastOptions(
            DEFAULT.alpha if alpha is None else alpha, DEFAULT.beta if beta is None else beta
        )
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
        self.lm = load_backbone(str(backbone), device or "auto")
        loaded_detector = None
        if chosen.needs_objects:
            loaded_detector = load_detector(str(detector), self.lm.info.device)
        clips = SimpleNamespace(clip=self._clip)
        self.preparing = Preparing(clips, loaded_detector, self.options)  # type: ignore[arg-type]
        self.batch_size = int(batch_size)
        self.failures: list[str] = []

    def generate_until(self, requests: list[Any]) -> list[GenerationResult]:
        """One answer a request, in their order; requests hold six values.

        An answer that fails, as of a video that cannot be read, is FAILED, which every rule of this
        project counts as wrong; how many there are is said at the end.
        """
        self.failures = []
        answers = [self._answer(*r.args) for r in tqdm(requests, desc="macd_studio")]
        counts = {"failed": len(self.failures), "asked": len(requests),
                  "reasons": dict(Counter(self.failures).most_common(MAX_REASONS))}  # fmt: skip
        if line := failures_line(counts):
            print(f"macd_studio: {visible(line)} Marked as {FAILED}.", file=sys.stderr)
        return answers

    def _answer(
        self, context: str, to_messages: Any, kwargs: dict[str, Any], doc_id: int, task: str,
        split: str,
    ) -> GenerationResult:  # fmt: skip
        doc = self.task_dict[task][split][doc_id]
        text, video = parts_of(to_messages(doc))
        asked = str(doc.get("question", ""))
        before, _, after = text.partition(asked) if asked and asked in text else ("", "", "")
        question = asked if asked and asked in text else text
        name = str(doc.get("question_id", f"{task}/{doc_id}"))
        item = Item(name, video, "", "", "word", question, "", before=before, after=after)
        longest = int(kwargs.get("max_new_tokens") or 64)
        decode = replace(self.options.decode, max_tokens=min(1024, longest))
        objects = find_method(self.method).needs_objects
        prepared = self.preparing.prepare(video, (question,), objects)
        if prepared.clip is None:
            return self._failed(prepared.error or f"{video} cannot be read")
        pair = (self.contrast.alpha, self.contrast.beta)
        want = PendingAnswer(item, self.method, pair, name)
        options = replace(self.options, decode=decode)
        try:
            (row,) = answer_clip([want], self.lm, prepared.clip, prepared.tracks, options)
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            return self._failed("the device ran out of memory")
        if row.error or row.left_out:
            return self._failed(row.error or row.left_out)
        return GenerationResult(row.text, TokenCounts(output_tokens=len(self.lm.tokens(row.text))))

    def _clip(self, video: str) -> Clip:
        try:
            return read_clip(Path(video), self.options.video)
        except VideoTooLong as error:
            if "--start" not in error.remedy:
                raise
            raise VideoTooLong(error.cause, "Give a larger max_seconds in --model_args") from None

    def _failed(self, why: object) -> GenerationResult:
        self.failures.append(str(why))
        return GenerationResult(FAILED, TokenCounts(output_tokens=0))

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
