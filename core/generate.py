"""The other way round: a model that the user loaded, and their own `generate`.

`wrap` turns a transformers model with its processor into what `trace`, `compare` and `evidence`
take as `backbone=`. `decoder` gives a callable for `model.generate(custom_generate=…)`, so that any
method of this project answers inside the user's script.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from macd_studio.core.embedded import AUTO
from macd_studio.core.errors import MacdError, NotApplicable, OptionError
from macd_studio.core.options import MAX_TOKENS, DecodeOptions, RunOptions, read_options
from macd_studio.core.types import Clip, Trace
from macd_studio.core.validation import shown

if TYPE_CHECKING:
    from macd_studio.core.backbones import LocalLM
    from macd_studio.core.objects.detect import Detector


def wrap(model: Any, processor: Any, name: str = "") -> LocalLM:
    """A loaded transformers model as a backbone; its parameters are frozen.

    name: for traces, the model's own by default. A family without code of its own is checked, which
    takes seconds. Raises UnsupportedBackbone for a model that fails, OptionError for what is none.
    """
    from macd_studio.core.backbones.base import BackboneInfo
    from macd_studio.core.backbones.load import adapt

    for given, part, needed in (
        (model, "model", ("config", "generate", "parameters")),
        (processor, "processor", ("tokenizer", "apply_chat_template")),
    ):
        if missing := [attribute for attribute in needed if not hasattr(given, attribute)]:
            raise OptionError(
                f"the {part} is a {type(given).__name__}, which has no {missing[0]}",
                f"Give the {part} as transformers' from_pretrained loads it",
            )
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
    detector: str | Path | Detector = AUTO,
    options: RunOptions | None = None,
    on_trace: Callable[[Trace], object] | None = None,
    **parts: Any,
) -> Callable[..., Any]:
    """A callable for `model.generate(**inputs, custom_generate=…)` that answers by a method.

    `generate` hands over tensors alone, so the clip, the question and the detector are given here;
    the prompt of `inputs` must ask the same question of one clip. The answer's length, sampling and
    beams are those of the call: max_new_tokens, do_sample, temperature, top_p, num_beams and
    length_penalty. The tokens are those of `compare` with the same options. A thought before the
    answer counts within max_new_tokens, where both are cut; the trace keeps the answer whole.

    Args:
        model, processor: see `wrap`; or what `wrap` gave, in place of either.
        video, question, detector, options, parts: see `trace`.
        method: a name of core.methods.METHODS, or a VIEW+RULE pair such as "vcd+code".
        lazy: objects are looked for and second views read only where a token needs them; the same
            answer for less, but a trace without what was not needed. See docs/methods.md.
        on_trace: called with the finished trace.

    Raises:
        MacdError: at once, for what `compare` refuses before it reads the clip. When it is called,
            for the rest of what `compare` raises, and before anything is computed for a batch, for
            a prompt that says anything beside the question, and for settings of `generate`,
            processors, criteria and a streamer, which are not followed.
    """
    from macd_studio.core.api import check_clip, check_run
    from macd_studio.core.backbones.local import LocalLM

    made = next((given for given in (model, processor) if isinstance(given, LocalLM)), None)
    if (
        made is not None
        and not isinstance(model, LocalLM)
        and getattr(made, "model", 0) is not model
    ):
        raise OptionError("processor wraps another model", "Give the model that it wraps")
    chosen = read_options(options, parts)
    if chosen.masks_only:
        raise OptionError("masks alone are no answer", "Leave masks_only out, or call macd.trace")
    if not isinstance(method, str) or method == "all":
        raise OptionError(f"method is {shown(method)}", "Name one, such as macd or vcd")
    methods = () if method in ("baseline", "macd") else (method,)
    check_run(question, AUTO, detector, "auto", methods)
    check_clip(video)
    lm = wrap(model, processor) if made is None else made
    chosen = replace(chosen, lazy=lazy or chosen.lazy)

    # the names are those by which `generate` calls it
    @_Refusing
    def answer(
        model: Any,
        input_ids: Any,
        logits_processor: Any = None,
        stopping_criteria: Any = None,
        generation_config: Any = None,
        **_: Any,
    ) -> Any:
        import torch

        from macd_studio.core.api import run_video

        config, prompt = generation_config, input_ids.shape[1]
        decode, beams = chosen.decode, 1
        if config is not None:
            from macd_studio.core.backbones.generation import check_call, check_processors

            own = model.generation_config
            check_call(config, prompt, own, lm.end_tokens, lm.info.repetition_penalty)
            check_processors(logits_processor or (), stopping_criteria or (), config, prompt)
            decode, beams = _decode_options(chosen, config, prompt, lm), config.num_beams or 1
        _check_prompt(lm, input_ids, question, beams)
        with torch.enable_grad():
            trace = run_video(
                video,
                question,
                replace(chosen, decode=decode),
                backbone=lm,
                detector=detector,
                methods=methods,
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
        if config is not None and config.max_length is not None:
            tokens = tokens[: config.max_length - prompt]
        sequences = torch.cat([input_ids[:1], input_ids.new_tensor([tokens])], 1)
        if config is not None and config.return_dict_in_generate:
            from transformers.generation.utils import GenerateDecoderOnlyOutput

            return GenerateDecoderOnlyOutput(sequences=sequences)
        return sequences

    return answer


class _Refusing:
    """An answer that refuses what it cannot follow before `generate` streams the prompt.

    `generate` reads the signature of a callable first, puts the prompt into a streamer then, and
    calls it last. Only the caller's frame holds the arguments that it does not hand on.
    """

    def __init__(self, answer: Callable[..., Any]) -> None:
        self._answer = answer

    @property
    def __signature__(self) -> inspect.Signature:
        _refuse_arguments(_arguments(inspect.currentframe()))
        return inspect.signature(self._answer)

    def __call__(self, *words: Any, **named: Any) -> Any:
        """Called by `generate`."""
        _refuse_arguments(_arguments(inspect.currentframe()))
        return self._answer(*words, **named)


NOT_FOLLOWED = {
    "streamer": "an answer by a method is not streamed",
    "negative_prompt_ids": "answers are not steered by a negative prompt",
    "negative_prompt_attention_mask": "answers are not steered by a negative prompt",
    "assistant_model": "no other model drafts an answer here",
    "assistant_tokenizer": "no other model drafts an answer here",
    "synced_gpus": "an answer is computed by one process",
    "past_key_values": "the prompt is read anew from the clip",
    "inputs_embeds": "the prompt is read anew from the clip",
    "position_ids": "the prompt is read anew from the clip",
    "stop_strings": "an answer ends at the model's end tokens",
    "encoder_outputs": "the prompt is read anew from the clip",
    "mm_encoder_outputs": "the prompt is read anew from the clip",
}
"""Argument of `generate` that is refused where it is given, and why."""


WORD = re.compile(r"[^\W\d_]+")
COUNTS = frozenset(
    "and zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
    " fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty"
    " ninety hundred".split()
)
"""Words by which a chat template tells how many frames there are."""


def _arguments(frame: FrameType | None) -> dict[str, Any]:
    """What the nearest `generate` among the callers of a frame was given."""
    while frame is not None:
        given = frame.f_locals
        if frame.f_code.co_name == "generate" and "custom_generate" in given:
            more: dict[str, Any] = given.get("kwargs", {})
            return {k: given[k] for k in NOT_FOLLOWED if k in given} | more
        frame = frame.f_back
    return {}


def _refuse_arguments(given: Mapping[str, Any]) -> None:
    for name, why in NOT_FOLLOWED.items():
        value = given.get(name)
        if value is not None and value is not False:
            raise OptionError(
                f"{name} is not followed here: {why}", f"Leave {name} out of the call of generate"
            )


def _check_prompt(lm: LocalLM, input_ids: Any, question: str, beams: int) -> None:
    """Raises OptionError for a batch, and for a prompt that is not the question's own.

    The tokens of a clip and the times of its frames may be others: the clip is read anew. beams:
    rows that `generate` makes of one prompt.
    """
    rows: Sequence[Sequence[int]] = input_ids.tolist()
    if len(rows) != beams or any(row != rows[0] for row in rows):
        raise OptionError("several prompts were given", "Call generate for each of them")
    if any(_same_prompt(lm, list(rows[0]), own) for own in _own_prompts(lm, question)):
        return
    prompt, asked = ("".join(lm.text(z).split()) for z in (rows[0], lm.tokens(question.strip())))
    if asked not in prompt:
        raise OptionError(
            "the prompt does not ask the question that the decoder was built with",
            "Build another decoder, or put the question into the prompt as it is",
        )
    raise OptionError(
        "the prompt says more or less than the clip and then the question in the model's chat"
        " template",
        "Put all words into the question, also those about how to answer, and no others into the"
        " prompt: no system message, no earlier turns, no beginning of an answer",
    )


def _own_prompts(lm: LocalLM, question: str) -> Iterator[list[int]]:
    """Tokens of the question's prompt about a video, and about a picture where that is another."""
    from macd_studio.core.backbones.contract import SIDE, tiled_clip

    clip = tiled_clip((SIDE, SIDE))
    yield lm.encode(clip, question).input_ids[0].tolist()
    try:
        of_pictures = lm.reading(True)
        one = replace(clip, frames=clip.frames[:1], times=clip.times[:1])
        encoded: Any = of_pictures.encode(one, question)
    except MacdError:  # it takes no pictures
        return
    yield encoded.input_ids[0].tolist()


def _same_prompt(lm: LocalLM, given: list[int], own: list[int]) -> bool:
    """Whether two prompts say the same but for what a clip is told by."""
    from macd_studio.core.backbones.prompt import THOUGHT_MARKS

    ((media, _),) = Counter(own).most_common(1)
    if media not in given:
        return False
    sides = []
    for tokens in (given, own):
        last = len(tokens) - tokens[::-1].index(media)
        before, after = lm.text(tokens[:last]), lm.text(tokens[last:])
        for mark in (mark for pair in THOUGHT_MARKS for mark in pair):  # open, empty or left out
            after = after.replace(mark, "")
        sides.append((set(WORD.findall(before)) - COUNTS, "".join(after.split())))
    return sides[0] == sides[1]


def _decode_options(chosen: RunOptions, config: Any, prompt: int, lm: LocalLM) -> DecodeOptions:
    """The options of decoding as the call of `generate` has them.

    A sample is drawn by torch's generator where no seed from 1 on was named. Raises OptionError
    for values that are out of range here.
    """
    import torch

    options = given = chosen.decode
    seeded = given.seed or chosen.seed
    if config.max_length is not None:
        longest = config.max_length - prompt
        if longest > MAX_TOKENS:
            raise OptionError(
                f"the call allows {longest} new tokens",
                f"Pass max_new_tokens={MAX_TOKENS} or fewer to generate",
            )
        options = replace(options, max_tokens=longest)
        if lm.thought_marks is not None:  # one more: the last token of a cut thought is its mark
            options = replace(options, max_thought=min(given.max_thought, longest + 1))
    if (config.num_beams or 1) > 1:
        if lm.thinks:
            raise OptionError(
                "beams do not search the thought of a model that thinks first",
                "Pass num_beams=1 to generate",
            )
        return replace(
            options,
            search="beam",
            beams=config.num_beams,
            length_penalty=_or_one(config, "length_penalty"),
        )
    if not config.do_sample:
        return replace(options, search="greedy")
    return replace(
        options,
        search="sample",
        temperature=_or_one(config, "temperature"),
        top_p=_or_one(config, "top_p"),
        seed=given.seed if seeded else int(torch.randint(1, 2**31, ())),
    )


def _or_one(config: Any, field: str) -> float:
    """A field of a generation config, 1 where it has none."""
    value = getattr(config, field)
    return 1.0 if value is None else float(value)
