"""Scoring rules as published, by name, each with its source; none needs a model.

The rules are reimplemented from the sources with their oddities, because these make two published
figures differ. `read` gives what an answer says; `right` whether it counts. What a model thought
before it answered is taken away first, by every rule.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from macd_studio.evals.benchmarks.base import LETTERS, Item
from macd_studio.evals.benchmarks.questions import WORD_MARK
from macd_studio.evals.scoring import harnesses
from macd_studio.evals.scoring.harnesses import LMMS_EVAL, VLMEVALKIT, Accept, Drop, Read
from macd_studio.evals.statistics.metrics import normalised

FAILED = "[failed]"
"""Stands for an answer that could not be computed, where a file has to hold some text. It names no
option and neither yes nor no, so that no rule of a harness takes it for an answer.
"""
PREFIXES = (
    "The best answer is",
    "The correct answer is",
    "The answer is",
    "The answer",
    "The best option isThe correct option is",
    "Best answer:Best option:",
)
"""What Video-MME's scorer takes away; a comma is missing twice in it, so two pairs are one."""

_THOUGHT = re.compile(r"<(think|thinking|analysis)>.*?</\1>", re.DOTALL)
_THOUGHT_END = re.compile(r".*</(?:think|thinking|analysis)>", re.DOTALL)
_THOUGHT_START = re.compile(r"<(?:think|thinking|analysis)>.*", re.DOTALL)


def spoken(text: str | None) -> str | None:
    """The answer without what the model thought; None where nothing else is there.

    An answer without such a span stays as it is, blanks included. A span that begins in the prompt
    has its end here only; one that does not end was cut off before any answer came.

    >>> spoken("<think>A or B?</think> (B)"), spoken("A?</think>B"), spoken(" B")
    ('(B)', 'B', ' B')
    >>> spoken("<think>A or") is spoken("[failed]") is spoken(None) is None
    True
    """
    if text is None or text.strip() == FAILED:
        return None
    rest = _THOUGHT.sub("", text)
    rest = _THOUGHT_START.sub("", _THOUGHT_END.sub("", rest))
    return text if rest == text else rest.strip() or None


def is_thought_without_answer(text: str | None) -> bool:
    """Whether an answer holds what the model thought and nothing else."""
    return bool(text and text.strip() not in ("", FAILED)) and spoken(text) is None


@dataclass(frozen=True)
class Rule:
    """How one program scores. An answer of None was never given.

    version: of the program, where the rule belongs to one that changes. reading: what the answer is
    taken to say, None where nothing can be read. accepting: whether it counts as right; by default
    where what was read is the truth. dropping: whether an answer that says nothing is left out of
    the denominator instead of counting as wrong. All three get what `spoken` leaves.
    """

    name: str
    source: str
    reading: Read
    accepting: Accept | None = None
    dropping: Drop | None = None
    version: str = ""

    @property
    def title(self) -> str:
        """The name with the version."""
        return f"{self.name} {self.version}".rstrip()

    def read(self, text: str | None, item: Item) -> str | None:
        """What the answer says: "yes" or "no", a letter, or words; None where nothing is read."""
        return self.reading(spoken(text) or "", item)

    def right(self, text: str | None, item: Item) -> bool:
        """Whether the answer counts as right; one that was never given does not."""
        said = spoken(text)
        if said is None:
            return False
        if self.accepting is not None:
            return self.accepting(said, item)
        return self.reading(said, item) == item.truth

    def drops(self, text: str | None, item: Item) -> bool:
        """Whether the answer is left out of the denominator."""
        return self.dropping is not None and self.dropping(spoken(text) or "", item)


def starts_yes_no(text: str, item: Item) -> str | None:
    """The answer's first letters, in any case and without skipping blanks."""
    lower = text.lower()
    return "yes" if lower.startswith("yes") else "no" if lower.startswith("no") else None


def word_yes_no(text: str, item: Item) -> str | None:
    """Whichever of the two words is somewhere in the answer, None where both or neither is.

    Words of another language that the question's file gives count as these.
    """
    found: set[str] = set(re.findall(r"\b(yes|no)\b", text.lower()))
    if len(item.options) == 2 and item.kind == "yes-no":
        plain = text.casefold()
        for word, meant in zip(item.options, ("yes", "no"), strict=True):
            if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", plain):
                found.add(meant)
    return found.pop() if len(found) == 1 else None


def pope_yes_no(text: str, item: Item) -> str:
    """No where the first sentence has "No", "no" or "not" between blanks, else yes."""
    words = text.split(".")[0].replace(",", "").split(" ")
    return "no" if {"No", "no", "not"} & set(words) else "yes"


_WHOLE = re.compile(r"\(?([A-Za-z])[).:,]?")
_LEADING = re.compile(r"\(?([A-Z])(?:[).:,]|\s*$|\s*\n)|\(([a-z])\)")
_ANNOUNCED = re.compile(r"(?i:\b(?:answer|option|choice)\b(?:\s+is)?)\s*:?\s*\(?([A-Z])\b")
_ALONE = re.compile(r"(?<![\w'])([A-Z])(?![\w'])")
_ARTICLE = re.compile(r"(?<![\w'])A(?= (?!(?:or|and|is)\b)[a-z])")


def choice(text: str, item: Item) -> str | None:
    """A letter that leads the answer, or is announced, or stands alone; or an option's own words.

    A small letter counts where it is all that is said, or in brackets. Neither "A dog" nor "Cannot
    tell" is a letter; of two different letters none is read.
    """
    plain = text.strip()
    letters = LETTERS[: len(item.options)]
    if match := _WHOLE.fullmatch(plain) or _LEADING.match(plain):
        letter: str = next(filter(None, match.groups())).upper()
        if letter in letters:
            return letter
    options = [normalised(o) for o in item.options]
    if plain and normalised(plain) in options:
        return LETTERS[options.index(normalised(plain))]
    announced: set[str] = {z for z in _ANNOUNCED.findall(plain) if z in letters}
    announced = announced - ({"A"} if _ARTICLE.search(plain) else set()) or announced
    if len(announced) == 1:
        return announced.pop()
    alone: set[str] = {z for z in _ALONE.findall(_ARTICLE.sub("", plain)) if z in letters}
    return alone.pop() if len(alone) == 1 else None


_RUN = re.compile(r"(?<![\w'])[A-Z]{2,}(?![\w'])")


def several(text: str, item: Item) -> str | None:
    """All letters that stand alone or in a run such as "AC", in order; else the options named.

    A run counts where all of its letters are options, each once. None where nothing is named.
    """
    plain = text.strip()
    letters = LETTERS[: len(item.options)]
    if len(plain) <= len(letters) and plain.isalpha() and set(plain.upper()) <= set(letters):
        return "".join(sorted(set(plain.upper())))
    found: set[str] = {z for z in _ALONE.findall(_ARTICLE.sub("", plain)) if z in letters}
    for run in _RUN.findall(plain):
        if set(run) <= set(letters) and len(set(run)) == len(run):
            found |= set(run)
    if not found:
        said = normalised(plain)
        found = {
            letters[i]
            for i, option in enumerate(item.options)
            if re.search(rf"(?<!\w){re.escape(normalised(option))}(?!\w)", said)
        }
    return "".join(sorted(found)) or None


def first_capital(prefixes: tuple[str, ...]) -> Callable[[str, Item], str | None]:
    """The first capital A to D anywhere, "Cannot tell" included, once `prefixes` are taken away."""

    def read(text: str, item: Item) -> str | None:
        plain = text.strip()
        for prefix in prefixes:
            plain = plain.replace(prefix, "")
        match = re.search("[ABCD]", plain)
        return match[0] if match else None

    return read


def words(text: str, item: Item) -> str | None:
    """The whole answer, without regard to case and a final stop."""
    return normalised(text) or None


def _same_words(text: str, item: Item) -> bool:
    return normalised(text) in map(normalised, item.truth.split(WORD_MARK))


_MVBENCH = "check_ans of video_chat2/mvbench.ipynb, OpenGVLab/Ask-Anything"
_HALLUCER = "evaluation_utils.py of patrick-tssn/VideoHallucer"
_VIDHALLUC = "CyL97/VidHalluc (e753864)"
_VIDPAIR = "JethroJames/VidPair-Halluc"
_CAPITAL = first_capital(PREFIXES)

YES_NO = (Rule("strict", "this project: the word yes or no, not both", word_yes_no),)
CHOICE = (Rule("letter", "this project: a letter that is meant as one, or an option", choice),)
CHOICES = (Rule("letters", "this project: the letters that are meant, all right and no other",
                several),)  # fmt: skip
WORDS = (Rule("words", "this project: the same words", words, _same_words),)
OWN = ("strict", "letter", "words", "letters")
"""This project's rules, of each kind of question one; the first stands for all of them."""

RULES: dict[str, tuple[Rule, ...]] = {
    "eventhallusion": (
        Rule(
            "official",
            "eval.py of Stevetich/EventHallusion (3c7efa1): starts with yes or no; else unmatched",
            starts_yes_no,
        ),
        *YES_NO,
    ),
    "video-pope": (
        *YES_NO,
        Rule("pope", "evaluate.py of RUCAIBox/POPE (3df3ba1), the benchmark of images: what is not"
             " no is yes", pope_yes_no),
    ),
    "mvbench": (
        Rule("official", f"{_MVBENCH} (71ac7a2)", harnesses.first_word,
             harnesses.shares_first_word),
        *CHOICE,
        Rule(
            "lmms-eval",
            "lmms_eval/tasks/mvbench/utils.py; empty answers are left out",
            harnesses.mvbench_lmms,
            harnesses.mvbench_lmms_accepts,
            dropping=lambda text, item: not text,
            version=LMMS_EVAL,
        ),
        Rule(
            "vlmevalkit",
            "vlmeval/dataset/mvbench.py without a judge",
            harnesses.mvbench_kit,
            harnesses.mvbench_kit_accepts,
            version=VLMEVALKIT,
        ),
    ),
    "perception-test": (
        *CHOICE,
        Rule("lmms-eval", "lmms_eval/tasks/perceptiontest/val/utils.py: the first of A to D that"
             " is a word", harnesses.letter_word, version=LMMS_EVAL),
    ),
    "video-mme": (
        Rule(
            "official",
            "evaluation/eval_your_results.py of BradyFU/Video-MME (4e7566d), which leaves answers"
            " without a capital A to D out",
            _CAPITAL,
            dropping=lambda text, item: _CAPITAL(text, item) is None,
        ),
        *CHOICE,
        Rule("lmms-eval", "lmms_eval/tasks/videomme/utils.py", harnesses.likeliest_letter,
             version=LMMS_EVAL),
        Rule(
            "vlmevalkit",
            "vlmeval/dataset/videomme.py without a judge",
            first_capital((*PREFIXES, "Answer:", "Option:")),
            version=VLMEVALKIT,
        ),
    ),
    "videohallucer": (
        Rule("official", f"cal_score of {_HALLUCER} (ae4c2f2): the right word is anywhere in it",
             word_yes_no, harnesses.names_truth),
        Rule("official-start", f"{_HALLUCER} until May 2024 (7503b14): it begins with the right"
             " word", word_yes_no, harnesses.begins_with_truth),
        Rule("official-stop", f"{_HALLUCER} of April 2024 (0949046): what stands before the first"
             " full stop is the right word", word_yes_no, harnesses.truth_before_stop),
        *YES_NO,
    ),
    "vidhalluc: yes-no": (
        Rule("official", f"eval_bqa.py of {_VIDHALLUC}: yes or no before the first stop and comma",
             harnesses.word_before_comma),
        *YES_NO,
    ),
    "vidhalluc: choices": (
        Rule("official", f"eval_mcq.py of {_VIDHALLUC}: the same capitals A to D; else the first"
             " option that is named", harnesses.letters_a_to_d),
        *CHOICES,
    ),
    "vidhalluc: word": (
        Rule("official", f"eval_tsh.py of {_VIDHALLUC}: which action comes before which",
             harnesses.order_of_actions),
    ),
    "vidpair-halluc: yes-no": (
        Rule("official", f"evaluate/clipqa.py of {_VIDPAIR} (c2e0da5), which leaves answers with"
             " neither yes nor no out", harnesses.yes_somewhere,
             dropping=lambda text, item: harnesses.yes_somewhere(text, item) is None),
        *YES_NO,
    ),
    "vidpair-halluc: choice": (
        Rule("official", f"evaluate_mcq.py of {_VIDPAIR} (b2ac63b), clips: the letter and nothing"
             " else", harnesses.letters_without_blanks),
        Rule("official-letter", f"evaluate_mcq.py of {_VIDPAIR} (b2ac63b), videos: the first"
             " letter", harnesses.first_letter),
        *CHOICE,
    ),
}  # fmt: skip
"""Benchmark → its rules, or "benchmark: kind of question" where it judges kinds differently; first
the one that a report's headline uses: its authors' where they published one. A harness stands here
where it has a task for the benchmark, and no other.
"""


def rules_for(benchmark: str, item: Item) -> tuple[Rule, ...]:
    """The rules for a question of a benchmark; other questions take those of their kind."""
    of_kind = {"yes-no": YES_NO, "choice": CHOICE, "choices": CHOICES}.get(item.kind, WORDS)
    return RULES.get(f"{benchmark}: {item.kind}") or RULES.get(benchmark) or of_kind
