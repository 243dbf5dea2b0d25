"""What `make release-check` finds, each check broken once; and cards, notices, citation."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from scripts import notices, release_check
from scripts.release_check import Failed

ROOT = Path(__file__).parents[1]
FILES = ("CITATION.cff", "CHANGELOG.md", "README.md", "constraints.txt", "requirements.txt",
         "THIRD_PARTY_NOTICES.md", "macd_studio/__init__.py", "assets/toyworld/manifest.json",
         "assets/examples/index.json")  # fmt: skip
BEFORE = (("CHANGELOG.md", "^## .*$", "## Unreleased"), ("CITATION.cff", "^date-released:.*\n", ""))
"""File, what stands in it once a version is released, and what before."""


@pytest.fixture
def tree(tmp_path):
    """What the checks read, before the release, without weights and with one example; a git
    checkout.
    """
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "assets/toyworld/manifest.json").write_text("{}")
    for name, released, before in BEFORE:
        text = (tmp_path / name).read_text()
        (tmp_path / name).write_text(re.sub(released, before, text, count=1, flags=re.MULTILINE))
    index = json.loads((tmp_path / "assets/examples/index.json").read_text())
    (tmp_path / "assets/examples/index.json").write_text(json.dumps(index[:1]))
    for end in (".mp4", ".macd"):
        shutil.copy(ROOT / f"assets/examples/repaired{end}", tmp_path / "assets" / "examples")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    return tmp_path


def git(root, *words):
    subprocess.run(["git", *words], cwd=root, check=True, capture_output=True)


def change(tree, name, old, new):
    path = tree / name
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))


def test_this_checkout_holds():
    for call in (release_check.check_versions, release_check.check_hashes,
                 release_check.check_files, release_check.check_notices):  # fmt: skip
        assert call(ROOT)


@pytest.mark.parametrize(("name", "old", "new", "told"), [
    ("CITATION.cff", "\nversion: ", "\nversion: 9", "CITATION.cff says 9"),
    ("CHANGELOG.md", "## Unreleased", "## 9.9.9", "begins with 9.9.9"),
    ("README.md", "sdk_version: ", "sdk_version: 1", "README.md says Gradio 1"),
    ("macd_studio/__init__.py", "__version__ = ", "version = ", "no __version__"),
])  # fmt: skip
def test_versions_that_differ_are_found(tree, name, old, new, told):
    assert release_check.check_versions(tree)
    change(tree, name, old, new)
    with pytest.raises(Failed, match=told):
        release_check.check_versions(tree)


def test_a_released_version_needs_its_entry(tree):
    version = release_check.check_versions(tree).split()[0]
    with pytest.raises(Failed, match="begins with Unreleased"):
        release_check.check_versions(tree, final=True)
    change(tree, "CHANGELOG.md", "## Unreleased", f"## {version} (2026-12-01)")
    assert release_check.check_versions(tree) == version
    with pytest.raises(Failed, match="no date-released"):
        release_check.check_versions(tree, final=True)
    change(tree, "CITATION.cff", "\nversion: ", "\ndate-released: 2026-12-01\nversion: ")
    assert release_check.check_versions(tree, final=True) == version


def test_changed_weights_and_clips_are_found(tree):
    assert release_check.check_hashes(tree)
    manifest = tree / "assets/toyworld/manifest.json"
    manifest.write_text(json.dumps({"detector.pt": "0" * 64}))
    with pytest.raises(Failed, match=r"detector\.pt is missing"):
        release_check.check_hashes(tree)
    (tree / "assets/toyworld/detector.pt").write_bytes(b"another")
    with pytest.raises(Failed, match=r"not the one of manifest\.json"):
        release_check.check_hashes(tree)
    manifest.write_text("{}")
    with (tree / "assets/examples/repaired.mp4").open("ab") as clip:
        clip.write(b"0")
    with pytest.raises(Failed, match="another clip"):
        release_check.check_hashes(tree)


@pytest.mark.parametrize(("name", "size", "told"), [
    ("docs/large.png", 2_100_000, "2.1 MB"),
    ("assets/toyworld/detector.pt", 8_100_000, "8.1 MB"),
    ("data/.env", 10, "looks private"),
    ("ratings.sqlite3", 10, "looks private"),
])  # fmt: skip
def test_files_that_do_not_belong_are_found(tree, name, size, told):
    assert release_check.check_files(tree)
    (tree / name).parent.mkdir(parents=True, exist_ok=True)
    (tree / name).write_bytes(bytes(size))
    git(tree, "add", "-Af")
    with pytest.raises(Failed, match=told):
        release_check.check_files(tree)


def test_a_package_without_a_notice_is_found(tree):
    assert release_check.check_notices(tree)
    change(tree, "requirements.txt", "gradio>=", "somebodys-package>=1\ngradio>=")
    with pytest.raises(Failed, match="somebodys-package is not named"):
        release_check.check_notices(tree)


def test_a_large_clone_is_found(tree, monkeypatch):
    assert release_check.check_clone_size(tree)
    monkeypatch.setattr(release_check, "CLONE_MB", 0.1)
    with pytest.raises(Failed, match=r"at most 0\.1"):
        release_check.check_clone_size(tree)
    (tree / ".git/objects/pack/of.idx").write_bytes(bytes(10**6))  # git computes it
    monkeypatch.setattr(release_check, "CLONE_MB", 1)
    assert release_check.check_clone_size(tree)


def test_the_history_is_told_by_path(tree, tmp_path, monkeypatch):
    for content in (bytes(range(256)) * 40, bytes(reversed(range(256))) * 40, b""):
        (tree / "grown").write_bytes(content)
        git(tree, "add", "-A")
        git(tree, "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "-m", "grow")
    sizes = dict(release_check.history_of(tree))
    assert 0 < sizes["grown"] < 0.02
    largest = next(iter(sizes))
    assert f"all versions of {largest} {sizes[largest]:.1f}" in release_check.check_clone_size(tree)
    assert release_check.describe(tree).endswith("grow")
    (tree / "grown").write_text("more")
    assert release_check.describe(tree).endswith("1 uncommitted changes are not checked")
    folder = tmp_path / "shallow of it"
    folder.mkdir()
    assert release_check.check_shallow_size(tree, folder).endswith(" MB")
    monkeypatch.setattr(release_check, "SHALLOW_MB", 0.1)
    (folder / "again").mkdir()
    with pytest.raises(Failed, match=r"--depth 1 downloads 0\.\d MB, at most 0\.1"):
        release_check.check_shallow_size(tree, folder / "again")


def test_the_notices_are_those_of_the_installed_packages():
    assert notices.TARGET.read_text(encoding="utf-8") == notices.notices()


def test_the_citation_names_nobody_but_the_papers_authors():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["authors"] == [{"name": "MACD Studio contributors"}]
    (paper,) = cited["references"]
    assert [a["family-names"] for a in paper["authors"]] == ["Xiao", "Zhou"]
    assert cited["license"].lower() == "agpl-3.0-or-later"


@pytest.mark.parametrize("card", ["assets/toyworld/README.md", "docs/dataset-card.md"])
def test_cards_have_the_front_matter_that_the_hub_reads(card):
    text = (ROOT / card).read_text(encoding="utf-8")
    front = yaml.safe_load(text.split("---\n")[1])
    assert front["license"] == "agpl-3.0"
    assert front["tags"]
    for heading in ("## Limits", "## Licence"):
        assert heading in text


def test_the_wheel_is_asked_for_files_that_exist() -> None:
    root = Path(release_check.__file__).parents[1]
    assert [w for w in release_check.WHEEL_HOLDS if not (root / w).is_file()] == []
