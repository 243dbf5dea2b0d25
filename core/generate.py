"""The other way round: a model that the user loaded, and their own `generate`.

`wrap` turns a transformers model with its processor into what `trace`, `compare` and `evidence`
take as `backbone=`. `decoder` gives a callable for `model.generate(custom_generate=…)`, so that any
method of this project answers inside the user's script.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from macd_studio.core.errors import NotApplicable, OptionError
from macd_studio.core.options import DecodeOptions, RunOptions, read_options
from macd_studio.core.types import Clip, Trace

if TYPE_CHECKING:
    from macd_studio.core.backbones import VideoLM
    from macd_studio.core.objects.detect import Detector


def wrap(model: Any, processor: Any, name: str = "") -> VideoLM:
    """A loaded transformers model as a backbone; its parameters are frozen.

    name: for traces, the model's own by default. A family without code of its own is checked, which
    takes seconds. Raises UnsupportedBackbone for a model that fails.
    """
    from macd_studio.core.backbones.base import BackboneInfo
    from macd_studio.core.backbones.load import adapt

    info = BackboneInfo(
        name=name or str(getattr(model, "name_or_path", "")) or type(model).__name__,
        family=model.config.model_type,
        parameters=sum(p.numel() for p in model.parameters()),
        device=model.device.type,
        dtype=str(model.dtype).removeprefix("torch."),
    )
    return adapt(model, processor, info)


def decoder(
    model: Any,
    processor: Any,
    video: str | Path | Clip,
    question: str,
    *,
    method: str = "macd",
    lazy: bool = True,
    detector: str | Path | Detector = "toyworld",
    options: RunOptions | None = None,
    on_trace: Callable[[Trace], object] | None = None,
    **parts: Any,
) -> Callable[..., Any]:
    """A callable for `model.generate(**inputs, custom_generate=…)` that answers by a method.

    `generate` hands over tensors alone, so the clip, the question and the detector are given here;
    the prompt of `inputs` must ask the same question of one clip. The answer's length, sampling and
    beams are those of the call: max_new_tokens, do_sample, temperature, top_p, num_beams and
    length_penalty. The tokens are those of `compare` with the same options.

    Args:
        model, processor: see `wrap`; or what `wrap` gave, and None.
        video, question, detector, options, parts: see `trace`.
        method: a name of core.methods.METHODS, or a VIEW+RULE pair such as "vcd+code".
        lazy: objects are looked for and second views read only where a token needs them; the same
            answer for less, but a trace without what was not needed. See docs/methods.md.
        on_trace: called with the finished trace.

    Raises:
        MacdError: when it is called, for what `compare` raises, for a batch, for another question
            and for settings of `generate` that are not followed.
    """
    from macd_studio.core.backbones.base import VideoLM

    lm = model if isinstance(model, VideoLM) else wrap(model, processor)
    chosen = read_options(options, parts)
    chosen = replace(chosen, lazy=lazy or chosen.lazy)

    # the names are those by which `generate` calls it
    def answer(
        model: Any,
        input_ids: Any,
        logits_processor: Any = None,
        stopping_criteria: Any = None,
        generation_config: Any = None,
        **_: Any,
    ) -> Any:
        import torch

        from macd_studio.core.door import run_video

        _check_prompt(lm, input_ids, question)
        decode = _decode_options(chosen.decode, generation_config, input_ids.shape[1])
        with torch.enable_grad():
            trace = run_video(
                video,
                question,
                replace(chosen, decode=decode),
                backbone=lm,
                detector=detector,
                methods=() if method in ("baseline", "macd") else (method,),
                answers=[n for n in ("baseline", "macd") if n == method or not chosen.lazy],
            )
        if on_trace is not None:
            on_trace(trace)
        if method not in trace.answers:
            cause, _dot, remedy = trace.skipped[method].rstrip(".").partition(". ")
            raise NotApplicable(cause, remedy or "Choose another method")
        answered = trace.answers[method]
        thoughts = [t for t in (trace.thought, answered.thought) if t is not None]
        tokens = [*(t for one in thoughts for t in one.tokens), *(s.token for s in answered.tokens)]
        sequences = torch.cat([input_ids[:1], input_ids.new_tensor([tokens])], 1)
        if generation_config is not None and generation_config.return_dict_in_generate:
            from transformers.generation.utils import GenerateDecoderOnlyOutput

            return GenerateDecoderOnlyOutput(sequences=sequences)
        return sequences

    return answer


def _check_prompt(lm: VideoLM, input_ids: Any, question: str) -> None:
    """Raises OptionError for a batch, and for a prompt that does not hold the question."""
    rows: Sequence[Sequence[int]] = input_ids.tolist()
    if any(row != rows[0] for row in rows):
        raise OptionError("several prompts were given", "Call generate for each of them")
    # as the tokenizer writes them; some words are joined to the space before them
    prompt, asked = ("".join(lm.text(z).split()) for z in (rows[0], lm.tokens(question.strip())))
    if asked not in prompt:
        raise OptionError(
            "the prompt does not ask the question that the decoder was built with",
            "Build another decoder, or put the question into the prompt as it is",
        )


def _decode_options(given: DecodeOptions, config: Any, prompt: int) -> DecodeOptions:
    """The options of decoding as the call of `generate` has them.

    Raises OptionError for what would be left out without a word.
    """
    if config is None:
        return given
    longest = config.max_length - prompt if config.max_length else given.max_tokens
    options = replace(given, max_tokens=max(1, min(1024, longest)))
    if config.num_beams and config.num_beams > 1:
        if config.do_sample:
            raise OptionError("beams are not sampled here", "Take do_sample or num_beams alone")
        return replace(
            options,
            search="beam",
            beams=config.num_beams,
            length_penalty=float(config.length_penalty or 1.0),
        )
    if not config.do_sample:
        return replace(options, search="greedy")
    if config.top_k:
        raise OptionError(f"top_k={config.top_k} is not followed here", "Pass top_k=0 to generate")
    return replace(
        options,
        search="sample",
        temperature=float(config.temperature or 1.0),
        top_p=float(config.top_p or 1.0),
    )
