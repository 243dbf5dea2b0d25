"""Options of scores, second views and search; the published α and β by name."""

# ruff: noqa: RUF009  (`choice` and `part` make fields, as `dataclasses.field` does)
from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from macd_studio.core.options.objects import MAX_SEED
from macd_studio.core.validation import Checked, choice, flag, number, part, whole

HeadRule = Literal["probability", "raw"]
Search = Literal["greedy", "sample", "beam", "vote"]
MAX_TOKENS = 1024
"""Of an answer."""


@dataclass(frozen=True)
class ContrastOptions(Checked):
    """s(t) = (1+α)·logit(t|V) − α·logit(t|V_d); head: p(t|V) ≥ β·max p(·|V).

    head "raw" is TCD's: logit ≥ β·max logit.
    """

    alpha: float = number(1.0, 0, 20, "contrast strength α")
    beta: float = number(0.1, 0, 2, "plausibility cut β")
    head: HeadRule = choice(
        "probability", HeadRule, "what the cut compares: probabilities, or raw logits"
    )


@dataclass(frozen=True)
class DecodeOptions(Checked):
    """Search, docs/methods.md, step 10, and how many candidates per token the trace keeps.

    greedy; sample: nucleus with temperature and top_p; beam: `beams` wide, score divided by
    length ** length_penalty; vote: self-consistency, `samples` samples, majority of answers.
    """

    search: Search = choice(
        "greedy", Search, "how the answer is decoded: greedy, nucleus sampling, beams, or a vote"
    )
    max_tokens: int = whole(64, 1, MAX_TOKENS, "longest answer, without its thought", "tokens")
    max_thought: int = whole(1024, 1, 8192, "longest thought before the answer", "tokens")
    contrast_thought: bool = flag(False, "contrast the thought, too, for each method by itself")
    temperature: float = number(1.0, 0.01, 10, "of sample and vote")
    top_p: float = number(0.9, 0.01, 1, "of sample and vote")
    beams: int = whole(4, 1, 32, "beam width")
    length_penalty: float = number(1.0, -5, 5, "of beam search")
    samples: int = whole(5, 1, 64, "samples that vote")
    seed: int = whole(0, 0, MAX_SEED, "seed of sample and vote")
    keep: int = whole(256, 1, 4096, "candidates per token kept in the trace")


@dataclass(frozen=True)
class VcdOptions(Checked):
    """VCD's noise step t of 1000, with the α and β published with it (see VCD_PRESETS)."""

    step: int = whole(500, 0, 999, "noise step, of 1000")
    contrast: ContrastOptions = part(ContrastOptions(alpha=1.0, beta=0.2))


@dataclass(frozen=True)
class SidOptions(Checked):
    """SID: from decoder layer `layer` on only `ratio` of the vision tokens stay, the least read."""

    layer: int = whole(2, 1, 200, "decoder layer from which vision tokens are hidden")
    ratio: float = number(100 / 576, 0, 1, "share of vision tokens that stay")
    contrast: ContrastOptions = part(ContrastOptions(alpha=0.5, beta=0.1))


@dataclass(frozen=True)
class TcdOptions(Checked):
    """TCD: frames kept in the reference view; None takes the published 16→4, 12→8, 32→8."""

    keep: int | None = whole(
        None, 1, 256, "frames in the second view; 16→4, 12→8, 32→8 as published without it"
    )
    contrast: ContrastOptions = part(ContrastOptions(alpha=0.5, beta=0.5, head="raw"))


@dataclass(frozen=True)
class RuleOptions(Checked):
    """What the score rules other than the linear one take, with their published defaults."""

    delta: float = number(1.0, -100, 100, "yes-bias: δ, added to the logit of yes")
    code_power: float = number(0.2, 0.01, 10, "CODE's exponent a")
    only_threshold: float = number(0.2, 0, 2, "ONLY's γ")
    m3id_decay: float = number(0.02, 0, 1, "M3ID's λ per token")
    log_lambda: float = number(1.0, 0, 20, "log-linear's λ")
    beta: float = number(0.1, 0, 2, "plausibility cut of ONLY, M3ID and log-linear")


VCD_PRESETS: dict[str, VcdOptions] = {
    "paper": VcdOptions(500, ContrastOptions(0.5, 0.1)),
    "code": VcdOptions(500, ContrastOptions(1.0, 0.2)),
    "late": VcdOptions(900, ContrastOptions(1.0, 0.1)),
}
"""VCD's published defaults, which disagree."""
PRESETS: dict[str, ContrastOptions] = {
    "toyworld": ContrastOptions(alpha=1.0, beta=0.1),
    "eventhallusion": ContrastOptions(alpha=2.6, beta=0.0036),
    "mvbench": ContrastOptions(alpha=1.0, beta=0.5),
    "perception-test": ContrastOptions(alpha=1.5, beta=0.5),
}
"""α and β by benchmark, as published in the paper; `toyworld` is this project's default."""
