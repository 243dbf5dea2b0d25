"""What opening a hostile trace file may take: memory above an idle process, by its peak."""

import bz2
import io
import json
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from macd_studio.core.media.webp import PICTURE_PIXELS
from macd_studio.core.traces.format import (
    ALL_PIXELS,
    MAX_BYTES,
    MAX_ITEMS,
    MAX_MANIFEST,
    MAX_VALUES,
    MODEL_PIXELS,
    SOURCE_PIXELS,
)
from tests.core.test_bundle import content, flat_webp, rebuilt, trace  # noqa: F401 - fixtures
from tests.patience import PATIENCE_S
from tests.samples import sampled
from tests.zip_lies import by_hand, zeros

ROOT = Path(__file__).parents[2]
MAX_MB = 300
SIDE = 1024
OPEN = """
import gc, json, sys, threading, time
import PIL.Image, PIL.WebPImagePlugin
from macd_studio.core.traces.bundle import load
from macd_studio.core.errors import TraceError

def status(field):
    with open("/proc/self/status") as lines:
        return next(int(x.split()[1]) for x in lines if x.startswith(field + ":")) / 1000

said, opened = [], []

def open_once(path):
    try:
        opened.append(load(path))
        said.append("opened")
    except TraceError as error:
        said.append(str(error))

def open_all():
    for path in sys.argv[2:]:
        open_once(path)

idle, began = status("VmRSS"), time.monotonic()
threads = [threading.Thread(target=open_all) for _ in range(int(sys.argv[1]))]
[t.start() for t in threads]
[t.join() for t in threads]
took, peak = time.monotonic() - began, status("VmHWM")
pixels = [t.frames.size // 3 + t.model_frames.pixels.size // 3
          + sum(z.shown.size // 3 for a in t.answers.values() for z in a.second_views
                if z.shown is not None)
          for t in opened if t.model_frames is not None]
opened.clear()
gc.collect()
print(json.dumps({"said": sorted(set(said)), "peak": peak - idle, "left": status("VmRSS") - idle,
                  "seconds": took, "pixels": pixels}))
"""


WIDE = 400
"""Candidates of a token: an answer has at most 4096 tokens."""
MAX_CANDIDATES = (MAX_ITEMS - 10_000) // (3 * WIDE + 5) * WIDE
"""A candidate takes three numbers, a token five."""


def noise_webp(side):
    """A picture that hardly gets smaller."""
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 255, (side, side, 3), np.uint8))
    out = io.BytesIO()
    picture.save(out, "WEBP", lossless=True, quality=0, method=0)
    return out.getvalue()


def frames(side, count, models=None, noise=0, views=0):
    """Replaces the pictures: so many source and model frames, and second views of all answers.

    noise: how many of the source frames take 3 bytes a pixel in the file, too.
    """

    def change(members, manifest):
        for name in [n for n in members if n.startswith(("frames/", "model/", "shown", "arrays/"))]:
            if not name.startswith("arrays/answer"):
                del members[name]
        noisy, flat, model = noise_webp(side), flat_webp(side), flat_webp(models or side)
        for i in range(count):
            members[f"frames/{i:04d}.webp"] = noisy if i < noise else flat
            members[f"model/{i:04d}.webp"] = model
        members["arrays/times.npy"] = npy(np.arange(count, dtype=float))
        manifest["counts"] = {"frames": count, "tracks": 0, "groups": count}
        manifest["groups"] = [[i] for i in range(count)]
        manifest |= {"tracks": [], "counterfactual": None, "occlusion": None}
        contrast = manifest["answers"][1]
        members.update({f"arrays/answer{i}_{n[len('arrays/answer1_'):]}": members[n]
                        for i in range(views)
                        for n in list(members) if n.startswith("arrays/answer1_")})  # fmt: skip
        if views:
            assert contrast["second_views"][0]["shown"]
            manifest["answers"] = [contrast | {"method": f"m{i}"} for i in range(views)]

    return change


def npy(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def wide_array(dtype, items):
    def change(members, manifest):
        for name in list(members):
            if name.startswith("arrays/answer0_"):
                members[name] = npy(np.ones(items, dtype))

    return change


def many_candidates(items, answers=1):
    """Tokens with as many candidates together, in as few bytes as they can be written in."""

    def change(members, manifest):
        tokens = items // WIDE
        first = manifest["answers"][0] | {"tokens": tokens}
        first["second_views"] = [{"view": {"kind": "blank"}, "shown": False}]
        for name in [n for n in members if n.startswith("arrays/answer")]:
            del members[name]
        few = dict.fromkeys(("token", "base_log_z", "other0_log_z"), np.zeros(tokens, np.int8))
        many = dict.fromkeys(("base", "other0"), np.zeros(tokens * WIDE, np.int8))
        candidates = np.tile(np.arange(WIDE, dtype=np.int16), tokens)
        arrays = few | many | {"candidates": candidates, "floor": few["token"],
                               "count": np.full(tokens, WIDE)}  # fmt: skip
        for i in range(answers):
            members.update({f"arrays/answer{i}_{n}.npy": npy(a) for n, a in arrays.items()})
        manifest["answers"] = [first | {"method": f"m{i}"} for i in range(answers)]
        manifest["pieces"] = {str(i): "a" for i in range(WIDE)}

    return change


def many_values(members, manifest):
    manifest["clip"]["x"] = [{}] * (MAX_VALUES + 1)


def as_many_values_as_allowed(members, manifest):
    marks = sum(json.dumps(manifest).count(c) for c in ",[{")
    left = (MAX_VALUES - marks) // 2 - 100
    for i in range(2):  # each as large as a value may be that the reader does not know
        manifest["clip"][f"x{i}"] = [{}] * (left // 2)


def long_manifest(members, manifest):
    manifest["clip"]["x"] = "x" * 90_000_000


def long_texts(members, manifest):
    manifest["warnings"] = ["x" * 100_000] * (MAX_MANIFEST // 100_000 - 2)


def many_members(members, manifest):
    for i in range(5000):
        members[f"shown{i % 100}/{i:04d}.webp"] = flat_webp(16)


def largest(noise=0):
    """The most source and model pixels at once, and more second views than there is room for."""
    count = SOURCE_PIXELS // SIDE**2
    side = int((MODEL_PIXELS / count) ** 0.5)
    return frames(SIDE, count, models=side, noise=noise, views=3)


def everything(members, manifest):
    """All bounds at once."""
    largest(noise=10)(members, manifest)
    many_candidates(MAX_CANDIDATES)(members, manifest)
    as_many_values_as_allowed(members, manifest)
    rest = MAX_BYTES - sum(map(len, members.values()))
    left = min(MAX_MANIFEST, rest) - len(json.dumps(manifest)) - 200_000
    manifest["warnings"] = ["x" * 100_000] * (left // 100_000)


REFUSED = {
    "100 flat frames of 4096²": (frames(4096, 100), "megapixels"),
    "a frame above the bound": (frames(int(PICTURE_PIXELS**0.5) + 1, 1), "megapixels"),
    "too many source pixels": (frames(SIDE, SOURCE_PIXELS // SIDE**2 + 1, 16), "15 megapixels"),
    "too many model pixels": (frames(16, MODEL_PIXELS // SIDE**2 + 1, SIDE), "24 megapixels"),
    "too many members": (many_members, "more parts than a trace can have"),
    "a manifest of 90 MB": (long_manifest, "more than a trace can be"),
    "too many values": (many_values, "more than a trace has"),
    "arrays of the wrong shape": (wide_array(np.int8, 300_000), "answer0_"),
    "too many candidates": (many_candidates(MAX_ITEMS // 3, 2), "more than a trace has"),
}
OPENED = {
    "most pixels": largest(),
    "most pixels and bytes": largest(noise=13),
    "most second views": frames(SIDE, 7, views=6),
    "most candidates": many_candidates(MAX_CANDIDATES),
    "everything": everything,
    "long texts": long_texts,
    "most values": as_many_values_as_allowed,
}

BOMBS = ("100 flat frames of 4096²", "a manifest of 90 MB", "too many candidates")
LARGEST = ("most pixels",)
"""Of the files that are refused and of the largest that open, those of every run of the tests."""


def measure(*paths, threads=1):
    """What opening the files one after another takes at its peak, in as many threads."""
    done = subprocess.run(
        [sys.executable, "-c", OPEN, str(threads), *map(str, paths)],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=PATIENCE_S,
    )  # fmt: skip
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", sampled(REFUSED, BOMBS))
def test_a_bomb_is_refused_before_it_takes_memory(content, tmp_path, name):  # noqa: F811
    change, words = REFUSED[name]
    packed = rebuilt(content, change, method=zipfile.ZIP_DEFLATED)
    (tmp_path / "bomb.macd").write_bytes(packed)
    found = measure(tmp_path / "bomb.macd")
    print(name, found)
    assert all(words in said for said in found["said"])
    assert "opened" not in found["said"]
    assert found["peak"] <= MAX_MB


def lying_archives():
    """Files that claim to hold less than they do, and one of many parts."""
    manifest = b"manifest.json"
    packed = bz2.compress(bytes(10**7)) * 100
    entry = b"PK\1\2" + bytes(24) + b"\1\0" + bytes(16) + b"a"
    many = entry * 800_000
    where = len(many)
    yield by_hand(manifest, zeros(2048), 100, 0)
    yield by_hand(manifest, zeros(2048), 16 * 2**20, 0)
    yield by_hand(manifest, packed, 100, 0, zipfile.ZIP_BZIP2)
    yield many + struct.pack(
        "<4sQ2H2L4Q4sLQL4s4H2LH", b"PK\6\6", 44, 45, 45, 0, 0, 800_000, 800_000, len(many), 0,
        b"PK\6\7", 0, where, 1, b"PK\5\6", 0, 0, 65535, 65535, 2**32 - 1, 2**32 - 1, 0,
    )  # fmt: skip


def test_archives_that_lie_take_nothing(tmp_path):
    for number, bomb in enumerate(lying_archives()):
        (tmp_path / f"{number}.macd").write_bytes(bomb)
    found = measure(*sorted(tmp_path.iterdir()))
    print(found)
    assert found["peak"] <= 100
    words = ("not as large as it claims", "packed in a way", "more parts than a trace can have")
    assert [word for word in words if any(word in said for said in found["said"])] == list(words)
    assert len(found["said"]) == 3


@pytest.mark.parametrize("threads", [1, pytest.param(4, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", sampled(OPENED, LARGEST))
def test_the_largest_files_open_within_the_bound(content, tmp_path, name, threads):  # noqa: F811
    (tmp_path / "large.macd").write_bytes(rebuilt(content, OPENED[name]))
    found = measure(tmp_path / "large.macd", threads=threads)
    print(name, threads, found)
    assert found["said"] == ["opened"]
    assert found["peak"] <= MAX_MB * threads
    assert found["left"] <= 128 * threads  # fragments of small objects, used again
    if name.startswith(("most pixels", "everything")):
        assert 0.9 * ALL_PIXELS <= min(found["pixels"]) <= max(found["pixels"]) <= ALL_PIXELS
