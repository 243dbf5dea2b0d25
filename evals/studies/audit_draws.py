"""How often an audit is right, by simulation: `python -m evals.studies.audit_draws`.

Answers of a baseline and a method are drawn whose difference is known: the method only says one
answer more often, or its answers are noisy, or it sees more. Each draw is given to
`evals.audit.findings.find`. Also how often the difference that is said to be shown with a power of
.80 is shown. Writes docs/audit.json, whose tables stand in docs/audit.md.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.commands import parser as command_line
from macd_studio.core.validation import Number
from macd_studio.evals.audit.answers import Answers
from macd_studio.evals.audit.findings import find
from macd_studio.evals.printing.figures import table
from macd_studio.evals.running.output import check_folder, machine, say
from macd_studio.evals.statistics.stats import (
    LEVEL,
    mean_difference,
    sign_flip,
    smallest_difference,
)
from macd_studio.evals.studies.coverage import Cell, draw_difference
from macd_studio.evals.studies.shared import command
from macd_studio.parts import ROOT

Array = NDArray[Any]
DRAWS = 1000
LETTERS = "ABCD"
TOGETHER = 0.3
"""Correlation of margins within a clip, where it has several questions."""
APART = 1.0
"""How far margins of both truths lie from 0, in standard deviations: 84 % are right without a
bias."""


@dataclass(frozen=True)
class Case:
    """How a method differs from the baseline, which has a bias.

    kind: yes-no or choice. bias: added to the baseline's score of yes, or of A. shift: of the
    method, beside that; noise: standard deviation of new noise in the method's margins; flips:
    share of answers drawn anew among the others; sees: how much further apart its margins lie.
    unequal: standard deviation where yes is right, over that where no is.
    """

    title: str
    kind: str = "yes-no"
    bias: float = -0.6
    shift: float = 0.0
    noise: float = 0.0
    flips: float = 0.0
    sees: float = 0.0
    unequal: float = 1.0

    @property
    def only_shifts(self) -> bool:
        """Whether the rate of answers is all that changes."""
        return self.shift != 0 and not (self.noise or self.flips or self.sees)


CASES = (
    Case("the same answers"),
    Case("answers flipped at random, 10 %", flips=0.1),
    Case("noise in the margins, 0.5", noise=0.5),
    Case("yes more often, +0.6", shift=0.6),
    Case("yes more often, +1.2", shift=1.2),
    Case("yes less often, −0.6", bias=0.6, shift=-0.6),
    Case("yes more often and noise", shift=0.6, noise=0.5),
    Case("yes more often and flips", shift=0.6, flips=0.1),
    Case("yes more often, wider where yes is right", shift=0.6, unequal=1.5),
    Case("yes more often, narrower where yes is right", shift=0.6, unequal=1 / 1.5),
    Case("sees more, +0.4", sees=0.4),
    Case("sees more, and yes more often", sees=0.4, shift=0.6),
    Case("A more often, +0.8", kind="choice", bias=-0.8, shift=0.8),
    Case("A more often and flips", kind="choice", bias=-0.8, shift=0.8, flips=0.1),
    Case("sees more, options", kind="choice", bias=0.0, sees=0.4),
)
DESIGNS = ((120, 1), (400, 1), (400, 4))
"""Questions, and questions a clip."""


def _noise(rng: np.random.Generator, n: int, each: int, columns: int = 1) -> Array:
    """(N, columns) standard normal, of which TOGETHER is shared within a clip."""
    own = rng.standard_normal((n, columns))
    if each == 1:
        return own
    shared = np.repeat(rng.standard_normal((-(-n // each), columns)), each, 0)[:n]
    return np.asarray(math.sqrt(TOGETHER) * shared + math.sqrt(1 - TOGETHER) * own)


def draw(case: Case, n: int, each: int, scored: bool, rng: np.random.Generator) -> Answers:
    """One draw: n questions, `each` of them about a clip, with the baseline's scores or without."""
    clips = [str(i // each) for i in range(n)]
    if case.kind == "choice":
        return _choices(case, clips, each, scored, rng)
    yes = rng.random(n) < 0.5
    sign = 2.0 * yes - 1
    seen = _noise(rng, n, each)[:, 0] * np.where(yes, case.unequal, 1.0)
    plain = APART * sign + seen + case.bias
    moved = plain + case.sees * sign + case.shift + case.noise * _noise(rng, n, each)[:, 0]
    before, after = plain > 0, moved > 0
    after = np.where(rng.random(n) < case.flips, ~after, after)
    scores = [{"yes": float(z), "no": 0.0} if scored else {} for z in plain]
    word = [["no", "yes"][int(z)] for z in np.concatenate([yes, before, after])]
    return Answers("yes-no", word[:n], [()] * n, word[n : 2 * n], word[2 * n :], before == yes,
                   after == yes, clips, scores)  # fmt: skip


def _choices(
    case: Case, clips: Sequence[str], each: int, scored: bool, rng: np.random.Generator
) -> Answers:
    n = len(clips)
    truth = rng.integers(0, 4, n)
    right = np.eye(4)[truth]
    first = np.array([1.0, 0, 0, 0])
    plain = 1.2 * right + _noise(rng, n, each, 4) + case.bias * first
    moved = plain + case.sees * right + case.shift * first
    moved += case.noise * _noise(rng, n, each, 4)
    before, after = plain.argmax(1), moved.argmax(1)
    after = np.where(rng.random(n) < case.flips, rng.integers(0, 4, n), after)
    told = [[LETTERS[i] for i in z] for z in (truth, before, after)]
    lengths = rng.permuted(np.tile(np.arange(1, 5), (n, 1)), axis=1)
    options = [tuple("x" * int(k) for k in row) for row in lengths]
    scores: list[dict[str, float]] = [
        dict(zip("abcd", map(float, z), strict=True)) if scored else {} for z in plain
    ]
    return Answers("choice", told[0], options, told[1], told[2], before == truth, after == truth,
                   clips, scores)  # fmt: skip


def measure(case: Case, n: int, each: int, scored: bool, draws: int) -> dict[str, Any]:
    """Shares of draws: a gain is shown, it survives, and the change of the rate is named."""
    rng = np.random.default_rng(zlib.crc32(f"{case.title} {n} {each} {scored}".encode()))
    counts = dict.fromkeys(("gains", "survives", "named"), 0)
    for _ in range(draws):
        found = find(draw(case, n, each, scored, rng))
        counts["gains"] += found.gains
        counts["survives"] += found.survives
        counts["named"] += found.shifted
    return {"case": asdict(case), "n": n, "each": each, "scored": scored, "draws": draws,
            **{k: v / draws for k, v in counts.items()}}  # fmt: skip


POWERS = ((120, 1, 0.0), (400, 1, 0.0), (400, 4, 0.3), (1200, 1, 0.0))
"""Questions, questions a clip, correlation within it."""
DISCORDANCES = (0.1, 0.3)


def measure_power(n: int, each: int, together: float, q: float, draws: int) -> dict[str, Any]:
    """Draws in which a gain is shown, where the truth is the smallest difference that is said.

    q: the share of questions that only one of the two has right.
    """
    effect = 1 + (each - 1) * together
    least = smallest_difference(n, q, 0.8, effect)
    assert least is not None
    rates = (q + least) / 2, (q - least) / 2, 1 - q
    cell = Cell("difference", least, rates, n // each, each, together)
    rng = np.random.default_rng(zlib.crc32(f"{n} {each} {q}".encode()))
    shown = 0
    for _ in range(draws):
        difference, clips = draw_difference(cell, rng)
        interval = mean_difference((difference < 0) * 1.0, (difference > 0) * 1.0, clips)
        shown += interval[1] > 0 and sign_flip(difference, clips) < LEVEL
    return {"n": n, "each": each, "together": together, "discordance": q, "least": least,
            "draws": draws, "shown": shown / draws}  # fmt: skip


def simulate(draws: int) -> dict[str, Any]:
    """All figures of docs/audit.json that are simulated."""
    cells = []
    for case in CASES:
        for n, each in DESIGNS:
            for scored in (True, False):
                cells.append(measure(case, n, each, scored, draws))
                say(f"{case.title}, {n}, {each}, {scored}: {cells[-1]['survives']:.3f}")
    powers = [measure_power(*p, q, draws) for p in POWERS for q in DISCORDANCES]
    return {"draws": draws, "together": TOGETHER, "cells": cells, "power": powers,
            "machine": machine()}  # fmt: skip


def tables(report: dict[str, Any]) -> tuple[str, str]:
    """Of cases, and of power, as docs/audit.md has them: of the designs the first and the last."""
    shown = DESIGNS[0], DESIGNS[-1]
    lines: dict[str, list[str]] = {}
    for cell in report["cells"]:
        if (cell["n"], cell["each"]) in shown:
            told = [f"{100 * cell[k]:.1f}" for k in ("gains", "survives", "named")]
            lines.setdefault(cell["case"]["title"], []).append(", ".join(told))
    heads = [f"n = {n}, {count_of(each)}{w}" for n, each in shown for w in ("", ", no scores")]
    cases = table(["method", *heads], ([k, *v] for k, v in lines.items()))
    rows = [
        [str(p["n"]), str(p["each"]), f"{100 * p['discordance']:.0f}", f"{100 * p['least']:.1f}",
         f"{100 * p['shown']:.1f}"]
        for p in report["power"]
    ]  # fmt: skip
    power = table(["n", "a clip", "differ %", "said to be shown from", "shown in % of draws"], rows)
    return str(cases), str(power)


def count_of(each: int) -> str:
    """
    >>> count_of(4)
    '4 a clip'
    """
    return f"{each} a clip"


def main(argv: list[str] | None = None) -> int:
    """Simulates and writes the file."""
    parser = command_line("evals.studies.audit_draws", __doc__)
    parser.add_argument("--draws", type=int, default=DRAWS, help=f"a cell (default: {DRAWS})")
    parser.add_argument("--out", type=Path, default=ROOT / "docs", help="folder of the file")

    def run(args: Any) -> str:
        Number(10, 10**6, whole=True).read(args.draws, "draws")
        check_folder(args.out)
        file = args.out / "audit.json"
        report = simulate(args.draws)
        if file.is_file():  # what tests/evals/own_samples.py wrote stays
            report = json.loads(file.read_text("utf-8")) | report
        file.write_text(json.dumps(report) + "\n", "utf-8")
        return "\n\n".join(tables(report))

    return command(parser, run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
