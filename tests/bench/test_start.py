"""The way from a clone to the page: what it waits for, and that it is taken."""

import sys
from pathlib import Path

import pytest

from bench import report, start
from bench.__main__ import SLOW
from bench.server import StartError, running, wait_until


def test_nothing_of_another_environment_is_used_and_all_of_it_ends(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_CACHE_DIR", "/elsewhere")
    code = (
        "import os, subprocess; print(os.environ['HOME'], 'PIP_CACHE_DIR' in os.environ);"
        "subprocess.run(['sleep', '1000'])"
    )
    log, env = tmp_path / "log", start.without_caches(tmp_path)
    with running([sys.executable, "-uc", code], log, env=env) as process:
        wait_until(process, lambda: log.read_text().endswith("\n"), log)
        assert log.read_text() == f"{tmp_path} False\n"
    assert process.returncode


def test_a_start_that_fails_says_what_it_printed(tmp_path):
    log = tmp_path / "log"
    command = [sys.executable, "-c", "raise SystemExit('no room')"]
    with running(command, log) as process, pytest.raises(StartError, match="no room"):
        wait_until(process, lambda: False, log)


def test_its_figures_have_their_place():
    rows = next(rows for title, rows in report.TABLES.items() if "clean clone" in title)
    assert "start" in SLOW  # it takes minutes and a network
    found = {key: 12.34 for key in rows.values()} | {"machine": {"cores": 2, "processor": "x",
             "python": "3", "date": "d"}}  # fmt: skip
    assert "| cloning, s | 12.3 |" in report.page(found)


@pytest.mark.long
def test_the_way_without_the_installation():
    venv = Path(sys.prefix)
    figures = start.measure(venv)
    assert set(figures) == {"start_clone_s", "start_install_s", "start_serve_s", "start_whole_s",
                            "start_clone_mb", "start_first_trace_s",
                            "start_next_trace_s"}  # fmt: skip
    assert figures["start_install_s"] == 0
    assert 0 < figures["start_serve_s"] <= figures["start_whole_s"]
