"""docs/verified.md: only a whole run that passed is noted, and an old one is no proof."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from scripts import release_check, verified
from scripts.verified import CHECKS, FILE, PART, PARTS, Passed, guards

ROOT = Path(__file__).parents[1]


@pytest.fixture
def tree(tmp_path):
    """A git checkout of two files, one of which every check guards."""
    for name in ("docs/x.md", "core/x.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    return tmp_path


def git(root, *words):
    done = subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(root):
    git(root, "add", "-A")
    git(root, "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "-m", "x")


def says(*lines, code=0):
    return [sys.executable, "-c", f"print({chr(10).join(lines)!r}); raise SystemExit({code})"]


def test_a_whole_run_is_noted_with_its_commit(tree):
    assert verified.run("space-check", says("ok one", "ok two", "more"), tree) == 0
    row = verified.rows(tree)["space-check"]
    assert (row.run, row.skipped, row.failed) == (2, 0, 0)
    assert git(tree, "rev-parse", "HEAD").startswith(row.commit)
    assert row.is_pass
    commit(tree)  # the file itself makes no run old
    (tree / "core" / "x.py").write_text("2")
    commit(tree)
    assert verified.run("test-matrix", says("ok three"), tree) == 0
    assert list(verified.rows(tree)) == ["space-check", "test-matrix"]


@pytest.mark.parametrize(("lines", "code"), [
    (["ok one", "skipped two"], 0), (["ok one", "FAILED two"], 0), (["ok one"], 1), (["none"], 0),
])  # fmt: skip
def test_what_failed_or_was_skipped_or_left_out_is_not_noted(tree, capsys, lines, code):
    assert verified.run("space-check", says(*lines, code=code), tree) == code
    assert not (tree / FILE).exists()
    assert "not noted as passed" in capsys.readouterr().err


def test_uncommitted_changes_are_not_noted(tree, capsys):
    (tree / "core" / "x.py").write_text("2")
    assert verified.run("space-check", says("ok one"), tree) == 0
    assert not (tree / FILE).exists()
    assert "not committed" in capsys.readouterr().err


def test_figures_that_a_check_writes_are_no_change(tree):
    (tree / "bench" / "results").mkdir(parents=True)
    figures = tree / "bench" / "results" / "vllm.json"
    figures.write_text("1")
    commit(tree)
    writes = [sys.executable, "-c", f"open({str(figures)!r}, 'w').write('2'); print('ok one')"]
    assert verified.run("vllm-check", writes, tree) == 0
    assert verified.rows(tree)["vllm-check"].is_pass
    commit(tree)
    assert not [told for told in verified.problems(tree) if "vllm-check" in told]


def test_tests_are_counted(tree):
    (tree / "core" / "test_one.py").write_text(
        "import pytest\ndef test_a(): pass\n@pytest.mark.skip\ndef test_b(): pass\n"
    )
    commit(tree)
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "core"]
    assert verified.run("mcp-check", words, tree) == 0
    assert not (tree / FILE).exists(), "one was skipped"
    assert verified.run("mcp-check", [*words, "-k", "test_a"], tree) == 0
    assert verified.rows(tree)["mcp-check"].run == 1


def test_a_row_is_refused_once_a_file_that_it_guards_has_changed(tree):
    assert len(verified.problems(tree)) == len(CHECKS)
    head = git(tree, "rev-parse", "--short=10", "HEAD")
    for name in CHECKS:
        verified.write(Passed(name, "2026-11-25", head, 3, 0, 0, "0.1"), tree)
    commit(tree)
    assert verified.problems(tree) == []
    assert release_check.check_verified(tree)
    (tree / "docs" / "x.md").write_text("2")
    commit(tree)
    assert verified.problems(tree) == [], "no check guards that file"
    one = verified.rows(tree)["space-check"]
    verified.write(replace(one, skipped=1), tree)
    assert verified.problems(tree) == ["make space-check: 1 skipped, 0 failed"]
    verified.write(replace(one, commit="0123456789"), tree)
    assert "which this history lacks" in verified.problems(tree)[0]
    verified.write(one, tree)
    (tree / "core" / "x.py").write_text("2")
    commit(tree)
    assert "passed before core/x.py was changed last" in verified.problems(tree)[0]
    with pytest.raises(release_check.Failed, match=rf"{len(CHECKS) - 1} more"):
        release_check.check_verified(tree)


def test_every_test_is_in_one_part():
    parts = {part: verified.paths(part) for part in PARTS}
    files = [p.relative_to(ROOT).as_posix() for p in sorted((ROOT / "tests").rglob("test_*.py"))]
    for file in files:
        held = [
            part
            for part, paths in parts.items()
            if file.startswith(tuple(p for p in paths if p[0] != "-"))
            and f"--deselect={file}" not in paths
        ]
        assert len(held) == (file not in verified.ELSEWHERE), (file, held)
        guarding = [n for n in CHECKS if n.startswith(PART) and guards(n, file)]
        if verified.users_of(file) == {file}:  # nobody else uses it
            assert guarding == ([PART + held[0]] if held else []), file
    assert any("macd_studio" in paths for paths in parts.values()), "doctests"


def test_a_check_that_is_no_part_guards_the_tests_that_it_runs():
    file = "tests/macd_ui/test_mcp.py"
    assert [name for name in CHECKS if guards(name, file)] == ["mcp-check"]


def test_what_few_checks_run_voids_these_alone():
    for file, checks in verified.NARROW.items():
        assert (ROOT / file).is_file()
        assert {name for name in CHECKS if guards(name, file)} == set(checks), file
        tests = {user for user in verified.users_of(file) if user.startswith("tests/")}
        parts = {verified.part_of(test) for test in tests}
        assert {PART + part for part in parts} == {n for n in checks if n.startswith(PART)}, file


def test_the_checks_are_commands():
    makefile = (ROOT / "Makefile").read_text()
    for name in CHECKS:
        assert re.search(rf"^{name.split()[0]}: ", makefile, re.M), name
        if " " not in name:
            assert f"$(call VERIFIED,{name})" in makefile, name
    for guarded in CHECKS.values():
        for path in guarded:
            assert (ROOT / path).exists(), path


def test_what_a_part_runs_makes_no_other_part_old(tree):
    head = git(tree, "rev-parse", "--short=10", "HEAD")
    for name in CHECKS:
        verified.write(Passed(name, "2026-11-25", head, 3, 0, 0, "0.1"), tree)
    commit(tree)
    changes = {
        "tests/core/test_x.py": ["test-all PART=core", "test-matrix"],
        "tests/test_x.py": ["test-all PART=small"],
        "tests/macd_ui/test_mcp.py": ["mcp-check"],
        "tests/browser/page.py": [n for n in CHECKS if n not in ("vllm-check", "test-matrix")],
    }  # fmt: skip
    for file, old in changes.items():
        (tree / file).parent.mkdir(parents=True, exist_ok=True)
        (tree / file).write_text("2")
        commit(tree)
        told = verified.problems(tree)
        said = [f"make {name} passed before {file} was changed last" for name in old]
        assert sorted(told) == sorted(said)
        git(tree, "reset", "-q", "--hard", "HEAD~1")


@pytest.mark.parametrize(("file", "users", "checks"), [
    ("tests/browser/test_learn.py", {"tests/browser/test_learn_name.py"}, {f"{PART}browser"}),
    ("tests/browser/parity.py", {"tests/browser/test_parity.py", "scripts/js_mutants.py"},
     {f"{PART}browser", "space-check", "mcp-check", "test-pythons"}),
    ("tests/browser/test_visitors.py", {"tests/browser/test_restart.py"}, {f"{PART}browser-page"}),
    ("tests/test_verified.py", set(), {f"{PART}small"}),
    ("tests/browser/page.py", set(), CHECKS.keys() - {"vllm-check", "test-matrix"}),
])  # fmt: skip
def test_a_file_of_tests_voids_the_checks_that_run_what_uses_it(file, users, checks):
    assert users <= verified.users_of(file)
    assert {name for name in CHECKS if guards(name, file)} == checks


def test_what_a_conftest_imports_is_used_by_every_test_below():
    below = {p.relative_to(ROOT).as_posix() for p in (ROOT / "tests/browser").glob("test_*.py")}
    assert below <= verified.users_of("tests/browser/conftest.py")
    assert below <= verified.users_of("tests/patience.py"), "tests/browser/conftest.py takes it"
    everywhere = {verified.part_of(user) for user in verified.users_of("tests/conftest.py")}
    assert {name for name in CHECKS if guards(name, "tests/conftest.py")} >= {"mcp-check"}
    assert everywhere >= PARTS.keys()


def test_scripts_of_the_page_void_every_part_that_shows_it_and_no_other():
    file = f"{verified.SCRIPTS}restore.js"
    assert (ROOT / file).is_file()
    parts = {part for part in PARTS if guards(PART + part, file)}
    assert parts == PARTS.keys() - set(verified.WITHOUT_PAGE)
    names = "|".join(p.name for p in (ROOT / verified.SCRIPTS).glob("*.js"))
    for part in verified.WITHOUT_PAGE:
        for path in verified.PARTS[part]:
            for test in ROOT.glob(path if path.endswith(".py") else f"{path}/**/*.py"):
                named = re.search(rf"macd_ui/js|chromium|\b({names})\b", test.read_text("utf-8"))
                assert not named, (test, named)
