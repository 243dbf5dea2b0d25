"""Files of released versions are opened by every later version: docs/compatibility.md."""

import json
from pathlib import Path

import pytest

from macd_studio.core.report.summary import as_json
from macd_studio.core.traces.bundle import load, pack, unpack

DATA = Path(__file__).parent / "data"
RELEASED = ["0.1.0", "0.2.0"]
"""Versions whose file, schema (`docs/trace-schema.json` then) and summary are kept."""
ROOT = Path(__file__).parents[2]
LEAST, MOST = ("minimum", "minLength", "minItems"), ("maximum", "maxLength", "maxItems",
                                                     "maxProperties")  # fmt: skip


def kept(version, end):
    return json.loads((DATA / f"release-{version}{end}").read_text(encoding="utf-8"))


def lost(old, new, at="manifest"):
    """What a schema takes and a later one refuses, or no longer names."""
    choices = old.get("anyOf", [old]), new.get("anyOf", [new])
    if len(choices[0]) > 1 or len(choices[1]) > 1:
        for one in choices[0]:
            tried = [list(lost(one, other, at)) for other in choices[1]]
            yield from min(tried, key=len)
        return
    if old.get("type") != new.get("type") and new.get("type") is not None:
        yield f"{at}: {old.get('type')} became {new['type']}"
        return
    if "enum" in new and not set(old.get("enum", [None])) <= set(new["enum"]):
        yield f"{at}: fewer values"
    for name in LEAST:
        if new.get(name, float("-inf")) > old.get(name, float("-inf")):
            yield f"{at}: {name} grew"
    for name in MOST:
        if new.get(name, float("inf")) < old.get(name, float("inf")):
            yield f"{at}: {name} shrank"
    for name in set(new.get("required", ())) - set(old.get("required", ())):
        yield f"{at}.{name}: is required now"
    for name, part in old.get("properties", {}).items():
        if name in new.get("properties", {}):
            yield from lost(part, new["properties"][name], f"{at}.{name}")
        else:
            yield f"{at}.{name}: is gone"
    for name in ("items", "additionalProperties"):
        if isinstance(new.get(name), dict) and isinstance(old.get(name), dict):
            yield from lost(old[name], new[name], f"{at}[]")


PROSE = {"verdict": {"figures", "reason"}}
"""Sentences for people, whose words may change: what they count is told by other keys."""


def within(old, new, prose=frozenset()):
    """Whether all that was said is said still, in the same words and numbers, but for PROSE."""
    if isinstance(old, dict):
        return set(old) <= set(new) and all(
            within(part, new[name], PROSE.get(name, ()))
            for name, part in old.items()
            if name not in prose
        )
    if isinstance(old, list):
        return len(old) == len(new) and all(map(within, old, new))
    return old == new


@pytest.mark.parametrize("version", RELEASED)
def test_the_schema_takes_what_a_released_one_took(version):
    now = json.loads((ROOT / "docs" / "trace-schema.json").read_text(encoding="utf-8"))
    assert list(lost(kept(version, ".json"), now)) == []


@pytest.mark.parametrize("version", RELEASED)
def test_a_file_of_a_released_version_says_the_same(version):
    trace = load(DATA / f"release-{version}.macd")
    assert within(kept(version, "-summary.json"), json.loads(json.dumps(as_json(trace))))
    again = json.loads(json.dumps(as_json(unpack(pack(trace)))))
    assert within(kept(version, "-summary.json"), again), "written by this version"


@pytest.mark.parametrize(
    ("new", "told"),
    [
        ({"type": "string"}, "object became string"),
        ({"type": "object", "properties": {}}, "manifest.a: is gone"),
        ({"properties": {"a": {"type": "integer", "maximum": 8}}}, "manifest.a: maximum shrank"),
        ({"properties": {"a": {"type": "integer", "minimum": 1}}}, "manifest.a: minimum grew"),
        ({"properties": {"a": {"type": "integer"}}, "required": ["a"]}, "manifest.a: is required"),
        ({"properties": {"a": {"type": "integer", "enum": [3]}}}, "manifest.a: fewer values"),
        ({"properties": {"a": {"anyOf": [{"type": "null"}, {"type": "string"}]}}}, "integer bec"),
    ],
)
def test_what_a_schema_no_longer_takes_is_found(new, told):
    old = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 9}}}
    wider = {"anyOf": [{"type": "null"}, {"type": "integer", "maximum": 10}]}
    assert list(lost(old, old)) == list(lost(old, {"properties": {"a": wider}})) == []
    assert any(told in line for line in lost(old, {"type": "object"} | new))
