"""What the sentences about the comparison with controls claim, beside what a report holds.

The sentences are read by a grammar that knows no others, so one that is turned round, mixed up or
left out is noticed; see `sentences_of_controls` in parity.py.
"""

import re
from itertools import product

from macd_studio.core.measurements import ControlOutcome, ControlReport

NAMED = {
    "mask-all": "masking every object",
    "reversed": "the reversed gradient",
    "blank": "a blank video",
}
TOKEN = "“␣yes”"
ANSWERS = "MACD's masks do not change the answer"
"""The first sentence where the answers agree."""
CONSTANT = f"Without any mask, adding +1.25 to the logit of {TOKEN} is enough"
"""The last sentence where they differ."""

Claims = dict[str, bool | tuple[int, int]]
"""Control → whether it agrees with MACD; "random" → how many do, of how many."""


def reports() -> list[ControlReport]:
    """Every combination: answers that agree or differ, random masks, named controls or none."""
    made = []
    for index, drawn, named in product(
        (None, 0, 3), (0, 1, 2, 20), product((None, True, False), repeat=len(NAMED))
    ):
        for same in sorted({0, 1, drawn // 2, drawn - 1, drawn} & set(range(drawn + 1))):
            outcomes = [ControlOutcome("random", "x", i < same, 0) for i in range(drawn)]
            outcomes += [
                ControlOutcome(name, "x", agrees, 0)
                for name, agrees in zip(NAMED, named, strict=True)
                if agrees is not None
            ]
            made.append(ControlReport(index, " yes", " no", tuple(outcomes), 1.25, 3.0))
    assert len(made) == 3 * 27 * (1 + 2 + 3 + 5)
    return made


def facts(report: ControlReport) -> Claims:
    """What the report holds."""
    held: Claims = {o.name: o.same for o in report.outcomes if o.name != "random"}
    return held | ({"random": report.random()} if report.random()[1] else {})


SENTENCE = re.compile(
    r"(?P<subject>.+?) (?P<verb>chooses?|do(es)? not choose|changes?|do(es)? not change)"
    rf" (?P<object>it|{TOKEN})(?P<too>, as MACD does)?"
)
ONE = "One random mask of the same area was drawn, and it"
MANY = re.compile(
    r"(All|None of the|(?P<few>\d+) of the) (?P<drawn>\d+) random masks of the same area"
)


def claims(text: str, changed: bool) -> Claims:
    """What the sentences say; changed: whether MACD's answer differs from the baseline's.

    Fails for another sentence, for a verb that does not fit its subject, and for one said twice.
    """
    sentences = text.removesuffix(".").split(". ")
    assert sentences.pop(-1 if changed else 0) == (CONSTANT if changed else ANSWERS)
    found: Claims = {}
    for sentence in sentences:
        match = SENTENCE.fullmatch(sentence)
        assert match, sentence
        subject, verb, does = match["subject"], match["verb"], "not" not in match["verb"]
        assert (match["object"] == TOKEN) == ("choose" in verb) == changed, sentence
        like_macd = does == changed
        if many := MANY.fullmatch(subject):
            assert does, sentence
            drawn = int(many["drawn"])
            some = 0 if subject.startswith("None") else int(many["few"] or drawn)
            assert drawn > 1, sentence
            assert not many["few"] or 0 < some < drawn, sentence
            told: Claims = {"random": (some if like_macd else drawn - some, drawn)}
            several, praised = some > 1, some > 0
        elif subject == ONE:
            told, several, praised = {"random": (int(like_macd), 1)}, False, False
        else:
            words = subject[0].lower() + subject[1:]
            told = {name: like_macd for name, part in NAMED.items() if part in words}
            assert re.sub("|".join(NAMED.values()), "", words) in ("", " and ", ",  and "), sentence
            several, praised = len(told) > 1, True
        assert verb.startswith(("chooses", "changes", "does")) != several, sentence
        assert bool(match["too"]) == (changed and does and praised), sentence
        assert told, sentence
        assert not told.keys() & found.keys(), sentence
        found |= told
    return found
