"""What a question names: noun phrases by a small rule; the words that a detector is asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable

_SEPARATORS = set(
    "a an the this that these those some any no every each all both either neither another"
    " other others i you he she it we they me him her us them his its our their your my who"
    " whom whose what which how why when where there here something anything nothing"
    " everything someone anyone nobody everybody everyone own one two three four five six"
    " seven eight nine ten several many much more most few fewer less least first second third"
    " last next lot lots enough only just not about above across after against along among"
    " around as at before behind below beneath beside besides between beyond by despite during"
    " except for from in inside into like near of off on onto opposite out outside over past"
    " per since than through throughout to toward towards under underneath until up upon via"
    " with within without and or but nor so if while because whether then though although once"
    " is are was were am be been being do does did done doing has have had having can could"
    " will would shall should may might must isn't aren't wasn't weren't don't doesn't didn't"
    " hasn't haven't can't yes please still already yet also too again ever never always now"
    " today together very really quite almost away down back forward forwards backward"
    " backwards upside".split()
)
"""Words between phrases: they are part of none."""
_SCENE = set(
    "video videos clip clips scene scenes picture pictures photo photos image images frame"
    " frames footage moment time times way kind kinds sort sorts type types number numbers"
    " color colors colour colours order beginning middle end start finish left right top"
    " bottom side sides front rear part parts option options answer question thing things"
    " accident event events action actions activity exercises direction place interactions"
    " manner result".split()
)
"""Nouns that name the video, a place in it or no thing: nothing that could be outlined."""
_VERBS = set(
    "add answer appear approach ask attach bark bend bounce bring brush build burn buy call"
    " carry catch change chase chew chop clap clean climb close collect come contain cook"
    " cross cry cut dance describe disappear dive do draw drink drive drop eat engage enter"
    " exit explode fall feed fight fill find finish flip fly fold follow get give go grab grow"
    " happen hide hit hold hug jump keep kick kneel knock laugh lay lean leave lick lie lift"
    " listen live look lower make meet melt miss mix move occur open paint park pass peel"
    " perform pet pick place play point pour prepare press pull push put raise reach read"
    " release remove ride ring roll run say scatter see seem shake shoot show shut sing sit"
    " skate ski sleep slide smell smile smoke spill spin spread stand stare start stay step"
    " stir stop swim swing take talk taste tear tell throw tie tilt touch try turn use visit"
    " wait wake walk want wash watch wave wear win wipe work write".split()
)
_IRREGULAR = set(
    "ate bent bit blew bought broke brought built came caught chose cut drank drew drove fed"
    " fell felt flew fought found gave gone got grew held hid hit kept knelt laid lay left"
    " lost made met put ran rang read rode said sang sat saw seen shook shot shut slept slid"
    " spoke spread stood swam swung taken told took tore thrown threw went woke won wore worn"
    " wrote".split()
)
_ALSO_NOUNS = set(
    "brush cut dive drink fall fight hit jump kick paint park pass place play point press"
    " ring roll smoke spread start step swing tie turn walk wave work".split()
)
"""Verbs that are nouns too: they end a phrase only where something stands before them."""
_ING_NOUNS = set(
    "awning building ceiling clothing covering dressing duckling earring fencing flooring"
    " king lighting lightning painting pudding railing ring sibling sling spring sting string"
    " stuffing thing topping wing wedding writing".split()
)
_ED_NOUNS = set("bed breed reed seed shed sled speed steed thread weed bread red".split())
_QUALITIES = set(
    "able afraid alive alone angry asleep available awake aware bad bigger black blue bright"
    " broken brown busy calm clean closed cold dark dirty dry empty fast faster full gold good"
    " gray green grey happy heavy hot huge ill inside large larger long loose loud normal old"
    " open orange pink present purple quiet ready red sad safe same sick slow small smaller"
    " soft strong tall taller thin tired true violet visible warm wet white whole wrong yellow"
    " young different correct unexpected correctly".split()
)
"""What is said of a thing after it; before a noun it belongs to the phrase."""
LONGEST_PHRASE, MAX_PHRASES = 4, 12


def noun_phrases(question: str) -> tuple[str, ...]:
    """The things that a question names, in its order and its words, each once.

    A rule for English without a model: words are cut where an article, a preposition, a number, an
    auxiliary or another small word stands, and at verbs (a list, -ing and -ed forms); what is left
    is a noun with the words before it. Of other languages whole runs of words are left.

    >>> noun_phrases("Is the man in the red jacket running beside a plume of smoke?")
    ('man', 'red jacket', 'plume', 'smoke')
    """
    words = re.findall(r"[^\W\d_](?:[\w'’-]*\w)?|[.,;:!?()]", question.lower())
    phrases: list[str] = []
    run: list[str] = []
    for word in [*words, "."]:
        word = re.sub(r"['’]s$", "", own := word.replace("’", "'"))
        if not word[0].isalpha() or own in _SEPARATORS or len(word) == 1:
            phrases += _phrases_of(run)
            run = []
        elif own != word:  # of a possessive the owner is a thing of its own
            phrases += _phrases_of([*run, word])
            run = []
        else:
            run.append(word)
    return tuple(dict.fromkeys(phrases))[:MAX_PHRASES]


def _phrases_of(run: list[str]) -> list[str]:
    """The phrases of words that no small word stands between."""
    found: list[str] = []
    part: list[str] = []
    for i, word in enumerate(run):
        follows = i + 1 < len(run)
        if _is_verb(word, bool(part), follows):
            found += _ended(part)
            part = []
        elif not word.endswith("ly") or word in ("family", "fly", "butterfly", "jelly", "lily"):
            part.append(word)
    return found + _ended(part)


def _is_verb(word: str, after: bool, follows: bool) -> bool:
    """after: whether the phrase has words already. follows: whether another word comes."""
    if word.endswith("ing") and word not in _ING_NOUNS:
        return after or not follows  # a running man, but: the man running
    if word.endswith("ed") and word not in _ED_NOUNS:
        return after or not follows
    if word in _IRREGULAR and word not in _ALSO_NOUNS:
        return True
    stem = next((s for s in _stems(word) if s in _VERBS), None)
    return stem is not None and (after or stem not in _ALSO_NOUNS)


def _stems(word: str) -> tuple[str, ...]:
    """The word without the ending of a third person.

    >>> _stems("carries"), _stems("watches"), _stems("runs")
    (('carries', 'carry'), ('watches', 'watch'), ('runs', 'run'))
    """
    if word.endswith("ies"):
        return word, word[:-3] + "y"
    if word.endswith(("ches", "shes", "sses", "xes", "oes")):
        return word, word[:-2]
    return (word, word[:-1]) if word.endswith("s") and not word.endswith("ss") else (word,)


def _ended(part: list[str]) -> list[str]:
    """A phrase without what is said of it behind it; none where it names no thing."""
    while part and part[-1] in _QUALITIES:
        part = part[:-1]
    if not part or part[-1] in _SCENE:
        return []
    kept = [w for w in part[:-1] if w not in _SCENE] + part[-1:]
    return [" ".join(kept[-LONGEST_PHRASE:])]


def prompt_of(words: Iterable[str]) -> str:
    """Words as a detector is asked for them.

    >>> prompt_of(["red jacket", "dog."])
    'red jacket. dog'
    """
    return ". ".join(filter(None, (word.replace(".", " ").strip() for word in words)))


def words_of(prompt: str) -> tuple[str, ...]:
    """What a prompt names, each once."""
    return tuple(dict.fromkeys(filter(None, (word.strip() for word in prompt.split(".")))))


def unfound(prompt: str, labels: Iterable[str]) -> tuple[str, ...]:
    """The words of a prompt that no label is."""
    labels = {label.casefold() for label in labels}
    return tuple(word for word in words_of(prompt) if word.casefold() not in labels)
