"""What follows from the description of a trace: `python -m viewer.describe` writes it.

That is the scripts' types of the fields, the tables of the documents, the JSON schema of a
manifest and the meanings of the summary's keys. `core.description` says how a field is described.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from macd_studio.commands import need_checkout
from macd_studio.core import description as of
from macd_studio.core.measurements import (
    ChoiceMap,
    ControlOutcome,
    ControlReport,
    OcclusionReport,
    Subset,
)
from macd_studio.core.records import BackboneRecord, ClipRecord, DetectorRecord, RecordOf
from macd_studio.core.report.summary import TOKEN_OTHERWISE
from macd_studio.core.types import Answer, TokenStep, Trace, Track
from macd_studio.core.validation import (
    HELP,
    Choice,
    Flag,
    Many,
    Maybe,
    Number,
    Part,
    Rule,
    Text,
    help_of,
    rule_within,
    rules_of,
)
from macd_studio.core.view_records import AnyView, view_rules

ROOT = Path(__file__).resolve().parents[1]
TYPES, SCHEMA = ROOT / "viewer" / "js" / "trace.d.ts", ROOT / "docs" / "trace-schema.json"
FORMAT, SUMMARY = ROOT / "docs" / "trace-format.md", ROOT / "docs" / "summary-keys.json"
HEAD = """// The fields of a trace, written by `python -m viewer.describe` from their description.

/** x0 y0 x1 y1 in shares of the frame. */
export type Box = [number, number, number, number];
export type Point = [number, number];
"""
BEGIN = "<!-- written by `python -m viewer.describe` from here -->"
END = "<!-- to here -->"
IN_SUMMARY: dict[str, type] = {
    "": Trace,
    "tracks[].": Track,
    "occlusion.": OcclusionReport,
    "controls.": ControlReport,
    "controls.outcomes[].": ControlOutcome,
    "choice_map.": ChoiceMap,
    "choice_map.subsets[].": Subset,
    "answers.macd.": Answer,
    "answers.macd.tokens[].": TokenStep,
}
"""Objects of the summary whose fields it has from a trace as they are."""


def written() -> dict[Path, str]:
    """Every file that follows from the description, and what it holds then."""
    head, _, rest = FORMAT.read_text(encoding="utf-8").partition(BEGIN)
    table = "".join(
        f"| `{place}` | {meaning} |\n" for place, meaning in places() if place.startswith("arrays/")
    )
    tail = rest.partition(END)[2]
    return {
        TYPES: types(),
        SCHEMA: _as_text(json_schema()),
        FORMAT: f"{head}{BEGIN}\n| where | what |\n|---|---|\n{table}{END}{tail}",
        SUMMARY: _as_text(summary(json.loads(SUMMARY.read_text(encoding="utf-8")))),
    }


def _as_text(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def summary(keys: dict[str, Any]) -> dict[str, Any]:
    """The summary's keys with the meanings of the fields that it has from a trace.

    keys: of the form of a summary, with the meaning of each value in its place; "" is that of the
    object itself. A field without a key gets one.
    """
    for place, kind in IN_SUMMARY.items():
        found: Any = keys
        for part in filter(None, place.split(".")):
            found = found[part.removesuffix("[]")]
            found = found[0] if part.endswith("[]") else found
        helps = meanings(kind)
        for name, rule in rules_of(kind).items():
            inner = rule_within(rule)
            if isinstance(inner, of.Row | of.Rows | RecordOf | Part) or name == "method":
                continue
            if isinstance(inner, of.Array) and (kind is not TokenStep or name in TOKEN_OTHERWISE):
                continue
            found[name] = helps[name]
    return keys


def meanings(kind: type) -> dict[str, str]:
    """What each field of a class holds."""
    return {one.name: help_of(one) for one in fields(kind) if one.metadata.get(HELP)}


# The file


def places(
    kind: type = Trace, path: str = "", prefix: str = "", lead: str = ""
) -> Iterator[tuple[str, str]]:
    """Where each field stands in a file, and what it holds; lead: axes before those of its own."""
    helps = meanings(kind)
    for name, rule in rules_of(kind).items():
        inner, meaning = rule_within(rule), helps.get(name, "")
        if isinstance(inner, of.Array):
            axes = ", ".join([*lead.split(), *inner.axes.split()]).replace("G?", "G or 0")
            yield f"arrays/{prefix}{name}.npy", f"({axes}) {meaning}"
            continue
        yield f"{path}{name}", meaning
        if isinstance(inner, of.Row):
            yield from places(inner.kind, f"{path}{name}.", prefix + inner.prefix)
        elif isinstance(inner, of.Rows):
            yield from places(
                inner.kind,
                f"{path}{name}[].",
                prefix + inner.prefix.format(0),
                "" if "{}" in inner.prefix else {"tracks": "K", "steps": "N"}.get(name, ""),
            )
            if inner.kind is Answer:
                yield from places(TokenStep, "", "answer0_", "tokens")
        elif isinstance(inner, RecordOf):
            yield from places(inner.kind, f"{path}{name}.")


# The JSON schema of a manifest


def json_schema(kind: type = Trace) -> dict[str, Any]:
    """Of the rows of a class; fields that are arrays of the file are not among them."""
    rules = {n: r for n, r in rules_of(kind).items() if not isinstance(rule_within(r), of.Array)}
    helps = meanings(kind)
    needed = [one.name for one in fields(kind) if one.name in rules and one.metadata.get(of.NEEDED)]
    return {
        "type": "object",
        "properties": {
            name: _schema(rule) | ({"description": helps[name]} if name in helps else {})
            for name, rule in rules.items()
            if getattr(rule, "listed", True)
        },
    } | ({"required": needed} if needed else {})


def _schema(rule: Rule) -> dict[str, Any]:
    match rule:
        case Maybe(inner):
            return {"anyOf": [{"type": "null"}, _schema(inner)]}
        case Number(low, high, whole):
            return {"type": "integer" if whole else "number", "minimum": low, "maximum": high}
        case Flag():
            return {"type": "boolean"}
        case Choice(among):
            return {"enum": list(among)}
        case Text(longest, least):
            return {"type": "string", "maxLength": longest} | (
                {"minLength": least} if least else {}
            )
        case Many(each, least, most):
            return {"type": "array", "items": _schema(each), "minItems": least, "maxItems": most}
        case of.ByName(each, most):
            return {"type": "object", "additionalProperties": _schema(each), "maxProperties": most}
        case of.Line():
            point = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
            return {"type": "array", "items": point, "minItems": 1, "maxItems": of.MAX_POINTS}
        case of.Row(kind) | RecordOf(kind):
            return json_schema(kind)
        case of.Rows(kind, most):
            return {"type": "array", "items": json_schema(kind), "minItems": rule.least,
                    "maxItems": most}  # fmt: skip
        case of.Table(rules):
            return {"type": "object", "properties": {n: _schema(r) for n, r in rules.items()}}
        case Part(default):
            return json_schema(type(default))
        case AnyView():
            properties = {n: _schema(r) for n, r in view_rules().items()}
            return {"type": "object", "properties": {"kind": {"type": "string"}} | properties}
    raise TypeError(f"{rule} has no schema")


# The types of the scripts


def types() -> str:
    """The interfaces of every class of a trace."""
    classes: dict[str, type] = {}

    def find(kind: type) -> None:
        for rule in rules_of(kind).values():
            inner = rule_within(rule)
            found = type(inner.default) if isinstance(inner, Part) else getattr(inner, "kind", None)
            if is_dataclass(found) and isinstance(found, type) and found.__name__ not in classes:
                classes[found.__name__] = found
                find(found)

    find(Trace)
    classes |= {"TokenStep": TokenStep, "Trace": Trace}
    view = "".join(f"  {n}?: {_typescript(rule)};\n" for n, rule in view_rules().items())
    about = "/** What a second view was: the fields of all kinds. */"
    views = f"{about}\nexport interface View {{\n  kind: string;\n{view}}}\n"
    return "\n".join([HEAD, *(_interface(classes[name]) for name in sorted(classes)), views])


def _interface(kind: type) -> str:
    lines, helps = [], meanings(kind)
    record = kind in (ClipRecord, BackboneRecord, DetectorRecord)
    for name, rule in rules_of(kind).items():
        if name in helps:
            lines.append(f"  /** {helps[name]} */")
        lines.append(f"  {name}{'?' * record}: {_typescript(rule)};")
    about = (kind.__doc__ or "").split("\n")[0]
    return "\n".join([f"/** {about} */", f"export interface {kind.__name__} {{", *lines, "}", ""])


def _typescript(rule: Rule) -> str:
    match rule:
        case Maybe(inner):
            return f"{_typescript(inner)} | null"
        case Number():
            return "number"
        case Flag():
            return "boolean"
        case Choice(among):
            return " | ".join(json.dumps(word) for word in among)
        case Text():
            return "string"
        case of.Line():
            return "Point[]"
        case Many(each, least, most):
            one = _typescript(each)
            if least == most:
                return f"[{', '.join([one] * most)}]"
            return f"({one})[]" if " " in one else f"{one}[]"
        case of.ByName(each):
            return f"Record<string, {_typescript(each)}>"
        case of.Array(axes, lost=lost):
            if axes == "T 4":
                return "(Box | null)[]"
            return "number" + "[]" * len(axes.split()) + (" | null" if lost else "")
        case of.Row(kind) | RecordOf(kind):
            return kind.__name__
        case of.Rows(kind, by=by):
            return f"Record<string, {kind.__name__}>" if by else f"{kind.__name__}[]"
        case of.Table(rules):
            return f"{{ {'; '.join(f'{n}?: {_typescript(r)}' for n, r in rules.items())} }}"
        case Part(default):
            return type(default).__name__
        case AnyView():
            return "View"
    raise TypeError(f"{rule} has no type")


if __name__ == "__main__":
    need_checkout("viewer.describe")
    for path, text in written().items():
        path.write_text(text, encoding="utf-8")
