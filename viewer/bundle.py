"""Several ES modules → one script, without Node: modules in the order of their imports.

Each module becomes a function scope of its own that returns its exports, so that nothing is global
and the result runs where a module cannot: in Gradio's script, and in a file opened from disk, whose
content security policy and origin allow no import. The modules keep to what is understood here,
and anything else is refused rather than left out:

    import { a, b as c } from "./other.js";      at the start of a line, before everything else
    export function f() {}                       export async function, class and const too
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from macd_studio.core.system.shipped import look

HERE = Path(__file__).parent
JS = HERE / "js"
"""The viewer's modules."""

_IMPORT = re.compile(r'^import\s*\{([^{}]*)\}\s*from\s*"(\.{1,2}/[^"\n]+\.js)";[ \t]*$', re.M)
_EXPORT = re.compile(
    r"^export (?=(?:async function|function|class|const) ([A-Za-z_$][\w$]*))", re.M
)
_LEFT = re.compile(r"^\s*(?:import\b(?!\s*\()|export\b).*$|\bimport\s*\(|\bimport\.meta\b", re.M)
_COMMENT = re.compile(r"/\*.*?\*/|^\s*//[^\n]*$", re.M | re.S)
_TYPES = re.compile(r"^[ \t]*/\*\*(?:(?!\*/).)*\*/[ \t]*\n", re.M | re.S)
"""Comments on lines of their own; those with types are a fifth of the script."""
_LINE = re.compile(r"^[ \t]*//[^\n]*\n", re.M)
_BLANKS = re.compile(r"^[ \t]+", re.M)
"""Comments and blanks before a line; no text of a module spans lines."""
_NAME = re.compile(r"([A-Za-z_$][\w$]*)(?:\s+as\s+([A-Za-z_$][\w$]*))?")


class BundleError(ValueError):
    """A module says what the bundler does not understand, or imports what is not there."""


@cache
def bundle(*entries: Path) -> str:
    """An expression whose value is an object with everything that the entries export.

    entries: files; a name that two of them export is refused. Raises BundleError.
    """
    order: dict[Path, _Module] = {}
    resolved = [entry.resolve() for entry in entries]
    for entry in resolved:
        _visit(entry, order, ())
    numbers = {path: i for i, path in enumerate(order)}
    parts = [order[path].wrapped(numbers) for path in order]
    names = [name for entry in resolved for name in order[entry].exports]
    if len(set(names)) < len(names):
        raise BundleError(f"entries export one name twice: {sorted(names)}")
    gathered = ", ".join(f"...m{numbers[entry]}" for entry in resolved)
    text = "\n".join(['(() => {\n"use strict";', *parts, f"return {{ {gathered} }};\n}})()"])
    if "</script" in text.lower() or "<!--" in text:
        raise BundleError("the script would end the element that holds it")
    return text


class _Module:
    """One file: what it imports, what it exports, and its text without either word."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise BundleError(f"{path} is imported and does not exist")
        text = path.read_text(encoding="utf-8")
        self.path = path
        self.imports: list[tuple[Path, list[tuple[str, str]]]] = []
        body = _IMPORT.sub(self._imported, text)
        self.exports: Sequence[str] = [match[1] for match in _EXPORT.finditer(body)]
        self.body = _BLANKS.sub("", _LINE.sub("", _TYPES.sub("", _EXPORT.sub("", body))))
        if left := _LEFT.search(_COMMENT.sub("", self.body)):
            raise BundleError(f"{path.name}: not understood: {left[0].strip()}")

    def _imported(self, match: re.Match[str]) -> str:
        pairs = []
        for part in filter(None, map(str.strip, match[1].split(","))):
            name = _NAME.fullmatch(part)
            if name is None:
                raise BundleError(f"{self.path.name}: not understood: import {part}")
            pairs.append((name[1], name[2] or name[1]))
        self.imports.append(((self.path.parent / match[2]).resolve(), pairs))
        return ""

    def check(self, modules: dict[Path, _Module]) -> None:
        """Raises BundleError for an import that the other module does not export."""
        for path, pairs in self.imports:
            for name, _ in pairs:
                if name not in modules[path].exports:
                    raise BundleError(f"{self.path.name}: {path.name} does not export {name}")

    def wrapped(self, numbers: dict[Path, int]) -> str:
        """`const mN = (() => { … return { exports }; })();`."""
        lines = [f"// {self.path.name}", f"const m{numbers[self.path]} = (() => {{"]
        for path, pairs in self.imports:
            names = ", ".join(a if a == b else f"{a}: {b}" for a, b in pairs)
            lines.append(f"const {{ {names} }} = m{numbers[path]};")
        lines += [self.body.strip(), f"return {{ {', '.join(self.exports)} }};", "})();"]
        return "\n".join(lines)


def _visit(path: Path, order: dict[Path, _Module], above: tuple[Path, ...]) -> None:
    """Adds a module after those that it imports."""
    if path in above:
        ring = " → ".join(p.name for p in (*above[above.index(path) :], path))
        raise BundleError(f"modules import each other in a ring: {ring}")
    if path in order:
        return
    module = _Module(path)
    for other, _ in module.imports:
        _visit(other, order, (*above, path))
    module.check(order)
    order[path] = module


def style() -> str:
    """The viewer's CSS, with the look of every page."""
    return look() + (HERE / "viewer.css").read_text(encoding="utf-8")
