import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from macd_studio.core.errors import TraceError
from macd_studio.core.options import MaskOptions, RunOptions, VideoOptions
from macd_studio.core.run.pipeline import run
from macd_studio.core.system.recent import Recent
from macd_studio.core.traces.bundle import load, pack, save, unpack
from tests.conftest import write_video
from tests.fakes import BoxDetector, ByteLM
from tests.small_trace import put_together, taken_apart


def make_trace(folder, mask=None, detector=None):
    video = write_video(folder / "v.mp4")
    options = RunOptions(video=VideoOptions(frames=4), mask=mask or MaskOptions())
    *_, last = run(
        video, "is there?", ByteLM, lambda: detector or BoxDetector(shift=0.002), options
    )
    return last.trace


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    return make_trace(tmp_path_factory.mktemp("t"))


@pytest.fixture(scope="module")
def content(trace):
    return pack(trace)


def same(a, b):
    if isinstance(a, np.ndarray):
        np.testing.assert_array_equal(a, b)
    elif hasattr(a, "__dataclass_fields__"):
        assert type(a) is type(b)
        for name in a.__dataclass_fields__:
            same(getattr(a, name), getattr(b, name))
    elif isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            same(a[key], b[key])
    elif isinstance(a, tuple | list):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    else:
        assert a == b


def test_a_trace_comes_back_as_it_was(trace, tmp_path):
    path = save(trace, tmp_path / "t.macd")
    same(trace, load(path))
    assert [p.name for p in tmp_path.iterdir()] == ["t.macd"]


def rebuilt(content, change, **how):
    """The same file after `change` of its members and manifest, with fitting sums."""
    manifest, members = taken_apart(content)
    change(members, manifest)
    return put_together(manifest, members, **how)


def test_outlines_come_back_and_must_fit(trace):
    line = np.array([[0.1, 0.25], [1.0, 0.0], [0.3333, 1.2]], np.float32)
    first = replace(trace.tracks[0], outlines=((line,), None, (line, line), None))
    content = pack(replace(trace, tracks=(first, *trace.tracks[1:])))
    same(unpack(content).tracks[0], first)
    manifest, members = taken_apart(content)
    ring = [[0.1, 0.2]] * 500
    for wrong in (
        [[[[0.1]]]] * 4,
        [None] * 3,
        [[[[0.1, 1e9]]]] * 4,
        [[ring]] * 4,
        [[ring[:3]] * 9] * 4,
    ):
        manifest["tracks"][0]["outlines"] = wrong
        with pytest.raises(TraceError):
            unpack(put_together(manifest, members))


def flat_webp(side):
    out = io.BytesIO()
    Image.new("RGB", (side, side), (9, 9, 9)).save(out, "WEBP", lossless=True)
    return out.getvalue()


@pytest.mark.parametrize("kind", ["animated", "lying", "png", "cut"])
def test_only_plain_webp_is_decoded(content, kind):
    def spoil(members, manifest):
        out = io.BytesIO()
        picture = Image.new("RGB", (64, 48), (9, 9, 9))
        if kind == "animated":
            picture.save(out, "WEBP", save_all=True, append_images=[Image.new("RGB", (64, 48))])
        else:
            picture.save(out, "PNG" if kind == "png" else "WEBP", lossless=True)
        data = out.getvalue()
        if kind == "lying":  # the header claims another size than the picture has
            data = data[:21] + (63 | 99 << 14).to_bytes(4, "little") + data[25:]
        members["frames/0000.webp"] = data[:40] if kind == "cut" else data

    with pytest.raises(TraceError):
        unpack(rebuilt(content, spoil))


def test_encoded_pictures_stay_within_a_bound_and_without_their_pixels(monkeypatch):
    from macd_studio.core.media import webp

    kept = Recent(3000, len)
    monkeypatch.setattr(webp, "_encoded", kept)
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 255, (6, 16, 16, 3), np.uint8)
    first = [webp.encode_picture(frame) for frame in frames]
    sizes = [len(picture) for picture in first]
    assert max(sizes) < 3000 < sum(sizes)
    held = list(kept.values())
    assert sum(map(len, held)) <= 3000
    assert held == first[-len(held) :]
    assert all(len(key[0]) == 20 for key in kept._values)
    assert webp.encode_picture(frames[-1]) is first[-1]
    assert webp.encode_picture(frames[0]) == first[0]
    # the same bytes in another shape, or with another loss, are another picture
    assert webp.encode_picture(frames[0].reshape(8, 32, 3)) != first[0]
    large = rng.integers(0, 255, (200, 200, 3), np.uint8)
    assert webp.encode_picture(large, exact=True) != webp.encode_picture(large)
    assert sum(map(len, kept.values())) <= 3000
