"""The glossary is one table, which the guide and the page show alike."""

from pathlib import Path

import pytest

from macd_studio.viewer.glossary import markdown, meaning, terms

GUIDE = Path(__file__).parents[2] / "docs" / "glossary.md"


def test_the_guide_is_written_from_the_table():
    assert GUIDE.read_text(encoding="utf-8") == markdown(), "python -m viewer.glossary > " + str(
        GUIDE.relative_to(GUIDE.parents[1])
    )


def test_no_term_is_defined_twice_or_in_two_sentences():
    names = [term.name for term in terms()]
    assert len(set(names)) == len(names)
    assert not [t.name for t in terms() if ". " in t.meaning or t.meaning.endswith(".")]
    with pytest.raises(KeyError):
        meaning("no such term")
