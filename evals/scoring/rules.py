"""Scoring rules as published, by name, each with its source; none needs a model.

The rules are reimplemented from the sources with their oddities, because these make two published
figures differ. `read` gives what an answer says; `right` whether it counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from evals.benchmarks.base import LETTERS, Item
from evals.metrics import normalised

PREFIXES = (
    "The best answer is",
    "The correct answer is",
    "The answer is",
    "The answer",
    "The best option isThe correct option is",
    "Best answer:Best option:",
)
"""What Video-MME's scorer takes away; a comma is missing twice in it, so two pairs are one."""
PUNCTUATION = (";", "/", "[", "]", '"', "{", "}", "(", ")", "=", "+", "\\", "_", "-", ">", "<",
               "@", "`", ",", "?", "!")  # fmt: skip


@dataclass(frozen=True)
class Rule:
    """How one program scores. An answer of None was never given.

    read: what the answer is taken to say, None where nothing can be read. accepts: whether it
    counts as right; by default where what was read is the truth. drops: whether an answer that says
    nothing is left out of the denominator instead of counting as wrong.
    """

    name: str
    source: str
    read: Callable[[str | None, Item], str | None]
    accepts: Callable[[str | None, Item], bool] | None = None
    drops: Callable[[str | None, Item], bool] = lambda text, item: False

    def right(self, text: str | None, item: Item) -> bool:
        """Whether the answer counts as right; one that was never given does not."""
        if text is None:
            return False
        if self.accepts is not None:
            return self.accepts(text, item)
        return self.read(text, item) == item.truth


def starts_yes_no(text: str | None, item: Item) -> str | None:
    """The answer's first letters, in any case and without skipping blanks."""
    lower = (text or "").lower()
    return "yes" if lower.startswith("yes") else "no" if lower.startswith("no") else None


def whole_yes_no(text: str | None, item: Item) -> str | None:
    """The whole answer, in any case: "Yes." with its stop is not "yes"."""
    plain = (text or "").lower().strip()
    return plain if plain in ("yes", "no") else None


def either_word(text: str | None, item: Item) -> str | None:
    """Whichever of the two words is somewhere in the answer, None where both or neither is."""
    words = _without_punctuation((text or "").lower()).split()
    both = [w for w in ("yes", "no") if w in words]
    return both[0] if len(both) == 1 else None


_LEADING = re.compile(r"\(?([A-Z])(?:[).:,]|\s*$|\s*\n)")
_ANNOUNCED = re.compile(r"(?i:\b(?:answer|option|choice)\b(?:\s+is)?)\s*:?\s*\(?([A-Z])\b")
_ALONE = re.compile(r"(?<![\w'])([A-Z])(?![\w'])")
_ARTICLE = re.compile(r"(?<![\w'])A(?= (?!(?:or|and|is)\b)[a-z])")


def choice(text: str | None, item: Item) -> str | None:
    """A letter that leads the answer, or is announced, or stands alone; or an option's own words.

    Neither "A dog" nor "Cannot tell" is a letter; of two different letters none is read.
    """
    plain = (text or "").strip()
    letters = LETTERS[: len(item.options)]
    match = _LEADING.match(plain)
    if match and match[1] in letters:
        return match[1]
    options = [normalised(o) for o in item.options]
    if plain and normalised(plain) in options:
        return LETTERS[options.index(normalised(plain))]
    announced: set[str] = {z for z in _ANNOUNCED.findall(plain) if z in letters}
    announced = announced - ({"A"} if _ARTICLE.search(plain) else set()) or announced
    if len(announced) == 1:
        return announced.pop()
    alone: set[str] = {z for z in _ALONE.findall(_ARTICLE.sub("", plain)) if z in letters}
    return alone.pop() if len(alone) == 1 else None


def letter_word(text: str | None, item: Item) -> str | None:
    """The first of A to D that is a word of its own, an article at the beginning included."""
    match = re.search(r"\b([A-D])\b", text or "")
    return match[1] if match else None


def first_capital(prefixes: tuple[str, ...]) -> Callable[[str | None, Item], str | None]:
    """The first capital A to D anywhere, "Cannot tell" included, once `prefixes` are taken away."""

    def read(text: str | None, item: Item) -> str | None:
        plain = (text or "").strip()
        for prefix in prefixes:
            plain = plain.replace(prefix, "")
        match = re.search("[ABCD]", plain)
        return match[0] if match else None

    return read


def _first_word(text: str | None, item: Item) -> str | None:
    match = re.match(r"\(?([a-z])(?![a-z])", (text or "").lower())
    return match[1].upper() if match else None


def shares_first_word(text: str | None, item: Item) -> bool:
    """Whether the first word is a part of "(b)", the letter of the truth in brackets, or holds it.

    So nothing at all, "(", and a lone bracket are right whatever the truth.
    """
    word = (text or "").lower().split(" ")[0]
    truth = f"({item.truth.lower()})"
    return word.replace(".", "") in truth or truth in word


def mvbench_lmms(text: str | None, item: Item) -> str | None:
    """The letter of "b. …", else the first of A to E that is a word of its own, in either case.

    So the article of "There is a dog. The answer is C" is read as A.
    """
    plain = (text or "").strip()
    listed = re.match(r"(?i)([A-E])\.\s*(.+)$", plain)
    if listed:
        return listed[1].upper()
    plain = _without_punctuation(plain.replace("\n", " ").replace("\t", " ").strip(), careless=True)
    match = re.search(r"(?i)\b([A-E])\b", plain)
    return match[1].upper() if match else None


def exact_letter(text: str | None, item: Item) -> str | None:
    """The answer as it is, if it is one letter and nothing else."""
    return text if text in ("A", "B", "C") else None


def words(text: str | None, item: Item) -> str | None:
    """The whole answer, case and a final stop apart."""
    return normalised(text or "") or None


def _without_punctuation(text: str, careless: bool = False) -> str:
    """As the scorers of VQA do: signs next to a blank are removed, others become a blank.

    careless: full stops that no digit follows are removed, even after a digit.
    """
    vanish = bool(re.search(r"\d,\d", text))
    out = text
    for sign in PUNCTUATION:
        beside = f"{sign} " in text or f" {sign}" in text
        out = out.replace(sign, "" if beside or vanish else " ")
    return re.sub(r"\.(?!\d)" if careless else r"(?<!\d)\.(?!\d)", "", out, count=32)


def _empty(text: str | None, item: Item) -> bool:
    return not text


def _same_words(text: str | None, item: Item) -> bool:
    return normalised(text or "") == normalised(item.truth)


_MVBENCH = "check_ans of video_chat2/mvbench.ipynb, OpenGVLab/Ask-Anything"
_CAPITAL = first_capital(PREFIXES)

YES_NO = (
    Rule(
        "official",
        "eval.py of Stevetich/EventHallusion (3c7efa1): starts with yes or no; else unmatched",
        starts_yes_no,
    ),
    Rule("lmms-eval", "lmms_eval/tasks/pope/utils.py: the whole answer is yes or no", whole_yes_no),
    Rule("vlmevalkit", "YOrN_Extraction of VLMEvalKit: yes or no among the words", either_word),
)
CHOICE = (Rule("strict", "this project: a letter that is meant as one, or an option", choice),)
WORDS = (Rule("strict", "this project: the same words", words, _same_words),)

RULES: dict[str, tuple[Rule, ...]] = {
    "eventhallusion": YES_NO,
    "video-pope": YES_NO,
    "mvbench": (
        *CHOICE,
        Rule("official", _MVBENCH, _first_word, shares_first_word),
        Rule(
            "lmms-eval",
            "lmms_eval/tasks/mvbench/utils.py (1ab9504); empty answers are left out",
            mvbench_lmms,
            drops=_empty,
        ),
        Rule("vlmevalkit", f"vlmeval/dataset/utils/mvbench.py (43b5abf), {_MVBENCH}",
             _first_word, shares_first_word),
    ),
    "perception-test": (
        Rule("strict", r"the first letter that is a word: \b([A-D])\b", letter_word),
        Rule("lmms-eval", "lmms_eval/tasks/perceptiontest/val/utils.py (06f392e): A, B or C and"
             " nothing else", exact_letter),
    ),
    "video-mme": (
        *CHOICE,
        Rule(
            "official",
            "evaluation/eval_your_results.py of BradyFU/Video-MME (4e7566d); answers without a"
            " capital A to D are left out",
            _CAPITAL,
            drops=lambda text, item: _CAPITAL(text, item) is None,
        ),
        Rule("lmms-eval", "lmms_eval/tasks/videomme/utils.py (0696573)", _CAPITAL),
        Rule(
            "vlmevalkit",
            "vlmeval/dataset/utils/videomme.py (21a3ff0) without a judge",
            first_capital((*PREFIXES, "Answer:", "Option:")),
        ),
    ),
}  # fmt: skip
"""Benchmark → its rules, first the one that a report's headline uses."""


def rules_for(benchmark: str, item: Item) -> tuple[Rule, ...]:
    """The rules for a question of a benchmark; other questions take those of their kind."""
    if benchmark in RULES:
        return RULES[benchmark]
    return {"yes-no": YES_NO, "choice": CHOICE}.get(item.kind, WORDS)
