"""Tiny models of random weights that vLLM and transformers both read, written as folders.

vLLM's attention on a CPU takes heads of 32 values and more, so that these are a little larger than
those of the tests.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

HEAD = 32
"""Values a head of attention, in text and pictures."""
GRID = 5
"""Patches on a side of a frame of LLaVA-OneVision; the published models have 27."""
BIAS = 0.1
"""Standard deviation of biases, which transformers makes 0, and trained models do not have at 0."""
UNBIASED = "qwen2_5_vl_unbiased"
"""A Qwen2.5-VL whose biases are 0: its norms amplify whatever stands behind a full mask."""
FAMILIES = ("qwen2_vl", "qwen2_5_vl", "llava_onevision", "qwen3_vl", UNBIASED)


def _qwen(name: str) -> tuple[Any, Any, Any]:
    from tests.families import _parts

    config, kind, processor = _parts(name)
    text, vision = config.text_config, config.vision_config
    _heads(text)
    # interleaved or not must be told to vLLM; transformers always interleaves Qwen3-VL's
    text.rope_parameters = {
        "rope_type": "default", "rope_theta": 10000.0,
        "mrope_section": [6, 5, 5] if name == "qwen3_vl" else [4, 6, 6],
    }  # fmt: skip
    if name == "qwen3_vl":
        text.rope_parameters |= {"mrope_interleaved": True}
        # vLLM normalises pictures and videos by the picture processor's mean
        video = processor.video_processor
        processor.image_processor.image_mean = video.image_mean
        processor.image_processor.image_std = video.image_std
    wide = "embed_dim" if name == "qwen2_vl" else "hidden_size"
    setattr(vision, wide, 2 * HEAD)
    vision.num_heads = 2
    return config, kind, processor


def _universal(name: str) -> tuple[Any, Any, Any]:
    from tests.universal_models import parts

    model, processor = parts(name)
    config = model.config
    _heads(config.text_config)
    config.vision_config.hidden_size = 2 * HEAD
    # an odd grid, of which half is pooled
    side = {"height": 14 * GRID, "width": 14 * GRID}
    config.vision_config.image_size = 14 * GRID
    processor.video_processor.size = processor.image_processor.size = side
    processor.num_image_tokens = GRID**2
    tiles = [[14 * GRID * n for n in shape] for shape in ((1, 2), (2, 1), (2, 2))]
    config.image_grid_pinpoints = processor.image_processor.image_grid_pinpoints = tiles
    return config, type(model), processor


def _heads(text: Any) -> None:
    text.num_attention_heads, text.num_key_value_heads, text.head_dim = 2, 1, HEAD


def _rename(file: Path, begin: str, instead: str) -> None:
    """Tensors as they are called in the published checkpoints, which vLLM reads."""
    from safetensors.torch import load_file, save_file

    tensors = load_file(file)
    named = {
        instead + name.removeprefix(begin) if name.startswith(begin) else name: value
        for name, value in tensors.items()
    }
    save_file(named, file, {"format": "pt"})


def _draw_biases(model: Any) -> None:
    """Biases from a seed."""
    import torch

    generator = torch.Generator().manual_seed(2)
    for name, weight in model.named_parameters():
        if name.endswith("bias"):
            weight.data = BIAS * torch.randn(weight.shape, generator=generator)


def write_model(name: str, folder: Path) -> Path:
    """Writes the family's model, processor and tokenizer; gives the folder."""
    import torch

    from tests.families import draw_weights

    build = _qwen if name.startswith("qwen") else _universal
    config, kind, processor = build(name.removesuffix("_unbiased"))
    torch.manual_seed(0)
    model = draw_weights(kind(config).eval())  # type: ignore[no-untyped-call]
    if name != UNBIASED:
        _draw_biases(model)
    model.generation_config.eos_token_id = 2
    model.save_pretrained(folder)
    if name == "llava_onevision":
        _rename(folder / "model.safetensors", "vision_tower.", "vision_tower.vision_model.")
    # Jinja drops the last newline of a template, and an answer would go on the word before it
    template = processor.chat_template.removesuffix("\n") + "{{ '\\n' }}"
    processor.chat_template = template
    processor.save_pretrained(folder)
    return folder
