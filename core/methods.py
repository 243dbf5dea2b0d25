"""Every decoder by name: a second view, a rule that scores the two, and published defaults.

A method is one line below; any other pair is written VIEW+RULE, as "macd+code", and a rule over
two second views VIEW/VIEW+RULE, as "vcd/tcd+mean-views". Importing this
package imports no torch: a view's module is loaded when it is first used.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from macd_studio.core.errors import OptionError
from macd_studio.core.options import OWN_CONTRAST, ContrastOptions, RunOptions
from macd_studio.core.rules import RULES, ScoreRule, Setting, find_rule
from macd_studio.core.validation import check_named, shown
from macd_studio.core.view_records import NoisedView, View
from macd_studio.core.views.table import (
    OF_A_PARTNER,
    OF_THE_CLIP,
    RANDOM_PLACES,
    VIEW_NEEDS,
    VIEWS,
    find_view,
)

if TYPE_CHECKING:
    from macd_studio.core.types import Answer, Trace
    from macd_studio.core.views.context import MethodContext
    from macd_studio.core.views.second_view import SecondView


VIEW_MARK = "/"
"""Between the views of a method that has several; no shell reads it in any other way."""


@dataclass(frozen=True)
class Method:
    """A decoder. view, rule: names in core.views.table and core.rules; fixed: an answer of its own.

    view: several, for a rule that takes several, with a "/" between them. title: for tables, its
    rule's where it has none of its own.
    """

    name: str
    title: str = ""
    view: str = "video"
    rule: str = "linear"
    fixed: str | None = None

    def __post_init__(self) -> None:
        if not self.title:
            object.__setattr__(self, "title", find_rule(self.rule).title)

    @property
    def second_views(self) -> int:
        """How many second views it contrasts the video with."""
        if self.fixed is not None:
            return 0
        rule = find_rule(self.rule)
        return rule.second_views if rule.at_most is None else len(self.views)

    @property
    def needs_objects(self) -> bool:
        """Whether its answer depends on the objects that were found in the clip."""
        return self.fixed is None and not {*OF_THE_CLIP, *OF_A_PARTNER}.issuperset(self.views)

    @property
    def needs(self) -> tuple[str, ...]:
        """What must be there for it, see `MethodContext.need`."""
        if self.fixed is not None:
            return ()
        needed = (*(VIEW_NEEDS.get(view, ()) for view in self.views), find_rule(self.rule).needs)
        return tuple(dict.fromkeys(name for names in needed for name in names))

    @property
    def views(self) -> tuple[str, ...]:
        """The names of its second views, in order."""
        return tuple(self.view.split(VIEW_MARK))

    def build(self, context: MethodContext) -> tuple[SecondView, ...]:
        """Its second views, prefilled."""
        return tuple(find_view(view)(context) for view in self.views)

    def rule_for(self, context: MethodContext) -> ScoreRule:
        """Its rule as the options have it. Raises NotApplicable, see `ScoreRule.create`.

        Also where the rule needs what the model's reader does not give: every token's logit, or raw
        logits.
        """
        kind = find_rule(self.rule)
        context.lm.need(*kind.needs)
        rule = kind.create(
            Setting(
                contrast=contrast_of(self.view, context.options),
                options=context.options.rules,
                tokens=context.lm.tokens,
                question=context.encoded.question,
                penalty=context.lm.info.repetition_penalty,
                depth=context.local.depth if kind.needs else 0,
                frames=len(context.encoded.groups),
            )
        )
        if rule.needs_every_logit:
            context.lm.need("rows")
        if rule.needs_raw_logits:
            context.lm.need("logits")
        return rule

    @property
    def source(self) -> str:
        """The sources of the method: those of its view and its rule."""
        if self.fixed is not None:
            return f"A control: no model at all, the answer is always {self.fixed!r}."
        parts = (*(find_view(v).__doc__ for v in self.views), find_rule(self.rule).__doc__)
        return " ".join((part or "").strip() for part in parts)


def own_part(view: str) -> str:
    """The part of the options that a view's α, β and cut may stand in.

    Of several views the one whose name they all begin with.

    >>> own_part("vcd"), own_part("season-spatial/season-temporal")
    ('vcd', 'season')
    """
    return "/".join(dict.fromkeys(one.partition("-")[0] for one in view.split(VIEW_MARK)))


def contrast_of(view: str, options: RunOptions) -> ContrastOptions:
    """α, β and cut of a view: those published with it, or the run's own."""
    part = own_part(view)
    owner: Any = getattr(options, part) if part in OWN_CONTRAST else options
    contrast: ContrastOptions = owner.contrast
    return contrast


def with_contrast(view: str, options: RunOptions, contrast: ContrastOptions) -> RunOptions:
    """The options with another α, β and cut where `contrast_of` reads those of the view."""
    part = own_part(view)
    if part not in OWN_CONTRAST:
        return replace(options, contrast=contrast)
    return replace(options, **{part: replace(getattr(options, part), contrast=contrast)})


def clamped_share(answer: Answer) -> float | None:
    """The largest share of clamped values among an answer's second views; None where none was."""
    return largest_clamped(second.view for second in answer.second_views)


def largest_clamped(views: Iterable[View]) -> float | None:
    """The largest clamped share of these views; None where none has one."""
    shares = [v.clamped for v in views if isinstance(v, NoisedView) and v.clamped is not None]
    return max(shares, default=None)


def in_8_bits(name: str, clamped: float | None) -> str:
    """A method's name or title, with what tells it from the one that reads unrounded noise.

    >>> in_8_bits("vcd", 0.02), in_8_bits("vcd", None)
    ('vcd (8 bit)', 'vcd')
    """
    return name if clamped is None else f"{name} (8 bit)"


def display_name(answer: Answer) -> str:
    """The name of an answer's method, as people read it."""
    return in_8_bits(answer.method, clamped_share(answer))


def masked_answer(trace: Trace) -> str:
    """The method whose masks are the trace's own: MACD's, or those that replace them.

    A model without gradient has levels by measured effects.
    """
    return "macd" if "macd" in trace.answers else "macd-measured"


METHODS: dict[str, Method] = {
    m.name: m
    for m in (
        Method("baseline", "Baseline", rule="plain"),
        Method("macd", "MACD", "macd"),
        Method("vcd", "VCD", "vcd"),
        Method("sid", "SID", "sid"),
        Method("tcd", "TCD", "tcd"),
        Method("ssacd", "SSACD", "ssacd"),
        Method("season", "SEASON", "season-spatial/season-temporal", "season"),
        Method("macd-fixed", "MACD, no mask training", "macd-fixed"),
        Method("macd-fixed-frames", "MACD, no mask training, frame mask", "macd-fixed-frames"),
        Method("macd-object", "MACD, no frame mask", "macd-object"),
        Method(
            "macd-object-subsampled", "MACD, no frame mask, fewer frames", "macd-object-subsampled"
        ),
        Method("macd-continuous", "MACD, continuous strengths", "macd-continuous"),
        Method("macd-swept", "MACD, swept masks", "macd-swept"),
        Method("macd-answer", "MACD, loss of the own answer", "macd-answer"),
        Method("macd-margin", "MACD, margin of the own answer", "macd-margin"),
        Method("macd-measured", "MACD, measured effects", "macd-measured"),
        Method("noise-global", "Trained noise, whole clip", "noise-global"),
        Method("noise-object", "Trained noise, objects", "noise-object"),
        Method("noise-frame", "Trained noise, frames", "noise-frame"),
        Method("random-place", "Random places, same area", "random-place"),
        Method("random-objects", "Random objects, same levels", "random-objects"),
        *(
            Method(
                f"random-average-{n}",
                f"Average of {n} random places",
                VIEW_MARK.join(RANDOM_PLACES[:n]),
                "mean-views",
            )
            for n in (2, 4, 8)
        ),
        Method("mask-all", "Every object masked", "mask-all"),
        Method("reversed", "Reversed signs", "reversed"),
        Method("blank", "Blank video", "blank"),
        Method("head-only", rule="cut-only"),
        Method("yes-bias", rule="yes-bias"),
        Method("olm", rule="olm"),
        Method("prompt-bias", "Prompt asks for yes", "prompt-bias", "plain"),
        Method("always-yes", "Always yes", fixed="yes"),
    )
}

PAIRED: dict[str, Method] = {"pair": Method("pair", "Partner clip", "pair")}
"""Methods that need another clip beside the one that is asked about; "all" leaves them out."""

FORMER_NAMES = {"output-bias": "yes-bias", "random-mask": "random-place"}
"""Names that methods had in an earlier version, still understood."""


def find_method(name: str) -> Method:
    """A method by its name, VIEW+RULE or VIEW/VIEW+RULE. Raises OptionError where it is none."""
    name = FORMER_NAMES.get(name, name)
    if name in METHODS or name in PAIRED:
        return METHODS.get(name) or PAIRED[name]
    view, plus, rule = name.partition("+")
    if not plus:
        if name in sorted(VIEWS):
            raise OptionError(
                f"{name!r} is a view, and no method has its name",
                f"Write {name}+linear, or add a line to METHODS in core/methods.py",
            )
        raise OptionError(
            f"there is no method {shown(name)}",
            f"Choose one of {', '.join(METHODS)}, or write VIEW+RULE, such as macd+code",
        )
    views = view.split(VIEW_MARK)
    for kind, parts, names in (
        ("view", views, sorted(VIEWS | OF_A_PARTNER)),
        ("rule", [rule], sorted(RULES)),
    ):
        for part in parts:
            check_named(part, names, kind)
    scored_by = find_rule(rule)
    if scored_by.second_views and (without := [v for v in views if v in ("video", "prompt-bias")]):
        raise OptionError(
            f"the rule {rule!r} needs a second view, and {without[0]!r} has none",
            "Choose another view, such as macd",
        )
    if not (scored_by.takes(len(views)) if scored_by.second_views else len(views) == 1):
        raise OptionError(
            f"the rule {rule!r} takes {scored_by.views_taken()}, and {view!r} names {len(views)}",
            f"Write {VIEW_MARK.join(['VIEW'] * max(1, scored_by.second_views))}+{rule}",
        )
    view_titles = f" {VIEW_MARK} ".join(
        METHODS[v].title if v in METHODS else v.replace("-", " ").capitalize() for v in views
    )
    return Method(name, f"{view_titles} + {scored_by.title}", view, rule)


def find_methods(names: Iterable[str]) -> list[Method]:
    """Methods by name, each once, in the order given; "all" is every named one.

    Raises OptionError for a name that is none.
    """
    requested = list(dict.fromkeys(names))
    if requested == ["all"]:
        return list(METHODS.values())
    return list({m.name: m for m in map(find_method, requested)}.values())


def depends_on_masks(name: str) -> bool:
    """Whether the answer of the method of this name changes with the masks; True if unknown."""
    try:
        return find_method(name).needs_objects
    except OptionError:  # of a decoder that is not known here
        return True
