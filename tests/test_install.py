"""The installation: by uv with the settings of pip, by pip where uv fails."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PIP = """#!/bin/sh
[ "$1" = config ] && { cat "$(dirname "$0")/settings"; exit 0; }
echo "pip $*" >> "$(dirname "$0")/log"
"""
UV = """#!/bin/sh
echo "uv $* [$UV_DEFAULT_INDEX] [$UV_INDEX] [$UV_FIND_LINKS]" >> "$(dirname "$0")/log"
exit $(cat "$(dirname "$0")/uv-fails")
"""


@pytest.fixture
def install(tmp_path):
    """Runs the script in an environment whose pip and uv only note what they are asked for."""
    tools = tmp_path / "venv" / "bin"
    tools.mkdir(parents=True)
    for name, content in (("pip", PIP), ("uv", UV), ("python", "#!/bin/sh\nexit 0\n")):
        (tools / name).write_text(content)
        (tools / name).chmod(0o755)

    def call(fails=0, settings="", pins=()):
        (tools / "log").unlink(missing_ok=True)
        (tools / "uv-fails").write_text(str(fails))
        (tools / "settings").write_text(settings)
        words = [ROOT / "scripts" / "install.sh", tmp_path / "venv", "python3", "wanted.txt", *pins]
        env = {n: v for n, v in os.environ.items() if not n.startswith("UV_")}
        done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
        return (tools / "log").read_text().splitlines(), done.stderr

    return call


def test_uv_installs_what_is_pinned(install):
    (first, second), told = install()
    assert first.startswith("pip install")
    assert first.endswith("-c constraints.txt uv")
    assert "-r wanted.txt -c constraints.txt [] [] []" in second
    assert not told


def test_other_pins_go_before_the_usual_ones(install, tmp_path):
    kept = tmp_path / "kept"
    uv = tmp_path / "venv" / "bin" / "uv"
    uv.write_text(UV.replace("exit", f'for last; do :; done; cp "$last" "{kept}"\nexit', 1))
    pins = tmp_path / "pins.txt"
    pins.write_text("numpy==1.0\nelsewhere==2.0\n")
    install(pins=[pins])
    usual = (ROOT / "constraints.txt").read_text().splitlines()
    assert any(line.startswith("numpy==") for line in usual)
    expected = [line for line in usual if not line.startswith("numpy==")]
    assert kept.read_text().splitlines() == ["numpy==1.0", "elsewhere==2.0", *expected]


def test_it_asks_the_indexes_of_pip(install):
    settings = (
        "global.index-url='https://mirror.example/simple'\n:env:.find-links='/wheels'\n"
        "global.extra-index-url='file:///a/simple file:///b/simple'\n"
    )
    (_, asked), _ = install(settings=settings)
    assert asked.endswith(
        "[https://mirror.example/simple] [file:///a/simple file:///b/simple] [/wheels]"
    )


def test_pip_installs_where_uv_fails(install):
    (_, uv, pip), told = install(fails=1)
    assert uv.startswith("uv pip install")
    assert pip.startswith("pip install")
    assert pip.endswith("-r wanted.txt -c constraints.txt")
    assert "trying pip" in told
