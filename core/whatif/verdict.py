"""Does the choice of masks matter? One of five verdicts on a trace, with its figures and its rule.

It is computed from what the trace holds: the choice map, the controls and the constant. Imports no
torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from macd_studio.core.evidence.choices import ChoiceMap, Subset, rank
from macd_studio.core.methods import masked_answer
from macd_studio.core.types import Trace
from macd_studio.core.whatif.constant import first_divergence, stated_constant
from macd_studio.core.words import count, signed

Name = Literal[
    "choice matters", "any damage does it", "a constant does it", "no change", "undecided"
]
SMALL_CONSTANT = 0.3
"""Logits: a constant of less makes plain decoding give MACD's token without any mask."""
MOST, FEW = 2 / 3, 1 / 3
"""Shares of subsets, and of random masks, from which most do the same, and up to which few do."""
BEST = 0.25
"""MACD's objects stand among the best where at most this share of the subsets ranks above them."""
RULES: dict[Name, str] = {
    "no change": "MACD's answer is the baseline's.",
    "a constant does it": f"A constant below {SMALL_CONSTANT:g} logits on its token does the same.",
    "any damage does it": "At least two thirds of the subsets or of the random masks do it too.",
    "choice matters": "At most a third of the subsets and of the random masks change it, MACD's"
    " objects do, and at most a quarter of the subsets rank above them.",
    "undecided": "None of the other rules holds, or something was not measured.",
}
"""Each verdict's rule, in the order in which they are tried."""


@dataclass(frozen=True)
class Verdict:
    """name: of `RULES`. figures: what it rests on, a line each. missing: what was not measured."""

    name: Name
    figures: tuple[str, ...]
    missing: tuple[str, ...] = ()

    @property
    def rule(self) -> str:
        """Why it has this name."""
        return RULES[self.name]


def verdict_of(trace: Trace) -> Verdict:
    """The verdict on a trace; undecided where what it rests on was not measured."""
    baseline, macd = trace.answers.get("baseline"), trace.answers.get(masked_answer(trace))
    if baseline is None or macd is None:
        return Verdict("undecided", (), ("both answers",))
    if first_divergence(baseline, macd) is None and baseline.text == macd.text:
        return Verdict("no change", (f"Both answers: {macd.text}",))
    found, report, constant = trace.choice_map, trace.controls, stated_constant(trace, macd)
    missing = [
        name for name, part in (("the choice map", found), ("the controls", report)) if part is None
    ]
    figures: list[str] = []
    shares: list[float] = []
    layer = _layer(found) if found else ()
    place = rank(found.own, layer) if found else 0
    if found:
        flips = sum(one.flips for one in layer)
        shares.append(flips / len(layer))
        figures.append(f"{flips} of {count(len(layer), 'subset')} of the objects change the answer")
        figures.append(f"MACD's own masks rank {place} of {len(layer)} by margin")
        if set(found.own.objects) & set(found.left_out):
            figures.append("MACD masks an object that the map left out")
    if report is not None:
        same, draws = report.random()
        shares += [same / draws] if draws else []
        figures.append(f"{same} of {count(draws, 'random mask')} give MACD's token")
    delta = None
    if constant is not None:
        on_yes = constant.on_yes is not None
        delta = constant.on_yes if on_yes else constant.delta
        place_of = "yes" if on_yes else "its token"
    if delta is not None:
        figures.append(
            f"a constant of {signed(delta)} logits on {place_of} gives MACD's token without masks"
        )
    name: Name = "undecided"
    if delta is not None and abs(delta) < SMALL_CONSTANT:
        name = "a constant does it"
    elif any(share >= MOST for share in shares):
        name = "any damage does it"
    elif found and not missing and all(share <= FEW for share in shares):
        above = (place - 1) / len(layer)
        name = "choice matters" if found.own.flips and above <= BEST else "undecided"
    return Verdict(name, tuple(figures), tuple(missing))


def _layer(found: ChoiceMap) -> tuple[Subset, ...]:
    """The subsets with MACD's frame mask, where it has one."""
    return found.layer(found.own.frames)


def as_text(trace: Trace) -> str:
    """The verdict with its figures and rule, to be pasted where others read it."""
    verdict = verdict_of(trace)
    baseline, macd = trace.answers.get("baseline"), trace.answers.get(masked_answer(trace))
    lines = [f"{trace.question}  ({trace.clip.name}, {trace.backbone.name})"]
    if baseline is not None and macd is not None:
        lines.append(f"baseline: {baseline.text}   MACD: {macd.text}")
    lines.append(f"verdict: {verdict.name}. {verdict.rule}")
    lines += [f"- {figure}" for figure in verdict.figures]
    lines += [f"- not measured: {name}" for name in verdict.missing]
    contrast = trace.options.contrast
    lines.append(f"α {contrast.alpha:g}, β {contrast.beta:g}; macd-studio, docs/verdict.md")
    return "\n".join(lines)


def map_as_text(trace: Trace) -> str:
    """The choice map as a table: a subset a line, by margin."""
    found = trace.choice_map
    assert found is not None
    labels = {t.id: f"{t.id} {t.label}" for t in trace.tracks}
    layer = _layer(found)
    flips, best = sum(one.flips for one in layer), min(layer, key=lambda one: rank(one, layer))
    frames = " with MACD's frame mask" if layer[0].frames else ""
    head = f"{flips} of {count(len(layer), 'subset')}{frames} change the answer"
    head += f"; MACD's own masks rank {rank(found.own, layer)}"
    if best.margin is not None:
        head += f"; the best: {_named(best, labels)}"
    lines = [head + "."]
    for one in sorted(layer, key=lambda one: rank(one, layer)):
        margin = "—" if one.margin is None else f"{one.margin:+.2f}"
        mark = "*" if one.objects == found.own.objects else " "
        lines.append(f"{mark} {margin:>7}  {_named(one, labels):<40} {one.answer or ''}".rstrip())
    if found.left_out:
        lines.append(f"left out: {', '.join(labels[i] for i in found.left_out)}")
    return "\n".join(lines)


def _named(subset: Subset, labels: dict[int, str]) -> str:
    return "{" + ", ".join(labels[i] for i in subset.objects) + "}"
