"""Reads `priors.toml`: which classes and scenes exist, and which habits bind them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TABLE = Path(__file__).with_name("priors.toml")


@dataclass(frozen=True)
class Priors:
    """The world's habits. Class order is caption order and detector class index."""

    classes: tuple[str, ...]
    emoji: dict[str, str]
    kind: dict[str, str]
    usual_motion: dict[str, str]
    motions: tuple[str, ...]
    scenes: tuple[str, ...]
    phrase: dict[str, str]
    typical: dict[str, tuple[str, ...]]
    partner: dict[str, str]
    p_atypical: float
    p_partner: float
    p_motion: float
    p_yes: float
    p_first: float
    p_late: float
    p_hidden: float

    def of_kind(self, kind: str) -> tuple[str, ...]:
        """Classes of one kind: "animal", "vehicle" or "thing"."""
        return tuple(c for c in self.classes if self.kind[c] == kind)


@cache
def priors(path: Path = TABLE) -> Priors:
    """The table at `path`; raises KeyError where a scene or pair names an unknown class."""
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    classes, scenes, weights = raw["classes"], raw["scenes"], raw["weights"]
    named = {c for s in scenes.values() for c in s["typical"]}
    named |= set(raw["partners"]) | set(raw["partners"].values())
    if unknown := named - set(classes):
        raise KeyError(f"{path.name} names classes it does not define: {sorted(unknown)}")
    return Priors(
        classes=tuple(classes),
        emoji={c: row["emoji"] for c, row in classes.items()},
        kind={c: row["kind"] for c, row in classes.items()},
        usual_motion={c: row["motion"] for c, row in classes.items()},
        motions=tuple(raw["motions"]),
        scenes=tuple(scenes),
        phrase={s: row["phrase"] for s, row in scenes.items()},
        typical={s: tuple(row["typical"]) for s, row in scenes.items()},
        partner=dict(raw["partners"]),
        p_atypical=weights["atypical"],
        p_partner=weights["partner"],
        p_motion=weights["motion"],
        p_yes=weights["yes"],
        p_first=weights["first"],
        p_late=weights["late"],
        p_hidden=weights["hidden"],
    )
