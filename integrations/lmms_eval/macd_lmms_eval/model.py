"""The chat model `macd_studio`: any backbone of MACD Studio under any of its methods."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from lmms_eval.api.instance import GenerationResult, TokenCounts
from lmms_eval.api.model import lmms
from tqdm import tqdm

from core.backbones import load_backbone
from core.errors import OptionError
from core.media.video import read_clip
from core.methods import find_method
from core.objects.detect import load_detector
from core.options import ContrastOptions
from evals.answer import PendingAnswer, answer_clip
from evals.benchmarks.base import Item
from evals.defaults import evaluation_options
from evals.tracks import Preparing


class MacdStudio(lmms):
    """--model macd_studio --model_args backbone=ID,method=vcd,alpha=1,beta=0.1,frames=8.

    The prompt is what the task makes of its question; MACD's query loss is over the document's own
    field `question` where the prompt holds it, else over the whole text. An id in the document's
    field `question_id` seeds noise and random masks, as in `python -m evals`.
    """

    is_simple = False

    def __init__(
        self,
        backbone: str = "toyworld",
        method: str = "baseline",
        alpha: float = 1.0,
        beta: float = 0.1,
        detector: str = "toyworld",
        frames: int = 8,
        batch_size: int = 1,
        **_: Any,
    ) -> None:
        super().__init__()
        self.method = find_method(method).name
        self.contrast = ContrastOptions(float(alpha), float(beta))
        options = evaluation_options({})
        self.options = replace(options, video=replace(options.video, frames=int(frames)))
        self.lm = load_backbone(backbone)
        loaded_detector = load_detector(detector, self.lm.info.device)
        clips = SimpleNamespace(clip=lambda key: read_clip(Path(key), self.options.video))
        self.preparing = Preparing(clips, loaded_detector, self.options)  # type: ignore[arg-type]
        self.batch_size = int(batch_size)

    def generate_until(self, requests: list[Any]) -> list[GenerationResult]:
        """One answer a request, in their order; requests hold six values."""
        return [self._answer(*r.args) for r in tqdm(requests, desc="macd_studio")]

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
            raise prepared.error or OptionError(f"{video} cannot be read", "Check the file")
        pair = (self.contrast.alpha, self.contrast.beta)
        want = PendingAnswer(item, self.method, pair, name)
        options = replace(self.options, decode=decode)
        (row,) = answer_clip([want], self.lm, prepared.clip, prepared.tracks, options)
        if row.error:
            raise RuntimeError(row.error)
        return GenerationResult(row.text, TokenCounts(output_tokens=len(self.lm.tokens(row.text))))

    def loglikelihood(self, requests: list[Any]) -> list[tuple[float, bool]]:
        """Not offered: contrastive scores are not likelihoods."""
        raise NotImplementedError("macd_studio generates; it has no likelihoods")

    def generate_until_multi_round(self, requests: list[Any]) -> list[str]:
        """Not offered."""
        raise NotImplementedError("macd_studio answers single questions")


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
