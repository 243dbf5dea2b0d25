"""The messages that a processor makes a prompt from, and the question's place in the result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from transformers.video_utils import VideoMetadata

from macd_studio.core.backbones.base import BackboneInfo
from macd_studio.core.backbones.foreign import out_of_memory
from macd_studio.core.backbones.generation import end_tokens, repetition_penalty
from macd_studio.core.backbones.local import LocalLM
from macd_studio.core.backbones.weights import device_of_model
from macd_studio.core.errors import MacdError, UnsupportedBackbone
from macd_studio.core.text.question import UNKNOWN_WORDS, control_strings, refuse_special
from macd_studio.core.types import ModelFrames
from macd_studio.core.validation import shown

NO_THINKING = {"enable_thinking": False, "thinking": False}
"""By these names templates switch off that a model thinks before it answers."""
THOUGHT_MARKS = (
    ("<think>", "</think>"),
    ("◁think▷", "◁/think▷"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
    ("<|channel>", "<channel|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
)
"""Between these tokens models write what is no part of their answer."""
TEXT_FIRST = "the chat template puts the question before the video, so its loss cannot see pixels"
MAX_TEMPLATE = 100_000
"""Characters that a chat template may write around a question."""


def media_part(processor: Any, name: str) -> Any:
    """The part of a processor that reads video, or else pictures. Raises UnsupportedBackbone."""
    video = getattr(processor, "video_processor", None)
    if (video := video or getattr(processor, "image_processor", None)) is None:
        raise UnsupportedBackbone(
            f"the processor of {name} reads neither video nor pictures",
            "Choose a model that reads video",
        )
    return video


def controls_of(processor: Any) -> tuple[tuple[str, ...], dict[int, str]]:
    """Strings that no question may hold, and ids with their text that none may become."""
    words = processor.tokenizer
    strings = control_strings(
        words.all_special_tokens, words.get_added_vocab(), placeholders(processor)
    )
    ids = {t: words.convert_tokens_to_ids(t) for t in strings}
    unknown = words.unk_token_id  # the unknown token is not an error
    return strings, {i: t for t, i in ids.items() if i is not None and i != unknown}


def refuse_controls(processor: Any, text: str) -> None:
    """Raises QuestionError for text that is, or becomes, anything but plain text."""
    ids = processor.tokenizer(text, add_special_tokens=False)["input_ids"]
    strings, control_ids = controls_of(processor)
    refuse_special(text, strings, ids, control_ids)


class TokenizerLM(LocalLM):
    """A transformers model whose words are those of its processor's tokenizer."""

    contract: Any = None
    """What was found of it at load, a `contract.Contract`; None where it was not checked."""

    def __init__(self, model: Any, processor: Any, info: BackboneInfo) -> None:
        penalty = repetition_penalty(model.generation_config, info.name)
        self.info = replace(info, repetition_penalty=penalty)
        self.model = model.eval().requires_grad_(False)
        self.device, self.dtype = device_of_model(model), model.dtype
        self.processor, self.tokenizer = processor, processor.tokenizer
        self._ends = end_tokens(model.generation_config, self.tokenizer.eos_token_id)
        self._controls, self._control_ids = controls_of(processor)
        added = self.tokenizer.get_added_vocab()
        known = added | {text: i for i, text in self._control_ids.items()}
        marks = (pair for pair in THOUGHT_MARKS if all(mark in known for mark in pair))
        self.thought_marks = next(((known[a], known[b]) for a, b in marks), None)
        self.thinks = self.thought_marks is not None and not disable_thinking(processor)

    def saves(self, low_memory: bool) -> bool:
        """Whether activations are computed again on the way back; always where weights move.

        A graph that is kept holds every weight that it passed.
        """
        return low_memory or bool(self.info.offloaded)

    @property
    def end_tokens(self) -> frozenset[int]:
        """The generation config's and the tokenizer's end tokens."""
        return self._ends

    def refuse_control_tokens(self, text: str) -> None:
        """Raises QuestionError for text that is, or becomes, anything but plain text."""
        refuse_special(text, self._controls, self.tokens(text), self._control_ids)

    def text_inputs(self, question: str) -> dict[str, Any]:
        """What the processor makes of the question alone, in the chat template, without a video."""
        self.refuse_control_tokens(question)
        prompt = render_prompt(self.processor, [{"type": "text", "text": question}])
        return dict(self.processor(text=[prompt], return_tensors="pt"))

    def text(self, tokens: Sequence[int]) -> str:
        """See `LocalLM.text`."""
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=True)).strip()

    def tokens(self, text: str) -> list[int]:
        """See `LocalLM.tokens`."""
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def token_text(self, token: int) -> str:
        """See `LocalLM.token_text`."""
        return str(self.tokenizer.decode([token]))


def render_prompt(processor: Any, content: list[dict[str, Any]]) -> str:
    """A user's message in the processor's chat template, ready for an answer.

    content: at most one video, then one text. The template comes with the weights, so it may be
    anything: raises UnsupportedBackbone where it fails, or leaves the text out.
    """
    text = content[-1]["text"]
    with template_errors():
        prompt = processor.apply_chat_template(
            [{"role": "user", "content": content}],
            tokenize=False,
            add_generation_prompt=True,
            **disable_thinking(processor),
        )
    if not isinstance(prompt, str) or len(prompt) > MAX_TEMPLATE + len(text):
        raise UnsupportedBackbone(
            f"the backbone's chat template writes more than {MAX_TEMPLATE:,} characters", REPAIR
        )
    if text.strip() not in prompt:
        raise UnsupportedBackbone("the backbone's chat template leaves the question out", REPAIR)
    return prompt


def check_template(processor: Any) -> None:
    """Raises UnsupportedBackbone for a processor without a chat template that can be used.

    As for one that leaves the video out, or puts the question before it.
    """
    if not chat_template(processor):
        raise UnsupportedBackbone(
            "the backbone does not have a chat template, by which questions are put to it",
            "Choose a model that was trained for instructions, mostly named with -Instruct or -it",
        )
    kind = "video" if getattr(processor, "video_processor", None) else "image"
    text = {"type": "text", "text": "Is it so?"}
    with_media = split_prompt(processor, [{"type": kind}, text])
    try:
        alone = split_prompt(processor, [text])
    except UnsupportedBackbone:  # it cannot do without
        return
    if with_media == alone:
        raise UnsupportedBackbone(f"the chat template leaves the {kind} out", REPAIR)
    if with_media[0] == alone[0]:
        raise UnsupportedBackbone(TEXT_FIRST, "Use a template with the video first")


def chat_template(processor: Any) -> Any:
    """The chat template of a processor, or that of its tokenizer; nothing where it has none."""
    own = getattr(processor, "chat_template", None)
    return own or getattr(processor.tokenizer, "chat_template", None)


def disable_thinking(processor: Any) -> dict[str, bool]:
    """Those of NO_THINKING that the chat template asks for; transformers warns of others."""
    template = str(chat_template(processor))
    return {name: off for name, off in NO_THINKING.items() if name in template}


def read_prompt(processor: Any, prompt: str, videos: Any, about: VideoMetadata) -> Any:
    """What the processor makes of a rendered prompt and its video, which has its size already.

    Raises UnsupportedBackbone, as where the template left the video out or wrote two.
    """
    with template_errors():
        return processor(
            text=[prompt],
            videos=videos,
            video_metadata=[about],
            do_sample_frames=False,
            do_resize=False,
            return_tensors="pt",
        )


REPAIR = "Repair the chat template in the folder of its weights, or choose another backbone"


@contextmanager
def template_errors() -> Iterator[None]:
    """What fails here does so because of the chat template: raises UnsupportedBackbone for it."""
    try:
        yield
    except Exception as error:  # a template is a program: it can raise whatever it likes
        if isinstance(error, MacdError) or out_of_memory(error):
            raise
        reason = shown(f"{type(error).__name__}: {error}", 200)
        raise UnsupportedBackbone(
            f"the backbone's chat template cannot be used ({reason})", REPAIR
        ) from error


MARK = "\ue000"
"""Stands for a message's text while its template is parsed; of Unicode's private area."""


def split_prompt(processor: Any, content: list[dict[str, Any]]) -> tuple[str, str]:
    """What the chat template writes before the text of a message, and after it.

    Found by rendering another text, so that a question which repeats words of the template is no
    riddle. Raises UnsupportedBackbone where the template changes with the text, or repeats it.
    """
    prompt = render_prompt(processor, content)
    marked = render_prompt(processor, [*content[:-1], content[-1] | {"text": MARK}])
    head, _, tail = marked.partition(MARK)
    text = content[-1]["text"]
    if MARK in tail or prompt != head + text + tail:
        if prompt != head + text.strip() + tail:  # some templates trim it
            raise UnsupportedBackbone(
                "the backbone's chat template changes or repeats the question", REPAIR
            )
    return head, tail


def query_at(
    tokenizer: Any, head: str, rest: str, ids: list[int], question: str, before: str = ""
) -> list[int]:
    """Positions in `ids` of the tokens that hold `question` and of no others.

    head: the rendered prompt before the text of the message; rest: from there on; before: text that
    precedes the question in it; ids: the final input ids, media tokens expanded. The end of the
    prompt, from the text on or from one of the words before it, is tokenized by itself and must
    equal the end of `ids`. Raises UnsupportedBackbone where none does.
    """
    befores = ["", " "]  # processors that put a blank between a picture's marks and a word
    for i in range(len(head) - 1, max(-1, len(head) - MAX_BEFORE), -1):
        if head[i] in "<\n >|[":
            befores.append(head[i:])
    for words in befores:
        start = len(words) + len(before)
        found = _tokens_at(tokenizer, words + rest, ids, start, start + len(question))
        if found is not None:
            return found
    raise UnsupportedBackbone(*_OTHER_END)


def _tokens_at(tokenizer: Any, tail: str, ids: list[int], start: int, end: int) -> list[int] | None:
    """Positions in `ids` of what stands from `start` to `end` in the text that ends the prompt.

    None where that text, tokenized by itself, does not equal the end of `ids`.
    """
    encoded = tokenizer(tail, add_special_tokens=False, return_offsets_mapping=True)
    tail_ids: list[int] = encoded["input_ids"]
    offset = len(ids) - len(tail_ids)
    if offset < 0 or ids[offset:] != tail_ids:
        return None
    spans: list[tuple[int, int]] = encoded["offset_mapping"]
    return [offset + i for i, (a, b) in enumerate(spans) if b > start and a < end and b > a]


_OTHER_END = "the prompt's end tokenizes differently by itself", "Report the tokenizer's name"


MAX_BEFORE = 200
"""Characters before a message's text among which the end of the prompt may begin."""


def query_positions(
    tokenizer: Any,
    prompt: str,
    ids: list[int],
    question: str,
    marker: str,
    query_prefix: str = "",
    before: str = "",
) -> list[int]:
    """Positions in `ids` of the tokens that hold `question` and of no others.

    prompt: the rendered chat template, in which the question follows the first `marker`, the end
    of the video or its placeholder; query_prefix: what the processor writes between the two;
    before: text that the question follows at once; ids: the final input ids, media tokens expanded.
    The tail after the video is tokenized again with offsets and must equal the end of `ids`. Raises
    UnsupportedBackbone if it does not, or if the template puts the question before the video.
    """
    _, found_marker, tail = prompt.partition(marker)
    start, tail = tail.find(before + question) + len(query_prefix), query_prefix + tail
    if not found_marker or start < len(query_prefix):
        raise UnsupportedBackbone(TEXT_FIRST, "Use a template with the video first")
    start += len(before)
    found = _tokens_at(tokenizer, tail, ids, start, start + len(question))
    if found is None:
        raise UnsupportedBackbone(*_OTHER_END)
    return found


def placeholders(processor: Any) -> list[str]:
    """Strings that a processor replaces in the prompt.

    transformers before 5.18 writes one of its own into the prompt, and replaces that.
    """
    named = [v for k, v in vars(processor).items() if k.endswith(("_token", "_tag"))]
    return ["<|placeholder|>", *(v for v in named if isinstance(v, str))]


def metadata_of(frames: ModelFrames, count: int) -> VideoMetadata:
    """Seconds as frame numbers of a 1 fps video, not rounded.

    Processors divide the one by the other and round to words themselves: milliseconds
    would turn 0.4497 s into 0.5 where they write 0.4. count: frames that the processor is given; a
    single one may be given more than once. Seconds a frame follow from `total_num_frames` and are
    those from the first frame to the last, the duration is that of the file.
    """
    times = frames.times if len(frames.times) >= count else frames.times[[0] * count]
    last, span = float(times[-1]), float(times[-1] - times[0])
    step = span / (len(times) - 1) if span else frames.duration
    return VideoMetadata(
        total_num_frames=step * len(times) or 1e-3,
        fps=1.0,
        duration=max(last, frames.duration) or 1e-3,
        frames_indices=times.tolist(),
        width=frames.size[1],
        height=frames.size[0],
    )


def unknown_words(tokenizer: Any, query: list[int], question: str) -> tuple[str, ...]:
    """A note that names the question's words that the tokenizer does not know; none elsewhere."""
    unknown = tokenizer.unk_token_id
    if unknown is None or unknown not in query:
        return ()
    spans = tokenizer(question, add_special_tokens=False, return_offsets_mapping=True)
    words = [
        question[a:b]
        for i, (a, b) in zip(spans["input_ids"], spans["offset_mapping"], strict=True)
        if i == unknown
    ]
    return (f"{UNKNOWN_WORDS}{', '.join(dict.fromkeys(words))}",)
