"""Hiding the companion, on the fake model: what is measured is what is said."""

import numpy as np
import pytest
import torch

from macd_studio.core.masking.composite import mask_compositor
from macd_studio.core.masking.masks import draw_masks
from macd_studio.core.options import MaskOptions
from macd_studio.evals.benchmarks import find_benchmark
from macd_studio.evals.companion import main, margin_change, measure
from tests.fakes import ByteLM


def test_the_margin_changes_by_masking_what_is_there():
    lm, benchmark = ByteLM(seed=4), find_benchmark("toyworld")
    items = [i for i in benchmark.items("test", 12) if i.regime == "co-occurrence"]
    item = next(i for i in items if i.truth == "no")
    margin, change = margin_change(lm, benchmark, item)
    encoded = lm.encode(benchmark.clip(item.clip), item.question)
    tracks, options = benchmark.true_tracks(item.clip), MaskOptions(frame_mask="off")
    drawn = draw_masks(tracks, len(encoded.video), (192, 192), options)
    masks = mask_compositor(encoded, drawn, tracks, options)
    masked = masks.video(torch.ones(1), torch.zeros(len(encoded.groups)))

    def direct(video):
        logits = lm.prefill(encoded, video).logits[0]
        yes, no = (max(float(logits[ord(c)]) for c in z) for z in ("yY", "nN"))
        return yes - no

    assert margin == pytest.approx(direct(encoded.video), abs=1e-6)
    assert change == pytest.approx(direct(masked) - margin, abs=1e-5)
    assert change != 0


def test_only_clips_with_the_companion_alone_count():
    figures = measure(ByteLM(seed=4), find_benchmark("toyworld"), 5)
    assert figures["clips"] == 5
    assert 0 <= figures["false_yes"] <= 5
    mean, low, high = figures["all"]["change"]
    assert low <= mean <= high
    assert np.isfinite(mean)


def test_a_number_of_clips_that_is_none_is_refused(capsys):
    assert main(["--n", "1"]) == 2
    assert "error" in capsys.readouterr().err
