"""Every option as a Markdown table: `python -m core.cli.options_table > docs/options.md`."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from macd_studio.core.cli.flags import FLAGS, GROUPS, ClassFlags, Flag
from macd_studio.core.cli.measuring import EVIDENCE, SEARCH
from macd_studio.core.options import PRESETS, VCD_PRESETS, RunOptions
from macd_studio.core.validation import Choice, Many, Maybe, Number, rule_of

HEAD = """# Options

Generated from the option classes by `python -m core.cli.options_table`. `Key` is the name in the
JSON of a trace, of `/trace` and of Python; the flag is that of `python -m core trace`, at the end
those of `python -m core evidence` and `enough`.
"""
TABLE = ["| key | flag | default | values | |", "|---|---|---|---|---|"]


def table() -> str:
    """The whole page."""
    lines = [HEAD]
    for part, title in GROUPS.items():
        rows = [_row(flag) for flag in FLAGS if flag.part.split(".")[0] == part]
        lines += [f"## {title.capitalize() if title.islower() else title}", ""]
        lines += [*TABLE, *rows, ""]
    kinds: tuple[tuple[str, ClassFlags[Any]], ...] = (
        ("Evidence", EVIDENCE), ("What is enough", SEARCH)
    )  # fmt: skip
    for title, flags in kinds:
        rows = [_line(n, flag, default, _values(flags.kind, n), z) for n, flag, default, z in flags]
        lines += [f"## {title}", "", *TABLE, *rows, ""]
    lines += ["## Presets", ""]
    lines += [f"- `--preset {n}`: α {c.alpha:g}, β {c.beta:g}" for n, c in PRESETS.items()]
    for name, options in VCD_PRESETS.items():
        contrast = options.contrast
        numbers = f"step {options.step}, α {contrast.alpha:g}, β {contrast.beta:g}"
        lines.append(f"- `--vcd {name}`: {numbers}")
    return "\n".join(lines) + "\n"


def _row(flag: Flag) -> str:
    key = f"{flag.part}.{flag.field}" if flag.part else flag.field
    values = _values(flag.owner, flag.field)
    return _line(key, flag.name, flag.value(RunOptions()), values, flag.help)


def _line(key: str, flag: str, default: Any, values: str, words: str) -> str:
    usual = "–" if default in (None, (), "") else f"`{_plain(default)}`"
    return f"| `{key}` | `{flag}` | {usual} | {values} | {words} |"


def _values(owner: type, name: str) -> str:
    rule: Any = next(rule_of(f) for f in fields(owner) if f.name == name)
    match rule.rule if isinstance(rule, Maybe) else rule:
        case Number(low=low, high=high, whole=whole):
            return f"{'whole, ' if whole else ''}{_plain(low)} to {_plain(high)}"
        case Choice(among=among):
            return ", ".join(f"`{word}`" for word in among)
        case Many(each=each):
            return f"{type(each).__name__.lower()}s"
        case _:
            return type(rule).__name__.lower()


def _plain(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value).lower()


if __name__ == "__main__":
    print(table(), end="")
