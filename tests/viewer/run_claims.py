# ruff: noqa: E501 — patterns of sentences stand whole
"""What the page says of a run, read back, beside what its trace holds.

The texts are read by a grammar that knows no other sentences. What they claim is then computed from
the trace by other code: nothing here comes from the viewer, from `core.rules` or from
`core.decoding`. What the verdict is comes from `core.whatif.verdict`, which the viewer's script does not read.
"""

import re
from collections import Counter
from dataclasses import dataclass

import numpy as np

from macd_studio.core.objects.truth import is_right
from macd_studio.core.whatif.verdict import verdict_of

TITLES = {
    "baseline": "Baseline",
    "macd": "MACD",
    "macd-object": "MACD, no frame mask",
    "vcd": "VCD",
}
LEVEL_NAMES = {0.0: "kept", 1.0: "masked"}
PARTLY = "partly masked"


@dataclass(frozen=True)
class State:
    """What is looked at: the trace, α and β in hand, and whose answer is the contrast."""

    trace: object
    alpha: float
    beta: float
    method: str

    @property
    def answer(self):
        return self.trace.answers[self.method]

    @property
    def moved(self):
        return (self.alpha, self.beta) != (self.answer.alpha, self.answer.beta)


def visible(text):
    return text.replace(" ", "␣").replace("\n", "⏎").replace("\t", "⇥") or "∅"


# ---- what the trace holds


def scores(step, alpha, beta, head):
    """Equation of the contrast over the stored candidates; −inf below the plausibility cut."""
    video, second = (np.asarray(row, float) for row in (step.base, step.others[0]))
    top = video.max()
    cut = beta * top if head == "raw" else top + np.log(beta) if beta > 0 else -np.inf
    inside = (video >= cut) | (np.arange(len(video)) == video.argmax())
    score = (1 + alpha) * video - alpha * second
    if step.repeats is not None:
        lowered = np.where(score < 0, score * step.repeats.penalty, score / step.repeats.penalty)
        score = np.where(step.repeats.at, lowered, score)
    return np.where(inside, score, -np.inf), inside


def end_ids(trace):
    return {int(a.tokens[-1].token) for a in trace.answers.values() if a.finished}


def turn(state):
    """(index, text, ends, ended) of the first token that is chosen otherwise; None: none."""
    answer, ends = state.answer, end_ids(state.trace)
    for i, step in enumerate(answer.tokens):
        best = int(scores(step, state.alpha, state.beta, answer.head)[0].argmax())
        token, ended = int(step.candidates[best]), answer.finished and i == len(answer.tokens) - 1
        if token != step.token and not (ended and token in ends):
            return i, step.texts[best], token in ends, ended
    return None


def difference(state):
    """Index of the first token that differs from the baseline's; None where the answers agree."""
    pair = state.trace.answers["baseline"], state.answer
    ids = [[int(t.token) for t in a.tokens] for a in pair]
    last = [len(a.tokens) - 1 if a.finished else None for a in pair]
    for i, (one, other) in enumerate(zip(*ids, strict=False)):
        if last.count(i) == 1 or (last.count(i) == 0 and one != other):
            return i
    shorter = min(map(len, ids))
    return None if len(ids[0]) == len(ids[1]) or shorter in last else shorter


def edited_levels(trace):
    """The level that a person set last, of objects by id and of frame groups by place."""
    objects, groups = {}, {}
    for edit in trace.edits:
        if edit.kind == "level":
            objects[edit.track] = edit.level
        if edit.kind == "frames":
            groups[edit.track] = edit.level
    return {t.id: objects[t.id] for t in trace.tracks if t.id in objects}, groups


def name_of(level):
    return LEVEL_NAMES.get(float(level), PARTLY)


def masked_of(state):
    """Level name → labels or ids of what the ascent masks, frames outside, and levels by hand."""
    trace = state.trace
    if state.method != "macd":  # of another second view nothing is said
        return None
    objects, groups = edited_levels(trace)
    labels = [t.label for t in trace.tracks]
    levels = zip(trace.tracks, trace.counterfactual.level, strict=True)
    chosen = [(t, name_of(level)) for t, level in levels if t.id not in objects]
    frames = {"masked": 0, PARTLY: 0}
    for g, level in enumerate(trace.counterfactual.frame_level):
        if g not in groups and level > 0:
            frames[name_of(level)] += len(trace.groups[g])
    named = {"masked": [], PARTLY: []}
    for track, name in chosen:
        if name != "kept":
            named[name].append(track)
    many = len(set(labels)) < len(labels)
    told = {}
    for name, tracks in named.items():
        if tracks and (many or len(tracks) > 3):
            told[name] = sorted((t.label, t.id) for t in tracks)
        elif tracks:
            told[name] = sorted(t.label for t in tracks)
    return {
        "objects": told,
        "frames": {name: n for name, n in frames.items() if n},
        "of": len(trace.times),
        "by hand": {f"{t.id} {t.label}": objects[t.id] for t in trace.tracks if t.id in objects},
        "frames by hand": {(min(trace.groups[g]) + 1, max(trace.groups[g]) + 1): level
                           for g, level in groups.items()},
    }  # fmt: skip


# ---- what the texts say

NUMBER = r"[−+]?\d+(?:\.\d+)?(?:e[−-]?\d+)?"
LEVEL = rf"(?:{PARTLY}|masked)"
_FRAMES = re.compile(rf"(\d+) of (\d+) frames (was|were) ({LEVEL})")


def number(text):
    return float(text.replace("−", "-"))


def read_masked(text):
    said = {"objects": {}, "frames": {}, "of": None, "by hand": {}, "frames by hand": {}}
    nothing = False
    for part in re.split("; ", text[0].lower() + text[1:].removesuffix(".")):
        if part == "nothing was masked":
            nothing = True
        elif hand := re.fullmatch(rf"frames? (\d+)(?:–(\d+))? set to ({NUMBER}) by hand", part):
            first, last = int(hand[1]), int(hand[2] or hand[1])
            said["frames by hand"][first, last] = number(hand[3])
        elif hand := re.fullmatch(rf"(\d+ .+) set to ({NUMBER}) by hand", part):
            said["by hand"][hand[1]] = number(hand[2])
        elif part.startswith("outside the objects, "):
            found = _FRAMES.findall(part)
            listed = " and ".join(
                f"{n} of {of} frames {verb} {name}" for n, of, verb, name in found
            )
            assert part == f"outside the objects, {listed}", part
            for n, of, verb, name in found:
                assert (verb == "was") == (n == "1"), part
                assert said["of"] in (None, int(of)), part
                said["of"], said["frames"][name] = int(of), int(n)
        elif many := re.fullmatch(rf"({LEVEL}): (.+)", part):
            said["objects"][many[1]] = sorted(read_numbered(many[2]))
        else:
            plain = re.fullmatch(rf"(the .+) (was|were) ({LEVEL})", part)
            assert plain, part
            names = [n.removeprefix("the ") for n in re.split(", | and ", plain[1])]
            assert (plain[2] == "was") == (len(names) == 1), part
            said["objects"][plain[3]] = sorted(names)
    assert nothing != bool(said["objects"] or said["frames"]), text
    return said


def read_numbered(text):
    """(label, id) pairs of "balls 2 and 3, person 1"."""
    for group in re.split(r", (?=[^\d])", text):
        match = re.fullmatch(r"(.+?) ([\d–, and]+)", group)
        assert match, group
        ids = []
        for run in re.split(", | and ", match[2]):
            first, _, last = run.partition("–")
            ids += range(int(first), int(last or first) + 1)
        label = match[1].removesuffix("s") if len(ids) > 1 else match[1]
        yield from ((label, i) for i in ids)


def read_logits(text):
    """Second view's name, and text of a token → how many logits it loses, with their last place."""
    lead, rest = re.fullmatch(r"Under (the mask|its second view) (.+)\.", text).groups()
    moves = {}
    for part in re.split(r"(?:, | and )(?=“)", rest):
        match = re.fullmatch(rf"“(.+)” (?:keeps its logit|(loses|gains) ({NUMBER}) logits)", part)
        assert match, part
        size = 0.0 if match[3] is None else number(match[3])
        moves[match[1]] = (-size if match[2] == "gains" else size), match[3]
    return lead, moves


OPEN = re.compile(
    r"(?:With β (?P<beta>[\d.]+), )?(?:(?P<none>no contrast can change (?:any of the (?P<of0>\d+) tokens"
    r"|the one token) of (?P<t0>.+?)'s answer)|(?P<all>all (?P<of1>\d+) tokens|the one token) of"
    r" (?P<t1>.+?)'s answer (?:was|were|is|are) open to contrast|(?P<some>\d+) of the (?P<of2>\d+) tokens"
    r" of (?P<t2>.+?)'s answer (?:was|were|is|are) open to contrast; no contrast can change the others)\."
)


def read_open(text):
    head, sep, rest = text.partition(", ") if text.startswith("With β ") else ("", "", text)
    match = OPEN.fullmatch(f"{head}{sep}{rest[0].lower()}{rest[1:]}")
    assert match, text
    of = int(match["of0"] or match["of1"] or match["of2"] or 1)
    count = 0 if match["none"] else of if match["all"] else int(match["some"])
    beta = None if match["beta"] is None else number(match["beta"])
    return count, of, match["t0"] or match["t1"] or match["t2"], beta


TURNED = re.compile(
    r"chooses “(?P<text>.+)” as token (?P<token>\d+); the rest is not decoded|ends before token"
    r" (?P<before>\d+)|(?P<once>ends at once)|goes on with “(?P<on>.+)” instead of ending; the rest"
    r" is not decoded"
)
OUTCOME = re.compile(
    r"(?:(?P<first>[^:→]+): (?P<one>.*?) → )?(?P<name>[^:→]+?)(?: with α (?P<alpha>[\d.]+) and β"
    r" (?P<beta>[\d.]+))?(?:: (?P<other>.*)| (?P<turn>(?:chooses|ends|goes on) .+))"
)


def expected_text(answer):
    text = answer.text or "∅"
    if answer.finished:
        return text
    n = len(answer.tokens)
    return f"{text} (cut at {n} token{'' if n == 1 else 's'})"


def same_number(text, value):
    """Whether a number is written with two decimals, or with all that it has."""
    return abs(number(text) - value) <= 5e-7 * max(1.0, abs(value))


def check_outcome(text, state):
    match = OUTCOME.fullmatch(text)
    assert match, text
    base, answer, turned = state.trace.answers["baseline"], state.answer, turn(state)
    pair = expected_text(base), expected_text(answer)
    assert (match["alpha"] is not None) == state.moved, text
    if state.moved:
        assert same_number(match["alpha"], state.alpha), text
        assert same_number(match["beta"], state.beta), text
    if match["first"] is None:
        assert pair[0] == pair[1], text
        assert not turned, text
        assert match["name"] == f"Baseline and {TITLES[state.method]}", text
        assert match["other"] == pair[1], text
        return
    assert (match["first"], match["one"]) == ("Baseline", pair[0]), text
    assert match["name"] == TITLES[state.method], text
    assert bool(match["turn"]) == bool(turned), text
    if turned is None:
        assert match["other"] == pair[1] != pair[0], text
        return
    check_turn(TURNED.fullmatch(match["turn"]), turned, text)


def check_turn(said, turned, text):
    index, token, ends, ended = turned
    assert said, text
    if ends:
        assert bool(said["once"]) == (index == 0), text
        assert index == 0 or int(said["before"]) == index + 1, text
    elif ended:
        assert said["on"] == visible(token), text
    else:
        assert (said["text"], int(said["token"])) == (visible(token), index + 1), text


DIFFERS = re.compile(
    r"The answers diverge at token (?P<at>\d+)(?:: there (?P<ends>.+) ends)?\.(?: (?P<constant>.+))?"
)
CONSTANT = re.compile(
    rf"A constant of (?P<size>{NUMBER}) on the logit of “(?P<of>.+)” would do the same at token"
    r" (?P<at>\d+), without a second view\."
)
MOVED = re.compile(
    r"With these, (?:the answer ends before token (?P<before>\d+)|the answer goes on with (?P<on>.+)"
    r" instead of ending|token (?P<token>\d+) becomes (?P<text>.+)); the path diverges there\."
)


def check_difference(text, state):
    if turned := turn(state):
        said = MOVED.fullmatch(text)
        assert said, text
        index, token, ends, ended = turned
        if ends:
            assert int(said["before"]) == index + 1, text
        elif ended:
            assert said["on"] == visible(token), text
        else:
            assert (int(said["token"]), said["text"]) == (index + 1, visible(token)), text
        return
    at = difference(state)
    if at is None:
        assert text == "Both ways of decoding give the same answer.", text
        return
    said = DIFFERS.fullmatch(text)
    assert said, text
    assert int(said["at"]) == at + 1, text
    pair = state.trace.answers["baseline"], state.answer
    ending = [a for a in pair if a.finished and at == len(a.tokens) - 1]
    assert said["ends"] == (TITLES[ending[0].method] if ending else None), text
    check_constant(said["constant"], state, at)


def check_constant(text, state, at):
    """The constant on the contrast's token that would make the video alone choose it."""
    said = CONSTANT.fullmatch(text or "")
    assert said, text
    step, other = state.answer.tokens[at], state.trace.answers["baseline"].tokens[at]
    base = dict(zip(map(int, other.candidates), map(float, other.base), strict=True))
    texts = dict(zip(map(int, other.candidates), other.texts, strict=True))
    yes = {i for i in texts if texts[i].strip().lower() == "yes"}
    pair = texts[int(other.token)].strip().lower(), texts[int(step.token)].strip().lower()
    if set(pair) == {"yes", "no"}:
        rest = max(z for i, z in base.items() if i not in yes)
        size, of = rest - max(base[i] for i in yes), "yes"
    else:
        size, of = max(base.values()) - base[int(step.token)], visible(texts[int(step.token)])
    assert int(said["at"]) == at + 1, text
    assert said["of"] == of, text
    digits = len(said["size"].partition(".")[2])
    assert abs(number(said["size"]) - size) <= 0.51 * 10.0**-digits, (text, size)


def check_logits(text, state):
    lead, moves = read_logits(text)
    assert (lead == "the mask") == (state.method == "macd"), text
    at, turned = difference(state), turn(state)
    if turned and (at is None or turned[0] <= at):
        at = turned[0]
    index = at or 0
    step, tokens = state.answer.tokens[index], []
    tokens.append(int(step.token))
    base = state.trace.answers["baseline"].tokens
    if at is not None and at < len(base):
        tokens.append(int(base[at].token))
    expected = {}
    for token in tokens:
        place = np.flatnonzero(step.candidates == token)
        if len(place):
            lost = float(step.base[place[0]]) - float(step.others[0][place[0]])
            expected[visible(step.texts[int(place[0])])] = lost
    assert moves.keys() == expected.keys(), (text, expected)
    for token, (size, written) in moves.items():
        lost = expected[token]
        if written is None:
            assert lost == 0, text
            continue
        assert np.sign(size) == np.sign(lost), text
        digits = 1 if abs(lost) >= 0.1 else -int(np.floor(np.log10(abs(lost))))
        assert abs(size - lost) <= 0.501 * 10.0**-digits, (text, lost)


def check_open(text, state):
    count, of, title, beta = read_open(text)
    words = state.answer.tokens[: -1 if state.answer.finished else None]
    passing = [scores(t, state.alpha, state.beta, state.answer.head)[1] for t in words]
    assert (count, of) == (sum(int(p.sum()) > 1 for p in passing), len(passing)), text
    assert title == TITLES[state.method], text
    assert (beta is None) == (state.beta == state.answer.beta), text
    assert beta is None or same_number(str(beta), state.beta), text


IN_PART = " (partly)"


def things_of(trace):
    """What is masked, as (objects or how many, frames outside).

    An object: label, id or 0 where no other is called so, whether it is masked in part.
    """
    levels = trace.counterfactual
    at = dict(zip((t.id for t in trace.tracks), levels.level, strict=True))
    hidden = [t for t in trace.tracks if at[t.id] > 0]
    pairs = zip(trace.groups, levels.frame_level, strict=False)
    frames = sum(len(group) for group, level in pairs if level > 0)
    if len(hidden) > 3:
        return len(hidden), frames
    every = Counter(t.label for t in trace.tracks)
    return sorted(
        (t.label, t.id if every[t.label] > 1 else 0, bool(at[t.id] < 1)) for t in hidden
    ), frames


def read_things(text):
    """What a sentence says of what is masked, as `things_of` gives it."""
    whole = re.fullmatch(r"(?:(?:(.*?)(?:, | and ))?the background of |)(\d+) frames?|(.*)", text)
    objects = (whole[1] if whole[2] else whole[3]) or ""
    frames = int(whole[2] or 0)
    if many := re.fullmatch(r"(\d+) objects", objects):
        return int(many[1]), frames
    found = []
    for phrase in re.split(r"(?:, | and )(?=[^\d])", objects) if objects else ():
        name = phrase.removesuffix(IN_PART)
        alone = [(name.removeprefix("the "), 0)] if name.startswith("the ") else read_numbered(name)
        found += [(*one, phrase != name) for one in alone]
    return sorted(found), frames


def alone(state):
    """What is said given the second view alone, and whether that is the whole answer."""
    ends, said = end_ids(state.trace), []
    carried = any(t.startswith(" ") for step in state.answer.tokens for t in step.texts)
    for step in state.answer.tokens:
        best = int(np.argmax(np.asarray(step.others[0], float)))
        if int(step.candidates[best]) != step.token:
            begun = re.match(r"\s*".join(map(re.escape, said)) + r"(?!\S)", state.answer.text)
            words = begun and not carried  # the answer has a word, or nothing, in its place
            own = "" if (whole := int(step.candidates[best]) in ends) else step.texts[best]
            if words:
                return f"{begun[0]} {own}".strip(), whole
            return "".join([*said, own]), whole
        said += [] if step.token in ends else [step.text]
    return state.answer.text, state.answer.finished


def check_without(text, state):
    if state.method != "macd":
        assert text.startswith(f"Given the second view of {TITLES[state.method]} alone"), text
    else:
        things = things_of(state.trace)
        if not any(map(bool, things)):
            assert not text, text
            return
        named = re.fullmatch(
            r"With (.+) hidden, (the model says|the model's answer begins): .*", text
        )
        assert named, text
        assert read_things(named[1]) == things, (text, things)
    said, whole = alone(state)
    rest = text.partition("the model says: " if whole else "the model's answer begins: ")[2]
    assert rest == (said.strip() or "∅"), (text, said, whole)


MEANINGS = {
    r"Nothing was masked, so both answers are the same\.": ("same", None),
    r"(?P<title>.+) does not change the answer\.": ("same", "unknown"),
    r"The answer does not depend on (?P<things>.+): hidden or not, the model says the same\.": ("same", True),
    r"(?P<title>.+) keeps the (?:(?P<kind>right|wrong) )?answer; with these parts hidden, the model gives another one\.": ("same", False),
    r"(?P<title>.+) (?P<change>changes|corrects|spoils) the answer, and which objects it masks matters: at most a third of other masks do the same\.": ("differ", "yes"),
    r"(?P<title>.+) (?P<change>changes|corrects|spoils) the answer, but which objects it masks did not matter: (?P<why>.+)\.": ("differ", "no"),
    r"(?P<title>.+) (?P<change>changes|corrects|spoils) the answer\. Whether it matters which objects it masks cannot be said: (?P<why>.+)\.": ("differ", "cannot be said"),
    r"(?P<title>.+) (?P<change>changes|corrects|spoils) the answer\. Whether it matters which objects it masks was not measured\.": ("differ", "not measured"),
}  # fmt: skip


def check_meaning(text, state):
    same = difference(state) is None
    things = things_of(state.trace)
    none = not any(map(bool, things))
    if state.method != "macd" or turn(state) or (none and not same):
        assert not text, text
        return
    found = [(kind, m) for p, kind in MEANINGS.items() if (m := re.fullmatch(p, text))]
    assert len(found) == 1, text
    (kind, said), match = found[0]
    said_of = match.groupdict()
    assert (kind == "same") == same, text
    assert said_of.get("title") in (None, TITLES[state.method]), text
    if said_of.get("things"):
        assert read_things(said_of["things"]) == things, text
    pair = state.trace.answers["baseline"], state.answer
    base, own = (is_right(a.text, state.trace.truth) if a.finished else None for a in pair)
    known = {(False, True): "corrects", (True, False): "spoils"}
    if said == False and same and not none:  # noqa: E712 — "unknown" is another one
        assert said_of["kind"] == {True: "right", False: "wrong", None: None}[own], text
    if said_of.get("change"):
        assert said_of["change"] == known.get((base, own), "changes"), text
    if none:
        assert said is None, text
    elif same:
        tops = [int(s.candidates[np.argmax(s.others[0])]) for s in state.answer.tokens]
        assert said == (tops == [s.token for s in state.answer.tokens]), text
    else:
        verdict = verdict_of(state.trace)
        measured = verdict.reason != "It was not measured."
        assert said == (verdict.reply if measured else "not measured"), (text, verdict)
        if said_of.get("why"):
            assert verdict.reason.lower().startswith(said_of["why"].lower()), (text, verdict.reason)


def check(texts, state):
    """Fails where a text claims what the trace does not hold, or leaves out what it must say."""
    masked = masked_of(state)
    sentences = re.split(r"(?<=[^\d]\.) (?=[A-Z“\d])", texts["mechanism"])
    if masked is not None:
        said = read_masked(sentences.pop(0))
        want = masked | {"of": masked["of"] if masked["frames"] else None}
        assert said == want, (texts["mechanism"], want)
        changed = [e for e in state.trace.edits if e.kind not in ("level", "frames", "label")]
        if changed:
            found = re.fullmatch(
                r"The objects were changed by hand \((\d+) changes?\)\.", sentences.pop(0)
            )
            assert found, texts["mechanism"]
            assert int(found[1]) == len(changed), texts["mechanism"]
    hidden = masked is None or bool(
        masked["objects"] or masked["frames"]
        or any([*masked["by hand"].values(), *masked["frames by hand"].values()])
    )  # fmt: skip
    if hidden:
        check_logits(sentences.pop(0), state)
    if turn(state) is None and len(state.answer.tokens) > state.answer.finished:
        check_open(sentences.pop(0), state)
    assert not sentences, texts["mechanism"]
    check_without(texts["without"], state)
    check_meaning(texts["meaning"], state)
    check_outcome(texts["outcome"], state)
    check_difference(texts["difference"], state)
    own = state.answer
    stale = state.moved and state.method == "macd"
    pattern = r"Measured with α ([\d.]+) and β ([\d.]+), not with the values in hand\."
    said = re.fullmatch(pattern, texts["measured"])
    assert bool(said) == stale, texts["measured"]
    assert stale or not texts["measured"], texts["measured"]
    if said:
        assert same_number(said[1], own.alpha), texts["measured"]
        assert same_number(said[2], own.beta), texts["measured"]
