"""Your own contrastive decoder, looked at in the viewer: plain transformers calls, then one call.

`python -m examples.own_decoder OUT.macd` contrasts the video with a blank one by hand, greedily, on
the weights of the embedded model, and records what it did. Replace `logits_of` by your own model.
"""

import sys

import torch
from transformers import AutoModelForImageTextToText, AutoProcessor

import core
from core.shipped import assets, shipped

ALPHA, BETA, MOST_TOKENS = 1.0, 0.1, 8
clip = core.load(assets() / "examples" / "repaired.macd")  # for its frames, times and objects
weights = shipped("backbone")
processor = AutoProcessor.from_pretrained(weights)
model = AutoModelForImageTextToText.from_pretrained(weights, dtype=torch.float32).eval()

frames = clip.model_frames.pixels  # (T, h, w, 3) uint8, of the size that the model reads
said = [{"role": "user", "content": [{"type": "video"}, {"type": "text", "text": clip.question}]}]
prompt = processor.apply_chat_template(said, tokenize=False, add_generation_prompt=True)
timing = {
    "total_num_frames": len(frames),
    "fps": (len(frames) - 1) / (clip.times[-1] - clip.times[0]),
    "frames_indices": list(range(len(frames))),
}
inputs = processor(
    text=[prompt],
    videos=[frames],
    video_metadata=[timing],
    do_sample_frames=False,
    do_resize=False,
    return_tensors="pt",
)
blank = torch.zeros_like(inputs["pixel_values_videos"])  # zero is the mean colour


@torch.no_grad()
def logits_of(pixels: torch.Tensor, tokens: list[int]) -> torch.Tensor:
    """(V,) logits of the token that follows the prompt and `tokens`."""
    added = torch.tensor([tokens], dtype=torch.long)
    ids = torch.cat([inputs["input_ids"], added], 1)
    kinds = torch.cat([inputs["mm_token_type_ids"], 0 * added], 1)  # text has kind 0
    longer = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "mm_token_type_ids": kinds}
    return model(**{**inputs, **longer, "pixel_values_videos": pixels}).logits[0, -1]


def decode(alpha: float) -> list[dict]:
    """Greedy tokens of (1 + α)·base − α·counter among those with p ≥ β·max p of the video."""
    steps = []
    while len(steps) < MOST_TOKENS:
        tokens = [step["token"] for step in steps]
        base = logits_of(inputs["pixel_values_videos"], tokens)
        counter = logits_of(blank, tokens) if alpha else None
        scores = base if counter is None else (1 + alpha) * base - alpha * counter
        head = base.softmax(-1) >= BETA * base.softmax(-1).max()
        token = int(scores.masked_fill(~head, -torch.inf).argmax())
        steps.append({"token": token, "base": base, "counter": counter})
        if token == processor.tokenizer.eos_token_id:
            break
    return steps


trace = core.record(
    clip.frames,
    clip.times,
    clip.question,
    answers=[
        {"name": "baseline", "steps": decode(0.0)},
        {"name": "own", "steps": decode(ALPHA), "alpha": ALPHA, "beta": BETA,
         "view": {"kind": "blank"}},
    ],
    token_text=lambda token: processor.tokenizer.decode([token]),
    end_tokens=[processor.tokenizer.eos_token_id],
    tracks=[{"id": t.id, "label": t.label, "boxes": t.boxes} for t in clip.tracks],
    decoder="own decoder on the embedded weights",
)  # fmt: skip
core.save(trace, sys.argv[1] if len(sys.argv) > 1 else "own.macd")
print({name: answer.text for name, answer in trace.answers.items()}, *trace.warnings)
