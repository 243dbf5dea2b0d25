"""Leads over the controls with intervals and tests, what the method does, power, one sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import norm

from macd_studio.core.statistics import Interval
from macd_studio.core.text.numbers import number
from macd_studio.evals.audit.answers import KINDS, Answers, Array
from macd_studio.evals.audit.controls import (
    ALWAYS,
    GUESS,
    LENGTH,
    MATCHED,
    POSITION,
    READ,
    Control,
    controls_of,
)
from macd_studio.evals.statistics.intervals import (
    Clusters,
    clustered_share,
    design_effect,
    difference_interval,
)
from macd_studio.evals.statistics.stats import (
    LEVEL,
    mcnemar,
    mean_difference,
    power_of,
    questions_needed,
    sign_flip,
    smallest_difference,
)

POWER = 0.8


@dataclass(frozen=True)
class Power:
    """What a comparison could have shown with a power of .80 at the discordance that it has.

    shows: the smallest difference, a share, None where none is; discordance: share of questions
    that only one of the two has right; effect: the design effect of clips; needed: questions that
    would show the difference that was found, None where it is 0.
    """

    shows: float | None
    discordance: float
    effect: float
    needed: int | None


def power(difference: Array, clusters: Clusters) -> Power:
    """Of a paired difference, (N,) in [−1, 1]; clusters: N keys."""
    discordance = float(np.abs(difference).mean())
    effect = max(1.0, design_effect(difference, clusters))
    found = abs(float(difference.mean()))
    shows = needed = None
    if discordance > 0:
        shows = smallest_difference(len(difference), discordance, POWER, effect)
    if found > 1e-9 and power_of(10**6, found, discordance, design_effect=effect) >= POWER:
        needed = questions_needed(found, discordance, POWER, design_effect=effect)
    return Power(shows, discordance, effect, needed)


@dataclass(frozen=True, eq=False)
class Lead:
    """The method less a control, shares: estimate with its 95 % interval over clips, and p.

    p: exact; None where the control has no test.
    """

    control: Control
    interval: Interval
    p: float | None

    shows: float | None = None
    """The smallest lead that is shown with a power of .80, a share; None where none is."""

    @property
    def survives(self) -> bool:
        """Whether the method is shown to get more than the control."""
        return bool(self.interval[1] > 0 and (self.p is None or self.p < LEVEL))


def power_of_lead(lead: Lead, given: Answers) -> Lead:
    """The lead with what could have been shown.

    Of outcomes of 0 and 1 see `power`; else by the normal test with the interval's own width.
    """
    difference = given.right_after - lead.control.outcome
    if lead.control.lead is None and np.all(difference == np.rint(difference)):
        return replace(lead, shows=power(difference, given.clusters).shows)
    half = (lead.interval[2] - lead.interval[1]) / 2
    return replace(lead, shows=half * (1 + float(norm.ppf(POWER) / norm.ppf(1 - LEVEL / 2))))


def lead_over(control: Control, given: Answers) -> Lead:
    """Of outcomes of 0 and 1 the exact test is over clips, and agrees with the interval."""
    own = given.right_after.astype(float)
    difference = own - control.outcome
    if control.lead is not None:
        gain = difference_interval(given.difference, given.clusters)
        found, low, high = control.lead
        low = min(low, found - (gain[0] - gain[1]))
        high = max(high, found + (gain[2] - gain[0]))
        return Lead(control, (found, max(-1.0, low), min(1.0, high)), control.p)
    interval = mean_difference(control.outcome, own, given.clusters)
    whole = bool(np.all(difference == np.rint(difference)))
    return Lead(control, interval, sign_flip(difference, given.clusters) if whole else control.p)


@dataclass(frozen=True, eq=False)
class Finding:
    """One kind of question.

    baseline, method, gain: shares with intervals over clips; p: exact, over clips; p_questions:
    McNemar's, every question for itself; yes: change of the rate of "yes", None without such
    questions; p_yes: exact, over clips.
    """

    given: Answers
    baseline: Interval
    method: Interval
    gain: Interval
    p: float
    p_questions: float
    leads: tuple[Lead, ...]
    yes: Interval | None
    p_yes: float

    @property
    def gains(self) -> bool:
        """Whether a gain over the baseline is shown."""
        return self.gain[1] > 0 and self.p < LEVEL

    @property
    def failed(self) -> list[Lead]:
        """Controls that the method is not shown to beat, the best one first."""
        return sorted((z for z in self.leads if not z.survives), key=lambda z: z.interval[0])

    @property
    def survives(self) -> bool:
        """Whether a gain is shown, over the baseline and every control."""
        return self.gains and not self.failed and self.given.kind in KINDS

    @property
    def matched(self) -> Lead | None:
        """The control that gives each answer as often; the strictest of several, no bound."""
        own = [z for z in self.leads if z.control.about == MATCHED and not z.control.bound]
        return min(own, key=lambda z: (z.survives, z.interval[0]), default=None)

    @property
    def shifted(self) -> bool:
        """Whether the method says yes more or less often, which is all that is shown of it.

        The change of the rate is shown, and no lead over what has that rate.
        """
        lead = self.matched
        return bool(self.yes) and self.p_yes < LEVEL and lead is not None and not lead.survives


def find(given: Answers) -> Finding:
    """All of it but power."""
    a, b = given.right_before, given.right_after
    leads = tuple(lead_over(c, given) for c in controls_of(given))
    yes, p_yes = None, 1.0
    if given.kind == "yes-no":
        said = [np.array([z == "yes" for z in z], int) for z in (given.before, given.after)]
        yes = mean_difference(said[0], said[1], given.clusters)
        p_yes = sign_flip(said[1] - said[0], given.clusters)
    return Finding(
        given, clustered_share(a, given.clusters), clustered_share(b, given.clusters),
        mean_difference(a, b, given.clusters), sign_flip(given.difference, given.clusters),
        mcnemar(a, b), leads, yes, p_yes,
    )  # fmt: skip


def points(interval: Interval) -> str:
    """A difference in points with its interval."""
    middle, low, high = (100 * z for z in interval)
    return f"{number(middle, '+.1f')} points [{number(low, '.1f')}, {number(high, '.1f')}]"


def percent(share: float) -> str:
    """A share in percent."""
    return f"{100 * share:.1f} %"


def cause(found: Finding) -> str:
    """What explains the method as well as looking at the clip does; "" where nothing is found."""
    if silent := _unread(found):
        return silent
    if found.shifted:
        before, after = found.given.share_of("yes")
        lead = found.matched
        assert lead is not None
        more = "more" if after > before else "less"
        reaches = REACHES[lead.control.name]
        if lead.interval[2] < 0:
            reaches = reaches.replace("as much", "more")
        return (
            f'the method says "yes" {more} often ({percent(before)} → {percent(after)}), and'
            f" {reaches} ({points(lead.interval)} are left)"
        )
    if not found.gains:
        return ""
    return "; ".join(_reasons(found))


def _unread(found: Finding) -> str:
    """That the method's answers cannot be read, where that takes most of what it loses."""
    before, after = (
        sum(z is None for z in said) for said in (found.given.before, found.given.after)
    )
    lost = -len(found.given.after) * found.gain[0]
    if after <= before or lost <= 0 or 2 * (after - before) < lost:
        return ""
    return (
        f"{after} of the method's {len(found.given.after)} answers cannot be read and count as"
        f" wrong, {before} of the baseline's"
    )


REACHES = {
    "constant": "a constant added to the baseline's scores gets as much",
    "random changes": "changes at random to that rate get as much",
    "normal threshold": "moving the threshold of normal margins gets as much",
    "constants": "constants added to the baseline's scores of the letters get as much",
    "as precise": "a constant may get as much, which only the baseline's scores can tell",
}


REASONS = {
    READ: "it gains where the baseline's answers cannot be read",
    LENGTH: "the {} gets as much",
}


def _reasons(found: Finding) -> Iterator[str]:
    """For each kind of control that fails, the one over which least is left."""
    failed = {z.control.about: z for z in reversed(found.failed)}
    for about in (READ, MATCHED, ALWAYS, POSITION, LENGTH, GUESS):
        if about not in failed:
            continue
        lead = failed[about]
        name, most = lead.control.name, "at most " if lead.control.bound else ""
        told = REASONS.get(about, "{} gets as much").format(name)
        if about == MATCHED:
            told = f"{_changed_letter(found.given)}{REACHES[name]}"
        share = percent(float(lead.control.outcome.mean()))
        yield f"{told} ({most}{share}; {points(lead.interval)} are left)"


def _changed_letter(given: Answers) -> str:
    """Which answer is given more often, of choices."""
    if given.kind != "choice":
        return ""
    rise = Counter(given.after)
    rise.subtract(Counter(given.before))
    letter, more = max(rise.items(), key=lambda z: (z[0] is not None, z[1]))
    if letter is None or more <= 0:
        return ""
    before, after = given.share_of(letter)
    return f"it answers {letter} more often ({percent(before)} → {percent(after)}), and "


def verdict(found: Finding, could: Power) -> str:
    """One sentence or two."""
    gain, why = points(found.gain), cause(found)
    if found.survives:
        least = min(found.leads, key=lambda z: z.interval[0])
        return (
            f"The gain of {gain} survives every control; least is left over {least.control.name},"
            f" {points(least.interval)}."
        )
    if found.gains and found.given.kind not in KINDS:
        return f"The gain is {gain}; questions of this kind have no controls here."
    if found.gains:
        return f"The gain of {gain} does not survive: {why}."
    if found.gain[2] < 0 and found.p < LEVEL:
        return f"The method loses: {gain}.{_also(why)}"
    shows = "nothing" if could.shows is None else f"{100 * could.shows:.1f} points"
    return (
        f"No gain is shown: {gain}. With a power of .80 these questions show {shows} or more at the"
        f" {percent(could.discordance)} that differ.{_also(why)}"
    ).replace("show nothing or more", "show no difference")


def _also(why: str) -> str:
    return f" {why[0].upper()}{why[1:]}." if why else ""
