"""The world's language: question templates, training questions, and the tokenizer they need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from macd_studio.toyworld.priors import priors
from macd_studio.toyworld.world import ClipSpec, ObjectSpec

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

NUMBERS = ("zero", "one", "two", "three", "four")
NONE = "none"
NOTHING = "nothing"

PAD, END, START = "<|endoftext|>", "<|im_end|>", "<|im_start|>"
VISION_START, VISION_END = "<|vision_start|>", "<|vision_end|>"
VIDEO, IMAGE, UNKNOWN = "<|video_pad|>", "<|image_pad|>", "<|unknown|>"
SPECIAL = (PAD, END, START, VISION_START, VISION_END, VIDEO, IMAGE, UNKNOWN)

# The video first, then the question: the query loss could not see the pixels otherwise.
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for c in m.content if c.type == 'video' %}"
    "<|vision_start|><|video_pad|><|vision_end|>{% endfor %}"
    "{% for c in m.content if c.type == 'text' %}{{ c.text }}{% endfor %}{% endif %}"
    "<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def with_article(noun: str) -> str:
    """The noun with its article.

    >>> with_article("umbrella"), with_article("dog")
    ('an umbrella', 'a dog')
    """
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def exists(label: str) -> str:
    """Is there a dog in the video?"""
    return f"Is there {with_article(label)} in the video?"


def which(kind: str) -> str:
    """Which animal is in the video? (kind: "animal" or "vehicle")"""
    return f"Which {kind} is in the video?"


def which_way(label: str) -> str:
    """Which way does the dog move?"""
    return f"Which way does the {label} move?"


def moves(label: str, motion: str) -> str:
    """Does the dog move left? / Does the dog stay still?"""
    return f"Does the {label} {'stay still' if motion == 'still' else f'move {motion}'}?"


def order(first: str, second: str) -> str:
    """Which comes first, the dog or the ball?"""
    return f"Which comes first, the {first} or the {second}?"


WHERE = "Where is it?"
HOW_MANY = "How many objects are there?"
DESCRIBE = "What is in the video?"


def caption(spec: ClipSpec) -> str:
    """The true answer to DESCRIBE: "a dog, a ball and a kite at the beach", "nothing …"."""
    nouns = [with_article(label) for label in spec.labels] or [NOTHING]
    listed = nouns[0] if len(nouns) == 1 else f"{', '.join(nouns[:-1])} and {nouns[-1]}"
    return f"{listed} {priors().phrase[spec.scene]}"


def not_seen(behind: tuple[str, ...], spec: ClipSpec) -> tuple[str, ...]:
    """What patches could be thought to hide, and cannot be seen.

    behind: classes whose boxes are covered, whether they were drawn there or not; with each, the
    other one of its pair. spec: what can be seen.
    """
    partner = priors().partner
    labels = [z for c in behind for z in (c, partner.get(c, c))]
    return tuple(dict.fromkeys(z for z in labels if z not in spec.labels))


P_DOUBT = 0.02
"""Share of the yes-no questions with the wrong answer, so that no margin says more than that: a
clear "no" would otherwise end far below any that a patch could leave open."""

P_COVERED = 0.6
"""Share of the questions for presence that ask about a covered object, where a clip has one."""


def training_questions(
    spec: ClipSpec, rng: np.random.Generator, n: int = 8, covered: tuple[str, ...] = ()
) -> list[tuple[str, str]]:
    """n questions, a caption first, with true answers but for P_DOUBT; "yes" in a share of `p_yes`.

    spec: what can be seen. covered: classes that could lie behind patches, see `not_seen`; they are
    asked about as often as those that are seen, and the answer is "no".
    """
    asked = [(DESCRIBE, caption(spec))]
    while len(asked) < n:
        question, answer = _one_question(spec, rng, covered)
        if answer in ("yes", "no") and rng.random() < P_DOUBT:
            answer = "no" if answer == "yes" else "yes"
        asked.append((question, answer))
    return asked


def _one_question(
    spec: ClipSpec, rng: np.random.Generator, covered: tuple[str, ...]
) -> tuple[str, str]:
    p = priors()
    if not spec.objects:
        return _question_of_nothing(spec, rng, covered)
    said_yes = bool(rng.random() < p.p_yes)
    thing: ObjectSpec = spec.objects[rng.integers(len(spec.objects))]
    arrivals = sorted({o.appears: o.label for o in spec.objects}.items())
    if len(arrivals) > 1 and rng.random() < 0.35:
        return _order_question([label for _, label in arrivals], rng)
    u = rng.random()
    if u < 0.48:
        if covered and rng.random() < P_COVERED:
            return exists(covered[rng.integers(len(covered))]), "no"
        if said_yes:
            return exists(thing.label), "yes"
        absent = [c for c in p.classes if c not in spec.labels]
        return exists(absent[rng.integers(len(absent))]), "no"
    if u < 0.64:
        return _which_question(spec, rng)
    if u < 0.80:
        return which_way(thing.label), thing.motion
    if u < 0.93:
        if said_yes:
            return moves(thing.label, thing.motion), "yes"
        other = [m for m in p.motions if m != thing.motion]
        return moves(thing.label, other[rng.integers(len(other))]), "no"
    if u < 0.97:
        return HOW_MANY, NUMBERS[len(spec.objects)]
    return WHERE, p.phrase[spec.scene]


def _question_of_nothing(
    spec: ClipSpec, rng: np.random.Generator, covered: tuple[str, ...]
) -> tuple[str, str]:
    u = rng.random()
    if u < 0.6:
        asked = covered if covered and rng.random() < P_COVERED else priors().classes
        return exists(asked[rng.integers(len(asked))]), "no"
    if u < 0.8:
        return which("animal" if rng.random() < 0.6 else "vehicle"), NONE
    return (HOW_MANY, NUMBERS[0]) if u < 0.9 else (WHERE, priors().phrase[spec.scene])


def _order_question(arrivals: list[str], rng: np.random.Generator) -> tuple[str, str]:
    """Asked of two that came at different times; the one named first mostly came first."""
    early, late = sorted(rng.choice(len(arrivals), 2, replace=False))
    pair = arrivals[early], arrivals[late]
    named = pair if rng.random() < priors().p_first else pair[::-1]
    return order(*named), pair[0]


def _which_question(spec: ClipSpec, rng: np.random.Generator) -> tuple[str, str]:
    """Mostly asked about a kind that is there: the question itself carries a prior."""
    kinds = ["animal", "vehicle"] if rng.random() < 0.6 else ["vehicle", "animal"]
    found = {k: [c for c in spec.labels if priors().kind[c] == k] for k in kinds}
    kind = kinds[0]
    if not found[kind] and rng.random() < 0.6:
        kind = kinds[1]
    return which(kind), found[kind][0] if found[kind] else NONE


def vocabulary() -> list[str]:
    """Every word of the language, special tokens first."""
    p = priors()
    texts = [exists("dog"), exists("umbrella"), which("animal"), which("vehicle"), WHERE, HOW_MANY]
    texts += [order("dog", "cat")]
    texts += [DESCRIBE, moves("dog", "still"), which_way("dog"), "user assistant system , . ? and"]
    texts += [
        *p.classes,
        *p.motions,
        *p.scenes,
        *p.phrase.values(),
        *NUMBERS,
        NONE,
        NOTHING,
        "yes no",
    ]
    words = " ".join(texts).lower().replace("?", " ? ").replace(",", " , ").split()
    return list(dict.fromkeys([*SPECIAL, *words]))


def build_tokenizer() -> PreTrainedTokenizerFast:
    """A word-level tokenizer with Qwen's special tokens; unknown words become `<|unknown|>`."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    ids = {word: i for i, word in enumerate(vocabulary())}
    core = Tokenizer(models.WordLevel(ids, unk_token=UNKNOWN))
    core.normalizer = normalizers.Lowercase()
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    core.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token=PAD,
        eos_token=END,
        unk_token=UNKNOWN,
        additional_special_tokens=[START, END, VISION_START, VISION_END, VIDEO, IMAGE],
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer
