"""The drawn world as benchmarks' files: what loaders read is what was drawn."""

import numpy as np
import pytest

from macd_studio.core.media.video import read_clip
from macd_studio.core.options import VideoOptions
from macd_studio.evals.benchmarks import find_benchmark
from macd_studio.evals.benchmarks.files import Sampling
from macd_studio.toyworld.__main__ import main
from macd_studio.toyworld.export import FORMATS, Writer, export
from tests.samples import sampled

FEW = Sampling(VideoOptions(frames=4, dense_fps=2.0))


@pytest.fixture(scope="module", params=sampled(FORMATS, ("eventhallusion", "questions")))
def exported(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    n = 3 if request.param == "video-pope" else 2 if request.param == "perception-test" else 1
    return request.param, folder, export(request.param, folder, n)


def test_a_loader_reads_every_format(exported):
    name, folder, written = exported
    benchmark = find_benchmark(name, folder, FEW)
    videos = {p for p in written if p.suffix == ".mp4"}
    assert {a.video for a in benchmark.asked} == videos
    for item in benchmark.everything:
        assert item.kind != "choice" or item.truth in "ABCD"[: len(item.options)]


def test_every_format_has_clips_the_embedded_model_knows(exported):
    _, _, written = exported
    path = next(p for p in written if p.suffix == ".mp4")
    clip = read_clip(path, VideoOptions(frames=2, dense_fps=0.0))
    assert clip.title == "toy world"
    assert clip.frames.shape == (2, 192, 192, 3)


@pytest.mark.parametrize("name", FORMATS)
def test_more_clips_leave_the_first_ones_as_they_are(name, tmp_path, monkeypatch):
    drawn = {}
    monkeypatch.setattr(
        Writer, "video", lambda self, path, *specs, **_: drawn.setdefault(self.folder, []).append(
            (path if name != "video-mme" else "", specs)
        ),
    )  # fmt: skip
    few, more = tmp_path / "few", tmp_path / "more"
    export(name, few, 1)
    export(name, more, 3)
    assert len(drawn[more]) == 3 * len(drawn[few])
    assert all(clip in drawn[more] for clip in drawn[few])


@pytest.mark.parametrize("exported", ["eventhallusion"], indirect=True)
def test_splits_have_one_answer_as_released(exported):
    _, folder, _ = exported
    truths = {}
    for item in find_benchmark("eventhallusion", folder, FEW).everything:
        truths.setdefault(item.regime, set()).add(item.truth)
    assert truths == {"entire": {"no"}, "misleading": {"no"}, "interleave": {"yes"}}


@pytest.mark.long
@pytest.mark.parametrize("exported", ["mvbench"], indirect=True)
def test_a_part_of_a_video_is_what_is_sampled(exported):
    _, folder, _ = exported
    benchmark = find_benchmark("mvbench", folder, FEW)
    asked = next(a for a in benchmark.asked if a.regime == "action_sequence")
    key = next(i.clip for i in benchmark.everything if i.id == asked.id)
    clip, whole = benchmark.clip(key), read_clip(asked.video, VideoOptions(frames=8, dense_fps=2.0))
    assert clip.times.min() >= 4.0
    assert clip.dense_times.min() >= 4.0 - 0.1
    assert np.array_equal(clip.frames, whole.frames[4:])
    first, second = whole.frames[3].astype(int), whole.frames[4].astype(int)
    assert np.abs(first - second).mean() > 10  # another clip begins there


@pytest.mark.parametrize("exported", ["perception-test"], indirect=True)
def test_a_video_is_cut_where_its_mapping_says(exported):
    _, folder, _ = exported
    benchmark = find_benchmark("perception-test", folder, FEW)
    ends = {a.video.stem: a.end for a in benchmark.asked}
    assert ends == {"video_1": None, "video_2": 4.0}
    clip = next(benchmark.clip(i.clip) for i in benchmark.everything if "video_2" in i.clip)
    assert clip.times.max() < 4.0


@pytest.mark.long
@pytest.mark.parametrize("exported", ["video-mme"], indirect=True)
def test_frames_are_sampled_by_rate_and_size(exported):
    _, folder, _ = exported
    sampling = Sampling(VideoOptions(dense_fps=0.0), fps=1.0, size=56)
    benchmark = find_benchmark("video-mme", folder, sampling)
    items = {i.regime: i for i in benchmark.everything}
    counts = {r: benchmark.clip(i.clip).frames.shape for r, i in items.items()}
    assert counts == {"short": (4, 56, 56, 3), "medium": (8, 56, 56, 3), "long": (12, 56, 56, 3)}


def test_the_command_says_what_it_wrote(tmp_path, capsys):
    assert main(["export", "video-pope", str(tmp_path / "x"), "--n", "1"]) == 0
    assert capsys.readouterr().out.startswith("2 files in ")
    assert main(["export", "video-pope", str(tmp_path), "--n", "0"]) == 2
    (tmp_path / "file").touch()
    assert main(["export", "video-pope", str(tmp_path / "file" / "x")]) == 2
    assert "Choose another folder" in capsys.readouterr().err
