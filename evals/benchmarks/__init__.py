"""Benchmarks by name. A new one is a class with the methods of `base.Benchmark` and a line here."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from macd_studio.core.errors import OptionError
from macd_studio.core.system.shipped import assets
from macd_studio.evals.benchmarks.base import Benchmark

if TYPE_CHECKING:
    from macd_studio.evals.benchmarks.files import FileBenchmark, Sampling

FILES = {
    "questions": "questions:Questions",
    "everyday": "everyday:Everyday",
    "eventhallusion": "eventhallusion:EventHallusion",
    "mvbench": "mvbench:MVBench",
    "perception-test": "perception_test:PerceptionTest",
    "video-mme": "video_mme:VideoMME",
    "video-pope": "video_pope:VideoPope",
    "videohallucer": "videohallucer:VideoHallucer",
    "vidhalluc": "vidhalluc:VidHalluc",
    "vidpair-halluc": "vidpair_halluc:VidPairHalluc",
}
"""Benchmarks of video files: name → module and class. They need a folder of data."""
DRAWN = {
    "toyworld": "toyworld:ToyWorld",
    "toyworld-balanced": "toyworld_balanced:BalancedToyWorld",
    "toyworld-crossed": "toyworld_crossed:CrossedToyWorld",
}
"""Benchmarks of drawn clips, in the same form; they need no data."""
BENCHMARKS = (*DRAWN, *FILES)
SHIPPED = {"everyday": assets() / "everyday-clips"}
"""The folder of those that come with clips: read where no other is given."""


def find_benchmark(
    name: str,
    data: Path | None = None,
    sampling: Sampling | None = None,
    published: bool = True,
) -> Benchmark:
    """A benchmark by name; raises OptionError, and BenchmarkError where its files are not right.

    data: its folder, of all but the drawn world. sampling, published: see `FileBenchmark`.
    """
    if name in DRAWN:
        module, kind = DRAWN[name].split(":")
        drawn: Benchmark = getattr(import_module(f"macd_studio.evals.benchmarks.{module}"), kind)()
        return drawn
    return open_files(name, data, sampling, published)


def open_files(
    name: str,
    data: Path | None,
    sampling: Sampling | None = None,
    published: bool = True,
    videos: bool = True,
) -> FileBenchmark:
    """A benchmark of video files; videos: whether they have to be there. Raises as above."""
    if name not in FILES:
        raise OptionError(
            f"there is no benchmark {name!r}", f"Choose one of {', '.join(BENCHMARKS)}"
        )
    data = data or SHIPPED.get(name)
    if data is None:
        raise OptionError(
            f"{name} needs its data", "Give the folder by --data; docs/benchmarks.md shows it"
        )
    return file_benchmark(name)(data, sampling, published, videos)


def file_benchmark(name: str) -> type[FileBenchmark]:
    """The class of a benchmark of video files, of FILES."""
    module, kind = FILES[name].split(":")
    found: type[FileBenchmark] = getattr(
        import_module(f"macd_studio.evals.benchmarks.{module}"), kind
    )
    return found
