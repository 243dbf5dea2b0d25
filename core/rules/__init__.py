"""Score rules by name: how the logits of the views become one score.

A rule is a class in a module of its own name in this package (`yes_bias.py` holds "yes-bias");
adding the file is all that registers it. Importing this package imports no torch.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from inspect import getmembers, isclass
from pkgutil import iter_modules

from macd_studio.core.errors import OptionError
from macd_studio.core.rules.base import ScoreRule, Setting

__all__ = ["ScoreRule", "Setting", "find_rule", "rule_names"]


@cache
def rule_names() -> tuple[str, ...]:
    """Every rule, in alphabetical order."""
    modules = (m.name for m in iter_modules(__path__) if m.name != "base" and m.name[0] != "_")
    return tuple(sorted(name.replace("_", "-") for name in modules))


@cache
def find_rule(name: str) -> type[ScoreRule]:
    """The rule of that name. Raises OptionError where there is none."""
    if name not in rule_names():
        raise OptionError(f"there is no rule {name!r}", f"Choose one of {', '.join(rule_names())}")
    module = import_module(f"{__name__}.{name.replace('-', '_')}")
    rules = [
        rule
        for _, rule in getmembers(module, isclass)
        if issubclass(rule, ScoreRule) and rule.__module__ == module.__name__
    ]
    if len(rules) != 1:
        raise TypeError(f"{module.__name__} must define one ScoreRule, it has {len(rules)}")
    return rules[0]
