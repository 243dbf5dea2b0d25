"""The frame of pages and the parts of reports: what is escaped, and what both forms say."""

import re

import pytest
from markupsafe import Markup

from macd_studio.core.pages.blocks import (
    BOLD,
    Heading,
    Marked,
    Paragraph,
    Table,
    as_html,
    as_markdown,
)
from macd_studio.core.pages.frame import document, page, template

HOSTILE = "<b>\"x'&</b> **y** [a](b) `c` | d_e\nf"


def test_a_template_escapes_what_is_put_into_it():
    made = template('<p title="{{ x }}">{{ x }}{{ safe }}</p>')(x=HOSTILE, safe=Markup("<i>"))
    assert made.count("<") == 3
    assert made.count('"') == 2
    assert "<i>" in made


def test_what_a_template_lacks_is_an_error():
    for values in ({}, {"x": {}}):
        with pytest.raises(LookupError):
            template("{{ x.y }}")(**values)


def test_a_page_takes_no_text_for_its_body_and_escapes_its_title():
    with pytest.raises(TypeError, match="Markup"):
        page("a", "<p>b</p>")
    made = page(HOSTILE, Markup("<p>b</p>"), policy="default-src 'none'", body_class="c")
    assert "<b>" not in made
    assert "content=\"default-src 'none'\"" in made
    assert '<body class="c">\n<p>b</p>\n</body>' in made


def test_a_document_has_the_colours_of_both_schemes():
    made = document("a", Markup("b"), "46rem", ".x { color: red; }", Markup("<nav></nav>"))
    assert "--ink: light-dark(" in made
    assert "max-width: 46rem" in made
    assert ".x { color: red; }</style>" in made
    assert "<nav></nav>\n<main>\nb\n</main>" in made


def test_a_foreign_text_is_no_markup_in_either_form():
    blocks = [Heading(HOSTILE), Paragraph(HOSTILE), Table([HOSTILE], [[HOSTILE]])]
    shown = as_html(blocks)
    assert set(re.findall(r"<(\w+)", shown)) == {
        "h2", "p", "table", "thead", "tbody", "tr", "th", "td"
    }  # fmt: skip
    text = as_markdown(blocks)
    assert "<" not in text
    assert "](b)" not in text
    assert text.count("\n") == 7  # no line break of a text
    for row in text.splitlines()[4:]:
        if set(row) > {"|", "-"}:
            assert len(re.findall(r"(?<!\\)\|", row)) == 2  # nor a cell more


def test_bold_of_a_foreign_text_is_bold_in_both_forms():
    block = Paragraph(f"{BOLD}a*{BOLD} b")
    assert block == "**a\\*** b"
    assert as_html([block]) == "<p><b>a*</b> b</p>"


def test_markdown_of_our_own_is_read_line_by_line():
    text = "# a *b*\n![drawn](x.svg)\n- **c** < d"
    assert as_html([text]) == "<h1>a <i>b</i></h1>\n<p>- <b>c</b> &lt; d</p>"


def test_pictures_stand_after_the_first_table():
    tables = [Table(["a"], [["1"]]), Table(["b"], [["2"]])]
    shown = as_html(["p", *tables], pictures=["<svg>1</svg>", "<svg>2</svg>"])
    assert re.findall(r"<(p|table|figure)\b", shown) == ["p", "table", "figure", "figure", "table"]


def test_cells_lead_where_the_link_says():
    def link(heading, kind, row, column):
        return f'{heading}/{kind}/{row}/{column}"' if column == "n" else ""

    table = Table(map(Marked, ["name", "n"]), [map(Marked, ["x", "1"])])
    shown = as_html([Heading(Marked("H")), table], link)
    assert 'href="H/name//n&#34;">n</a></th>' in shown
    assert 'href="H/name/x/n&#34;">1</a></td>' in shown
    assert "<td>x</td>" in shown
