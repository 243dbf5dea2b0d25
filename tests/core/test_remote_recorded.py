"""What a real vLLM answered, played again: `make vllm-check ARGS=--record` writes it anew."""

import numpy as np
import pytest

from bench.recorded import DRAW, QUESTION, Player, ask, recorded
from macd_studio.core.backbones.remote.probe import drawn_clip
from tests.vllm_server import NAME


@pytest.fixture(scope="module")
def kept():
    return recorded()


@pytest.fixture(scope="module")
def local(toyworld):
    """The same of the model in this process: the question's log p, then four rows."""
    encoded = toyworld.encode(drawn_clip(seed=DRAW), QUESTION)
    videos = encoded.video[None].repeat(2, 1, 1, 1, 1)
    videos[1, :4] *= 0.5
    views = toyworld.prefill(encoded, videos)
    rows = toyworld.next_rows(views)
    rows += toyworld.next_rows(views, [rows[0].best()])
    log_p = [row.values - row.log_partition for row in rows]
    return [toyworld.question_log_p(encoded, views), *log_p]


@pytest.mark.parametrize(("way", "off"), [("exact", 2e-5), ("common", 2e-2)])
def test_a_real_server_says_what_the_model_says(way, off, kept, local):
    player = Player(kept[way])
    reader, found = ask(NAME, player, way == "exact")
    assert player.at == len(kept[way])
    for one, other in zip(found, local, strict=True):
        np.testing.assert_allclose(one, other, atol=off)
    assert reader.server.exact == (way == "exact")
    assert reader.server.version == "0.32.0"
    assert reader.server.most == -1
    assert reader.server.chosen
    assert reader.server.question == "prompt"
