"""A figure that can be compared: answers to questions, how they are judged, and their source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from macd_studio.core.errors import OptionError
from macd_studio.evals.benchmarks import DRAWN, find_benchmark
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.protocol.bounds import Protocol
from macd_studio.evals.scoring.answered import Scores
from macd_studio.evals.scoring.rules import rules_for
from macd_studio.evals.scoring.score import Over, headline, left_out
from macd_studio.evals.statistics.metrics import mentioned, normalised, read_yes_no

DRAWN_RULE = "read"
"""The one rule of drawn questions."""
Verdict = tuple[bool, bool]
"""Whether an answer is right, and whether it is counted where answers that say nothing are not."""


@dataclass(frozen=True)
class Parser:
    """How answers are judged: a rule of this project, or the verdicts that came with the answers.

    name: of the rule with its version, or of what gave the verdicts. judge: None where only these
    are known. reading: what an answer is taken to say, by this project's own rule where None.
    """

    name: str
    judge: Callable[[str | None, Item], Verdict] | None = None
    reading: Callable[[str | None, Item], str | None] | None = None

    def read(self, text: str | None, item: Item) -> str | None:
        """What an answer says: "yes" or "no", a letter, or words; None where nothing is read."""
        if self.reading is not None:
            return self.reading(text, item)
        return rules_for("", item)[0].read(text, item)


def rule_parser(benchmark: str, item: Item, name: str | None) -> Parser:
    """The benchmark's rule of that name, its headline without. Raises OptionError."""
    if benchmark in DRAWN:
        return _drawn_parser(benchmark, name)
    rule = headline(benchmark, item, name)

    def judge(text: str | None, item: Item) -> Verdict:
        own = headline(benchmark, item, name)
        return own.right(text, item), not left_out(own, text, item)

    return Parser(rule.title, judge, lambda t, i: headline(benchmark, i, name).read(t, i))


def _drawn_parser(benchmark: str, name: str | None) -> Parser:
    """The rule of drawn questions, as `evals.statistics.table.right`; OptionError for another name.

    yes or no as the answer begins, words exactly, captions where they name nothing but what the
    true caption names. An answer that says nothing of the kind is not counted where only answered
    questions are.
    """
    if name not in (None, "", DRAWN_RULE):
        raise OptionError(f"{benchmark} has no rule {name!r}", f"Choose {DRAWN_RULE}")
    nouns = find_benchmark(benchmark).nouns

    def judge(text: str | None, item: Item) -> Verdict:
        said = text or ""
        if item.kind == "yes-no":
            found = read_yes_no(said)
            return found == item.truth, found is not None
        if item.kind == "caption":
            named = mentioned(said, nouns)
            return bool(named) and named <= mentioned(item.truth, nouns), bool(named)
        return normalised(said) == normalised(item.truth), bool(normalised(said))

    return Parser(DRAWN_RULE, judge)


@dataclass(frozen=True, eq=False)
class Figure:
    """One figure with what is known of it."""

    title: str
    """Its name in tables."""
    benchmark: str
    items: Mapping[str, Item]
    """Questions by id, with the truth of its own annotation."""
    texts: Mapping[str, str | None]
    """Answers by id; a question without one is missing here and in `items`."""
    parser: Parser
    over: Over = "all"
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    """Verdicts that came with the answers, by id."""
    clusters: Mapping[str, str] = field(default_factory=dict)
    scores: Mapping[str, Scores] = field(default_factory=dict)
    """Scores of first tokens by id, where they are known."""
    groups: Mapping[str, str] = field(default_factory=dict)
    """`clusters` and `groups` of questions by id."""
    stated: tuple[float, int] | None = None
    """Accuracy in percent and n, as printed by whoever made it; None where it is computed here."""
    protocol: Protocol | None = None
    """What it was computed from; None where nothing is known of that."""
    prompts: Mapping[str, str] = field(default_factory=dict)
    """The whole prompts by id, where the answers came with them."""
    said: Mapping[str, str] = field(default_factory=dict)
    """What a printed row says of its own protocol."""
    method: str = "baseline"
    """The method of this project."""
    folder: str = ""
    """The folder of its report."""
    notes: tuple[str, ...] = ()
    """What its reading left out."""

    @property
    def has_answers(self) -> bool:
        """Whether single answers are known, or a printed figure alone."""
        return bool(self.items)

    @property
    def drawn(self) -> bool:
        """Whether its clips are drawn, not read from files."""
        return self.benchmark in DRAWN

    def verdict(self, text: str | None, item: Item) -> Verdict:
        """Of an own answer: by the parser, or as it came."""
        if self.parser.judge is not None:
            return self.parser.judge(text, item)
        return self.verdicts.get(item.id, (False, True))
