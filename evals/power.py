"""How many questions show a difference between two methods asked the same ones (McNemar's test).

Connor (1987), "Sample size for testing differences in proportions for the paired-sample design":
n = ((z₁₋ₐ/₂·√q + z_b·√(q − d²)) / d)², with d the difference of the two accuracies and q the share
of questions that only one of them answers right.
"""

from __future__ import annotations

import math

from scipy.stats import norm

from macd_studio.core.errors import OptionError


def check_difference(difference: float, discordance: float) -> None:
    """Raises OptionError where no two methods can differ so."""
    if not 0 < abs(difference) <= discordance <= 1:
        raise OptionError(
            f"a difference of {100 * difference:g} points needs at least as many questions that"
            f" only one method answers right, and {100 * discordance:g} % are",
            "Give a discordance from the difference to 100",
        )


def questions_needed(
    difference: float,
    discordance: float,
    power: float = 0.8,
    level: float = 0.05,
    design_effect: float = 1.0,
) -> int:
    """Questions with which a two-sided test at `level` finds the difference with that power.

    difference, discordance: shares in (0, 1]. design_effect: by how much clusters enlarge the
    variance, 1 + (questions a clip − 1)·correlation within a clip. Raises OptionError.

    >>> questions_needed(0.05, 0.20), questions_needed(0.05, 0.20, design_effect=1.5)
    (626, 939)
    """
    check_difference(difference, discordance)
    d, q = abs(difference), discordance
    root = norm.ppf(1 - level / 2) * math.sqrt(q) + norm.ppf(power) * math.sqrt(q - d * d)
    return math.ceil(design_effect * (float(root) / d) ** 2)


def power_of(
    n: int, difference: float, discordance: float, level: float = 0.05, design_effect: float = 1.0
) -> float:
    """The power of n questions, the inverse of `questions_needed`.

    >>> round(power_of(626, 0.05, 0.20), 2)
    0.8
    """
    check_difference(difference, discordance)
    d, q = abs(difference), discordance
    if q == d * d:
        return 1.0
    reach = d * math.sqrt(n / design_effect) - norm.ppf(1 - level / 2) * math.sqrt(q)
    return float(norm.cdf(reach / math.sqrt(q - d * d)))


def smallest_difference(
    n: int, discordance: float, power: float = 0.8, design_effect: float = 1.0
) -> float | None:
    """The smallest difference that n questions show with that power; None where none does.

    >>> round(smallest_difference(193, 0.3), 3)
    0.11
    """
    low, high = 0.0, discordance
    if power_of(n, high, discordance, design_effect=design_effect) < power:
        return None
    for _ in range(60):
        middle = (low + high) / 2
        enough = power_of(n, middle, discordance, design_effect=design_effect) >= power
        low, high = (low, middle) if enough else (middle, high)
    return high
