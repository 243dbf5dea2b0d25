"""Your own contrastive decoder, looked at in the viewer: plain transformers calls, then one call.

`python -m examples.own_decoder OUT.macd` contrasts the video with a blank one by hand, greedily, on
the weights of the embedded model, and records what it did. Replace `logits_of` by your own model.
"""

import sys

import torch
from transformers import AutoModelForImageTextToText, AutoProcessor

import macd_studio as macd
from macd_studio.core.backbones import load_backbone
from macd_studio.core.backbones.positions import positions_of
from macd_studio.core.system.shipped import assets, shipped

ALPHA, BETA, MAX_TOKENS = 1.0, 0.1, 8
clip = macd.load(assets() / "examples" / "repaired.macd")  # for its frames, times and objects
processor = AutoProcessor.from_pretrained(shipped("backbone"))
model = AutoModelForImageTextToText.from_pretrained(shipped("backbone"), dtype=torch.float32)
frames = clip.model_frames.pixels.copy()  # (T, h, w, 3) uint8, of the size that the model reads
said = [{"role": "user", "content": [{"type": "video"}, {"type": "text", "text": clip.question}]}]
prompt = processor.apply_chat_template(said, tokenize=False, add_generation_prompt=True)
fps = (len(frames) - 1) / (clip.times[-1] - clip.times[0])
timing = {"total_num_frames": len(frames), "fps": fps, "frames_indices": [*range(len(frames))]}
fixed = {"do_sample_frames": False, "do_resize": False, "return_tensors": "pt"}
inputs = processor(text=[prompt], videos=[frames], video_metadata=[timing], **fixed)
video, (depth, height, width) = inputs["pixel_values_videos"], inputs["video_grid_thw"][0].tolist()
merge, config = processor.video_processor.merge_size, model.config
grid = depth, height // merge, width // merge  # of the video, in tokens
step = float(inputs["second_per_grid_ts"][0]) * config.vision_config.tokens_per_second


@torch.no_grad()
def logits_of(pixels, tokens):
    """(V,) logits of the token that follows the prompt and `tokens`."""
    ids = torch.cat([inputs["input_ids"], torch.tensor([tokens], dtype=torch.long)], 1)
    # as in training; transformers 5.3 and later would put text after a long video elsewhere
    at = positions_of((ids[0] == config.video_token_id).numpy(), grid, step)[:, None]
    seen = {"pixel_values_videos": pixels, "video_grid_thw": inputs["video_grid_thw"]}
    return model(input_ids=ids, position_ids=at, **seen).logits[0, -1]


def decode(alpha):
    """Greedy tokens of (1 + α)·base − α·other among those with p ≥ β·max p of the video."""
    tokens, base, other = [], [], []
    while len(tokens) < MAX_TOKENS and processor.tokenizer.eos_token_id not in tokens:
        base.append(logits_of(video, tokens))
        other.append(logits_of(0 * video, tokens))  # zero is the mean colour
        scores = (1 + alpha) * base[-1] - alpha * other[-1]
        head = base[-1].softmax(-1) >= BETA * base[-1].softmax(-1).max()
        tokens.append(int(scores.masked_fill(~head, -torch.inf).argmax()))
    return {"tokens": tokens, "base": base} | ({"others": [other]} if alpha else {})


baseline = {"name": "baseline", **decode(0.0)}
colour = [255 * mean for mean in processor.video_processor.image_mean]  # of the blank video
blank = {"view": {"kind": "blank"}, "shown": {"mask": torch.ones(frames.shape[:3]), "fill": colour}}
own = {"name": "own", **decode(ALPHA), "alpha": ALPHA, "beta": BETA, "second_views": [blank]}
parts = {"tokenizer": processor.tokenizer, "tracks": clip.tracks, "model": load_backbone()}
trace = macd.record(frames, clip.times, clip.question, answers=[baseline, own], **parts)
macd.save(trace, sys.argv[1] if len(sys.argv) > 1 else "own.macd")
print({name: answer.text for name, answer in trace.answers.items()}, *trace.warnings)
