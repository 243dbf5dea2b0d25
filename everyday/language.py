"""The questions of the everyday model: things, their synonyms, many wordings, and its tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from macd_studio.core.backbones.everyday import CLASSES, COLOURS
from macd_studio.core.text.everyday_words import words_for

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

PAD, END, START, UNKNOWN = "<|pad|>", "<|im_end|>", "<|im_start|>", "<|unknown|>"
VIDEO, IMAGE = "<video>", "<image>"
SPECIAL = (PAD, END, START, UNKNOWN, VIDEO, IMAGE)
CHAT_TEMPLATE = (
    "{% for message in messages %}" + START + "{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'video' %}" + VIDEO + "{% elif part['type'] == 'image' %}" + IMAGE +
    "{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}"
    + END + "\n{% endfor %}{% if add_generation_prompt %}" + START + "assistant\n{% endif %}"
)  # fmt: skip
"""ChatML; the video stands before the text."""

NUMBERS = ("zero", "one", "two", "three", "four", "five", "several")
"""Answers to "how many"; "several" is more than five."""
NONE, NOTHING, STILL = "none", "nothing that i know", "it does not move"
WAYS = ("left", "right", "up", "down", "towards the camera", "away from the camera")
SIDES = ("left", "middle", "right")

KINDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "animal": (("animal", "pet", "creature"), CLASSES[14:24]),
    "vehicle": (("vehicle", "means of transport"), CLASSES[1:9]),
    "food": (("food", "fruit", "kind of food"), CLASSES[46:56]),
    "furniture": (("furniture", "piece of furniture"),
                  ("bench", "chair", "couch", "bed", "dining table")),
    "device": (("device", "electronic device", "piece of electronics", "gadget"),
               ("tv", "laptop", "mouse", "remote", "keyboard", "cell phone")),
    "appliance": (("appliance", "kitchen appliance", "household appliance"),
                  ("microwave", "oven", "toaster", "sink", "refrigerator")),
    "tableware": (("tableware", "kitchen item", "piece of tableware", "kitchenware"),
                  CLASSES[39:46]),
    "sport": (("sports equipment", "piece of sports equipment", "kind of sports equipment",
               "sports gear"), CLASSES[29:39]),
    "bag": (("bag", "kind of bag"), ("backpack", "handbag", "suitcase")),
}  # fmt: skip
"""Kinds of things: what a question calls them, and their classes."""


@dataclass(frozen=True)
class Noun:
    """One way to call a class."""

    singular: str
    plural: str

    @property
    def with_article(self) -> str:
        """ "a dog", "an umbrella", "someone", "skis"."""
        word = self.singular
        if word in ("someone", "skis", "scissors", "luggage", "cattle", "broccoli"):
            return word if word == "someone" else f"some {word}"
        return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"

    @property
    def definite(self) -> str:
        """ "the dog", "the person"."""
        return f"the {'person' if self.singular == 'someone' else self.singular}"


def nouns(label: str) -> list[Noun]:
    """Every way to call a class, its own name first."""
    return [Noun(*pair) for pair in words_for(label)]


def choose(rng: np.random.Generator, options: Sequence[str]) -> str:
    """One of them at random."""
    return options[int(rng.integers(len(options)))]


def call(rng: np.random.Generator, label: str) -> Noun:
    """A class by its own name, or, two times of five, by another."""
    ways = nouns(label)
    if len(ways) == 1 or rng.random() < 0.6:
        return ways[0]
    return ways[1 + int(rng.integers(len(ways) - 1))]


_THE_VIDEO = ("the video", "this video", "the clip", "this clip", "the scene", "the picture",
              "the image", "the footage", "the frame", "the shot", "the film", "the recording",
              "view")  # fmt: skip
_EXISTS_ONE = (
    "is there {a} in {v}?", "is there {a} in {v}?", "is there {a} in {v}?", "is there {a}?",
    "is {a} in {v}?", "can you see {a} in {v}?", "can you see {a}?", "do you see {a} in {v}?",
    "do you see {a}?", "does {v} show {a}?", "does {a} appear in {v}?", "is {a} visible in {v}?",
    "is {a} visible?", "is {a} present in {v}?", "does {v} contain {a}?", "isn't there {a} in {v}?",
    "can {a} be seen in {v}?", "can {a} be seen?", "is there {a} visible in {v}?",
    "is there {a} anywhere in {v}?", "does {v} have {a} in it?", "there's {a} in {v}, right?",
    "in {v}, is there {a}?", "was there {a} in {v}?", "is there {a} present in {v}?",
    "is there {a} there?", "does {a} show up in {v}?", "did you see {a}?", "could there be {a}?",
)  # fmt: skip
_EXISTS_MANY = (
    "are there any {s} in {v}?", "are there {s} in {v}?", "are there any {s}?", "any {s}?",
    "do you see any {s}?", "can you see any {s} in {v}?", "does {v} show any {s}?",
    "do any {s} appear in {v}?", "are any {s} visible?", "does {v} contain {s}?",
    "are {s} visible in {v}?", "aren't there any {s}?",
)  # fmt: skip
_WHICH = (
    "which {k} is in {v}?", "what {k} is in {v}?", "which {k} can be seen in {v}?",
    "which {k} is there?", "what {k} is shown in {v}?", "which {k} do you see?",
    "what {k} can you see in {v}?", "which {k} appears in {v}?", "what kind of {k} is in {v}?",
    "what kind of {k} is there?", "what {k} is this?", "what {k} is visible in {v}?",
    "which {k} does {v} show?", "what {k} appears in {v}?", "name the {k} in {v}.",
)  # fmt: skip
_COUNT = (
    "how many {s} are there?", "how many {s} are in {v}?", "how many {s} are there in {v}?",
    "how many {s} can you see?", "how many {s} do you see in {v}?", "how many {s} does {v} show?",
    "what is the number of {s} in {v}?", "how many {s} are visible?", "count the {s}.",
    "how many {s} can be seen in {v}?", "how many {s}?", "how many {s} appear in {v}?",
)  # fmt: skip
_COLOUR = (
    "what colour is {the}?", "what color is {the}?", "which colour is {the}?",
    "what is the colour of {the}?", "what's the color of {the}?", "which color does {the} have?",
    "what colour is {the} in {v}?", "what color is {the} in {v}?", "what colour does {the} have?",
    "what is the color of {the} in {v}?", "what's the colour of {the}?",
)  # fmt: skip
_WHERE = (
    "where is {the}?", "where is {the} most of the time?", "where in {v} is {the}?",
    "where is {the} in {v}?", "where's {the}?",
    "on which side is {the}?", "where can {the} be seen?", "which side of {v} is {the} on?",
    "in which part of {v} is {the}?", "where do you see {the}?", "on which side of {v} is {the}?",
)  # fmt: skip
RELATIONS: dict[str, tuple[str, ...]] = {
    "left": ("to the left of", "left of", "on the left of", "on the left side of"),
    "right": ("to the right of", "right of", "on the right of", "on the right side of"),
    "above": ("above", "over", "higher than"),
    "below": ("below", "under", "beneath", "underneath", "lower than"),
    "beside": ("beside", "next to", "near", "close to", "by"),
    "front": ("in front of",),
}  # fmt: skip
_RELATION = (
    "is {the} {r} {other}?",
    "is {the} {r} {other} in {v}?",
    "in {v}, is {the} {r} {other}?",
)
_VERBS = {"move": "moving", "go": "going", "walk": "walking", "run": "running",
          "drive": "driving", "fly": "flying", "swim": "swimming", "roll": "rolling",
          "jump": "jumping", "ride": "riding", "travel": "travelling"}  # fmt: skip
_MOVES = (
    "{does} {the} {m}?", "{is} {the} {ing}?", "{does} {the} {m} in {v}?", "{is} {the} in motion?",
    "do you see {the} {m}?", "{does} {the} change place?", "{is} {the} {ing} in {v}?",
    "{does} {the} {m} around?", "{is} {the} {ing} around?",
)  # fmt: skip
_STANDS = ("{does} {the} stand still?", "{is} {the} still?", "{is} {the} standing still?",
           "{does} {the} stay in place?", "{is} {the} stationary?")  # fmt: skip
_WAY = (
    "which way {does} {the} {m}?", "which way {is} {the} {ing}?", "where {does} {the} {m} to?",
    "in which direction {does} {the} {m}?", "which direction {is} {the} {ing}?",
    "in what direction {is} {the} {ing}?", "what direction {does} {the} {m}?",
    "where {is} {the} {ing}?", "where {is} {the} heading?", "which way {is} {the} heading?",
)  # fmt: skip
_ENTERS = ("does {a} enter {v}?", "does {a} come into {v}?", "does {a} enter?",
           "does {a} come into view?", "does {the} enter {v}?", "does {a} walk into {v}?",
           "does {a} appear during {v}?", "does {the} come into {v}?")  # fmt: skip
_LEAVES = ("does {a} leave {v}?", "does {the} leave {v}?", "does {the} leave?",
           "does {the} go out of view?", "does {a} exit {v}?", "does {the} disappear?",
           "does {the} exit {v}?", "does {the} walk out of {v}?")  # fmt: skip
_ORDER = (
    "what comes first, {the} or {other}?", "which comes first, {the} or {other}?",
    "what appears first, {the} or {other}?", "which appears first, {the} or {other}?",
    "what is seen first, {the} or {other}?", "which is there first, {the} or {other}?",
    "who comes first, {the} or {other}?", "what enters first, {the} or {other}?",
)  # fmt: skip
_DESCRIBE = (
    "what is in {v}?", "what can be seen in {v}?", "what do you see?", "what does {v} show?",
    "describe {v}.", "what do you see in {v}?", "what's in {v}?", "what is shown in {v}?",
    "what things are in {v}?", "which objects are in {v}?", "what objects are in {v}?",
    "list the objects in {v}.", "describe what you see.", "what is there?",
    "what is happening in {v}?", "which things can you see?",
)  # fmt: skip


def _fill(rng: np.random.Generator, templates: Sequence[str], **words: str) -> str:
    text = choose(rng, templates).format(v=choose(rng, _THE_VIDEO), **words)
    return text if rng.random() < 0.85 else text.rstrip("?.")


def ask_exists(rng: np.random.Generator, noun: Noun) -> str:
    """Whether there is such a thing."""
    if noun.singular != "someone" and rng.random() < 0.35:
        return _fill(rng, _EXISTS_MANY, s=noun.plural)
    return _fill(rng, _EXISTS_ONE, a=noun.with_article)


def ask_exists_kind(rng: np.random.Generator, kind: str) -> str:
    """Whether there is anything of a kind."""
    word = KINDS[kind][0][0]
    if kind in ("furniture", "food", "tableware", "sport"):
        return _fill(rng, ("is there any {k} in {v}?", "can you see any {k}?", "is there {k}?",
                           "does {v} show {k}?", "do you see any {k} in {v}?"), k=word)  # fmt: skip
    return ask_exists(rng, Noun(word, f"{word}s"))


def ask_which(rng: np.random.Generator, kind: str) -> str:
    """Which thing of a kind is there."""
    return _fill(rng, _WHICH, k=choose(rng, KINDS[kind][0]))


def ask_count(rng: np.random.Generator, noun: Noun) -> str:
    """How many there are."""
    return _fill(rng, _COUNT, s=noun.plural)


def ask_colour(rng: np.random.Generator, noun: Noun) -> str:
    """Which colour it has."""
    return _fill(rng, _COLOUR, the=noun.definite)


def ask_where(rng: np.random.Generator, noun: Noun) -> str:
    """On which side it is."""
    return _fill(rng, _WHERE, the=noun.definite)


def ask_relation(rng: np.random.Generator, one: Noun, relation: str, other: Noun) -> str:
    """Whether one thing stands so to another; relation: a key of RELATIONS."""
    words = choose(rng, RELATIONS[relation])
    return _fill(rng, _RELATION, the=one.definite, r=words, other=other.definite)


def _of_movement(rng: np.random.Generator, noun: Noun, many: bool) -> dict[str, str]:
    """What fills a question about movement: of one thing, or of all."""
    verb = choose(rng, list(_VERBS)) if rng.random() < 0.4 else "move"
    words = {"m": verb, "ing": _VERBS[verb]}
    if many:
        return words | {"does": "do", "is": "are", "the": f"the {noun.plural}"}
    return words | {"does": "does", "is": "is", "the": noun.definite}


def ask_moves(rng: np.random.Generator, noun: Noun, many: bool, still: bool = False) -> str:
    """Whether it moves, or whether it stands still; of many: whether they do."""
    return _fill(rng, _STANDS if still else _MOVES, **_of_movement(rng, noun, many))


def ask_way(rng: np.random.Generator, noun: Noun, many: bool) -> str:
    """Which way it moves, or they move."""
    return _fill(rng, _WAY, **_of_movement(rng, noun, many))


def ask_enters(rng: np.random.Generator, noun: Noun, leaves: bool = False) -> str:
    """Whether one enters the picture, or leaves it."""
    words = {"a": noun.with_article, "the": noun.definite}
    return _fill(rng, _LEAVES if leaves else _ENTERS, **words)


def ask_order(rng: np.random.Generator, one: Noun, other: Noun) -> str:
    """Which of two comes first."""
    return _fill(rng, _ORDER, the=one.definite, other=other.definite)


def ask_describe(rng: np.random.Generator) -> str:
    """What is in the video."""
    return _fill(rng, _DESCRIBE)


def listed(counts: Sequence[tuple[str, int]]) -> str:
    """Things with their numbers as a sentence would list them: "a dog, two cars and a person"."""
    parts = []
    for label, n in counts:
        noun = nouns(label)[0]
        parts.append(noun.with_article if n == 1 else f"{NUMBERS[min(n, 6)]} {noun.plural}")
    if not parts:
        return NOTHING
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _all_texts() -> list[str]:
    templates = [
        *_EXISTS_ONE, *_EXISTS_MANY, *_WHICH, *_COUNT, *_COLOUR, *_WHERE, *_RELATION, *_MOVES,
        *_STANDS, *_WAY, *_ENTERS, *_LEAVES, *_ORDER, *_DESCRIBE, *_THE_VIDEO,
    ]  # fmt: skip
    names = "a s v k the r other does is m ing".split()
    plain = [t.format(**dict.fromkeys(names, "")) for t in templates]
    kinds = [word for words, _ in KINDS.values() for word in words]
    return [
        *plain, *_VERBS, *_VERBS.values(), "does do is are",
        *(w for ws in RELATIONS.values() for w in ws), *kinds,
        *(f"{kind}s" for kind in KINDS), *NUMBERS, NONE, NOTHING, STILL, *WAYS, *SIDES, *COLOURS,
        "yes no a an the some any user assistant system , . ? ! ' and or please answer with single"
        " word phrase using question shortly only maybe six seven eight nine ten",
    ]  # fmt: skip


def phrases() -> list[str]:
    """Names of several words that are one token, such as "traffic light"."""
    named = [w for c in CLASSES for n in nouns(c) for w in (n.singular, n.plural)]
    return list(dict.fromkeys(w for w in named if " " in w))


def vocabulary() -> list[str]:
    """Every word of the language, special tokens first; names of several words are added to it."""
    single = [w for c in CLASSES for n in nouns(c) for w in (n.singular, n.plural) if " " not in w]
    text = " ".join([*_all_texts(), *single])
    for mark in "?.,!'":
        text = text.replace(mark, f" {mark} ")
    return list(dict.fromkeys([*SPECIAL, *text.lower().split()]))


def build_tokenizer() -> PreTrainedTokenizerFast:
    """A word-level tokenizer; unknown words become `<|unknown|>`."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    ids = {word: i for i, word in enumerate(vocabulary())}
    core = Tokenizer(models.WordLevel(ids, unk_token=UNKNOWN))
    core.normalizer = normalizers.Sequence(
        [normalizers.Replace("\u2019", "'"), normalizers.Lowercase()]
    )
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    core.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    longest_first = sorted(phrases(), key=lambda w: (-len(w), w))
    core.add_tokens([AddedToken(w, single_word=True, normalized=True) for w in longest_first])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token=PAD,
        eos_token=END,
        unk_token=UNKNOWN,
        additional_special_tokens=[START, END, VIDEO, IMAGE],
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer
