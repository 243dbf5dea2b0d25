"""Finds the question's tokens in a prompt."""

from __future__ import annotations

from typing import Any

from core.errors import UnsupportedBackbone


def query_positions(
    tokenizer: Any, prompt: str, ids: list[int], question: str, marker: str, lead: str = ""
) -> list[int]:
    """Positions in `ids` of the tokens that hold `question` and of no others.

    prompt: the rendered chat template, in which the question follows the first `marker`, the end
    of the video or its placeholder; lead: what the processor writes between the two; ids: the final
    input ids, media tokens expanded. The tail after the video is tokenized again with offsets and
    must equal the end of `ids`. Raises UnsupportedBackbone if it does not, or if the template puts
    the question before the video.
    """
    _, found_marker, tail = prompt.partition(marker)
    start, tail = tail.find(question) + len(lead), lead + tail
    if not found_marker or start < len(lead):
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
