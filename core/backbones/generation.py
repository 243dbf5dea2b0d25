"""What a model's generation config does to scores, besides which tokens end an answer.

The config's repetition penalty is followed by every method, after the contrast. Sampling fields
(temperature, top_k …) count for a sampling search only, whose values are the run's own options; the
number of beams and the longest answer are the run's, too. Everything else that changes scores
is refused: an answer that ignores it would not be the model's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from torch import Tensor
from transformers import GenerationConfig, generation

from macd_studio.core.errors import BackboneCorrupt, OptionError, UnsupportedBackbone
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

_SAMPLING: dict[str, tuple[Any, ...]] = {
    "top_k": (0,),
    "min_p": (0,),
    "top_h": (),
    "typical_p": (1,),
    "epsilon_cutoff": (0,),
    "eta_cutoff": (0,),
}
"""Likewise, of sampling alone; temperature and top_p are followed."""

_CALL: dict[str, tuple[Any, ...]] = {
    "use_mtp": (False,),
    "prompt_lookup_num_tokens": (0,),
    "assistant_early_exit": (0,),
    "is_assistant": (False,),
    "cache_implementation": (
        "dynamic", "dynamic_full", "static", "offloaded", "offloaded_static", "hybrid",
        "hybrid_chunked", "sliding_window",
    ),
}  # fmt: skip
"""Likewise, of a call alone: another way of decoding, or a cache that rounds."""
_RETURNED = ("output_scores", "output_logits", "output_attentions", "output_hidden_states")
_BEFORE = "or set it in model.generation_config before the decoder is built"


def check_generation(folder: str, name: str) -> None:
    """Refuses a model's generation config before its weights are read; see `repetition_penalty`.

    Raises BackboneCorrupt for one that cannot be read: transformers would go on without it.
    """
    try:
        config = GenerationConfig.from_pretrained(folder, local_files_only=True)
    except OSError as error:
        if (Path(folder) / "generation_config.json").is_file():
            raise BackboneCorrupt(
                f"generation_config.json of {name!r} is damaged", "Copy or download it again"
            ) from error
        return  # a model may have none
    repetition_penalty(config, name)


def beams_told(folder: str, name: str) -> list[str]:
    """What is said of a generation config that asks for beams, as they are the run's own choice."""
    try:
        beams = GenerationConfig.from_pretrained(folder, local_files_only=True).num_beams or 1
    except OSError:
        return []
    if beams < 2:
        return []
    return [
        f"the generation config of {name} asks for {beams} beams; answers here have one unless"
        " the run's decoding says otherwise"
    ]


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


def check_call(
    config: Any, prompt: int, own: Any, followed: Collection[int], penalty: float
) -> None:
    """Refuses a call of `generate` whose settings change the answer and are not followed.

    config: the call's generation config. prompt: tokens of the prompt. own: the model's generation
    config. followed, penalty: the end tokens and the repetition penalty that answers are given.
    Raises OptionError.
    """
    beams = (config.num_beams or 1) > 1
    if beams and config.do_sample:
        raise OptionError("beams are not sampled here", "Take do_sample or num_beams alone")
    # min_new_tokens first: `generate` makes a min_length of it
    neutral: dict[str, Any] = {"min_new_tokens": (0,)} | NEUTRAL
    neutral |= {"min_length": range(prompt + 1), "num_return_sequences": (1,), "max_time": ()}
    neutral |= _CALL | (_SAMPLING if config.do_sample else {})
    neutral |= {"early_stopping": (False,)} if beams else {}
    if config.return_dict_in_generate:
        neutral |= dict.fromkeys(_RETURNED, (False,))
    for field, values in neutral.items():
        value = getattr(config, field, None)
        if value is not None and value not in values:
            plain = next((v for v in values if isinstance(v, int)), None)
            plain = values[0] if field == "cache_implementation" else plain
            raise OptionError(
                f"{_said(field, value)} is not followed here", f"Pass {field}={plain} to generate"
            )
    asked = config.repetition_penalty
    if (1.0 if asked is None else asked) != penalty:
        raise OptionError(
            f"repetition_penalty={shown(asked)} is not followed here: answers have the model's,"
            f" {shown(penalty)}",
            f"Leave it out, {_BEFORE}",
        )
    ends = end_tokens(config, None)
    if ends != followed and not (ends == end_tokens(own, None) and ends <= set(followed)):
        raise OptionError(
            f"{_said('eos_token_id', config.eos_token_id)} is not followed here: answers end where"
            " the model's do",
            f"Leave it out, {_BEFORE}",
        )


def _said(field: str, value: Any) -> str:
    plain = value is None or isinstance(value, int | float | str)
    return f"{field}={shown(value)}" if plain else field


def check_processors(
    processors: Iterable[Any], criteria: Iterable[Any], config: Any, prompt: int
) -> None:
    """Refuses processors and criteria that `generate` did not build from its settings alone.

    For settings that `check_call` lets pass. `generate` hands over its own and the caller's in one
    list: its own are of a known class, hold the setting's value and come once. Raises OptionError.
    """
    known: set[type] = set()
    for one in processors:
        if type(one) in known or not _own_processor(one, config, prompt):
            name = "logits_processor"
            if type(one) is generation.PrefixConstrainedLogitsProcessor:
                name = "prefix_allowed_tokens_fn"
            raise _given(one, name)
        known.add(type(one))
    for one in criteria:
        kind = type(one)
        if not (
            (kind is generation.MaxLengthCriteria and one.max_length == config.max_length)
            or (
                kind is generation.EosTokenCriteria
                and set(one.eos_token_id.tolist()) == end_tokens(config, None)
            )
        ):
            raise _given(one, "stopping_criteria")


_BUILT = {
    generation.RepetitionPenaltyLogitsProcessor: ("penalty", "repetition_penalty"),
    generation.SuppressTokensLogitsProcessor: ("suppress_tokens", "suppress_tokens"),
    generation.SuppressTokensAtBeginLogitsProcessor: (
        "begin_suppress_tokens",
        "begin_suppress_tokens",
    ),
}
_BUILT_TO_SAMPLE = {
    generation.TemperatureLogitsWarper: ("temperature", "temperature"),
    generation.TopPLogitsWarper: ("top_p", "top_p"),
    generation.MinPLogitsWarper: ("min_p", "min_p"),
}
"""Processor of `generate` → its attribute and the field of the config that it is built from."""


def _own_processor(one: Any, config: Any, prompt: int) -> bool:
    kind = type(one)
    if kind is generation.MinLengthLogitsProcessor:
        return bool(one.min_length <= prompt)
    if isinstance(getattr(one, "prompt_ignore_length", None), int):
        return False  # a caller spares the prompt; `generate` passes tensors, for padding
    built = _BUILT | (_BUILT_TO_SAMPLE if config.do_sample else {})
    if kind not in built:
        return kind is generation.LogitNormalization
    attribute, field = built[kind]
    held = getattr(one, attribute)
    return bool((held.tolist() if isinstance(held, Tensor) else held) == getattr(config, field))


def _given(one: Any, name: str) -> OptionError:
    return OptionError(
        f"the {type(one).__name__} given to generate is not followed here", f"Leave {name} out"
    )
