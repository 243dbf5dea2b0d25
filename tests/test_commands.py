"""A command is told as it is called from where it is told."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from macd_studio import commands
from macd_studio.commands import called, here, need_checkout
from macd_studio.core.errors import OptionError
from macd_studio.parts import CODE

ROOT = Path(__file__).parents[1]
MANY = """
import sys

def many(*args, **more):
    for n in range(100_000):
        print("line", n)
    return 0
"""
PRINTS_MUCH = {
    "evals": f"""{MANY}
from macd_studio.evals import __main__ as evals
evals._report = many
sys.exit(evals.main(["report", "folder"]))
""",
    "deploy": f"""{MANY}
from macd_studio.macd_ui import deploy
deploy.plan = many
sys.exit(deploy.main(["--space", "owner/name", "--dry-run"]))
""",
}
SAYS = re.compile(r'(?:command_line|need_checkout)\(\s*"([\w.]+)"')


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
    """Another folder, and no script of ours on the path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["-c"])
    return tmp_path


def test_in_the_checkout_its_folders_are_modules(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["pytest"])
    assert called("core") == "python -m core"
    assert called("evals.commands.render") == "python -m evals.commands.render"
    assert called("macd_ui") == "python app.py"
    text = "Run `python -m core show FILE`, or make browser-model"
    assert here(text) == text


def test_elsewhere_the_package_is_what_there_is(elsewhere):
    assert called("core") == "python -m macd_studio"
    assert called("ratings") == "python -m macd_studio.ratings"
    assert called("macd_ui") == "macd-studio"
    (elsewhere / "macd").write_text("#!/bin/sh\n")
    (elsewhere / "macd").chmod(0o755)
    assert called("core") == "macd"
    assert here("`python -m core edit A`; python\n  -m evals run; make browser-model") == (
        "`macd edit A`; python -m macd_studio.evals run; python -m macd_studio.macd_ui.engine"
    )
    assert here("python -m pip, python -m corelli, python app.py") == (
        "python -m pip, python -m corelli, macd-studio"
    )


def test_who_called_macd_is_told_macd(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/venv/bin/macd", "show"])
    assert called("core") == "macd"
    assert here("python -m core show") == "macd show"
    assert called("evals") == "python -m evals"


def test_a_remedy_is_told_so_too(elsewhere):
    error = OptionError("it was not measured", "Measure it by `python -m core edit FILE --measure`")
    assert error.remedy == "Measure it by `python -m macd_studio edit FILE --measure`"
    assert str(error).endswith(f". {error.remedy}.")


def test_a_module_of_a_checkout_says_so_without_one(monkeypatch, elsewhere):
    need_checkout("viewer.describe")
    monkeypatch.setattr(commands, "is_checkout", lambda: False)
    with pytest.raises(SystemExit, match=r"python -m macd_studio\.viewer\.describe needs a check"):
        need_checkout("viewer.describe")


def test_every_command_line_names_its_own_module():
    named = []
    for part in CODE:
        for path in sorted((ROOT / part).rglob("*.py")):
            own = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            for module in SAYS.findall(path.read_text(encoding="utf-8")):
                named.append(module)
                assert own in (module, f"{module}.__main__", f"{module}.cli", f"{module}.cli.main",
                               f"{module}.settings"), (path, module)  # fmt: skip
    assert len(set(named)) > 20


@pytest.mark.parametrize(("of", "pipe"), [("evals", "|"), ("deploy", "|"), ("evals", "2>&1 |")])
def test_a_pipe_that_is_closed_early_ends_a_command_in_silence(tmp_path, of, pipe):
    """As in `python -m evals diff … | head -1`, with more to print than a pipe holds."""
    program, status = shlex.join([sys.executable, "-c", PRINTS_MUCH[of]]), tmp_path / "status"
    line = f"({program}; echo $? > {shlex.quote(str(status))}) {pipe} head -1"
    done = subprocess.run(["bash", "-c", line], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("line 0\n", "")
    assert status.read_text() == "0\n"
