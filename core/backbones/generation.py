"""What a model's generation config does to scores, besides which tokens end an answer.

The config's repetition penalty is followed by every method, after the contrast. Sampling fields
(temperature, top_k …) count for a sampling search only, whose values are the run's own options; the
number of beams and the longest answer are the run's, too. Everything else that changes scores
is refused: an answer that ignores it would not be the model's.
"""

from __future__ import annotations

from typing import Any

from transformers import GenerationConfig

from macd_studio.core.errors import UnsupportedBackbone
from macd_studio.core.records import PENALTY
from macd_studio.core.validation import shown

NEUTRAL: dict[str, tuple[Any, ...]] = {
    "guidance_scale": (1,),
    "sequence_bias": ({}, []),
    "encoder_repetition_penalty": (1,),
    "no_repeat_ngram_size": (0,),
    "encoder_no_repeat_ngram_size": (0,),
    "bad_words_ids": ([],),
    "force_words_ids": ([],),
    "constraints": ([],),
    "min_length": (0,),
    "min_new_tokens": (0,),
    "forced_bos_token_id": (),
    "forced_eos_token_id": (),
    "remove_invalid_values": (False,),
    "exponential_decay_length_penalty": (),
    "suppress_tokens": ([],),
    "begin_suppress_tokens": ([],),
    "watermarking_config": (),
    "stop_strings": ([], ""),
    "token_healing": (False,),
    "penalty_alpha": (0,),
    "dola_layers": (),
    "diversity_penalty": (0,),
    "num_beam_groups": (1,),
}
"""Field of transformers' GenerationConfig that changes scores or ends → values, besides None, with
which it does not.
"""


def check_generation(folder: str, name: str) -> None:
    """Refuses a model's generation config before its weights are read; see `repetition_penalty`."""
    try:
        config = GenerationConfig.from_pretrained(folder, local_files_only=True)
    except OSError:  # a model may have none
        return
    repetition_penalty(config, name)


def end_tokens(config: Any, own: int | None) -> frozenset[int]:
    """Ids that end an answer: the generation config's, and the tokenizer's own."""
    ends = config.eos_token_id
    ends = [ends] if isinstance(ends, int) else list(ends or ())
    return frozenset([*ends, own]) - {None}


def repetition_penalty(config: Any, name: str) -> float:
    """The penalty of a model's generation config, 1 where it has none.

    Raises UnsupportedBackbone for a field that cannot be followed, and for a penalty that no score
    can be divided by.
    """
    for field, neutral in NEUTRAL.items():
        value = getattr(config, field, None)
        if value is not None and value not in neutral:
            raise UnsupportedBackbone(
                f"the generation config of {name} sets {field} to {shown(value)}, which is not"
                " followed here",
                f"Take {field} out of generation_config.json in a local copy of the model, and give"
                " its folder as --backbone",
            )
    value = getattr(config, "repetition_penalty", None)
    if value is None:
        return 1.0
    try:
        return float(PENALTY.read(value, "repetition_penalty") or 1.0)
    except ValueError as error:
        raise UnsupportedBackbone(
            f"the generation config of {name} is not sound: {error}",
            "Mend generation_config.json in a local copy of the model",
        ) from None
