"""Finds the question's tokens in a prompt."""

from __future__ import annotations

from typing import Any

from core.errors import UnsupportedBackbone


def query_positions(
    tokenizer: Any, prompt: str, ids: list[int], question: str, video_end: str
) -> list[int]:
    """Positions in `ids` of the tokens that hold `question` and of no others.

    prompt: the rendered chat template, in which the question follows the last `video_end` marker
    directly; ids: the final input ids, media tokens expanded. The tail after the video is tokenized
    again with offsets and must equal the end of `ids`. Raises UnsupportedBackbone if it does not,
    or if the template puts the question before the video.
    """
    at = prompt.rfind(video_end)
    tail = prompt[at:] if at >= 0 else ""
    start = tail.find(question, len(video_end))
    if start < 0:
        raise UnsupportedBackbone(
            "the chat template puts the question before the video, so its loss cannot see pixels",
            "Use a template with the video first",
        )
    encoded = tokenizer(tail, add_special_tokens=False, return_offsets_mapping=True)
    found: list[int] = encoded["input_ids"]
    offset = len(ids) - len(found)
    if ids[offset:] != found:
        raise UnsupportedBackbone(
            "the prompt's end tokenizes differently by itself", "Report the tokenizer's name"
        )
    end = start + len(question)
    spans: list[tuple[int, int]] = encoded["offset_mapping"]
    return [offset + i for i, (a, b) in enumerate(spans) if b > start and a < end and b > a]
