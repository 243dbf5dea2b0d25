"""Every snippet of docs/python.md runs as it stands there, and prints what the page says."""

import json
import re
from pathlib import Path

import pytest

import macd_studio as macd
from tests.opening import AFTER, BEFORE, TRACE

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "python.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", PAGE, re.S)
"""Code, and what the page says that it prints; "" where it says nothing."""


@pytest.mark.long
def test_the_snippets_run_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names, everything = {}, ""
    for snippet, claimed in SNIPPETS:
        exec(compile(snippet, "docs/python.md", "exec"), names)
        said = capsys.readouterr().out
        if claimed:
            assert said == claimed, snippet
        everything += said
    assert "100% Both views read" in everything
    assert "there is no option 'mask.fil'" in everything
    assert "gradient counterfactual (8, 24, 24)" in everything
    assert everything.rstrip().endswith("yes ()")
    assert (tmp_path / "clip.macd").is_file()
    assert (tmp_path / "strengths.pdf").read_bytes().startswith(b"%PDF")
    assert "token 1 of macd α β" in everything
    assert names["summary"]["answers"].keys() == {"baseline", "macd", "vcd", "blank", "macd+code"}


def test_every_snippet_and_output_is_read():
    assert len(SNIPPETS) == PAGE.count("```python") == 12
    assert len([claimed for _, claimed in SNIPPETS if claimed]) == PAGE.count("```text") == 6


@pytest.mark.parametrize("file", ["docs/python.md", "examples/evidence.ipynb"])
def test_the_opening_example_is_asked_its_own_question(file):
    """Another one has the answer "none", and no changed token to show evidence for."""
    text = (ROOT / file).read_text()
    assert json.dumps(TRACE.question).strip('"') in text
    assert f'against=\\"{BEFORE}\\"' in text or f'against="{BEFORE}"' in text
    if file.endswith(".md"):
        assert SNIPPETS[0][1] == f"{BEFORE} → {AFTER}\n"


@pytest.mark.parametrize("name", sorted(set(re.findall(r"\bmacd\.(\w+)\(", PAGE))))
def test_it_names_what_is_exported(name):
    assert name in macd.__all__
