"""Shared fixtures: drawn clips as files, the embedded models, real data where it is present."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import just

from tests import rewritten, samples
from tests.spent import Spent

ROOT = Path(__file__).parents[1]
REAL = Path(os.environ.get("MACD_REAL_DATA") or ROOT.parent / "shared" / "real")

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
os.environ["MACD_BROWSER_MODEL"] = (
    ""  # sites are written without it, whatever this checkout has built
)

# no time limits: a machine may be slow. Every run takes the same cases.
settings.register_profile(
    "macd", deadline=None, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
settings.load_profile("macd")
settings.register_profile("sampled", settings.get_profile("macd"), max_examples=50)

FIRST = ("tests/browser/", "tests/test_readme.py", "tests/evals/", "tests/core/")
"""What takes longest, in the order in which the workers of pytest-xdist begin it."""


def pytest_configure(config: pytest.Config) -> None:
    """Says at the end where the time went; prepares what every worker reads.

    Without the long tests, half as many cases are drawn for a property.
    """
    if config.option.markexpr == "not long":  # as `make test` does
        settings.load_profile("sampled")
    config.pluginmanager.register(Spent(), "spent")
    rewritten.ahead(config)


def pytest_collection_finish() -> None:
    """Python's search for garbage leaves out what was imported and collected: it stays anyway.

    Hypothesis registers sources of randomness with the first property, and wants to find who else
    refers to them, which it cannot once they are left out.
    """
    given(just(None))(lambda nothing: None)()
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 20, 20)


@cache
def _uses_server(file: str) -> bool:
    """Whether a test of the file takes the fixture `page` or `server`."""
    taken = r"^def test_\w+\([^)]*\b(page|server)\b"
    return re.search(taken, (ROOT / file).read_text(), re.MULTILINE) is not None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Several workers: a file stays on one, and so do all browser tests that use the page's server.

    Fixtures of a module or of the session are then made once, but for the embedded models.
    """
    from xdist.scheduler import LoadFileScheduling

    class ByServer(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            if not file.startswith(FIRST[0]):
                return file
            return f"{FIRST[0]}{'server' if _uses_server(file) else 'alone'}"

    config.option.loadscopereorder = False  # by number of tests; ours are in order
    return ByServer(config, log)


@pytest.hookimpl(tryfirst=True)  # before `-m "not long"` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks browser tests and what `make test` leaves out; puts first what takes longest.

    One worker keeps the order of the files.
    """
    samples.mark(items)
    for item in items:
        if item.nodeid.startswith(FIRST[0]):
            item.add_marker("browser")
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: [not item.nodeid.startswith(name) for name in FIRST])


@pytest.fixture(scope="session", autouse=True)
def _clips_are_read_in_a_thread() -> Iterator[Callable[[], Any]]:
    """Starting the process that reads a clip takes longer than reading a small one."""
    from macd_studio.core.media import video
    from tests.in_process import InProcess

    process, video._start_worker = video._start_worker, InProcess
    yield process
    video._start_worker = process


@pytest.fixture
def reader_process(_clips_are_read_in_a_thread, monkeypatch) -> None:
    """Clips are read by a process of their own, as outside the tests."""
    monkeypatch.setattr("macd_studio.core.media.video._start_worker", _clips_are_read_in_a_thread)


@pytest.fixture(scope="session")
def real() -> Path:
    """The folder of real clips and weights; skips where it is absent."""
    if not REAL.is_dir():
        pytest.skip(f"no real data in {REAL}; set MACD_REAL_DATA")
    return REAL


@pytest.fixture(scope="session")
def toy_spec():
    """A dog in a kitchen, where none is expected, moving right, and a still cup."""
    from macd_studio.toyworld.world import ClipSpec, ObjectSpec

    return ClipSpec(
        scene="kitchen",
        objects=(
            ObjectSpec("dog", 0.3, (0.25, 0.7), "right", 0.4),
            ObjectSpec("cup", 0.25, (0.7, 0.25), "still"),
        ),
        background=3,
        seed=5,
    )


@pytest.fixture(scope="session")
def toy_mp4(toy_spec, tmp_path_factory) -> Path:
    """The same as a video file."""
    from macd_studio.toyworld.clips import write_mp4

    path = tmp_path_factory.mktemp("clips") / "toy.mp4"
    write_mp4(toy_spec, path)
    return path


@pytest.fixture(scope="session")
def toyworld():
    """The embedded backbone."""
    from macd_studio.core.backbones import load_backbone

    return load_backbone("toyworld", "cpu")


@pytest.fixture(scope="session")
def toy_detector():
    """The embedded detector."""
    from macd_studio.core.objects.detect import load_detector

    return load_detector("toyworld")


@pytest.fixture
def make_video(tmp_path) -> Callable[..., Path]:
    """Writes a small video; keywords choose codec, pixel format, timestamps and shape."""
    return lambda name="v.mp4", **how: write_video(tmp_path / name, **how)


def write_video(
    path: Path,
    *,
    frames: int = 24,
    size: tuple[int, int] = (64, 48),
    fps: int = 12,
    codec: str = "libx264",
    pix_fmt: str = "yuv420p",
    pts: list[int] | None = None,
    aspect: tuple[int, int] | None = None,
    audio: bool = False,
) -> Path:
    """A left half in red that darkens with time; pts are in 1/1000 s."""
    from fractions import Fraction

    import av

    with av.open(str(path), "w", options={"movflags": "faststart"}) as out:
        if audio:
            stream = out.add_stream("aac", rate=44100)
            for i in range(20):
                sound = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
                sound.sample_rate, sound.pts = 44100, 1024 * i
                out.mux(stream.encode(sound))
            out.mux(stream.encode())
            return path
        stream = out.add_stream(codec, rate=fps)
        stream.width, stream.height, stream.pix_fmt = *size, pix_fmt
        if codec == "libx264":
            stream.options = {"crf": "10", "g": "12"}
        if aspect:
            stream.codec_context.sample_aspect_ratio = Fraction(*aspect)
        if pts:
            stream.codec_context.time_base = Fraction(1, 1000)
        for i in range(frames):
            picture = np.full((size[1], size[0], 3), 40, np.uint8)
            picture[:, : size[0] // 2, 0] = 255 - 8 * min(i, 25)
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            if pts:
                frame.pts, frame.time_base = pts[i], Fraction(1, 1000)
            out.mux(stream.encode(frame))
        out.mux(stream.encode())
    return path
