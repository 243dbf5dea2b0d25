"""The installation: what is locked, by uv with the settings of pip, by pip where uv fails."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

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

    def call(fails=0, settings=""):
        (tools / "log").unlink(missing_ok=True)
        (tools / "uv-fails").write_text(str(fails))
        (tools / "settings").write_text(settings)
        words = [ROOT / "scripts" / "install.sh", tmp_path / "venv", "python3", "wanted.txt"]
        env = {n: v for n, v in os.environ.items() if not n.startswith("UV_")}
        done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
        return (tools / "log").read_text().splitlines(), done.stderr

    return call


def test_uv_installs_what_is_locked_and_then_the_project(install):
    (first, second, third), told = install()
    assert first.startswith("pip install")
    assert "-r locks/uv.txt" in first
    assert second.startswith("uv pip install")
    assert "-r wanted.txt" in second
    assert second.endswith("[] [] []")
    for call in (first, second):
        assert "--require-hashes" in call
    assert third.startswith("uv pip install")
    assert "--no-deps --no-build-isolation --editable ." in third
    assert not told


def test_it_asks_the_indexes_of_pip(install):
    settings = (
        "global.index-url='https://mirror.example/simple'\n:env:.find-links='/wheels'\n"
        "global.extra-index-url='file:///a/simple file:///b/simple'\n"
    )
    (_, asked, _), _ = install(settings=settings)
    assert asked.endswith(
        "[https://mirror.example/simple] [file:///a/simple file:///b/simple] [/wheels]"
    )


def test_pip_installs_where_uv_fails(install):
    (_, uv, pip, *project), told = install(fails=1)
    assert uv.startswith("uv pip install")
    assert pip.startswith("pip install")
    assert "-r wanted.txt" in pip
    assert "--require-hashes" in pip
    assert [call.split()[0] for call in project] == ["uv", "pip"]
    assert all("--editable ." in call for call in project)
    assert "trying pip" in told


def test_a_machine_without_libgl_gets_the_locked_headless_build(install, tmp_path):
    python = tmp_path / "venv" / "bin" / "python"
    python.write_text('#!/bin/sh\n[ -f "$0.again" ] || { touch "$0.again"; exit 1; }\n')
    calls, _ = install()
    assert "-r locks/headless.txt" in calls[-1]
    assert "--require-hashes" in calls[-1]
    assert "--no-deps" in calls[-1]


def locked(name):
    """Entries of a lock file: package → (version, marker, how many hashes)."""
    text = (ROOT / "locks" / f"{name}.txt").read_text().replace("\\\n", " ")
    entries = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            wanted, *hashes = line.split(" --hash=")
            assert all(re.fullmatch(r"sha256:[0-9a-f]{64} *", h) for h in hashes), line
            requirement = Requirement(wanted)
            (version,) = (s.version for s in requirement.specifier if s.operator == "==")
            entries[canonicalize_name(requirement.name)] = version, len(hashes)
    return entries


def requirements(name):
    for line in (ROOT / name).read_text().splitlines():
        if text := line.split("#")[0].strip():
            if text.startswith("-r "):
                yield from requirements(text[3:])
            else:
                yield Requirement(text)


def pins(*names):
    lines = [
        z for name in names for z in (ROOT / name).read_text().splitlines() if not z.startswith("#")
    ]
    return {canonicalize_name(n): v for n, v in (z.split("==") for z in lines)}


LOCKS = {
    "run": ("requirements.txt", ["constraints.txt"]),
    "dev": ("requirements-dev.txt", ["constraints.txt"]),
    "mcp": ("requirements-mcp.txt", ["constraints.txt", "constraints-mcp.txt"]),
    "vllm": ("requirements-vllm.txt", ["overrides-vllm.txt"]),
}


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_holds_every_requirement_at_its_pinned_version_with_hashes(name):
    """After a change of the requirements: make lock."""
    file, constraints = LOCKS[name]
    entries, pinned = locked(name), pins(*constraints)
    for requirement in requirements(file):
        version, _ = entries[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), requirement
    for package, (version, hashes) in entries.items():
        assert hashes, package
        assert pinned.get(package, version) == version, package
    assert {"torch", "nvidia-cudnn-cu13", "setuptools"} <= set(entries)


def test_what_installs_is_locked_too():
    entries, pinned = locked("uv") | locked("headless"), pins("constraints.txt")
    assert set(entries) == {"uv", "opencv-python-headless"}
    assert entries["uv"][0] == pinned["uv"]
    assert entries["opencv-python-headless"][0] == pinned["opencv-python"]
    assert all(hashes for _, hashes in entries.values())
    assert locked("run").items() <= locked("dev").items()
