"""Files that hold questions, their right answers and what was answered: nothing else is needed."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from macd_studio.core.errors import BenchmarkError
from macd_studio.core.validation import shown
from macd_studio.evals.benchmarks.layout import Reader, read_json, read_table
from macd_studio.evals.benchmarks.questions import Questions, named
from macd_studio.evals.scoring.predictions import IDS, REMEDY, TEXTS, answer_of

CLIPS = ("video", "video_path", "video_name", "video_id", "videoid", "image_path", "image", "clip")
"""Names of what shows a question's clip, in any case; the first that is there counts."""
SPLITS = ("type", "regime", "category", "task_type")
SCORES = ("scores", "logits", "logprobs")
MAX_SCORES = 200

Scores = dict[str, float]
"""Word, in lower case → its score as a first token; a constant added to all changes nothing."""


def scores_of(reader: Reader) -> Scores:
    """The scores of a record, {} where it has none. Raises BenchmarkError for what is no number.

    An object of word → score as `scores`, `logits` or `logprobs`, or `margin`, that of yes less
    that of no; in the record itself, or in an object of it, as lmms-eval stores a metric.
    """
    for fields in (reader.record, *(v for v in reader.record.values() if isinstance(v, Mapping))):
        for name in SCORES:
            value = fields.get(name)
            if isinstance(value, str) and value.lstrip().startswith("{") and len(value) < 20_000:
                with suppress(ValueError, RecursionError):
                    value = json.loads(value)
            if isinstance(value, Mapping) and value:
                return _checked(reader, value)
        margin = fields.get("margin")
        if margin not in (None, ""):
            return _checked(reader, {"yes": margin, "no": 0.0})
    return {}


def _checked(reader: Reader, value: Mapping[str, Any]) -> Scores:
    if len(value) > MAX_SCORES:
        raise reader.fail(f"there are {len(value)} scores; give at most {MAX_SCORES}")
    scores: Scores = {}
    for word, score in value.items():
        found = math.nan
        if not isinstance(score, bool):
            with suppress(TypeError, ValueError, OverflowError):
                found = float(score)
        if not abs(found) < 1e9:
            raise reader.fail(f"the score of {shown(word)} is {shown(score)} instead of a number")
        plain = word.strip().lower()
        scores[plain] = max(found, scores.get(plain, -math.inf))
    return scores


def scores_by_id(path: Path) -> dict[str, Scores]:
    """Question id → scores, of a file of records; {} where it has none."""
    if path.suffix.lower() == ".json" and not isinstance(read_json(path, REMEDY), list):
        return {}
    readers = [Reader(path, where, r) for where, r in read_table(path, REMEDY)]
    found = {r.text(*IDS, default=""): scores_of(r) for r in readers}
    return {name: scores for name, scores in found.items() if name and scores}


def holds_questions(path: Path) -> bool:
    """Whether a file of records says of each what was asked, what is right and what was said."""
    try:
        if path.suffix.lower() == ".json" and not isinstance(read_json(path, REMEDY), list):
            return False
        records = read_table(path, REMEDY)
    except BenchmarkError:
        return False
    columns = {c.lower() for c in records[0][1]} if records else set()
    return {"question", "answer"} <= columns and bool(columns & set(TEXTS))


def no_clip(name: str) -> str:
    """What stands in the place of the clip of a question that names none. name: the question's."""
    return f"question {name}"


class AnsweredQuestions(Questions):
    """Own questions with an answer in each record, as VLMEvalKit's xlsx and tsv have them.

    texts, scores: question id → answer, and scores where the record has any. A question without
    an id is known by its clip and its words; one that names no clip stands for itself.
    """

    strict = False

    def __init__(self, data: Path) -> None:
        self.texts: dict[str, str | None] = {}
        self.scores: dict[str, Scores] = {}
        super().__init__(data, videos=False)

    def reader(self, file: Path, where: str, record: Mapping[str, Any]) -> Reader:
        """See `Questions.reader`."""
        fields = named(record)
        lower = {c.lower(): v for c, v in record.items() if v not in (None, "")}
        clip = next((str(lower[n])[:500] for n in CLIPS if n in lower), "")
        question = str(fields.get("question", ""))
        if fields.get("id") in (None, ""):
            fields["id"] = f"{clip}: {question}" if clip else question
        name = str(fields["id"]).strip()
        fields["video"] = clip or no_clip(name)
        kind = next((str(lower[n]) for n in SPLITS if n in lower), None)
        if kind is not None:
            fields["type"] = kind
        reader = Reader(file, where, fields)
        self.texts[name] = answer_of(reader)
        if scores := scores_of(reader):
            self.scores[name] = scores
        return reader
