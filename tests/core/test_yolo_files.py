"""YOLO weights that are not whole, names that are not those of the head, and threads."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from macd_studio.core.errors import DetectorError
from macd_studio.core.objects.detect import Yolo, load_detector
from macd_studio.core.options import DetectOptions
from macd_studio.core.system.shipped import shipped
from tests.samples import sampled

FRAMES = np.random.default_rng(0).integers(0, 255, (2, 64, 64, 3), np.uint8)
OPTIONS = DetectOptions(confidence=0.01, low=0.01, image_size=64)


def changed(tmp_path, change):
    """The embedded weights with a change to the network in the file."""
    file = torch.load(shipped("detector.pt"), weights_only=False)
    change(file["ema"] if file.get("ema") is not None else file["model"])
    torch.save(file, tmp_path / "own.pt")
    return str(tmp_path / "own.pt")


def _drop(network):
    del network.model[2].cv1.conv._parameters["weight"]


def _rename(network):
    held = network.model[2].cv1.conv._parameters
    held["module.weight"] = held.pop("weight")


def _resize(network):
    conv = network.model[2].cv1.conv
    conv.weight = torch.nn.Parameter(torch.zeros(3, 3, 1, 1, dtype=conv.weight.dtype))


@pytest.mark.parametrize("change", [_drop, _rename, _resize])
def test_weights_that_are_not_whole_do_not_run(change, tmp_path):
    with pytest.raises(DetectorError):
        list(load_detector(changed(tmp_path, change)).detect(FRAMES, OPTIONS))


def _fewer(network):
    network.names = dict(list(network.names.items())[:-1])


def _more(network):
    network.names = {**network.names, len(network.names): "one more"}


@pytest.mark.parametrize("change", [_fewer, _more])
def test_names_that_are_not_those_of_the_head_are_refused(change, tmp_path):
    with pytest.raises(DetectorError, match="classes and names of"):
        load_detector(changed(tmp_path, change))


def test_a_file_of_tensors_alone_is_refused(tmp_path):
    torch.save({"module.model.0.conv.weight": torch.zeros(2)}, tmp_path / "own.pt")
    with pytest.raises(DetectorError, match="cannot be loaded"):
        load_detector(str(tmp_path / "own.pt"))


def test_other_weights_have_another_hash(tmp_path):
    own = changed(tmp_path, lambda network: network.model[2].cv1.conv.weight.data.mul_(1.5))
    assert Yolo("a", shipped("detector.pt")).weights_hash != load_detector(own).weights_hash


@pytest.mark.parametrize("threads", sampled([1, 3], [3]))
def test_detecting_leaves_threads_as_they_are(threads):
    """In a fresh process: ultralytics chooses when it is imported and when it first computes."""
    code = f"""
import cv2, numpy as np, torch
torch.set_num_threads({threads}); cv2.setNumThreads({threads})
from macd_studio.core.objects.detect import load_detector
from macd_studio.core.options import DetectOptions
used = []
kept = torch.set_num_threads
torch.set_num_threads = lambda n: (used.append(n), kept(n))
frames = np.zeros((1, 64, 64, 3), np.uint8)
list(load_detector("toyworld").detect(frames, DetectOptions(image_size=64)))
print(torch.get_num_threads(), cv2.getNumThreads(), set(used) <= {{{threads}}})
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == [str(threads), str(threads), "True"]
