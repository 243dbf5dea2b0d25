"""Figures in the pages are those of the committed report."""

import pytest

from macd_studio.core.errors import OptionError
from macd_studio.evals.commands.render import (
    NOT_MEASURED,
    PAGES,
    REPORT,
    ROOT,
    main,
    rendered,
    with_files,
)
from macd_studio.evals.printing.report import load, markdown


def interval(x):
    return [x, x - 0.01, x + 0.02]


@pytest.fixture
def report():
    methods = {
        "baseline": {"right": interval(0.7), "yes_no": {"false_yes": 0.5, "margin_auroc": 0.978}},
        "macd": {"right": interval(0.8), "delta": interval(0.1), "holm": 0.001},
    }
    return {
        "methods": list(methods),
        "contrasts": {"macd": [3.0, 0.3]},
        "regimes": {"one two": {"n": 7, "clips": 3, "methods": methods, "levels": {}}},
        "gradient_auc": {},
    }


@pytest.mark.parametrize("page", PAGES)
def test_the_pages_hold_the_report_s_figures(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert text.count("<!-- figures:") >= 1
    assert rendered(text, with_files(load(REPORT), REPORT)) == text


def test_the_committed_report_is_what_its_json_says():
    assert (REPORT / "report.md").read_text(encoding="utf-8") == markdown(load(REPORT))


def test_a_marker_is_filled_and_filled_anew(report):
    text = "MACD <!-- figures:change/one two/macd -->old<!-- /figures --> points"
    once = rendered(text, report)
    assert "-->+10.0 [9.0, 12.0]<!--" in once
    assert rendered(once, report) == once
    table = rendered("<!-- figures:table -->\n<!-- /figures -->", report)
    assert "| MACD | 3, 0.3 | **+10.0** [9.0, 12.0] |" in table.splitlines()
    assert rendered(table, report) == table


@pytest.mark.parametrize(
    "name", ["nothing", "change/one two", "change/elsewhere/macd", "alpha/vcd", "questions"]
)
def test_a_name_that_is_none_is_refused(report, name):
    with pytest.raises(OptionError, match="no figures"):
        rendered(f"<!-- figures:{name} --><!-- /figures -->", report)


def test_an_open_marker_is_refused(report):
    with pytest.raises(OptionError, match="pair up"):
        rendered("<!-- figures:change/one two/macd --> and no end", report)


@pytest.mark.parametrize("name", ["change/one two/vcd", "crossed/options/macd", "places-table"])
def test_what_a_run_left_out_is_said_to_be_not_measured(report, name):
    text = rendered(f"<!-- figures:{name} --><!-- /figures -->", report)
    assert f"-->{NOT_MEASURED}<!--" in text


def test_the_check_finds_a_page_that_is_late(tmp_path, monkeypatch, capsys):
    (tmp_path / "page.md").write_text("<!-- figures:questions/motion -->0<!-- /figures -->")
    monkeypatch.setattr("macd_studio.evals.commands.render.ROOT", tmp_path)
    monkeypatch.setattr("macd_studio.evals.commands.render.PAGES", ("page.md",))
    assert main(["--check"]) == 1
    assert "-->0<!--" in (tmp_path / "page.md").read_text()
    assert main([]) == 0
    assert main(["--check"]) == 0
    assert f"-->{load(REPORT)['regimes']['motion']['n']}<!--" in (tmp_path / "page.md").read_text()
