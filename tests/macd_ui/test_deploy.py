"""Deploying: what is pushed, how it is refused, and the conversation with a hub on this machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from macd_studio.core.errors import OptionError
from macd_studio.macd_ui import deploy, engine
from macd_studio.macd_ui.deploy import HARDWARE, NEEDED, card, main, plan, static_plan
from macd_studio.macd_ui.examples import SHIPPED
from macd_studio.parts import LIST, ROOT, listed
from tests import space_hub
from tests.patience import PATIENCE_S

SMALL = "HuggingFaceTB/SmolVLM2-256M-Video-Instruct"
PUSH = """
import json, sys
from pathlib import Path
from macd_studio.core.errors import MacdError
from macd_studio.macd_ui.deploy import plan, push, static_plan
root, more = Path(sys.argv[1]), json.loads(sys.argv[2])
traces, name = [Path(name) for name in more.pop("traces", ())], "owner/name"
try:
    planned = static_plan(name, False, traces) if traces else plan(name, root=root, **more)
    print("pushed to", push(planned))
except MacdError as error:
    print("error:", error)
"""


@pytest.fixture
def checkout(tmp_path):
    """A small checkout with a file in every place of the project, and one in none."""
    root = tmp_path / "checkout"
    for name in NEEDED:
        path = root / (f"{name}file.txt" if name.endswith("/") else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n")
    (root / "README.md").write_bytes((ROOT / "README.md").read_bytes())
    (root / "assets" / "weights.bin").write_bytes(bytes(range(256)) * 40)
    (root / "mine").mkdir()
    (root / "mine" / "notes.py").write_text("")
    git(root, "init", "-q")
    git(root, "add", "-A")
    return root


def git(root, *words):
    subprocess.run(["git", *words], cwd=root, check=True, capture_output=True)


def push(hub, root, token=space_hub.TOKEN, **more):
    """What a deployment says; in a process of its own, as the client reads its address early."""
    kept = {n: v for n, v in os.environ.items() if n in ("PATH", "LANG")}
    env = kept | {"HF_ENDPOINT": hub.address, "HF_HUB_DISABLE_XET": "1", "HOME": str(root),
                  "HF_TOKEN": token, "HF_HUB_DISABLE_PROGRESS_BARS": "1",
                  "MACD_BROWSER_MODEL": ""}  # fmt: skip
    done = subprocess.run([sys.executable, "-c", PUSH, str(root), json.dumps(more)], cwd=ROOT,
                          env=env, capture_output=True, text=True, timeout=PATIENCE_S)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def front(content):
    return yaml.safe_load(content.decode().split("---\n")[1])


def test_a_push_is_one_commit_and_the_next_one_brings_it_up_to_date(checkout):
    with space_hub.serving() as hub:
        assert "pushed to http://127.0.0.1" in push(hub, checkout)
        pushed = set(plan("owner/name", root=checkout).files)
        assert set(hub.files) == pushed | {".gitattributes"}
        assert "mine/notes.py" not in pushed
        assert hub.files[LIST].decode().split() == sorted(pushed - {LIST})
        assert hub.files["assets/weights.bin"] == (checkout / "assets/weights.bin").read_bytes()
        assert len(hub.stored) == 1, "a binary file goes to the large file storage"
        assert hub.files["README.md"] == (ROOT / "README.md").read_bytes()
        assert len(hub.commits) == 1
        first = hub.created[0]
        assert (first["type"], first["sdk"], first["hardware"]) == ("space", "gradio", "cpu-basic")
        # somebody's own file in the Space stays, one of an earlier deployment goes
        hub.files |= {"core/old.py": b"", "notes.txt": b"mine"}
        (checkout / "docs" / "file.txt").write_text("another text\n")
        push(hub, checkout, hardware="zero-a10g", backbones=[SMALL])
        assert "core/old.py" not in hub.files
        assert hub.files["notes.txt"] == b"mine"
        assert hub.files["docs/file.txt"] == b"another text\n"
        assert hub.hardware == "zero-a10g"
        assert hub.variables == {"MACD_BACKBONES": SMALL}
        assert front(hub.files["README.md"])["preload_from_hub"] == [SMALL]


@pytest.mark.long
def test_a_static_space_is_pushed_without_hardware(checkout):
    traces = [str(SHIPPED / "frames.macd")]
    with space_hub.serving() as hub:
        assert "pushed to http://127.0.0.1" in push(hub, checkout, traces=traces)
        first = hub.created[0]
        assert (first["type"], first["sdk"]) == ("space", "static")
        assert "hardware" not in first
        hub.files |= {"t/0123456789abcdef.html": b"", "notes.txt": b"mine"}
        push(hub, checkout, traces=traces)
        assert "t/0123456789abcdef.html" not in hub.files
        assert hub.files["notes.txt"] == b"mine"
        assert b"frames" in hub.files["index.html"]


@pytest.mark.long
def test_a_static_space_holds_one_model_for_gallery_and_course(tmp_path, monkeypatch):
    for name in (*engine.SCRIPTS, *engine.FETCHED, engine.NOTICE):
        (tmp_path / name).write_bytes(name.encode())
    listed = [{"name": name, "bytes": 7, "sha256": ""} for name in engine.FETCHED]
    (tmp_path / engine.ABOUT).write_text(json.dumps({"files": listed}))
    monkeypatch.setattr(engine, "built", lambda: engine.Engine(tmp_path))
    monkeypatch.setattr(engine, "run_file", lambda trace: engine.File(b"{}", "application/json"))
    for module in ("gallery.site", "learn.site"):
        monkeypatch.setattr(f"macd_studio.macd_ui.{module}.run_file", engine.run_file)
    planned = static_plan("owner/name", traces=[SHIPPED / "frames.macd"])
    names = set(planned.files)
    assert {f"engine/{name}" for name in engine.FETCHED} < names
    assert not [name for name in names if name.startswith("learn/engine/")]
    assert all(name.startswith(deploy.STATIC) for name in names)
    assert {"learn/index.html", "learn/data/run-opening.json", "engine/worker.js"} < names
    (run,) = (name for name in names if name.startswith("t/") and name.endswith(".html"))
    assert b'"folder":"../engine/"' in planned.files[run]
    assert b'"folder":"../engine/"' in planned.files["learn/data/part-opening.js"]
    assert b'href="learn/index.html"' in planned.files["index.html"]
    for page in (run, "learn/index.html"):
        assert b"'wasm-unsafe-eval'; worker-src 'self'; connect-src 'self'" in planned.files[page]
    about = front(planned.files["README.md"])
    assert (about["sdk"], about["app_file"], about["license"]) == (
        "static", "index.html", "agpl-3.0",
    )  # fmt: skip
    assert about["custom_headers"]["cross-origin-embedder-policy"] == "require-corp"
    assert "static site" in planned.as_text()
    assert planned.notes == ()


@pytest.mark.long
def test_a_static_space_without_the_model_says_what_is_missing(capsys):
    words = ["--space", "owner/name", "--static", "--dry-run"]
    assert main([*words, "--traces", str(SHIPPED / "frames.macd")]) == 0
    assert "make browser-model" in capsys.readouterr().err
    assert main([*words, "--hardware", "l4x1"]) == 2
    assert main(["--space", "owner/name", "--dry-run", "--traces", str(SHIPPED)]) == 2


@pytest.mark.long
def test_what_the_hub_refuses_is_told(checkout):
    with space_hub.serving() as hub:
        assert "hf auth login" in push(hub, checkout, token="hf_wrong")
        hub.refuses = {"/repos/create": 402}
        assert "Choose --hardware cpu-basic" in push(hub, checkout, hardware="a100-large")
        hub.refuses = {"/commit/": 403}
        assert "write access" in push(hub, checkout)
        hub.refuses = {}
        assert hub.commits == []
    assert "could not be used" in push(hub, checkout)  # it does not answer any more


def test_a_dry_run_shows_the_push_and_asks_nobody(capsys, monkeypatch):
    monkeypatch.setattr("macd_studio.macd_ui.deploy.push", lambda *_: pytest.fail("it was pushed"))
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("the network was used"))
    words = ["--space", "owner/name", "--dry-run", "--backbone", SMALL]
    assert main(words) == 0
    told = capsys.readouterr().out
    for part in ("owner/name (public)", "cpu-basic", f"MACD_BACKBONES={SMALL}", "assets",
                 "sdk: gradio", "preload_from_hub", "Nothing was pushed"):  # fmt: skip
        assert part in told


def test_the_checkout_itself_can_be_deployed():
    deployment = plan("owner/name")
    names = set(deployment.files)
    assert {"app.py", "requirements.txt", "assets/toyworld/detector.pt"} <= names
    assert names == {*listed(), LIST}, "git tracks what macd_studio/parts.py does not name"
    total = sum(map(deployment.size, names)) / 1e6
    assert total < 60
    assert not any(p.is_symlink() for p in deployment.files.values() if isinstance(p, Path))


@pytest.mark.parametrize("hardware", HARDWARE)
def test_a_cpu_space_gets_torch_without_cuda(hardware):
    own = (ROOT / "requirements.txt").read_text()
    pushed = plan("owner/name", hardware=hardware).files["requirements.txt"]
    text = pushed.decode() if isinstance(pushed, bytes) else pushed.read_text()
    first = "--extra-index-url https://download.pytorch.org/whl/cpu\n"
    assert text == (first + own if hardware in ("cpu-basic", "cpu-upgrade") else own)


@pytest.mark.parametrize(("more", "cause"), [
    ({"space": "name"}, "not the name of a Space"),
    ({"space": "owner/na me"}, "not the name of a Space"),
    ({"space": "owner/name\n"}, "not the name of a Space"),
    ({"hardware": "gpu"}, "no hardware"),
    ({"backbones": ["../../etc"]}, "not a model of the hub"),
    ({"backbones": ["a/b,c/d"]}, "not a model of the hub"),
])  # fmt: skip
def test_bad_words_are_refused(checkout, more, cause):
    with pytest.raises(OptionError, match=cause):
        plan(**({"space": "owner/name", "root": checkout} | more))


def test_a_checkout_that_cannot_be_deployed_is_told(checkout, tmp_path):
    (checkout / "core" / "more.txt").write_text("x")
    git(checkout, "add", "-A")
    (checkout / "core" / "link.txt").symlink_to("more.txt")
    git(checkout, "add", "-A")
    with pytest.raises(OptionError, match="is a link"):
        plan("owner/name", root=checkout)
    (checkout / "core" / "link.txt").unlink()
    (checkout / "app.py").unlink()
    with pytest.raises(OptionError, match=r"no app\.py"):
        plan("owner/name", root=checkout)
    with pytest.raises(OptionError, match="not a git checkout"):
        plan("owner/name", root=tmp_path)
    assert main(["--space", "nobody", "--dry-run"]) == 2


README = "---\n" + yaml.safe_dump({
    "title": "T", "emoji": "x", "colorFrom": "blue", "colorTo": "gray", "sdk": "gradio",
    "sdk_version": "6.31.0", "python_version": "3.12.12", "app_file": "app.py",
    "short_description": "short", "license": "agpl-3.0", "models": ["old/model"],
}, sort_keys=False) + "---\n\n# T\n\n---\nmore\n"  # fmt: skip


def test_models_take_the_place_of_those_that_were_named():
    data = front(card(README, [SMALL, "somebody/model@abc"]))
    assert data["models"] == data["preload_from_hub"] == [SMALL, "somebody/model"]
    assert card(README, ["somebody/model"]).decode().endswith("---\n\n# T\n\n---\nmore\n")
    assert card(README) == README.encode()


@pytest.mark.parametrize(("old", "new", "cause"), [
    ("title: T", "", "title is missing"),
    ("short_description: short", f"short_description: {61 * 'x'}", "60 characters"),
    ("colorTo: gray", "colorTo: black", "colour"),
    ("python_version: 3.12.12", "python_version: '3.12'", "python_version"),
    ("license: agpl-3.0", "license: agpl-3.0\nstartup_duration_timeout: soon", "timeout"),
    ("title: T", "title: [", "cannot be read"),
])  # fmt: skip
def test_a_card_that_the_hub_would_refuse_is_told(old, new, cause):
    assert old in README
    with pytest.raises(OptionError, match=cause):
        card(README.replace(old, new))
