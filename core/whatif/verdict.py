"""Does the choice of masks matter? One of five verdicts on a trace, with its figures and its rule.

It is computed from what the trace holds: the choice map, the controls and the constant. Imports no
torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

import numpy as np

from macd_studio.core.errors import OptionError
from macd_studio.core.measurements import MAX_MAPPED, Enough, Subset, rank
from macd_studio.core.methods import masked_answer
from macd_studio.core.objects.truth import normalized
from macd_studio.core.text.words import count, ordinal, signed
from macd_studio.core.types import Answer, Trace
from macd_studio.core.whatif.constant import constant_of_answer, first_divergence


def marks_of(trace: Trace) -> dict[str, tuple[int, ...]]:
    """Name → ids of the objects, of what is known and lies on the trace's choice map.

    measured: the objects with at least half of the largest measured effect, which `macd-measured`
    masks fully. enough: the smallest set of objects whose removal changes the baseline's answer.
    asked: the objects that the question names, else those that are the right answer.
    """
    found = trace.choice_map
    if found is None:
        return {}
    chosen = {
        "measured": found.measured,
        "enough": _removed(trace.enough, len(trace.groups)),
        "asked": asked_objects(trace),
    }
    return {n: ids for n, ids in chosen.items() if ids and set(ids) <= set(found.objects)}


def asked_objects(trace: Trace) -> tuple[int, ...]:
    """Ids of the objects that the question names, else of those that the known truth names."""
    for text in (trace.question, trace.truth):
        words = f" {normalized(text)} "
        named = [t.id for t in trace.tracks if f" {normalized(t.label)} " in words]
        if named:
            return tuple(named)
    return ()


def _removed(enough: Sequence[Enough], groups: int) -> tuple[int, ...]:
    """Ids of the smallest set, where it holds whole objects for the whole clip and nothing else."""
    for one in enough:
        if one.remove is None or not one.remove.pieces:
            continue
        pieces = [one.pieces[n] for n in one.remove.pieces]
        whole = all(p.groups == (0, groups - 1) for p in pieces)
        ids = tuple(p.track for p in pieces if p.track is not None)
        if whole and len(ids) == len(pieces):
            return ids
    return ()


Name = Literal[
    "choice matters", "any damage does it", "a constant does it", "no change", "undecided"
]
SMALL_CONSTANT = 0.3
"""Logits: a constant of less makes plain decoding give MACD's token without any mask."""
MOST, FEW = 2 / 3, 1 / 3
"""Shares of subsets, and of random masks, from which most do the same, and up to which few do."""
BEST = 0.25
"""MACD's objects stand among the best where at most this share of the subsets ranks above them."""
Reply = Literal["yes", "no", "cannot be said"]
"""Of a question that the page asks in words."""
REPLIES: dict[Name, Reply] = {
    "no change": "no",
    "a constant does it": "no",
    "any damage does it": "no",
    "choice matters": "yes",
    "undecided": "cannot be said",
}
"""What each verdict says to the question whether the choice of masks mattered."""
RULES: dict[Name, str] = {
    "no change": "MACD's answer is the baseline's.",
    "a constant does it": f"A constant below {SMALL_CONSTANT:g} logits does the same.",
    "any damage does it": "At least two thirds of the subsets or of the random masks do it too.",
    "choice matters": "At most a third of the subsets and of the random masks do it too, MACD's"
    " objects are one of them, and at most a quarter of the subsets rank above them.",
    "undecided": "None of the other rules holds, or something was not measured.",
}
"""Each verdict's rule, in the order in which they are tried."""


@dataclass(frozen=True)
class Verdict:
    """name: of `RULES`. figures: what it rests on, a line each. missing: what was not measured.

    reason: the figure that decides, in a sentence that follows the reply.
    """

    name: Name
    figures: tuple[str, ...]
    missing: tuple[str, ...] = ()
    reason: str = ""

    @property
    def rule(self) -> str:
        """Why it has this name."""
        return RULES[self.name]

    @property
    def reply(self) -> Reply:
        """Whether the choice of masks mattered."""
        return REPLIES[self.name]


def verdict_of(trace: Trace) -> Verdict:
    """The verdict on a trace; undecided where what it rests on was not measured.

    `viewer/js/verdict.js` says the same of a trace that was changed in a browser.
    """
    baseline, macd = trace.answers.get("baseline"), trace.answers.get(masked_answer(trace))
    if baseline is None or macd is None:
        return Verdict(
            "undecided", (), ("both answers",), "MACD's answer or the baseline's is missing."
        )
    if first_divergence(baseline, macd) is None and baseline.text == macd.text:
        unchanged = "MACD does not change the answer."
        return Verdict("no change", (f"Both answers: {macd.text}",), (), unchanged)
    found, report, constant = trace.choice_map, trace.controls, constant_of_answer(trace, macd)
    missing = [
        name for name, part in (("the choice map", found), ("the controls", report)) if part is None
    ]
    figures: list[str] = []
    tried: list[tuple[int, int, str]] = []  # how many do it, of how many, in words
    layer, chosen = layer_of(trace) if found else ((), None)
    same = giving_macd_token(trace, layer)
    place = rank(chosen, layer) if chosen is not None else 0
    alike, draws = report.random() if report is not None else (0, 0)
    if report is not None:
        tried += [(alike, draws, random_masks_do(alike, draws))] if draws else []
    if layer:
        own, flips = len(same), sum(one.flips for one in layer)
        tried.append((own, len(layer), choices_do(own, len(layer))))
        subsets = f"{count(len(layer), 'subset')} of the objects"
        figures.append(f"{own} of {subsets} give MACD's token, {flips} change the answer")
        if chosen is not None:
            figures.append(f"MACD's objects rank {place} of {len(layer)} by margin")
        else:
            figures.append("MACD masks objects in part, or others than were read: it has no rank")
    if report is not None:
        figures.append(f"{alike} of {count(draws, 'random mask')} give MACD's token")
    delta = None if constant is None else constant.amount
    if constant is not None and delta is not None:
        given = f"a constant of {signed(delta)} logits on “{constant.of}”"
        figures.append(f"{given} gives MACD's token unmasked")
    elif constant is not None:
        missing.append("the constant")
    name: Name = "undecided"
    tried.sort(key=lambda one: one[0] <= FEW * one[1])  # what is against it first
    rare = all(do <= FEW * of for do, of, _ in tried)
    best = chosen in same and (place - 1) / len(layer) <= BEST
    reason = "; ".join(w + ", more than a third" * (n > FEW * of) for n, of, w in tried)
    if constant is not None and delta is not None and abs(delta) < SMALL_CONSTANT:
        name, reason = "a constant does it", constant_does(delta, constant.of)
    elif most := [words for do, of, words in tried if do >= MOST * of]:
        name, reason = "any damage does it", "; ".join(most)
    elif rare and best and not missing:
        name = "choice matters"
    elif tried and rare:
        reason += f"; {_open_question(missing, chosen, place, len(layer))}"
    reason = f"{reason[:1].upper()}{reason[1:]}." if reason else "It was not measured."
    return Verdict(name, tuple(figures), tuple(missing), reason)


def _open_question(missing: list[str], chosen: Subset | None, place: int, of: int) -> str:
    """Why a verdict is open although few other masks do the same."""
    if "the choice map" in missing:
        return "other choices of objects were not measured"
    if "the controls" in missing:
        return "random masks were not measured"
    if missing:
        return "which constant does the same is not known"
    if chosen is None:
        return "MACD masks objects in part, or others than were measured, so it has no rank"
    return f"MACD's objects rank {place} of {of}"


def random_masks_do(same: int, drawn: int) -> str:
    """How many random masks give MACD's token."""
    verb = "does" if same == 1 else "do"
    return f"{same} of {count(drawn, 'random mask')} of the same area {verb} the same"


def choices_do(same: int, of: int) -> str:
    """How many choices of objects give MACD's token."""
    verb = "does" if same == 1 else "do"
    return f"{same} of {count(of, 'choice')} of objects {verb} the same"


def constant_does(delta: float, of: str) -> str:
    """That a constant on the logit of a token gives MACD's without a mask."""
    return f"a constant of {signed(delta)} on the logit of “{of}” does the same, without any mask"


def giving_macd_token(trace: Trace, layer: Sequence[Subset]) -> list[Subset]:
    """The subsets that do what MACD does: they leave the baseline where it does, to its token.

    So the random masks of a `ControlReport` are counted. A subset that gives a third answer changes
    the baseline's, but is none of these. None where MACD's answer does not leave the baseline's.
    """
    baseline, macd = trace.answers.get("baseline"), trace.answers.get(masked_answer(trace))
    at = first_divergence(baseline, macd) if baseline and macd else None
    if not baseline or not macd or at is None or at >= len(macd.tokens):
        return []
    token, before = macd.tokens[at].text, _squeezed("".join(t.text for t in macd.tokens[:at]))
    flipped = [s for s in layer if s.flips and s.token == token]
    if "\ufffd" in before:  # a part of a character, which no answer holds
        return flipped
    return [s for s in flipped if _squeezed(s.answer or "").startswith(before)]


def _squeezed(text: str) -> str:
    """Without blanks, which the pieces of some tokenizers do not bring."""
    return "".join(text.split())


def layer_of(trace: Trace, frames: bool | None = None) -> tuple[tuple[Subset, ...], Subset | None]:
    """The subsets of the map with or without MACD's frame mask, and the one that MACD masks fully.

    frames: by default as MACD does it. The second is None where MACD masks an object in part, or
    one that was not read: no subset is that choice.
    """
    found, levels = trace.choice_map, trace.counterfactual
    assert found is not None
    layer = found.layer(masks_frames(trace) if frames is None else frames) or found.subsets
    if levels is None:
        return layer, None
    if ((levels.level > 0) & (levels.level < 1)).any():
        return layer, None
    pairs = zip(trace.tracks, levels.level, strict=True)
    return layer, found.of([t.id for t, level in pairs if level >= 1], layer[0].frames)


def as_text(trace: Trace) -> str:
    """The verdict with its figures and rule, to be pasted where others read it."""
    verdict = verdict_of(trace)
    baseline, macd = trace.answers.get("baseline"), trace.answers.get(masked_answer(trace))
    path = PurePath(trace.backbone.name)
    model = path.name if path.is_absolute() else trace.backbone.name  # others lack this machine
    lines = [f"{trace.question}  ({trace.clip.name}, {model})"]
    if baseline is not None and macd is not None:
        said = [f"{a.text}{'' if a.finished else '…'}" for a in (baseline, macd)]
        lines.append(f"baseline: {said[0]}   MACD: {said[1]}")
    without = masked_alone(trace, macd) if macd is not None else ""
    if without:
        lines.append(f"without what is masked: {without}")
    lines.append(f"did the choice of masks matter? {verdict.reply}. {verdict.reason}")
    lines.append(f"verdict: {verdict.name}. {verdict.rule}")
    lines += [f"- {figure}" for figure in verdict.figures]
    if trace.choice_map is not None and trace.choice_map.left_out:
        labels = _labels(trace)
        lines.append(f"- left out: {', '.join(labels[i] for i in trace.choice_map.left_out)}")
    lines += [f"- not measured: {name}" for name in verdict.missing]
    if trace.outside_domain:
        lines.append("- the model was trained on other clips: its answers mean nothing here")
    contrast = trace.options.contrast
    lines.append(f"α {contrast.alpha:g}, β {contrast.beta:g}; macd-studio, docs/verdict.md")
    return "\n".join(lines)


def masked_alone(trace: Trace, answer: Answer) -> str:
    """What the model says given the second view alone, as far as an answer's logits tell.

    Greedy. The answer's tokens stand as long as the second view prefers them too. Its own token
    comes after them and, unless it ends the answer, "…": what follows is not decoded. "" where no
    second view was read, or several.
    """
    said: list[str] = []
    ends = {a.tokens[-1].token for a in trace.answers.values() if a.finished and a.tokens}
    for step in answer.tokens:
        if len(step.others) != 1:
            return ""
        best = int(np.argmax(step.others[0]))
        token = int(step.candidates[best])
        if token != step.token:
            if token in ends:
                return _spoken(answer, said, "")
            return f"{_spoken(answer, said, step.texts[best])} …"
        said.append("" if token in ends else step.text)
    return answer.text if answer.tokens else ""


def _spoken(answer: Answer, said: Sequence[str], own: str) -> str:
    """The answer's first tokens and another one after them, with the spaces of its text.

    Where no token brings the space before it, as words and pieces of SentencePiece do not, the text
    of the answer tells it.
    """
    if any(text[:1].isspace() for step in answer.tokens for text in step.texts):
        return "".join([*said, own]).strip()
    at = 0
    for piece in said:
        if (found := answer.text.find(piece, at)) >= 0:
            at = found + len(piece)
    space = " " if answer.text[at : at + 1] in ("", " ") else ""
    return f"{answer.text[:at]}{space}{own}".strip()


def map_sentence(trace: Trace, frames: bool | None = None) -> str:
    """Where MACD's choice ranks, how many subsets change the answer, and the strongest of them.

    Without rank and strongest one where the cut leaves no subset another token.
    frames: as in `layer_of`.
    """
    layer, chosen = layer_of(trace, frames)
    flips, best = sum(one.flips for one in layer), min(layer, key=lambda one: rank(one, layer))
    parts = [f"{flips} of {count(len(layer), 'subset')} change the answer"]
    if chosen is not None and best.margin is not None:
        parts.insert(0, f"MACD's choice is {ordinal(rank(chosen, layer))} of {len(layer)}")
    if best.margin is not None:
        named = _named(best, _labels(trace))
        parts.append(
            f"the strongest change is {named}" if flips else f"{named} is the nearest to one"
        )
    return "; ".join(parts) + "."


def map_as_text(trace: Trace) -> str:
    """The choice map as a table: a subset a line, by margin."""
    found = trace.choice_map
    assert found is not None
    labels = _labels(trace)
    layer, chosen = layer_of(trace)
    lines = [map_sentence(trace)]
    marked = [(name, found.of(ids, layer[0].frames)) for name, ids in marks_of(trace).items()]
    if layer[0].frames:
        lines.append("MACD's frame mask is on in all of them.")
    for one in sorted(layer, key=lambda one: rank(one, layer)):
        margin = "—" if one.margin is None else f"{one.margin:+.2f}"
        mark = "*" if chosen is one else " "
        notes = "".join(f"  ({name})" for name, point in marked if point is one)
        text = f"{mark} {margin:>7}  {_named(one, labels):<40} {one.answer or ''}{notes}"
        lines.append(text.rstrip())
    if layer[0].frames and (others := found.layer(False)):
        flips = sum(one.flips for one in others)
        change = f"{flips} of {count(len(others), 'subset')} change the answer"
        lines.append(f"without the frame mask: {change}")
    if found.left_out:
        lines.append(f"left out: {', '.join(labels[i] for i in found.left_out)}")
    return "\n".join(lines)


def _labels(trace: Trace) -> dict[int, str]:
    return {t.id: f"{t.id} {t.label}" for t in trace.tracks}


def _named(subset: Subset, labels: dict[int, str]) -> str:
    return "{" + ", ".join(labels[i] for i in subset.objects) + "}"


def masks_frames(trace: Trace) -> bool:
    """Whether MACD masks a frame group, so that its map has a second half."""
    levels = trace.counterfactual
    return levels is not None and bool((levels.frame_level > 0).any())


def check_choices(trace: Trace) -> None:
    """Raises OptionError where no map can be measured: see `whatif.controls.measure_choices`."""
    if not trace.tracks:
        raise OptionError("there is no object to choose", "Add one, or run another clip")
    if trace.options.decode.search != "greedy":
        raise OptionError(
            "subsets are compared for greedy answers only", "Choose the greedy search"
        )
    baseline, macd = trace.answers.get("baseline"), trace.answers.get(masked_answer(trace))
    if baseline is None or macd is None or not macd.tokens or not baseline.tokens:
        raise OptionError("there is no answer to compare with", "Run the clip again")


def views_of_map(trace: Trace) -> int:
    """How many views the map of a trace reads.

    Every subset, MACD's own levels, and for the measured effects the video and each object alone.
    """
    objects = len(trace.tracks)
    return ((1 + masks_frames(trace)) << min(objects, MAX_MAPPED)) + 1 + 1 + objects
