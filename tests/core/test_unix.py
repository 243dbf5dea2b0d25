"""Another system than Linux and macOS is told so in one sentence, and only where it matters."""

import subprocess
import sys

import pytest

from macd_studio.core.errors import PlatformError
from macd_studio.core.system.unix import unix
from tests.patience import PATIENCE_S

LACKS = """
import sys
sys.modules["resource"] = sys.modules["fcntl"] = None  # as if Python had none
"""
SHOWS = """
from macd_studio.core.cli.main import main
sys.exit(main(["show", "assets/examples/repaired.macd"]) or "torch" in sys.modules)
"""
READS = """
from macd_studio.core.media.video import read_clip
try:
    read_clip("assets/examples/repaired.mp4")
except Exception as error:
    print(type(error).__name__, error)
"""
SERVES = """
from macd_studio.macd_ui.serving.server import main
sys.argv = ["app.py"]
main()
"""
TOLD = "neither Linux nor macOS"


def run(code):
    """In the checkout's folder; the port is one that nobody listens on."""
    words = [sys.executable, "-c", LACKS + code]
    return subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S)


@pytest.mark.parametrize("module", ["fcntl", "resource"])
def test_a_system_without_one_is_told_what_to_do(monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(PlatformError, match=rf"{TOLD}.*no {module}.*WSL"):
        unix(module)


def test_a_trace_is_shown_there_without_torch_and_a_video_is_not_read():
    shown = run(SHOWS)
    assert shown.returncode == 0, shown.stderr
    read = run(READS).stdout
    assert "PlatformError" in read
    assert TOLD in read


@pytest.mark.long
def test_the_page_ends_there_with_a_sentence():
    served = run(SERVES)
    assert served.returncode == 1
    assert TOLD in served.stderr
    assert "Traceback" not in served.stderr
