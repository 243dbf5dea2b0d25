"""The README's commands run as they stand there, and its tree is the real one."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from macd_studio.macd_ui.sentences import KNOWS
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(kind):
    return re.findall(rf"```{kind}\n(.*?)```", README, re.S)


def test_the_two_commands_are_makes():
    lines = [line.split("#")[0].split() for line in blocks("sh")[0].splitlines()]
    assert lines == [["make", "run"], ["make", "test"]]
    for _, target in lines:
        done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def documented():
    return [shlex.split(line) for block in blocks("sh")[1:] for line in block.splitlines()]


RUN_ALL = """
import contextlib, io, json, runpy, sys
for module, *words in json.load(sys.stdin):
    sys.argv = [module, *words]
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        except SystemExit as end:
            assert not end.code, (module, words, end.code)
    assert "macd" in out.getvalue().lower(), (module, words)
"""
"""Several commands in one process: importing torch is slow."""


def run_documented(commands, folder):
    (folder / "assets").symlink_to(ROOT / "assets")
    assert all(command[:2] == ["python", "-m"] for command in commands)
    done = subprocess.run(
        [sys.executable, "-c", RUN_ALL],
        input=json.dumps([command[2:] for command in commands]),
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "HOME": str(folder), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_the_documented_commands_work(tmp_path):
    quick = [c for c in documented() if "evals" not in c]
    assert len(quick) == len(documented()) - 1 > 3
    run_documented(quick, tmp_path)


@pytest.mark.long
def test_the_documented_evaluation_works(tmp_path):
    run_documented([c for c in documented() if "evals" in c], tmp_path)


def test_the_tree_names_what_is_there():
    folder = ""
    tree = re.search(r"```\n(app\.py.*?)```", README, re.S).group(1)
    for line in tree.splitlines():
        names = line.split("  ")[0] if not line.startswith("  ") else line[2:].split("  ")[0]
        for name in names.split(", "):
            place = folder + name if line.startswith("  ") else name
            assert (ROOT / place).exists(), place
        if not line.startswith(" "):
            folder = names if names.endswith("/") else ""


def test_it_is_short():
    assert len(README.split()) <= 1400


def front_matter():
    return yaml.safe_load(re.match(r"---\n(.*?)\n---\n", README, re.S).group(1))


def test_the_front_matter_describes_the_space():
    space = front_matter()
    pinned = dict(z.split("==") for z in (ROOT / "constraints.txt").read_text().split())
    assert space["sdk"] == "gradio"
    assert str(space["sdk_version"]) == pinned["gradio"]
    assert space["title"] == README.split("# ")[1].split("\n")[0] == "MACD Studio"
    assert (ROOT / space["app_file"]).is_file()
    assert 0 < len(space["short_description"]) <= 60
    assert space["license"] == "agpl-3.0"
    assert "GNU AFFERO" in (ROOT / "LICENSE").read_text()
    minor = tuple(map(int, space["python_version"].split(".")))
    assert len(minor) == 3
    assert minor >= (3, 11)
    # the only colours that the hub takes
    colours = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}
    assert {space["colorFrom"], space["colorTo"]} <= colours
    assert len(space["emoji"]) == 1
    assert all(isinstance(tag, str) for tag in space["tags"])


def test_a_space_can_install_the_requirements():
    """A Space hands pip this one file, without what lies beside it, and adds its own gradio."""
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    wanted = [line.split("#")[0].strip() for line in lines]
    wanted = {r.name: r.specifier for r in map(Requirement, filter(None, wanted))}
    assert str(front_matter()["sdk_version"]) in wanted["gradio"]
    pinned = dict(z.split("==") for z in (ROOT / "constraints.txt").read_text().split())
    for name, versions in wanted.items():
        assert pinned[name] in versions, name


def anchors(page):
    """Ids that GitHub gives the headings of a page."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    for title in re.findall(r"^#+ (.+)$", text, re.M):
        plain = re.sub(r"[^\w\s-]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title)).lower()
        yield plain.strip().replace(" ", "-")


def test_links_lead_somewhere():
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")):
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
        for link, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", text):
            if "://" in link:
                continue
            target = page.parent / link if link else page
            assert target.exists(), f"{page.name} → {link}"
            if anchor:
                assert anchor in anchors(target), f"{page.name} → {link}#{anchor}"


def test_every_regime_of_the_report_has_enough_questions():
    from macd_studio.evals.printing.report import load

    report = load(ROOT / "docs" / "toyworld-results")
    assert all(part["n"] >= 300 for part in report["regimes"].values())


def test_the_measured_figures_are_the_bench_s():
    from bench.report import GPU, RESULTS, VLLM, WORKERS, page

    told = (ROOT / "docs" / "bench.md").read_text()
    others = [json.loads(p.read_text()) if p.exists() else None for p in (WORKERS, VLLM, GPU)]
    assert told == page(json.loads(RESULTS.read_text()), *others)
    section = README.split("## What it costs")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 3
    for row in rows:
        assert row.removesuffix(" |") in told, row


def test_the_page_says_how_often_the_shipped_model_was_right_as_the_document_does():
    """In the order of the sentence; of the clips that came last, which no choice depended on."""
    table = (ROOT / "docs" / "everyday.md").read_text().split("<!-- third -->")[1]
    row = re.compile(r"^\| (\w+)[^|]*\| (\d+) \((\d+)\) \| (\d+) ", re.M)
    found = {
        kind: tuple(map(int, numbers))
        for kind, *numbers in row.findall(table.split("<!-- /third")[0])
    }
    said = KNOWS["everyday"]
    shares = {kind: (n, percent) for kind, (n, _, percent) in found.items()}
    told = [(int(n), int(p)) for p, n in re.findall(r"(\d+) % of (\d+)", said)]
    assert told == [shares[kind] for kind in ("exists", "which", "count")]
    right = [(int(k), int(n)) for k, n in re.findall(r"(\d+) of (\d+)", said)]
    counts = [(n, round(100 * k / n)) for k, n in right]
    assert counts == [shares[kind] for kind in ("where", "colour", "motion")]
    assert f"About {found['exists'][1]} clips" in said
