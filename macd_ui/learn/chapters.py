"""Reads chapters and strings: one TOML file each, wholly validated before anything is shown.

A chapter:

    title, goal                   goal: what a reader can do afterwards
    opening                       a real clip before everything else, which asks nothing: text,
                                  view, light and show, as of a step
    text                          before the prediction; see below
    [prediction]                  question, options, answer, explanation; absent from a quiz chapter
    [[step]]                      what follows it: text, and at most one of
        view = "ROLE"             the trace of an example in the viewer, see `roles`
            light                 what of the viewer is outlined, a name of LIGHTS
            show                  layers that are switched on
        widget = "NAME"           a name of WIDGETS, with its `settings`
        task, done                what to do, and the name of what counts as having done it
        waits                     true: hidden until the task of the step before is done, whose
                                  answer it tells
    [quiz]                        set = a name of QUIZZES
    misconceptions                for teachers: list of {belief, instead}, and maybe {options}: the
                                  options of the prediction that show it where they are wrong

Placeholders are filled in before anything is read: `{{key}}` by a value, and `{{key?a|b|c}}` by one
of several wordings, by the number that the key stands for, so that a sentence stays true when a
figure changes.

Texts become plain lists that a script can show without ever reading markup:

    A paragraph ends at a blank line.      - a line like this is an item of a list
    = a line like this is a formula        **strong**, *emphasised*, `code`
    [[term]], [[shown text|term]]          a term of the glossary, which explains itself
    $V$, $V_d$, $α$                        a symbol, coloured as in the plots

Everything else is text. A block is ["p" | "formula", spans] or ["ul", [spans, …]]; a span is a text
or [kind, text] or, for a term, ["term", text, term].
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from macd_studio.core.errors import OptionError
from macd_studio.macd_ui.learn.markup import Block, Span, blocks, plain, spans
from macd_studio.viewer.glossary import terms

HERE = Path(__file__).resolve().parent
CHAPTERS, STRINGS = HERE / "chapters", HERE / "strings"
Value = str | int

LIGHTS = {
    "stage": ".mv-stage", "objects": ".mv-rail", "tokens": ".mv-tokens", "answer": ".mv-headline",
    "compare": ".mv-compare",
}  # fmt: skip
"""What of the viewer can be outlined → its selector."""
QUIZZES = {"before", "after", "real"}
"""Sets of clips that a chapter can ask about: drawn ones before and after the course, and of a
camera."""
LAYERS = {"boxes", "soft", "levels", "counter", "model"}
VIEW_GOALS = {"frames", "object", "counterfactual", "token", "guessed"}
"""What can be asked for in the viewer; js/live.js knows when each is reached."""
NEEDS_MODEL = "guessed"
"""The one of them that nobody reaches where no model runs."""
WIDGETS = {
    "patches": {"all-frames"},
    "fade": {"faded"},
    "contrast": {"flip"},
    "softmax": {"second-view", "constant"},
    "lean": {"revealed"},
    "subsets": {"chosen"},
    "words": {"every-token"},
    "shift": {"same-answer"},
    "intervals": {"three"},
    "table": {"judged"},
}
"""Widget → its goals; js/widgets.js knows when each is reached."""
WORDS_PER_MINUTE = 150
"""Of text with formulas, read once; slower than a story is read."""
PREDICTION_MIN, TASK_MIN, CLIP_MIN = 1.0, 1.5, 1.0
"""Minutes of thought for a prediction, of a task with its widget, and of a clip of the quiz."""


@dataclass(frozen=True)
class Prediction:
    """A question asked before anything is shown. answer: index of the right option."""

    question: list[Span]
    options: list[list[Span]]
    answer: int
    explanation: list[Block]


@dataclass(frozen=True)
class Step:
    """What follows the prediction; see the module."""

    text: list[Block]
    view: str = ""
    light: str = ""
    show: tuple[str, ...] = ()
    widget: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    task: list[Span] = field(default_factory=list)
    done: str = ""
    waits: bool = False


@dataclass(frozen=True)
class Chapter:
    """One file. name: of the file, without its ending; quiz: "" or a name of QUIZZES.

    minutes: an estimate from what there is to read and to do, see `minutes_of`.
    """

    name: str
    title: str
    goal: str
    minutes: int
    text: list[Block]
    prediction: Prediction | None
    steps: tuple[Step, ...]
    quiz: str
    misconceptions: tuple[tuple[str, str], ...]
    shown_by: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """(belief, indices of the options of the prediction that show it)."""
    opening: Step | None = None

    @property
    def roles(self) -> tuple[str, ...]:
        """Roles of the examples that its viewers show."""
        return tuple(dict.fromkeys(step.view for step in self.steps if step.view))


def languages() -> list[str]:
    """Those with a file of strings, English first."""
    return sorted((p.stem for p in STRINGS.glob("*.toml")), key=lambda name: (name != "en", name))


def read_chapters(language: str, values: Mapping[str, Value]) -> list[Chapter]:
    """The chapters in the order of their files. Raises OptionError that names file and field."""
    files = sorted((CHAPTERS / language).glob("[0-9][0-9]-*.toml"))
    if not files:
        raise OptionError(
            f"there are no chapters in {language!r}", f"Choose one of {', '.join(languages())}"
        )
    return [read_chapter(file, values) for file in files]


def read_strings(language: str, folder: Path | None = None) -> dict[str, str]:
    """Texts of the interface. Raises OptionError where one is missing or not a text."""
    texts = _toml((folder or STRINGS) / f"{language}.toml")
    texts.pop("glossary", None)  # see `read_glossary`
    english = _toml(STRINGS / "en.toml")
    wrong = sorted(set(english) ^ set(texts)) or [k for k, v in texts.items() if type(v) is not str]
    if wrong:
        raise OptionError(
            f"{language}.toml: {', '.join(wrong)}: missing, unknown or not a text",
            "Give each string of en.toml",
        )
    return texts


def read_glossary(language: str, folder: Path | None = None) -> dict[str, str]:
    """Term → its meaning, in English where the language does not give it.

    The names stay English: they are those of the viewer and of the literature. Raises OptionError
    for a term that the glossary does not have, and for a meaning that is not a text.
    """
    english = {term.name: term.meaning for term in terms()}
    own = _toml((folder or STRINGS) / f"{language}.toml").get("glossary", {})
    if type(own) is not dict:
        raise OptionError(f"{language}.toml: glossary is not a table", "Write [glossary]")
    wrong = [
        k for k, v in own.items() if k not in english or type(v) is not str or not v.strip(" .")
    ]
    if wrong:
        raise OptionError(
            f"{language}.toml: glossary: {', '.join(wrong)}: no term, or its meaning is not a text",
            "Name terms of viewer/glossary.toml and give each a sentence",
        )
    return english | {name: meaning.strip().rstrip(".") for name, meaning in own.items()}


def read_chapter(file: Path, values: Mapping[str, Value]) -> Chapter:
    """One chapter. Raises OptionError that names file and field."""
    try:
        raw = _Table(fill(_toml(file), values), "")
        chapter = Chapter(
            name=file.stem,
            title=raw.text("title"),
            goal=raw.text("goal"),
            minutes=0,
            text=blocks(raw.text("text")),
            prediction=_prediction(raw.table("prediction")) if "prediction" in raw.rest else None,
            steps=_steps(raw.tables("step")),
            quiz=_quiz(raw.table("quiz")) if "quiz" in raw.rest else "",
            misconceptions=(),
            opening=_opening(raw.table("opening")) if "opening" in raw.rest else None,
        )
        chapter = _with_misconceptions(chapter, raw.tables("misconceptions"))
        raw.finish()
        if (chapter.prediction is None) == (chapter.quiz == ""):
            raise OptionError("a chapter has either a prediction or a quiz", "Give one of them")
        clips = int(values.get(f"quiz.{chapter.quiz}.clips", 0))
    except OptionError as error:
        raise OptionError(f"{file.name}: {error.cause}", error.remedy) from error
    return replace(chapter, minutes=minutes_of(chapter, clips))


def _with_misconceptions(chapter: Chapter, rows: Sequence[_Table]) -> Chapter:
    believed, shown_by = [], []
    offered = len(chapter.prediction.options) if chapter.prediction else 0
    for row in rows:
        believed.append((row.text("belief"), row.text("instead")))
        options = row.take("options", list) if "options" in row.rest else []
        if not all(type(n) is int and 0 <= n < offered for n in options):
            raise OptionError(f"{row.where}options", f"Name options from 0 to {offered - 1}")
        row.finish()
        if options:
            shown_by.append((believed[-1][0], tuple(options)))
    return replace(chapter, misconceptions=tuple(believed), shown_by=tuple(shown_by))


def minutes_of(chapter: Chapter, clips: int = 0) -> int:
    """Whole minutes that a reader is expected to take. clips: of its quiz.

    An estimate from the length of the texts and the number of things to do; nobody was timed.
    """
    opening = [chapter.opening] if chapter.opening else []
    texts = [*chapter.text, *(b for step in (*opening, *chapter.steps) for b in step.text)]
    spoken = [plain(step.task) for step in chapter.steps]
    minutes = CLIP_MIN * clips + TASK_MIN * sum(bool(step.done) for step in chapter.steps)
    if chapter.prediction is not None:
        texts += chapter.prediction.explanation
        prediction = chapter.prediction
        spoken += [plain(prediction.question), *map(plain, prediction.options)]
        minutes += PREDICTION_MIN
    words = sum(len(text.split()) for text in (*spoken, *map(_text_of, texts)))
    return max(1, round(minutes + words / WORDS_PER_MINUTE))


def _text_of(block: Block) -> str:
    kind, content = block
    return " ".join(map(plain, content)) if kind == "ul" else plain(content)


def _toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OptionError(f"{file.name} cannot be read: {error}", "Write it as TOML") from error


class _Table:
    """A TOML table whose keys must all be read, so that an unknown key is an error."""

    def __init__(self, rest: dict[str, Any], where: str) -> None:
        self.rest, self.where = dict(rest), where

    def take(self, key: str, kind: type) -> Any:
        if key not in self.rest:
            raise OptionError(f"{self.where}{key} is missing", "Give it")
        value = self.rest.pop(key)
        if type(value) is not kind:
            raise OptionError(
                f"{self.where}{key} is not of type {kind.__name__}",
                "Write it as chapters.py describes",
            )
        return value

    def text(self, key: str, default: str | None = None) -> str:
        if default is not None and key not in self.rest:
            return default
        text: str = self.take(key, str)
        if not text.strip():
            raise OptionError(f"{self.where}{key} is blank", "Write it")
        return text.strip()

    def whole(self, key: str, low: int, high: int) -> int:
        value: int = self.take(key, int)
        if not low <= value <= high:
            raise OptionError(f"{self.where}{key} is {value}", f"Choose {low} to {high}")
        return value

    def one_of(self, key: str, names: set[str]) -> str:
        value = self.text(key)
        if value not in names:
            raise OptionError(
                f"{self.where}{key} is {value!r}", f"Choose one of {', '.join(sorted(names))}"
            )
        return value

    def texts(self, key: str) -> list[str]:
        values = self.take(key, list)
        if not all(type(v) is str and v.strip() for v in values):
            raise OptionError(f"{self.where}{key} holds something that is not text", "Write texts")
        return list(values)

    def table(self, key: str) -> _Table:
        return _Table(self.take(key, dict), f"{key}.")

    def tables(self, key: str) -> list[_Table]:
        rows = self.take(key, list) if key in self.rest else []
        if not all(type(row) is dict for row in rows):
            raise OptionError(f"{key} holds something that is not a table", f"Write [[{key}]]")
        return [_Table(row, f"{key} {i + 1}: ") for i, row in enumerate(rows)]

    def finish(self) -> None:
        if self.rest:
            raise OptionError(
                f"{self.where}{', '.join(sorted(self.rest))} is not known",
                "Write it as chapters.py describes",
            )


def _prediction(raw: _Table) -> Prediction:
    options = raw.texts("options")
    if not 2 <= len(options) <= 5:
        raise OptionError(f"prediction.options are {len(options)}", "Give 2 to 5")
    answer = raw.rest.get("answer")
    if type(answer) is str and answer.isdecimal():  # as a placeholder is filled in
        raw.rest["answer"] = int(answer)
    prediction = Prediction(
        question=spans(raw.text("question")),
        options=[spans(option) for option in options],
        answer=raw.whole("answer", 0, len(options) - 1),
        explanation=blocks(raw.text("explanation")),
    )
    raw.finish()
    return prediction


def _steps(rows: Sequence[_Table]) -> tuple[Step, ...]:
    steps: list[Step] = []
    for row in rows:
        step = _step(row)
        if step.waits and not (steps and steps[-1].done):
            raise OptionError(f"{row.where}waits for no task", "Give the step before it a task")
        steps.append(step)
    return tuple(steps)


def _opening(raw: _Table) -> Step:
    step = _step(raw)
    if not step.view or step.done or step.waits:
        raise OptionError("opening shows no view, or asks something", "Give view, and no task")
    return step


def _step(raw: _Table) -> Step:
    if "view" in raw.rest and "widget" in raw.rest:
        raise OptionError(f"{raw.where}view and widget", "Give one of them a step of its own")
    text = blocks(raw.text("text"))
    view, widget, light, goals, show = "", "", "", set[str](), list[str]()
    settings: dict[str, Any] = {}
    if "view" in raw.rest:
        from macd_studio.macd_ui.learn.roles import ROLES

        view, goals = raw.one_of("view", set(ROLES)), VIEW_GOALS
        light = raw.one_of("light", set(LIGHTS)) if "light" in raw.rest else ""
        show = raw.texts("show") if "show" in raw.rest else []
        if set(show) - LAYERS:
            raise OptionError(f"{raw.where}show", f"Choose one of {', '.join(sorted(LAYERS))}")
    elif "widget" in raw.rest:
        widget = raw.one_of("widget", set(WIDGETS))
        goals = WIDGETS[widget]
        settings = raw.take("settings", dict) if "settings" in raw.rest else {}
    if ("task" in raw.rest) != ("done" in raw.rest):
        raise OptionError(f"{raw.where}task and done", "Give both or none")
    step = Step(
        text=text,
        view=view,
        light=light,
        show=tuple(show),
        widget=widget,
        settings=settings,
        task=spans(raw.text("task")) if "task" in raw.rest else [],
        done=raw.one_of("done", goals) if "done" in raw.rest else "",
        waits=raw.take("waits", bool) if "waits" in raw.rest else False,
    )
    raw.finish()
    return step


def _quiz(raw: _Table) -> str:
    name = raw.one_of("set", QUIZZES)
    raw.finish()
    return name


_PLACE = re.compile(r"\{\{([^{}?|]+)(?:\?([^{}]*))?\}\}")
"""Holds no other one, so that a wording may hold placeholders, which are filled in before it."""


def placeholders(file: Path) -> set[str]:
    """The keys that a chapter's file names."""
    return {match[1].strip() for match in _PLACE.finditer(file.read_text(encoding="utf-8"))}


def fill(content: Any, values: Mapping[str, Value]) -> Any:
    """The content with every placeholder filled in. Raises OptionError for an unknown key.

    >>> fill({"a": ["{{n}} clips, {{sign?more|fewer}}"]}, {"n": "24", "sign": 1})
    {'a': ['24 clips, fewer']}
    """
    if isinstance(content, dict):
        return {key: fill(value, values) for key, value in content.items()}
    if isinstance(content, list):
        return [fill(value, values) for value in content]
    if not isinstance(content, str):
        return content

    def filled(match: re.Match[str]) -> str:
        key = match[1].strip()
        if key not in values:
            raise OptionError(
                f"{{{{{key}}}}} is not known",
                "See macd_ui/learn/lessons.py; for a figure run python -m macd_ui.learn.figures",
            )
        value = values[key]
        if match[2] is None:
            return str(value)
        wordings = match[2].split("|")
        if type(value) is not int or not 0 <= value < len(wordings):
            raise OptionError(f"{{{{{key}}}}} chooses no wording", "Give one for each case")
        return wordings[value]

    while (text := _PLACE.sub(filled, content)) != content:
        content = text
    return content
