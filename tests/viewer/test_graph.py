"""The graphs for the browser against the model itself: logits, loss and gradient, on a CPU."""

import shutil

import numpy as np
import onnxruntime
import pytest
import torch

from macd_studio.core.macd import query_loss, question_loss_from_logits
from macd_studio.core.system.shipped import shipped
from macd_studio.core.traces.bundle import load
from macd_studio.macd_ui.examples import SHIPPED
from macd_studio.viewer import graph

QUESTIONS = "Which animal is in the video?", "Is there a cat next to the dog in the video?"


@pytest.fixture(scope="module")
def sessions(tmp_path_factory):
    """Both graphs beside the weights that they name."""
    folder = tmp_path_factory.mktemp("graphs")
    shutil.copy(shipped("backbone") / graph.WEIGHTS, folder)
    found = {}
    for name, content in graph.build(shipped("backbone")).items():
        (folder / f"{name}.onnx").write_bytes(content)
        found[name] = onnxruntime.InferenceSession(
            folder / f"{name}.onnx", providers=["CPUExecutionProvider"]
        )
    return found


def fed(lm, encoded, video):
    ids = encoded.input_ids[0].numpy().astype(np.int32)
    slots = np.flatnonzero(ids == lm.vision_token)
    return {
        "video": video.numpy(),
        "before": ids[: slots[0]],
        "after": ids[slots[-1] + 1 :],
        "positions": encoded.inputs["position_ids"][:, 0].numpy().astype(np.float32),
        "unseen": np.triu(np.full((len(ids), len(ids)), -1e9, np.float32), 1),
    }


@pytest.mark.parametrize("question", QUESTIONS)
def test_logits_loss_and_gradient_are_those_of_the_model(toyworld, sessions, question):
    encoded = toyworld.encode_frames(load(SHIPPED / "repaired.macd").model_frames, question)
    noise = torch.randn(encoded.video.shape, generator=torch.Generator().manual_seed(3))
    video = (encoded.video + 0.3 * noise).requires_grad_()
    state = toyworld.prefill(encoded, video.detach())
    loss = query_loss(toyworld, encoded, video)
    (slope,) = torch.autograd.grad(loss, video)

    feed = fed(toyworld, encoded, video.detach())
    (logits,) = sessions["logits"].run(["logits"], feed)
    query = encoded.query.numpy()
    assert np.abs(logits[-1] - state.logits[0].numpy()).max() < 1e-4
    assert np.abs(logits[query - 1] - state.query_logits[0].numpy()).max() < 1e-4

    targets = np.zeros(logits.shape, np.float32)
    targets[query - 1, encoded.input_ids[0, query]] = 1 / len(query)
    again, found, back = sessions["gradient"].run(
        ["logits", "loss", "slope"], feed | {"targets": targets}
    )
    assert np.abs(again - logits).max() < 1e-5
    assert found == pytest.approx(loss.item(), abs=1e-5)
    assert loss.item() == pytest.approx(
        float(question_loss_from_logits(state.query_logits[0], encoded)), abs=1e-5
    )
    assert slope.abs().max() > 1e-4
    assert np.abs(back - slope.numpy()).max() < 1e-3 * float(slope.abs().max())


def test_they_name_the_weights_and_hold_none():
    for content in graph.build(shipped("backbone")).values():
        assert len(content) < 100_000
