"""Whether a model can read every token that its tokenizer writes."""

from __future__ import annotations

from typing import Any

from torch import nn

from macd_studio.core.errors import UnsupportedBackbone
from macd_studio.core.text.words import count
from macd_studio.core.validation import shown


def check_vocabulary(model: Any, processor: Any, name: str) -> None:
    """Raises UnsupportedBackbone for tokens beyond the rows of the model's embedding.

    Such a tokenizer belongs to another model, or was given tokens without the embedding. Ids that
    stand for pictures, videos and sounds are no rows of it in some families, and are left out.
    """
    embedding = model.get_input_embeddings()
    tokenizer = getattr(processor, "tokenizer", processor)
    if not isinstance(embedding, nn.Embedding) or not hasattr(tokenizer, "get_vocab"):
        return
    rows, media = embedding.num_embeddings, _media_tokens(model.config)
    beyond = sorted(
        (number, word)
        for word, number in tokenizer.get_vocab().items()
        if number >= rows and number not in media
    )
    if beyond:
        words = ", ".join(shown(word, 20) for _, word in beyond[:3])
        raise UnsupportedBackbone(
            f"the tokenizer of {name!r} has {count(len(beyond), 'token')} beyond the {rows} rows of"
            f" its model's embedding ({words}{', …' if len(beyond) > 3 else ''})",
            "Give the tokenizer that the model was trained with, or resize_token_embeddings() and"
            " train them",
        )


def _media_tokens(config: Any) -> set[int]:
    """Ids that a configuration names, such as `image_token_id`, in all its parts."""
    ids: set[int] = set()
    for part in (config, config.get_text_config()):
        for key, value in part.to_dict().items():
            if isinstance(value, int) and key.endswith(("_token_id", "_token_index")):
                ids.add(value)
    return ids
