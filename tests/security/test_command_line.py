"""The commands with hostile arguments, files and targets: one line, exit 2, and torch stays out."""

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from macd_studio.core.cli.main import main
from macd_studio.core.errors import OptionError, TraceError
from macd_studio.core.traces.bundle import check_target, load, save
from macd_studio.evals.__main__ import main as evaluate
from tests.patience import PATIENCE_S
from tests.small_trace import small_trace

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "assets" / "examples" / "repaired.macd"
FULL = Path("/dev/full")
LONG = "x" * 5000

RUNNER = """
import contextlib, io, json, sys
from importlib.machinery import PathFinder

class Heavy(BaseException):
    pass

class Finder(PathFinder):
    @classmethod
    def find_spec(cls, name, *given):
        if name in ("torch", "transformers"):
            raise Heavy(name)

sys.meta_path.insert(0, Finder)
from {house}.__main__ import main
for args in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(args)
        except Heavy as library:
            code = "needs " + str(library)
    print(json.dumps([code, out.getvalue(), err.getvalue()]), flush=True)
"""


def run(house, commands):
    """Each command's output and errors, and its exit code, or the heavy library that it asks for.

    All in one process, which is faster, and in which no heavy library can be imported.
    """
    done = subprocess.run(
        [sys.executable, "-c", RUNNER.format(house=house)],
        input=json.dumps([[str(a) for a in args] for args in commands]),
        cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S,
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def places(tmp_path_factory, toy_mp4):
    folder = tmp_path_factory.mktemp("places")
    (folder / "text.mp4").write_text("hello")
    (folder / "text.macd").write_text("hello")
    cut = toy_mp4.read_bytes()
    at = cut.index(b"mdat") + 4
    blank = cut[:at] + bytes(len(cut) - at) if cut.index(b"moov") < at else cut[: at + 10]
    (folder / "corrupt.mp4").write_bytes(blank)
    os.mkfifo(folder / "fifo")
    return {"VIDEO": toy_mp4, "FOLDER": folder, "TEXT": folder / "text.mp4", "EXAMPLE": EXAMPLE,
            "CORRUPT": folder / "corrupt.mp4", "FIFO": folder / "fifo", "LONG": LONG,
            "TRACE": folder / "text.macd"}  # fmt: skip


ASK = ["VIDEO", "Is there a dog?"]
REFUSED = [
    (["trace", "LONG", "what?"], "File name too long"),
    (["trace", "TEXT", "what?"], "not a readable video"),
    (["trace", "CORRUPT", "what?"], "not one of its pictures can be decoded"),
    (["trace", "FIFO", "what?"], "there is no file"),
    (["trace", "FOLDER", "what?"], "is a folder"),
    (["trace", *ASK, "--seed", "-1"], "seed is -1. Choose a whole number from 0 to 4294967295"),
    (["trace", *ASK, "--seed", "9" * 400], "seed is a number of about 400 digits"),
    (["trace", *ASK, "--alpha", "1e30"], "contrast.alpha is 1e+30"),
    (["trace", *ASK, "--classes", "x" * 101], "detect.classes[0] has 101 characters"),
    (["trace", *ASK, "--start", "9999"], "the range starts at"),
    (["trace", *ASK, "--device", "gpu"], "no device 'gpu'"),
    (["trace", *ASK, "--device", LONG], "no device 'xxx"),
    (["trace", *ASK, "--backbone", "/no/such/folder"], "there is no folder"),
    (["trace", *ASK, "--backbone", LONG], "there is no folder"),
    (["trace", *ASK, "--detector", "no.pt"], "no detector file"),
    (["trace", *ASK, "--detector", LONG], "is not a known detector"),
    (["trace", *ASK, "--out", "LONG"], "File name too long"),
    (["trace", *ASK, "--out", "VIDEO"], "is a file that this command reads"),
    (["trace", *ASK, "--out", "TEXT"], "exists, and is not replaced by another kind of file"),
    (["trace", *ASK, "--tracks", "TRACE", "--out", "TRACE"], "a file that this command reads"),
    (["trace", *ASK, "--counterpart", "TEXT", "--out", "TEXT"], "that this command reads"),
    (["verdict", "EXAMPLE", "--out", "TEXT"], "Choose another name, one that ends in .macd"),
    (["tracks", "VIDEO", "TRACE", "--out", "TRACE"], "is a file that this command reads"),
    (["tracks", "VIDEO", "TRACE", "--out", "TEXT"], "one that ends in .png"),
    (["render", "EXAMPLE", "--video", "TEXT", "--out", "TEXT"], "that this command reads"),
    (["export", "EXAMPLE", "--out", "EXAMPLE"], "is a file that this command reads"),
    (["export", "EXAMPLE", "--out", "TEXT"], "ends in .json or .xml or .zip"),
    (["trace", *ASK, "--out", "FIFO"], "not a regular file"),
    (["trace", *ASK, "--out", "/dev/null"], "not a regular file"),
    (["trace", *ASK, "--out", "FOLDER"], "is a folder"),
    (["trace", "VIDEO", "x" * 3000], "more than 2000"),
    (["trace", "VIDEO", "a\u202eb"], "U+202E"),
    (["compare", *ASK, "--methods", "macd,magic"], "there is no method 'magic'"),
    (["show", "LONG"], "File name too long"),
    (["show", "FIFO"], "is no file"),
    (["show", "TRACE"], "is not a trace"),
    (["edit", "TRACE", "--drop", "1"], "is not a trace"),
    (["edit", "EXAMPLE", "--drop", "99"], "there is no object 99"),
    (["edit", "EXAMPLE", "--drop", "9" * 400], "there is no object a number of about 400 digits"),
    (["edit", "EXAMPLE", "--drop", "9" * 5000], "is not of the form ID"),
    (["edit", "EXAMPLE", "--level", "1=1e400"], "level is inf"),
    (["edit", "EXAMPLE", "--edit", '{"kind": []}'], "not a change that can be made"),
    (["edit", "EXAMPLE", "--edit", "[" * 100_000], "is not of the form JSON"),
    (["edit", "EXAMPLE", "--alpha", "nan"], "alpha is nan"),
    (["edit", "EXAMPLE", "--out", "/dev/null"], "not a regular file"),
    (["plan", "--frames", "-1"], "frames is -1"),
    (["plan", "--steps", "0"], "steps is 0"),
    (["plan", "--frame-size", "9" * 100], "frame_size is a number of about 100 digits"),
]


@pytest.fixture(scope="module")
def refusals(places):
    """What came of each command of REFUSED, and of one that is refused only with torch."""
    late = ["trace", "VIDEO", "what?", "--backbone", "no/such-model"]
    commands = [args for args, _ in REFUSED] + [late]
    found = run("core", [[places.get(a, a) for a in args] for args in commands])
    assert len(found) == len(commands)
    return found


@pytest.mark.parametrize("index", range(len(REFUSED)), ids=lambda i: " ".join(REFUSED[i][0])[:60])
def test_what_is_refused_is_one_line_without_torch(index, refusals):
    code, out, err = refusals[index]
    assert code == 2
    assert not out
    told = [line for line in err.splitlines() if line.startswith("error: ")]
    assert len(told) == 1
    assert REFUSED[index][1] in told[0]
    assert len(told[0]) < 600


def test_a_sound_video_does_import_torch(refusals):
    """So that the test above can fail: only the hub could tell that there is no such model."""
    assert refusals[-1][0] == "needs torch"


EVALS = [
    (["run", "toyworld", "--n", "-1"], "n is -1"),
    (["run", "toyworld", "--workers", "-2"], "workers is -2"),
    (["run", "toyworld", "--alpha", "99", "--beta", "0.1"], "alpha is 99"),
    (["run", "toyworld", "--alpha", "nan", "--beta", "0.1"], "alpha is nan"),
    (["run", "toyworld", "--alpha", "1"], "only one of α and β"),
    (["run", "toyworld", "--methods", "magic"], "there is no method 'magic'"),
    (["run", "toyworld", "--detector", "no.pt"], "no detector file"),
    (["run", "toyworld", "--out", "TEXT"], "is not a folder"),
    (["run", "toyworld", "--out", "/dev/full"], "is not a folder"),
    (["run", "toyworld", "--out", "LONG"], "File name too long"),
    (["report", "LONG"], "holds no report.json"),
    (["report", "FOLDER"], "is damaged"),
    (["doctor", "--n", "10", "--accuracy", "nan"], "accuracy is nan"),
    (["doctor", "--n", "10", "--decimals", "-400"], "decimals is -400"),
    (["doctor", "--n", "9" * 100], "n is"),
]


@pytest.mark.parametrize(
    ("args", "said"), EVALS, ids=lambda v: " ".join(v)[:60] if isinstance(v, list) else ""
)
def test_what_the_evaluation_refuses_is_one_line(args, said, places, capsys):
    (places["FOLDER"] / "report.json").write_text('{"regimes": 5}')
    assert evaluate([str(places.get(a, a)) for a in args]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert len(err.strip().splitlines()) == 1
    assert said in err


def test_the_evaluation_refuses_without_torch(places):
    sound = ["run", "toyworld", "--n", "1", "--out", "FOLDER/run"]
    refused, late = run(
        "evals", [["run", "toyworld", "--n", "0"], [places.get(a, a) for a in sound]]
    )
    assert refused[0] == 2
    assert late[0] == "needs torch"


@pytest.mark.skipif(not FULL.is_char_device(), reason="needs /dev/full")
def test_a_device_is_never_replaced_by_a_file(tmp_path, capsys):
    before = FULL.stat()
    assert main(["edit", str(EXAMPLE), "--out", str(FULL)]) == 2
    assert "not a regular file" in capsys.readouterr().err
    with pytest.raises(TraceError, match="regular file"):
        save(small_trace(), FULL)
    link = tmp_path / "link.macd"
    link.symlink_to(FULL)
    with pytest.raises(TraceError, match="regular file"):
        save(small_trace(), link)
    assert stat.S_ISCHR(FULL.stat().st_mode)
    assert FULL.stat().st_ino == before.st_ino


def test_a_link_to_a_file_is_written_through(tmp_path):
    (tmp_path / "there").mkdir()
    target = tmp_path / "there" / "real.macd"
    target.write_text("old")
    link = tmp_path / "link.macd"
    link.symlink_to(target)
    save(small_trace(), link)
    assert link.is_symlink()
    assert load(target).question == load(link).question == small_trace().question
    assert [p.name for p in target.parent.iterdir()] == ["real.macd"]


@pytest.mark.parametrize("step", ["write_bytes", "replace"])
def test_a_full_disk_leaves_what_was_there_and_nothing_half_written(step, tmp_path, monkeypatch):
    path = save(small_trace(), tmp_path / "t.macd")
    before = path.read_bytes()
    whole = Path.write_bytes

    def full(self, *given):
        if step == "write_bytes":
            whole(self, b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, step, full)
    with pytest.raises(TraceError, match=r"No space left on device.*free space"):
        save(small_trace(), path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["t.macd"]


@pytest.mark.skipif(not FULL.is_char_device(), reason="needs /dev/full")
@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_summary_that_cannot_be_written_is_told(flags):
    with FULL.open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "core", "show", str(EXAMPLE), *flags],
            cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S,
        )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "error: the summary cannot be written (No space left on device). Free space, or write it"
        " elsewhere."
    ]


BOTH = """
import sys; from core.__main__ import main
sys.exit(main(["show", sys.argv[1]]) or main(["show", sys.argv[1], "--json"]))
"""


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_a_terminal_of_few_characters_gets_a_summary_too(encoding):
    done = subprocess.run(
        [sys.executable, "-c", BOTH, str(EXAMPLE)],
        cwd=ROOT, capture_output=True, timeout=PATIENCE_S,
        env=os.environ | {"PYTHONIOENCODING": encoding},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told, _, json_text = done.stdout.decode(encoding).partition("\n{")
    assert "Run" in told
    assert json.loads("{" + json_text)["question"] == load(EXAMPLE).question


def test_a_file_name_that_is_not_utf_8_is_read_and_told(toy_mp4, tmp_path):
    from macd_studio.core.media.video import read_clip
    from macd_studio.core.options import VideoOptions

    odd = os.fsencode(tmp_path) + b"/a\xff.mp4"
    shutil.copy(toy_mp4, odd)
    clip = read_clip(os.fsdecode(odd), VideoOptions(frames=2))
    assert clip.name == "a\ufffd.mp4"


def test_a_folder_that_cannot_be_written_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(OptionError, match="nothing can be written beside"):
        check_target(tmp_path / "t.macd")
    assert evaluate(["run", "toyworld", "--out", str(tmp_path / "new")]) == 2
