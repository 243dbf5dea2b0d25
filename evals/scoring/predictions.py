"""Answers made elsewhere: files of predictions in the usual layouts → question id → text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from macd_studio.core.errors import BenchmarkError
from macd_studio.core.text.words import count
from macd_studio.core.validation import shown
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.benchmarks.layout import Reader, place, read_json, read_table, require_unique

IDS = ("id", "question_id", "item", "index")
TEXTS = ("prediction", "response", "text", "pred")
REMEDY = (
    "Give JSON of question id → answer, or records of id and prediction (JSON list, JSONL, CSV or"
    " XLSX)"
)


@dataclass(frozen=True)
class Predictions:
    """texts: question id → answer, None where the file has null. missing: questions without one.

    unknown: ids of answers to questions that the benchmark does not have. other: ids under which
    the file names another question than the benchmark; these answers are left out too.
    """

    texts: dict[str, str | None]
    missing: tuple[str, ...]
    unknown: tuple[str, ...] = ()
    other: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """The number of answers that are left out, in words; "" where there are none."""
        of = count(len(self.unknown) + len(self.other) + len(self.texts), "prediction")
        left_out = (
            (self.unknown, "answer questions that the benchmark does not have"),
            (self.other, "name another question under the same id"),
        )
        parts = [f"{len(ids)} of {of} {do}, such as {shown(ids[0])}" for ids, do in left_out if ids]
        return f"{'; '.join(parts)}; they are left out" if parts else ""


def read_predictions(path: Path, items: Iterable[Item]) -> Predictions:
    """The answers of a file.

    Raises BenchmarkError where none is of a question, where one comes twice, and where most records
    that name their question name another than the benchmark has under that id.

    Layouts: {id: answer}; records of an id (or question_id) and a prediction (or response, text);
    EventHallusion's {split: {video: {qa: [{question, prediction}]}}}; Video-MME's list of videos
    with questions of question_id and response; the samples that lmms-eval writes. Further fields
    and columns of a record are left alone.
    """
    by_id = {item.id: item for item in items}
    asked: dict[str, str] = {}
    pairs = list(_pairs(path, by_id, asked))
    require_unique(path, (name for name, _ in pairs))
    named = {n: q for n, q in asked.items() if q and n in by_id}
    other = [n for n, q in named.items() if not same_text(q, by_id[n].question)]
    if 2 * len(other) > len(named):
        raise BenchmarkError(
            f"{place(path)} answers different questions under the same ids: of {shown(other[0])}"
            f" {shown(named[other[0]], 80)} instead of {shown(by_id[other[0]].question, 80)}",
            "Give answers to the same questions, by the same ids",
        )
    texts = {name: text for name, text in pairs if name in by_id and name not in other}
    unknown = tuple(name for name, _ in pairs if name not in by_id)
    if unknown and not texts:
        raise BenchmarkError(
            f"{place(path)} answers {len(unknown)} questions, none of which the benchmark has;"
            f" the first is {shown(unknown[0])}",
            f"Use ids such as {shown(next(iter(by_id)))}",
        )
    if not texts:
        raise BenchmarkError(f"{place(path)} holds no prediction", REMEDY)
    missing = tuple(name for name in by_id if name not in texts)
    return Predictions(texts, missing, unknown, tuple(other))


def same_text(one: str, other: str) -> bool:
    """Whether two questions have the same words, or one holds the other's, as a prompt does."""
    a, b = (" ".join(re.findall(r"\w+", text.casefold())) for text in (one, other))
    return not a or not b or a in b or b in a


Pair = tuple[str, str | None]


def _pairs(path: Path, items: Mapping[str, Item], asked: dict[str, str]) -> Iterable[Pair]:
    """asked: gets id → question, where a record names it."""
    if path.suffix.lower() != ".json":
        readers = [Reader(path, where, r) for where, r in read_table(path, REMEDY)]
        if readers and all({"doc_id", "filtered_resps"} <= set(r.record) for r in readers):
            return samples_by_question(path, readers, items)
        return [_record(r, asked) for r in readers]
    value = read_json(path, REMEDY)
    if isinstance(value, Mapping):
        if all(isinstance(v, Mapping) for v in value.values()):
            return _published(path, value, items)
        return [(str(k), _text(path, str(k), v)) for k, v in value.items()]
    if not isinstance(value, list):
        raise BenchmarkError(f"{place(path)} holds {shown(value)}", REMEDY)
    records: list[Pair] = []
    for i, entry in enumerate(value, 1):
        reader = Reader(path, f"entry {i}", entry)
        if "questions" in reader.record:
            inner = reader.list("questions")
            records += [_record(Reader(path, f"entry {i}", q), asked) for q in inner]
        else:
            records.append(_record(reader, asked))
    return records


def _record(reader: Reader, asked: dict[str, str]) -> Pair:
    named = _any_case(reader)
    name, question = named.text(*IDS), named.record.get("question")
    if isinstance(question, str) and any(map(str.isalpha, question)):  # a number is another id
        asked[name] = question
    return name, answer_of(reader)


def _any_case(reader: Reader) -> Reader:
    """The record with its names in lower case beside them."""
    lower = {c.lower(): v for c, v in reader.record.items()}
    return Reader(reader.path, reader.where, lower | dict(reader.record))


def answer_of(reader: Reader) -> str | None:
    """A record's answer, None where it is null; the case of a column's name does not count.

    Raises BenchmarkError where it has none.
    """
    reader = _any_case(reader)
    if not any(t in reader.record for t in TEXTS):
        raise reader.fail(f"{' or '.join(map(repr, TEXTS))} is missing")
    value = next((reader.record[t] for t in TEXTS if reader.record.get(t) is not None), None)
    return _text(reader.path, reader.where, value)


def samples_by_question(path: Path, readers: list[Reader], items: Mapping[str, Item]) -> list[Pair]:
    """The samples of lmms-eval (0.7.3, `evaluation_tracker.save_results_samples`).

    They hold no document: a question is known by what a metric says of it, else by the number of
    its document in the order of the benchmark's files, of all of them or of one split, as MVBench's
    are. With numbers every prompt must hold its question, or the order is another one.
    """
    texts = [read_response(reader) for reader in readers]
    by_video = {(Path(i.clip.split("#")[0]).stem, i.question): i.id for i in items.values()}
    named = [_named(reader.record, by_video) for reader in readers]
    if all(name is not None for name in named):
        return [(str(name), text) for name, text in zip(named, texts, strict=True)]
    numbers = [reader.number("doc_id") for reader in readers]
    by_split: dict[str, list[Item]] = {"": list(items.values())}
    for item in items.values():
        by_split.setdefault(f"split {item.regime}", []).append(item)
    fitting: dict[tuple[str, ...], list[Pair]] = {}
    for members in by_split.values():
        chosen = [_numbered(members, n) for n in numbers]
        pairs = zip(chosen, readers, strict=True)
        if all(i is not None and i.question in str(r.record.get("input", "")) for i, r in pairs):
            ids = tuple(i.id for i in chosen if i is not None)
            fitting[ids] = list(zip(ids, texts, strict=True))
    if len(fitting) != 1:
        raise BenchmarkError(
            f"{place(path)} holds {count(len(readers), 'sample')} of lmms-eval, whose order is not"
            " that of the benchmark's questions" if not fitting else
            f"{place(path)} holds samples of lmms-eval that fit several splits",
            "Give records of id and prediction instead",
        )  # fmt: skip
    return next(iter(fitting.values()))


def _numbered(items: list[Item], number: float | None) -> Item | None:
    whole = number is not None and number == int(number) and 0 <= number < len(items)
    return items[int(number)] if whole and number is not None else None


def _named(record: Mapping[str, Any], by_video: Mapping[tuple[str, str], str]) -> str | None:
    """The question's id among a sample's fields, or the figures of its metrics.

    by_video: (video, question) → id, for those that hold these two, as Perception Test's do.
    """
    for fields in (record, *(v for v in record.values() if isinstance(v, Mapping))):
        for name in IDS:
            if isinstance(fields.get(name), str | int):
                return str(fields[name])
        asked = (str(fields.get("video_name")), str(fields.get("question")))
        if asked in by_video:
            return by_video[asked]
    return None


def read_response(reader: Reader) -> str | None:
    """A sample's answer. Raises BenchmarkError where there are several."""
    value = reader.record["filtered_resps"]
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, list):
        raise reader.fail(f"there are {len(value)} answers to one question")
    return _text(reader.path, reader.where, value)


def _text(path: Path, where: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise BenchmarkError(
            f"{place(path)}, {shown(where)}: the answer is {shown(value)} instead of text", REMEDY
        )
    return value


def _published(path: Path, value: Mapping[str, Any], items: Mapping[str, Item]) -> Iterable[Pair]:
    """EventHallusion's files: split → video → qa in the order of the questions."""
    for split, videos in value.items():
        for name, entry in videos.items():
            reader = Reader(path, f"{split}, {name}", entry)
            for i, answered in enumerate(reader.list("qa")):
                answer = Reader(path, f"{split}, {name}, question {i + 1}", answered)
                item = items.get(f"{name}/{i}")
                if item is not None and answer.text("question") != item.question:
                    raise answer.fail("another question is answered than the benchmark asks")
                yield f"{name}/{i}", _text(path, answer.where, answer.record.get("prediction"))
