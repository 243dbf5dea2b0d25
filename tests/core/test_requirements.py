"""Which installed libraries are told as not tested."""

import subprocess
import sys
from importlib.metadata import PackageNotFoundError

import pytest

from macd_studio.core.backbones import load_backbone
from macd_studio.core.system import requirements

RANGES = ["torch<2.12,>=2.11", "transformers<5.24,>=5.17", 'gradio<7,>=6; extra == "page"']


@pytest.fixture
def installed(monkeypatch):
    """Versions by name, as pip installed them; a name without one is missing."""
    names: dict[str, str] = {}

    def version(name):
        if name not in names:
            raise PackageNotFoundError(name)
        return names[name]

    monkeypatch.setattr(requirements, "version", version)
    monkeypatch.setattr(requirements, "requires", lambda name: RANGES)
    return names


@pytest.mark.parametrize(
    ("torch", "transformers", "told"),
    [
        ("2.11.0", "5.17.0", []),
        ("2.11.1+cu130", "5.23.9", []),
        ("2.12.0", "5.20.0", ["torch 2.12.0"]),
        ("2.11.0", "4.57.1", ["transformers 4.57.1"]),
        ("2.11.0", "5.24.0.dev0", ["transformers 5.24.0.dev0"]),
        ("2.10.0", "5.24.0", ["torch 2.10.0", "transformers 5.24.0"]),
    ],
)
def test_versions_outside_of_the_tested_ranges_are_told(installed, torch, transformers, told):
    installed |= {"torch": torch, "transformers": transformers, "gradio": "1.0"}
    assert [" ".join(s.split()[:2]) for s in requirements.untested_versions()] == told


def test_a_missing_library_is_left_to_its_import(installed):
    installed["torch"] = "2.11.0"
    assert requirements.untested_versions() == []


def test_a_copy_that_was_not_installed_says_nothing(monkeypatch):
    monkeypatch.setattr(requirements, "NAME", "macd-studio-that-is-not-installed")
    assert requirements.untested_versions() == []


def test_a_loaded_backbone_notes_it(installed):
    installed["torch"] = "2.10.0"
    notes = load_backbone("toyworld", "cpu").notes
    assert [n for n in notes if "torch 2.10.0 is installed, and torch" in n]


def test_a_program_tells_it_before_the_library_is_imported(tmp_path):
    """A fault of such a library at its import comes after the sentence."""
    (tmp_path / "macd_studio-9.dist-info").mkdir()
    (tmp_path / "macd_studio-9.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: macd-studio\nVersion: 9\nRequires-Dist: torch>=99\n"
    )
    code = "from macd_studio.core.system.process import configure_process as c; c()"
    said = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {code};"
         " assert 'torch' not in sys.modules"], capture_output=True, text=True, check=True,
    ).stderr  # fmt: skip
    assert said.startswith("note: torch ")
    assert "torch>=99 was tested" in said
