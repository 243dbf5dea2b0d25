"""`python -m macd_ui.learn collect FOLDER`: what a class predicted, from the files it saved.

Each `.json` file in FOLDER is one that *Save as JSON* wrote on the results page. Nothing in it is
trusted: its size, its form, its edition of the course are checked, and that the course asks these
questions with these options; a file that fails is named and left out. The course says what is
right. Told are counts of the class, question by question: what was predicted, how often that was
right, and how many answers show a misconception. A pupil may have typed a name: it is told with
`--names` alone. Names of files are not kept.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from macd_studio.core.errors import OptionError
from macd_studio.core.text.words import count, in_markdown, visible
from macd_studio.core.validation import Many, Number, Text
from macd_studio.macd_ui.learn.chapters import Chapter
from macd_studio.macd_ui.learn.markup import plain

MAX_FILES, MAX_BYTES, MAX_ANSWERS = 2000, 200_000, 200
"""Of a folder; of a file; of the predictions, and of the choices, in one."""
HANDS = Number(0, 999, whole=True)
NAME = Text(60)
"""What a pupil may type as a name; the page's field takes as much."""
QUIZ_TITLES = {"before": "Before the course", "after": "Chapter 8", "real": "Chapter 9"}
"""The sets of clips with questions, by the beginning of their ids."""
_ID = re.compile(r"[a-z0-9-]{1,60}(/[0-9]{1,3})?")
_OBJECTS = Many(Number(0, 2**31 - 1, whole=True), 0, 64)


@dataclass(frozen=True)
class Question:
    """What can be answered. options: how many there are; right: the index of the right one."""

    options: int
    right: int


@dataclass
class Asked:
    """The answers to one question: who chose what. right: the index of the right option; options:
    their counts; people: who answered; sure: the sum of their confidences, of those who gave one.
    """

    right: int
    options: Counter[int] = field(default_factory=Counter)
    people: int = 0
    alone: int = 0
    sure: float = 0.0


@dataclass(frozen=True)
class Pupil:
    """One file. name: what was typed, "" for nothing; predictions of chapters, and how many of them
    were right; confidence: their mean, [0, 1], NaN without one; clips: by quiz, how many of its
    answers were right, and how many there are."""

    name: str
    predictions: int
    right: int
    confidence: float
    clips: Mapping[str, tuple[int, int]]


@dataclass
class Class:
    """What a folder of saved answers holds. refused: why, for each file that was left out."""

    files: int = 0
    pupils: list[Pupil] = field(default_factory=list)
    asked: dict[str, Asked] = field(default_factory=dict)
    chosen: dict[str, Counter[tuple[int, ...]]] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)


def collect(folder: Path, edition: str, questions: Mapping[str, Question]) -> Class:
    """The saved answers of a folder. Raises OptionError where it holds none, or too many.

    edition: of the course; answers to another one are about other questions. questions: of the
    course, by id.
    """
    if not folder.is_dir():
        raise OptionError(f"{visible(str(folder))[:200]} is no folder", "Give one of saved answers")
    files = sorted(p for p in folder.iterdir() if p.suffix.lower() == ".json")
    if not files or len(files) > MAX_FILES:
        raise OptionError(
            f"the folder holds {count(len(files), '.json file')}",
            f"Put 1 to {MAX_FILES} files there that *Save as JSON* wrote",
        )
    found = Class()
    for file in files:
        try:
            _add(found, read_saved(file, edition, questions), questions)
        except OptionError as error:
            found.refused.append(f"{file.name[:80]}: {error.cause}")
    return found


def read_saved(file: Path, edition: str, questions: Mapping[str, Question]) -> dict[str, Any]:
    """One saved file, checked. Raises OptionError that says what is wrong with it."""
    remedy = "Save the results again"
    if file.is_symlink() or not file.is_file() or file.stat().st_size > MAX_BYTES:
        raise OptionError(f"no file of at most {MAX_BYTES // 1000} kB", remedy)
    try:
        content = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        raise OptionError("not JSON", remedy) from None
    if not isinstance(content, dict) or content.get("course") != "macd-learn":
        raise OptionError("not saved by this course", remedy)
    if content.get("edition") != edition:
        raise OptionError(
            "of another edition of the course", "Collect with the version that was used"
        )
    name = " ".join(NAME.read(content.get("name", ""), "name").split())
    parts = {part: content.get(part, {}) for part in ("answers", "chosen")}
    for name_of, part in parts.items():
        if not isinstance(part, dict) or len(part) > MAX_ANSWERS:
            raise OptionError(f"{name_of}: no table of at most {MAX_ANSWERS}", remedy)
        if not all(_ID.fullmatch(key) for key in part):
            raise OptionError(f"{name_of}: a name that no question has", remedy)
    for key, answer in parts["answers"].items():
        if key not in questions:
            raise OptionError(f"answers: the course has no question {key!r}", remedy)
        _check_answer(answer, key, questions[key].options)
    for key, objects in parts["chosen"].items():
        _OBJECTS.read(objects, key)
    return {"name": name, **parts}


def _check_answer(answer: Any, where: str, options: int) -> None:
    if not isinstance(answer, dict):
        raise OptionError(f"{where}: no answer", "Save the results again")
    Number(0, options - 1, whole=True).read(answer.get("choice"), f"{where}: choice")
    Number(0.0, 1.0).read(answer.get("confidence"), f"{where}: confidence")
    if "counts" in answer:
        hands = Many(HANDS, options, options).read(answer["counts"], f"{where}: counts")
        if not any(hands):
            raise OptionError(f"{where}: counts are all 0", "Save the results again")


def _add(found: Class, saved: Mapping[str, Any], questions: Mapping[str, Question]) -> None:
    found.files += 1
    found.pupils.append(_pupil(saved, questions))
    for key, answer in saved["answers"].items():
        asked = found.asked.setdefault(key, Asked(questions[key].right))
        if hands := answer.get("counts"):  # a class that answered together
            asked.options.update(dict(enumerate(hands)))
            asked.people += sum(hands)
            continue
        asked.options[answer["choice"]] += 1
        asked.people += 1
        asked.alone += 1
        asked.sure += answer["confidence"]
    for key, objects in saved["chosen"].items():
        found.chosen.setdefault(key, Counter())[tuple(sorted(set(objects)))] += 1


def _pupil(saved: Mapping[str, Any], questions: Mapping[str, Question]) -> Pupil:
    def score(quiz: str) -> tuple[int, int]:
        own = [key for key in saved["answers"] if key.rpartition("/")[0] == quiz]
        right = sum(saved["answers"][key]["choice"] == questions[key].right for key in own)
        return right, len(own)

    told = [a["confidence"] for key, a in saved["answers"].items() if "/" not in key]
    right, n = score("")
    sure = sum(told) / n if n else float("nan")
    return Pupil(saved["name"], n, right, sure, {quiz: score(quiz) for quiz in QUIZ_TITLES})


def names(found: Class) -> str:
    """Who handed in, by name, and what each predicted, as a table in Markdown."""
    lines = [
        "## Names",
        "",
        f"| name | predictions | right | mean confidence | {' | '.join(QUIZ_TITLES.values())} |",
        "|---|---|---|---|" + "---|" * len(QUIZ_TITLES),
    ]
    for p in sorted(found.pupils, key=lambda p: (p.name == "", p.name.casefold())):
        name = in_markdown(p.name) or "no name"
        sure = f"{p.confidence:.0%}" if p.predictions else "–"
        clips = " | ".join(f"{right} of {n}" if n else "–" for right, n in p.clips.values())
        lines.append(f"| {name} | {p.predictions} | {p.right} | {sure} | {clips} |")
    twice = [n for n, k in Counter(p.name for p in found.pupils if p.name).items() if k > 1]
    if twice:
        lines += ["", f"More than one file: {', '.join(in_markdown(n) for n in sorted(twice))}."]
    return "\n".join(lines) + "\n"


def report(found: Class, chapters: Sequence[Chapter], subsets: Mapping[str, Task]) -> str:
    """What the class predicted, and its misconceptions, as Markdown.

    subsets: place of a task in which objects are chosen → what is known of it.
    """
    lines = [f"# What {count(found.files, 'file')} of saved answers hold", ""]
    for number, chapter in enumerate(chapters):
        asked = found.asked.get(chapter.name)
        if asked is not None and chapter.prediction is not None:
            lines += _of_chapter(number, chapter, asked)
        for i, _ in enumerate(chapter.steps):
            task, chosen = subsets.get(where := f"{chapter.name}/{i}"), found.chosen.get(where)
            if task is not None and chosen:
                lines += _of_task(chapter, task, chosen)
    quizzes = [(title, _quiz(found, name)) for name, title in QUIZ_TITLES.items()]
    lines += [f"- {title}: {told}" for title, told in quizzes if told]
    if found.refused:
        lines += ["", f"{count(len(found.refused), 'file')} left out:", ""]
        lines += [f"- {in_markdown(why)}" for why in found.refused]
    return "\n".join(lines).rstrip() + "\n"


def _of_chapter(number: int, chapter: Chapter, asked: Asked) -> list[str]:
    prediction = chapter.prediction
    assert prediction is not None
    lines = [f"## {number}. {chapter.title}", "", plain(prediction.question), ""]
    for i, option in enumerate(prediction.options):
        mark = " (right)" if i == prediction.answer else ""
        lines.append(f"- {asked.options[i]} of {asked.people}: {plain(option)}{mark}")
    if asked.alone:
        lines.append(f"- mean confidence {100 * asked.sure / asked.alone:.0f} %")
    for belief, options in chapter.shown_by:
        n = sum(asked.options[i] for i in options if i != prediction.answer)
        if n:
            lines.append(f"- **Misconception, {n} of {asked.people}:** {belief}")
    return [*lines, ""]


@dataclass(frozen=True)
class Task:
    """A choice of objects. labels: id → name; right: the subsets that repair the answer; asked: the
    obvious choice, the objects that the question names, () where it names none."""

    labels: Mapping[int, str]
    right: frozenset[tuple[int, ...]]
    asked: tuple[int, ...]


def _of_task(chapter: Chapter, task: Task, chosen: Counter[tuple[int, ...]]) -> list[str]:
    people, right = chosen.total(), sum(n for ids, n in chosen.items() if ids in task.right)
    lines = [f"### Objects to hide ({chapter.title})", "",
             f"- {right} of {people} chose objects that repair the answer"]  # fmt: skip
    for ids, n in sorted(chosen.items(), key=lambda one: (-one[1], one[0])):
        names = ", ".join(task.labels.get(i, "?") for i in ids) or "no object"
        lines.append(f"- {n}: {names}{' (right)' if ids in task.right else ''}")
    everything = tuple(sorted(task.labels))
    for wrong, belief in (
        (everything, "Hiding everything is the surest way."),
        (tuple(sorted(task.asked)), "What is asked about is what has to be hidden."),
    ):
        if wrong and wrong not in task.right and chosen[wrong]:
            lines.append(f"- **Misconception, {chosen[wrong]} of {people}:** {belief}")
    return [*lines, ""]


def _quiz(found: Class, name: str) -> str:
    own = [asked for key, asked in found.asked.items() if key.startswith(f"{name}/")]
    if not own:
        return ""
    sure = sum(a.sure for a in own) / max(1, sum(a.alone for a in own))
    right = sum(a.options[a.right] for a in own)
    said = f"{right} of {count(sum(a.people for a in own), 'answer')} to"
    said += f" {count(len(own), 'question')} right"
    return said + (f", mean confidence {100 * sure:.0f} %" if math.isfinite(sure) else "")
