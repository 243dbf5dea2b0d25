"""Views of a universal model in one pass: only where that gives what each view gives alone."""

import pytest
import torch

from tests.fakes import clip
from tests.universal_models import universal

QUESTION = "Is there a dog in the video?"
pytestmark = [pytest.mark.matrix, pytest.mark.filterwarnings("ignore::UserWarning")]


@pytest.mark.parametrize("fault", ["mixed", "refused", "off"])
def test_views_are_decoded_one_by_one_where_a_batch_changes_them(fault, monkeypatch):
    """Each still gives what it gives alone, and the model says so."""
    lm = universal("llava")
    encoded = lm.encode(clip(1, 64), QUESTION)
    views = torch.stack([encoded.video, encoded.video.flip(-1), 0.5 * encoded.video])
    alone = [lm.step(lm.prefill(encoded, view), [5]).logits[0] for view in views]
    forward = lm.model.forward

    def faulty(**given):
        if len(given["input_ids"]) > 1 and fault == "refused":
            raise RuntimeError("a batch of one was expected")
        out = forward(**given)
        if len(given["input_ids"]) > 1:
            out.logits = out.logits.mean(0, True) if fault == "mixed" else out.logits * 1.01
        return out

    monkeypatch.setattr(lm.model, "forward", faulty)
    both = lm.step(lm.prefill(encoded, views), [5, 5, 5])
    assert torch.equal(both.logits, torch.stack(alone))
    again = lm.step(both, [7, 8, 9])
    assert len(again.cache) == 3
    assert "batch" not in lm.capabilities
    assert ("RuntimeError" if fault == "refused" else "change each other") in lm.reasons["batch"]
