"""Whether an installed copy does what it should: `PYTHON smoke.py`, by the Python that has it.

It traces a clip, opens the page and its source, evaluates, and makes a study, all in an empty
folder. Prints a line for each; ends with 1 at the first that fails. Needs nothing of a checkout.
"""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import zipfile
from collections.abc import Sequence
from pathlib import Path

BIN = Path(sys.executable).parent
WAIT_S = float(os.environ.get("MACD_PATIENCE_S", "900"))
"""How long a step may take before it counts as hanging."""
ABOUT = """
import sys, macd_studio as macd
from pathlib import Path
from macd_studio.core.system.shipped import assets
trace = macd.load(assets() / "examples" / "repaired.macd")
assert "srcdoc" in trace._repr_html_()
assert "torch" not in sys.modules
print(Path(macd.__file__).parent, trace.answers["macd"].text, trace.question, sep="\\n")
"""
"""The place of the package, and what its first example answers and was asked."""


def run(words: Sequence[str | Path], folder: Path) -> str:
    """What a command prints; raises SystemExit with its errors where it fails."""
    done = subprocess.run(
        list(map(str, words)), cwd=folder, capture_output=True, text=True, timeout=WAIT_S
    )
    if done.returncode:
        sys.exit(f"FAILED  {' '.join(map(str, words))}\n{done.stdout}{done.stderr}")
    return done.stdout


def expect(true: bool, words: str) -> None:
    """Ends with these words unless something is so."""
    if not true:
        sys.exit(f"FAILED  {words}")


def page(folder: Path) -> str:
    """Opens the page of `macd-studio`, and asks it for its source; what that holds, in words."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    with (folder / "page.log").open("wb") as log:
        server = subprocess.Popen(
            [str(BIN / "macd-studio"), "--port", str(port)], cwd=folder, stdout=log, stderr=log
        )
    try:
        until = time.monotonic() + WAIT_S
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as answer:
                    expect(b"MACD" in answer.read(), "the page is another one")
                break
            except OSError as error:
                ended = server.poll() is not None or time.monotonic() > until
                expect(not ended, f"page: {error}\n{(folder / 'page.log').read_text()}")
                time.sleep(0.1)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/source.zip") as answer:
            names = zipfile.ZipFile(io.BytesIO(answer.read())).namelist()
        for name in ("setup.py", "core/macd.py", "macd_studio/__init__.py", "tests/conftest.py"):
            expect(name in names, f"/source.zip lacks {name}")
        return f"with {len(names)} files of source"
    finally:
        server.terminate()
        server.wait(WAIT_S)


def main() -> None:
    """Runs them all."""
    with tempfile.TemporaryDirectory(prefix="macd-smoke-") as place:
        folder = Path(place)
        where, answer, question = run([sys.executable, "-c", ABOUT], folder).strip().split("\n")
        print(f"ok      package     {where}, Python {sys.version.split()[0]}")
        clip = Path(where) / "assets" / "examples" / "repaired.mp4"
        if not clip.is_file():  # an editable install
            clip = Path(where).parent / "assets" / "examples" / "repaired.mp4"
        told = run([BIN / "macd", "trace", clip, question, "--out", "clip.macd", "--json"], folder)
        expect(json.loads(told)["answers"]["macd"]["text"] == answer, f"trace says {told[:300]}")
        again = run([sys.executable, "-m", "macd_studio", "show", "clip.macd"], folder)
        expect(answer in again, f"show says {again}")
        print(f"ok      trace       {answer!r}")
        print(f"ok      page        {page(folder)}")
        words = ["--methods", "macd", "--alpha", "1", "--beta", "0.1", "--n", "1", "--split", "1"]
        evaluation = [sys.executable, "-m", "macd_studio.evals", "run", "toyworld"]
        run([*evaluation, *words, "--out", "report"], folder)
        expect((folder / "report" / "report.json").is_file(), "no report was written")
        print("ok      evaluation")
        study = [sys.executable, "-m", "macd_studio.ratings"]
        run([*study, "create", "study.db", "--examples"], folder)
        print(f"ok      study       {run([*study, 'check', 'study.db'], folder).strip()}")


if __name__ == "__main__":
    main()
