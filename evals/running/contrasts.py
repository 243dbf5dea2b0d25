"""α and β of each method of a run: given, by a preset, or left to be chosen on a split.

`--methods macd:alpha=2.6,beta=0.1,vcd:preset=published,baseline`; imports no torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass

from macd_studio.core.errors import OptionError
from macd_studio.core.methods import Method, contrast_of, find_method, find_methods, own_part
from macd_studio.core.options import OWN_CONTRAST, PRESETS, ContrastOptions, RunOptions
from macd_studio.core.rules import CONSTANT_ALPHA, find_rule
from macd_studio.core.validation import shown

CONSTANT = "yes-bias"
"""The method whose constants are tuned, on the split on which α and β are chosen; its
answers follow from the baseline's rows (`evals.statistics.constant`)."""
PUBLISHED = "published"
"""The preset that is the method's own: α and β that its authors published."""
KEYS = ("alpha", "beta", "preset")
GIVEN, DEFAULT, CHOSEN = "given", "default", "chosen"
Pair = tuple[float, float]


@dataclass(frozen=True)
class MethodPlan:
    """Methods by name, in order, and where the α and β of each come from.

    given: method → (α, β), of those that are not to be chosen. sources: method → GIVEN, DEFAULT,
    CHOSEN or the name of a preset, for each method that takes α and β. tuned: methods for which
    something is chosen on a split, CONSTANT among them; none where it is empty.
    """

    methods: tuple[str, ...]
    given: dict[str, Pair] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    tuned: tuple[str, ...] = ()

    def how(self, chosen: str) -> str:
        """Where α and β come from, in words; chosen: on what they are chosen.

        >>> MethodPlan(("macd",), sources={"macd": "mvbench"}).how("")
        'MACD by the preset mvbench'
        """
        ways = {
            GIVEN: "given",
            CHOSEN: f"chosen for each method on {chosen}",
            DEFAULT: "by default",
        }
        constant = (
            [f"the constant on yes is chosen on {chosen}"]
            if CONSTANT in self.tuned and CHOSEN not in self.sources.values()
            else []
        )
        titles: dict[str, list[str]] = {}
        for name, source in self.sources.items():
            way = ways.get(source, f"by the preset {source}")
            titles.setdefault(way, []).append(find_method(name).title)
        if not titles:
            parts = ["no method here takes them"]
        elif len(titles) == 1 and (way := next(iter(titles))) in (ways[GIVEN], ways[CHOSEN]):
            parts = [way]
        else:
            parts = [f"{', '.join(names)} {way}" for way, names in titles.items()]
        return "; ".join(parts + constant)


def takes_contrast(method: Method) -> bool:
    """Whether α and β change what the method answers."""
    rule = find_rule(method.rule)
    if method.fixed is not None or not method.second_views or not is_dataclass(rule):
        return False
    return any(f.name == "contrast" for f in fields(rule))


def can_be_tuned(method: Method) -> bool:
    """Whether α and β can be chosen: a grid is tried where views are weighed alike throughout."""
    return takes_contrast(method) and method.rule in CONSTANT_ALPHA


def read_contrasts(
    named: str,
    first: Sequence[str],
    default: Sequence[str],
    alpha: float | None,
    beta: float | None,
    preset: str | None,
    options: RunOptions,
) -> MethodPlan:
    """What --methods, --alpha, --beta and --preset ask for. Raises OptionError.

    named: the text of --methods; default: methods where it is empty; first: methods that are
    always there. options: hold what a method has where nothing is given and nothing can be chosen.
    """
    pair, source = _for_all(alpha, beta, preset)
    settings = _split(named) or {name: {} for name in default}
    own = {find_method(name).name: own for name, own in settings.items()}
    if len(own) < len(settings):
        raise OptionError("a method is named twice in --methods", "Name each method once")
    methods = find_methods([*first, *settings])
    asked: dict[str, Pair] = {}
    sources: dict[str, str] = {}
    tuned: list[str] = []
    for method in methods:
        values = own.get(method.name, {})
        if values and not takes_contrast(method):
            raise OptionError(
                f"{method.name} takes no {next(iter(values))}",
                f"Write {method.name} alone: it does not contrast views by α and β",
            )
        if method.name == CONSTANT:
            tuned.append(CONSTANT)
        if not takes_contrast(method):
            continue
        published = contrast_of(method.view, options)
        if values:
            asked[method.name], sources[method.name] = _own(method, values, pair, published)
        elif pair is not None:
            asked[method.name], sources[method.name] = pair, source
        elif can_be_tuned(method):
            sources[method.name] = CHOSEN
            tuned.append(method.name)
        else:
            asked[method.name] = (published.alpha, published.beta)
            sources[method.name] = DEFAULT
    return MethodPlan(tuple(m.name for m in methods), asked, sources, tuple(tuned))


def refuse_lazy(asked: MethodPlan, options: RunOptions) -> None:
    """Raises OptionError for a lazy run that has to choose α and β.

    They are chosen by the second views' logits, which it does not know at every token.
    """
    chosen = [name for name in asked.tuned if name != CONSTANT]
    if options.lazy and chosen:
        raise OptionError(
            f"a lazy run cannot choose α and β of {', '.join(chosen)}: it does not read every"
            " second view",
            "Give α and β by --alpha and --beta or by --preset, or leave --lazy out",
        )


def _for_all(
    alpha: float | None, beta: float | None, preset: str | None
) -> tuple[Pair | None, str]:
    if preset is not None and (alpha is not None or beta is not None):
        raise OptionError("--preset and --alpha or --beta exclude each other", "Give one of them")
    if preset is not None:
        return (PRESETS[preset].alpha, PRESETS[preset].beta), preset
    if (alpha is None) != (beta is None):
        raise OptionError(
            "only one of α and β is given",
            "Give both --alpha and --beta, or neither to have them chosen",
        )
    if alpha is None or beta is None:
        return None, CHOSEN
    given = ContrastOptions(alpha, beta)
    return (given.alpha, given.beta), GIVEN


def _split(text: str) -> dict[str, dict[str, str]]:
    """Method as written → its keys and values.

    >>> _split("baseline,macd:alpha=2.6,beta=0.1,vcd:preset=published")
    {'baseline': {}, 'macd': {'alpha': '2.6', 'beta': '0.1'}, 'vcd': {'preset': 'published'}}
    """
    settings: dict[str, dict[str, str]] = {}
    last = ""
    for part in (p.strip() for p in text.split(",")):
        if not part:
            continue
        name, colon, setting = part.partition(":")
        if not colon and "=" in part:
            name, setting = last, part
            if not last:
                raise OptionError(
                    f"{shown(part)} stands before any method", "Write macd:alpha=2.6,beta=0.1"
                )
        elif name in settings:
            raise OptionError(f"{shown(name)} is named twice in --methods", "Name it once")
        values = settings.setdefault(name, {})
        last = name
        if not setting:
            if colon:
                raise OptionError(f"nothing follows {shown(part)}", "Write macd:alpha=2.6")
            continue
        key, equals, value = (z.strip() for z in setting.partition("="))
        if key not in KEYS or not equals:
            raise OptionError(
                f"{name} takes no {shown(key)}", f"Give {', '.join(KEYS)}, as in macd:alpha=2.6"
            )
        if key in values:
            raise OptionError(f"{name} is given {key} twice", "Give it once")
        values[key] = value
    return settings


def _own(
    method: Method, values: dict[str, str], pair: Pair | None, published: ContrastOptions
) -> tuple[Pair, str]:
    """(α, β) of one method and their source; what it leaves out is that of all, else published."""
    alpha, beta = pair or (published.alpha, published.beta)
    source = GIVEN
    if "preset" in values:
        source = values["preset"]
        if source == PUBLISHED and own_part(method.view) in OWN_CONTRAST:
            alpha, beta = published.alpha, published.beta
        elif source in PRESETS:
            alpha, beta = PRESETS[source].alpha, PRESETS[source].beta
        else:
            own = own_part(method.view) in OWN_CONTRAST
            names = [*PRESETS, *([PUBLISHED] if own else [])]
            raise OptionError(
                f"{method.name} has no preset {shown(source)}", f"Choose one of {', '.join(names)}"
            )
    numbers = {k: _number(method.name, k, v) for k, v in values.items() if k != "preset"}
    contrast = ContrastOptions(numbers.get("alpha", alpha), numbers.get("beta", beta))
    return (contrast.alpha, contrast.beta), GIVEN if numbers else source


def _number(name: str, key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise OptionError(
            f"{key} of {name} is {shown(text)} instead of a number", "Write macd:alpha=2.6"
        ) from None
