"""Every snippet of docs/python.md runs as it stands there, from first to last."""

import re
from pathlib import Path

import pytest

import macd_studio as macd
from tests.opening import AFTER, BEFORE

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "python.md").read_text()


@pytest.mark.long
def test_the_snippets_run_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    snippets = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    assert len(snippets) == PAGE.count("```") // 2 == 9
    names = {}
    for snippet in snippets:
        exec(compile(snippet, "docs/python.md", "exec"), names)
    said = capsys.readouterr().out
    assert f"{BEFORE} → {AFTER}" in said
    assert "100% Both views read" in said
    assert f"generated: {AFTER}" in said
    assert "there is no option 'mask.fil'" in said
    assert "macd+code" in said
    assert "gradient counterfactual (8, 24, 24)" in said
    assert said.rstrip().endswith("yes ()")
    assert (tmp_path / "clip.macd").is_file()
    assert (tmp_path / "strengths.pdf").read_bytes().startswith(b"%PDF")
    assert "token 1 of macd α β" in said
    assert names["summary"]["answers"].keys() == {"baseline", "macd", "vcd", "blank", "macd+code"}


@pytest.mark.parametrize("name", sorted(set(re.findall(r"core\.(\w+)\(", PAGE))))
def test_it_names_what_is_exported(name):
    assert name in macd.__all__


def test_the_readme_links_to_it():
    assert "(docs/python.md)" in (ROOT / "README.md").read_text()
