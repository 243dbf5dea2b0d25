"""What is fixed before the first rating: items, arms, seed, design, and the planned analysis.

It can be published before the study, so it names nothing by which a rater could tell arms apart.
The seed, and of each item its part, masks and digests of pictures, are sealed: only a hash with the
study's secret salt stands in it. `check.reveal` publishes the salt afterwards.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

RESAMPLES = 4000
TARGETS = {"ratings": 0.15, "pairs": 0.05}
"""Half the width of the interval that a study should reach: of the paired difference in points, of
the share that prefers the first arm."""
SPREAD_LEAST, SECONDS_LEAST, AGREEMENT_LEAST = 0.3, 2.0, 0.0
"""Below these a rater is named in the report; see PLAN."""
SLIPS, APART, ALARM = 0.1, 2, 0.01
FAR = {"ratings": 0.22, "pairs": 0.17}
"""A careful rater misses SLIPS of the known ratings, and rates FAR of the masks seen twice APART
points or more apart; a rater is named where what is seen has a lower probability than ALARM. FAR is
the share of masks, in a study of pairs of screens, of careful raters whose noise has an SD of 0.9
points (`ratings.alarms`)."""
DISPUTED = {"ratings": 3, "pairs": 2}
"""Points between ratings of a mask by raters who were not named, from which an item is disputed."""
MIN_SEEN = 6
"""Ratings, items, or screens with a difference, below which a rule says nothing."""

PLAN = {
    "scale": "1 to 5: how well the mask hides what is needed to answer and keeps the rest",
    "outcome": "mean rating by arm, its standard deviation, and the share of ratings of 4 or 5",
    "primary": "paired difference of the first arm and each other arm, of ratings that one rater"
    " gave to both arms of one clip: the mean over raters of each rater's mean. 95 % interval for"
    " other raters and clips like these: the variance of rater means, plus that over clips, less"
    " what both count twice, and not below either; t with as many degrees of freedom as the fewer"
    " of raters and clips, less one. Beside it the interval over clips for these raters, and each"
    " rater's own. With one rater it is of this rater alone; where all pairs are equal there is no"
    " interval. Of single arms: percentile intervals of a bootstrap over clips and raters,"
    f" {RESAMPLES} times",
    "control": "of each other arm, how much of what the first arm hides it hides too is stated for"
    " every item, and the difference is repeated by thirds of that overlap. Items left out are"
    " counted, with how much of the pixels MACD hides in them",
    "answers": "the last rating of a side that the server received counts; skipped screens and"
    " repeated screens are left out of all but the repeat consistency",
    "agreement": "Krippendorff's alpha for ordinal data over all rated masks, with a bootstrap"
    " interval over clips; quadratic weighted kappa for each pair of raters",
    "sides": "the share of screens on which the left mask got the higher rating, ties left out",
    "gradient": "Spearman's correlation, over objects, of the gradient of the query loss with how"
    " much more raters give to the arms that hide the object",
    "exclusions": "nobody is excluded from the primary analysis. It is repeated without raters who"
    f" miss so many known ratings, or rate so many masks that they saw twice {APART} points or more"
    " apart, their lean to a side taken out (the mean of what a mask got more on the left, in whole"
    f" points), as a rater who does so with {SLIPS:.0%} and {FAR['ratings']:.0%} of them would with"
    f" a probability below {ALARM:.0%}; who give one side the higher rating more often than chance"
    f" does with that probability (two-sided binomial test); whose ratings have a standard"
    f" deviation below {SPREAD_LEAST}; who take less than {SECONDS_LEAST:g} s an item (median); or"
    " whose ratings correlate with the mean of the others negatively beyond chance (the upper end"
    f" of the 95 % interval is below 0). All but the first two want {MIN_SEEN} ratings, items or"
    " screens with a difference",
    "adjudication": "items are disputed where raters who were not named are"
    f" {DISPUTED['ratings']} points or more apart on a mask. An adjudicator may rate them once more"
    " without seeing a rating. The primary analysis is over the raters' own ratings all the same;"
    " it is repeated with the adjudicator's in the place of all raters' on every item of which the"
    " adjudicator rated all masks, and both are stated side by side. Revoked adjudicators do not"
    " count, and of several the first who was appointed does",
    "stopping": "when the planned raters are done, or when the interval of the primary difference"
    f" is within ± {TARGETS['ratings']}, of at least three raters who were not named; the"
    " organiser's page shows the width, not the difference",
}

PLAN_OF_PAIRS = PLAN | {
    "scale": "which of two masks hides better what is needed to answer and keeps the rest: left,"
    " right, or no difference",
    "outcome": "the share of pairs in which the first arm is preferred to each other arm, no"
    " difference counting half; how many could not be judged",
    "primary": "that share, as the mean over raters of each rater's share. " + PLAN["primary"][
        PLAN["primary"].index("95 % interval for") : PLAN["primary"].index(" Of single arms")
    ] + " With three arms or more also Bradley-Terry strengths against the first arm, with"
    f" percentile intervals of a bootstrap over clips and raters, {RESAMPLES} times",
    "answers": "the last preference of a screen that the server received counts; screens left by"
    " cannot judge and repeated screens are left out of all but the repeat consistency",
    "exclusions": PLAN["exclusions"].replace(
        f"rate so many masks that they saw twice {APART} points or more apart",
        "decide so many screens that they saw twice the opposite way",
    )
    .replace(
        "(the mean of what a mask got more on the left, in whole points)",
        "(decisions that turn to the left count as often as those that turn to the right, as often"
        " as the rarer ones; a change from or to no difference does not count)",
    )
    .replace(f"{FAR['ratings']:.0%} of them", f"{FAR['pairs']:.0%} of them"),
    "adjudication": PLAN["adjudication"].replace(
        f"raters who were not named are {DISPUTED['ratings']} points or more apart on a mask",
        "one rater who was not named prefers one mask, and another one the other of the same two",
    ),
    "stopping": PLAN["stopping"].replace(str(TARGETS["ratings"]), str(TARGETS["pairs"])),
}  # fmt: skip


def plan_of(scale: str) -> dict[str, str]:
    """The planned analysis of a study of this scale, of `plan.SCALES`."""
    return PLAN_OF_PAIRS if scale == "pairs" else PLAN


def canonical(content: dict[str, Any]) -> str:
    """The one way in which a preregistration is written; its sha256 is over these bytes."""
    return json.dumps(content, sort_keys=True, ensure_ascii=False, indent=1) + "\n"


def sealed_sha256(salt: str, content: dict[str, Any]) -> str:
    """The commitment to a sealed part: sha256 of the salt, a line feed, and its canonical text.

    salt: 64 hexadecimal digits, secret until the study is over. Without it the digest says nothing
    of the content; with it nobody can show other content.
    """
    return sha256(f"{salt}\n{canonical(content)}")


def sha256(text: str) -> str:
    """Of a text in UTF-8, in hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
