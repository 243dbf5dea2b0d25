"""Tools for other programs: the functions themselves. A client uses them in tests/security."""

import ast
import base64
import importlib.util
import inspect
import re
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from macd_studio.core.errors import MacdError, OptionError, TraceError
from macd_studio.core.options import ContrastOptions
from macd_studio.core.traces.bundle import load, save, unpack
from macd_studio.macd_ui import programs
from macd_studio.macd_ui.examples import SHIPPED
from macd_studio.macd_ui.gallery.runs import content_hash
from macd_studio.macd_ui.programs import MAX_TRACES, ToolError, Traces, _with_words, tools
from macd_studio.macd_ui.settings import read_settings
from macd_studio.macd_ui.store import Store
from tests.small_trace import small_trace

ROOT = Path(__file__).parents[2]
EXAMPLE = str(SHIPPED / "repaired.macd")
NAMES = {"trace", "compare", "rescore", "open", "evidence", "enough", "saved_trace"}


@pytest.fixture
def called(store):
    """The tools by name, over stand-ins for the models."""
    return {t.__name__: t for t in tools(store)}


def test_a_trace_is_computed_and_found_again(called, make_video):
    clip = str(make_video())
    one = called["trace"](clip, "Is it?", {"ascent": {"steps": 2}})
    assert one["options"]["ascent"]["steps"] == 2
    assert set(one["answers"]) == {"baseline", "macd"}
    content = base64.b64decode(called["saved_trace"](one["trace"].removeprefix("trace://")))
    assert content_hash(content).startswith(one["trace"].removeprefix("trace://"))
    assert unpack(content).question == "Is it?"
    again = called["open"](one["trace"])
    assert again["answers"] == one["answers"]
    several = called["compare"](clip, "Is it?", ["vcd"])
    assert set(several["answers"]) == {"baseline", "macd", "vcd"}
    assert {"vcd", "tcd"} <= set(called["compare"](clip, "Is it?")["answers"])
    rows = called["rescore"](one["trace"], 0.0, 0.1)
    base = load(EXAMPLE)
    assert len(rows) == len(unpack(content).answers["macd"].tokens)
    assert [r["was"] for r in called["rescore"](EXAMPLE, 1.0, 0.1)] == [
        t.text for t in base.answers["macd"].tokens
    ]


def test_evidence_lists_objects_by_their_gradient(called):
    found = called["evidence"](EXAMPLE)
    sizes = [abs(row["gradient"]) for row in found["objects"]]
    assert sizes == sorted(sizes, reverse=True)
    assert len(sizes) == len(load(EXAMPLE).tracks) > 1
    assert all(row["label"] for row in found["objects"])
    assert found["measured"]["verdict"]  # the example's trace holds it
    assert found["answers"]["macd"] == load(EXAMPLE).answers["macd"].text


def test_evidence_is_measured_with_the_embedded_model():
    store = Store()
    try:
        called = {t.__name__: t for t in tools(store)}
        found = called["evidence"](EXAMPLE, measure=True)
        assert found["measured"]["verdict"]
        assert called["evidence"](found["trace"])["measured"] == found["measured"]
        enough = called["enough"](found["trace"], options={"keep": ["background"]})
        assert enough["certified"] is True
        assert enough["keep"]["given"]["answer"] == found["answers"]["baseline"]
        assert len(enough["asked"]) == 1
        assert called["open"](enough["trace"])["enough"][0]["views"] == enough["views"]
    finally:
        store.close()


def test_another_model_is_not_loaded_for_a_measurement(called, tmp_path):
    trace = small_trace()
    named = replace(trace.backbone, name="other/model")
    trace = replace(trace, backbone=named, occlusion=None)
    path = save(trace, tmp_path / "other.macd")
    with pytest.raises(OptionError, match="core edit"):
        called["evidence"](str(path), measure=True)
    with pytest.raises(OptionError, match="other/model"):
        called["enough"](str(path))


@pytest.mark.parametrize("reference", ["trace://0000000000000000", "0" * 64, "/etc/passwd", "",
                                       "trace://../x", "http://127.0.0.1/x.macd"])  # fmt: skip
def test_what_is_no_trace_is_refused(called, reference):
    for tool in ("open", "evidence"):
        with pytest.raises(TraceError):
            called[tool](reference)


@pytest.mark.parametrize("value", [None, 5, True, [], {}, float("nan"), 10**400, "~" * 5000])
def test_what_is_no_path_is_told_in_one_sentence(called, value):
    for name in ("open", "evidence", "enough"):
        with pytest.raises(MacdError):
            called[name](value)
    with pytest.raises(MacdError):
        called["rescore"](value, 1.0, 0.1)
    with pytest.raises(MacdError):
        called["trace"](value, "Is it?")


def test_odd_options_and_endless_names_are_told_in_one_sentence(called):
    for options in ("x", 5, [1]):
        with pytest.raises(MacdError, match="not an object"):
            called["enough"](str(EXAMPLE), 1, options)
    for name in ("nosuch" * 1000, "x" * 5000 + "+linear", "macd+" * 1000):
        with pytest.raises(MacdError) as told:
            called["compare"](str(EXAMPLE), "Is it?", [name])
        assert len(str(told.value)) < 1500


def test_only_the_last_traces_can_be_asked_for():
    traces = Traces()
    first, second = (traces.add(load(SHIPPED / f"{name}.macd")) for name in ("repaired", "small"))
    for i in range(MAX_TRACES - 1):
        traces._files.put(f"{i:016x}", b"")
        assert traces.find(second).question
    with pytest.raises(TraceError, match="no longer here"):
        traces.find(first)


@pytest.mark.parametrize("words", [["--mcp", "--public"], ["--mcp", "--host", "0.0.0.0"],
                                   ["--mcp", "--auth", "users"]])  # fmt: skip
def test_strangers_get_no_tools(words, capsys, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    with pytest.raises(SystemExit) as end:
        read_settings(words, {})
    assert end.value.code == 2
    assert "--mcp opens files of this machine" in capsys.readouterr().err
    assert read_settings(["--mcp"], {}).mcp


def test_without_the_package_the_remedy_is_told(capsys, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit) as end:
        read_settings(["--mcp"], {})
    assert end.value.code == 2
    assert "pip install -r requirements-mcp.txt" in capsys.readouterr().err


def test_an_error_is_a_plain_sentence(called):
    with pytest.raises(ToolError) as error:
        _with_words(called["open"])("nothing.macd")
    # MCP clients are sent this text
    assert str(error.value) == "there is no trace 'nothing.macd'. Check the file name."


def test_the_printed_client_names_real_arguments(called):
    (snippet,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "mcp.md").read_text(), re.S)
    calls = [
        node
        for node in ast.walk(ast.parse(snippet))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "call"
    ]
    assert len(calls) == 2
    for node in calls:
        tool = called[ast.literal_eval(node.args[0])]
        inspect.signature(tool).bind(**{word.arg: None for word in node.keywords})


def test_the_environment_for_it_has_versions_that_gradio_accepts():
    pins = dict(line.split("==") for line in (ROOT / "constraints-mcp.txt").read_text().split())
    asked = (ROOT / "requirements-mcp.txt").read_text().splitlines()
    for line in asked[asked.index("-r requirements.txt") + 1 :]:
        requirement = Requirement(line)
        assert pins[requirement.name] in requirement.specifier


def test_the_documented_tools_are_the_real_ones():
    assert programs.as_table() in (ROOT / "docs" / "mcp.md").read_text()
    assert {t.__name__ for t in tools(None)} == NAMES


def test_the_ranges_that_a_tool_names_are_those_of_the_options(called):
    for name in ("alpha", "beta"):
        low, high = re.search(
            rf"{name}: .*, from (\S+) to (\S+)", called["rescore"].__doc__
        ).groups()
        ContrastOptions(**{name: float(low)})
        ContrastOptions(**{name: float(high)})
        with pytest.raises(OptionError):
            ContrastOptions(**{name: float(high) + 0.01})
