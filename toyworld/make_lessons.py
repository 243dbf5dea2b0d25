"""Computes what the lessons show besides the examples: `python -m toyworld.make_lessons`.

Clips are drawn by a fixed seed and answered by the shipped models, as for the examples; a clip is
kept by the rule that each function states, never by hand. The result is assets/learn/*.json, which
`macd_ui.learn` reads.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from macd_studio.commands import need_checkout
from macd_studio.commands import parser as command_line
from macd_studio.core.backbones import LocalLM, load_backbone
from macd_studio.core.objects.detect import Detector, load_detector
from macd_studio.core.system.shipped import assets
from macd_studio.core.text.question import word_tokens
from macd_studio.core.types import Answer, Clip, Trace
from macd_studio.toyworld import lesson_draws
from macd_studio.toyworld import questions as ask
from macd_studio.toyworld.clips import FRAMES, drawn_clip
from macd_studio.toyworld.example_draws import Case
from macd_studio.toyworld.make_examples import describe, plain_trace
from macd_studio.toyworld.priors import priors
from macd_studio.toyworld.world import ClipSpec, sample, sample_labels

OUT = assets() / "learn"
SEED = 4711
"""Another one than that of the examples and of the evaluation, so that no clip is met twice."""
OPACITIES = (1.0, 0.5, 0.35, 0.25, 0.15, 0.1, 0.05, 0.0)
PAIRS = 24
"""Clips over which the fading is averaged."""
SIDE = 128
KEPT_CANDIDATES = 6
Rng = np.random.Generator


def picture(frame: NDArray[np.uint8], side: int = SIDE) -> str:
    """A frame as a WebP data URI, its long side at most `side`."""
    image = Image.fromarray(frame)
    image.thumbnail((side, side))
    out = io.BytesIO()
    image.save(out, "WEBP", quality=70, method=6)
    return "data:image/webp;base64," + base64.b64encode(out.getvalue()).decode()


def clip_of(spec: ClipSpec) -> Clip:
    """The clip as the backbone's sampler sees it."""
    return drawn_clip(spec, "lesson", "0" * 64)


@torch.no_grad()
def shares(lm: LocalLM, clip: Clip, question: str, words: Sequence[str]) -> list[float]:
    """Probability of each word as the first token of the answer, among all tokens."""
    encoded = lm.encode(clip, question)
    p = torch.softmax(lm.prefill(encoded, encoded.video[None]).logits[0].double(), -1)
    return [round(float(max(p[i] for i in word_tokens(lm.tokens, w))), 4) for w in words]


def frames_lesson(lm: LocalLM, rng: Rng, tries: int = 200) -> dict[str, Any]:
    """What the model believes about a motion after each frame.

    Frames that have not come yet repeat the last one that has. Kept is the first clip whose motion
    is not its class's usual one, whose whole is answered rightly, and whose first frame is not.
    """
    p = priors()
    for _ in range(tries):
        scene = p.scenes[rng.integers(len(p.scenes))]
        label = p.typical[scene][rng.integers(len(p.typical[scene]))]
        moves = [m for m in p.motions if m not in ("still", p.usual_motion[label])]
        motion = moves[rng.integers(len(moves))]
        spec = sample(rng, scene, [label], weak=0.0, fog=0.0, motions={label: motion})
        question, clip = ask.which_way(label), clip_of(spec)
        rows = []
        for n in range(1, FRAMES + 1):
            seen = np.minimum(np.arange(FRAMES), n - 1)
            part = replace(clip, frames=clip.frames[seen])
            rows.append(shares(lm, part, question, p.motions))
        best = [p.motions[int(np.argmax(row))] for row in rows]
        if best[-1] == motion != best[0]:
            encoded = lm.encode(clip, question)
            return {
                "question": question,
                "truth": motion,
                "usual": p.usual_motion[label],
                "label": label,
                "words": list(p.motions),
                "rows": rows,
                "frames": [picture(f, 192) for f in clip.frames],
                "grid": list(encoded.token_grid),
                "groups": [list(map(int, g)) for g in encoded.groups],
                "size": list(encoded.frames.size),
                "tokens": question_tokens(lm, question),
                "vocabulary": int(lm.prefill(encoded, encoded.video[None]).logits.shape[-1]),
            }
    raise SystemExit(f"no clip for the first chapter in {tries} tries")


def question_tokens(lm: LocalLM, question: str) -> list[str]:
    """The question's tokens as text."""
    return [lm.token_text(t).strip() for t in lm.tokens(question)]


def fade_lesson(lm: LocalLM, rng: Rng, progress: Callable[[str], None] = print) -> dict[str, Any]:
    """p(yes) while one object of a pair fades out: with its companion, and alone.

    The curves are means over PAIRS clips, each drawn twice from one spec. The pictures are of the
    clip whose two curves end nearest to the ends of the mean curves.
    """
    p = priors()
    heads = list(p.partner)
    series, specs = [], []
    for i in range(PAIRS):
        head = heads[i % len(heads)]
        other = p.partner[head]
        scene = next(s for s in p.scenes if head in p.typical[s])
        spec = sample(rng, scene, [head, other], weak=0.0, fog=0.0)
        question = ask.exists(other)
        rows = [
            [
                shares(lm, clip_of(faded(spec, other, o, keep)), question, ("yes",))[0]
                for o in OPACITIES
            ]
            for keep in ((head, other), (other,))
        ]
        series.append(rows)
        specs.append((spec, head, other))
        progress(f"fade {i + 1} of {PAIRS}")
    curves = np.array(series)
    mean = curves.mean(0)
    spec, head, other = specs[int(np.abs(curves[:, :, -1] - mean[:, -1]).sum(1).argmin())]
    middle = FRAMES // 2

    def shown(keep: tuple[str, ...]) -> list[str]:
        clips = (clip_of(faded(spec, other, o, keep)) for o in OPACITIES)
        return [picture(clip.frames[middle]) for clip in clips]

    return {
        "opacities": list(OPACITIES),
        "clips": PAIRS,
        "together": [round(float(x), 4) for x in mean[0]],
        "alone": [round(float(x), 4) for x in mean[1]],
        "asked": other,
        "companion": head,
        "question": ask.exists(other),
        "pictures": {"together": shown((head, other)), "alone": shown((other,))},
    }


def faded(spec: ClipSpec, label: str, opacity: float, keep: tuple[str, ...]) -> ClipSpec:
    """The clip with only these objects, that one at this opacity; at 0 it is not there."""
    objects = tuple(
        replace(o, contrast=opacity) if o.label == label else o
        for o in spec.objects
        if o.label in keep and (o.label != label or opacity > 0)
    )
    return replace(spec, objects=objects)


def caption_lesson(lm: LocalLM, detector: Detector, rng: Rng, tries: int) -> dict[str, Any]:
    """Two captions of one clip, token by token.

    Kept is the first clip whose caption names something that is not there and which MACD's caption
    leaves out; else the first one with two captions that differ; else the last.
    """
    p, second, last = priors(), None, None
    for _ in range(tries):
        scene = p.scenes[rng.integers(len(p.scenes))]
        labels = sample_labels(scene, rng, "breaking", 2)
        spec = sample(rng, scene, labels, weak=0.6, contrast=(0.2, 0.5), fog=0.0)
        clip = clip_of(spec)
        trace = plain_trace(clip, ask.DESCRIBE, lm, detector)
        captions = {m: a.text for m, a in trace.answers.items()}
        last = trace, spec
        if captions["baseline"] != captions["macd"]:
            wrong = {m: _invented(text, spec) for m, text in captions.items()}
            if wrong["baseline"] and not wrong["macd"]:
                return _caption(trace, spec)
            second = second or last
    assert last is not None
    return _caption(*(second or last))


def _invented(text: str, spec: ClipSpec) -> list[str]:
    named = text.replace(",", " ").split()
    return [c for c in priors().classes if c in named and c not in spec.labels]


def _caption(trace: Trace, spec: ClipSpec) -> dict[str, Any]:
    return _clip_and_answers(trace) | {
        "truth": ask.caption(spec),
        "invented": {m: _invented(a.text, spec) for m, a in trace.answers.items()},
    }


DRAWS = (
    lesson_draws.draw_among_large,
    lesson_draws.draw_present_by_habit,
    lesson_draws.draw_partner,
    lesson_draws.draw_motion,
    lesson_draws.draw_background,
    lesson_draws.draw_animal,
    lesson_draws.draw_presupposed,
    lesson_draws.draw_present,
)
WANTED = {"right": 3, "wrong": 3, "same": 3}
"""Clips of the two quizzes by what MACD does to the answer; a third of each goes into the first."""


def outcome(baseline: bool, macd: bool) -> str:
    """What MACD does to an answer that is right or not.

    >>> outcome(False, True), outcome(True, False), outcome(True, True), outcome(False, False)
    ('right', 'wrong', 'same', 'same')
    """
    return {(False, True): "right", (True, False): "wrong"}.get((baseline, macd), "same")


def quiz_lesson(
    lm: LocalLM, detector: Detector, rng: Rng, tries: int, progress: Callable[[str], None] = print
) -> dict[str, Any]:
    """Clips whose answer MACD corrects, spoils or leaves as it is, in equal numbers if found.

    Kept is the first clip of a kind of question and an outcome, then the next ones of the outcome,
    so that the outcome cannot be read off the question.
    """
    kept: dict[str, list[dict[str, Any]]] = {name: [] for name in WANTED}
    for i in range(tries):
        case: Case = DRAWS[i % len(DRAWS)](rng)
        clip = clip_of(case.spec)
        trace = plain_trace(clip, case.question, lm, detector)
        texts = {m: a.text for m, a in trace.answers.items()}
        name = outcome(texts["baseline"] == case.truth, texts["macd"] == case.truth)
        if not trace.tracks:
            continue
        kinds = [z["draw"] for z in kept[name]]
        changed = texts["baseline"] != texts["macd"]
        if len(kinds) == WANTED[name] or kinds.count(i % len(DRAWS)) > i // (tries // 2):
            continue
        if changed != (name != "same"):  # a wrong answer that became another wrong one
            continue
        progress(f"quiz: try {i + 1}, {name}, {case.question} {texts}")
        kept[name].append(
            _clip_and_answers(trace)
            | drawn(case)
            | {"draw": i % len(DRAWS), "truth": case.truth, "outcome": name}
        )
        if all(len(kept[z]) == WANTED[z] for z in WANTED):
            break
    first = [items[0] for items in kept.values() if items]
    rest = [item for items in kept.values() for item in items[1:]]
    order = np.random.default_rng(SEED)
    return {
        "before": [first[i] for i in order.permutation(len(first))],
        "after": [rest[i] for i in order.permutation(len(rest))],
    }


def drawn(case: Case) -> dict[str, Any]:
    """The truth of a clip in a sentence, and in pictures in which every object is easy to see.

    drawn: as `make_examples.describe`; clear: the moments that a quiz shows, with every object
    opaque and sharp, and without fog.
    """
    objects = tuple(replace(o, contrast=1.0, blurred=False) for o in case.spec.objects)
    clear = clip_of(replace(case.spec, objects=objects, fogs=()))
    return {"drawn": describe(case), "clear": [picture(f) for f in clear.frames[1::2]]}


def _clip_and_answers(trace: Trace) -> dict[str, Any]:
    """What a quiz or a caption shows of a trace: every second frame of both views, and tokens."""
    macd = trace.answers["macd"]
    assert trace.model_frames is not None
    shown = macd.second_views[0].shown
    behind = trace.model_frames.pixels if shown is None else shown
    return {
        "question": trace.question,
        "frames": [picture(f) for f in trace.frames[1::2]],
        "behind": [picture(f) for f in behind[1::2]],
        "objects": [t.label for t in trace.tracks],
        "alpha": macd.alpha,
        "beta": macd.beta,
        "answers": {m: said(a) for m, a in trace.answers.items()},
    }


def said(answer: Answer) -> dict[str, Any]:
    """What a quiz or a caption shows of an answer: each token with the likeliest of both views."""
    tokens = []
    for step in answer.tokens:
        other = next(iter(step.others), step.base)
        best = [set(np.argsort(-row)[:KEPT_CANDIDATES].tolist()) for row in (step.base, other)]
        keep = sorted(best[0] | best[1], key=lambda i: -step.base[i])
        tokens.append({
            "text": step.text,
            "texts": [step.texts[i] for i in keep],
            "base": _rounded(step.base[keep]),
            "counter": _rounded(other[keep]) if step.others else None,
        })  # fmt: skip
    return {"text": answer.text, "tokens": tokens}


def _rounded(values: Any, digits: int = 4) -> list[float]:
    return [round(float(x), digits) for x in values]


def habits() -> dict[str, Any]:
    """What of priors.toml the lessons name."""
    p = priors()
    return {
        "partner": dict(p.partner),
        "p_partner": p.p_partner,
        "p_motion": p.p_motion,
        "p_yes": p.p_yes,
        "emoji": dict(p.emoji),
        "usual_motion": dict(p.usual_motion),
        "typical": {s: list(names) for s, names in p.typical.items()},
        "phrase": dict(p.phrase),
        "classes": len(p.classes),
        "scenes": len(p.scenes),
    }


def write(name: str, content: dict[str, Any], folder: Path = OUT) -> None:
    """One file, as small as JSON can be."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    print(f"{name}: {len(text) / 1000:.0f} kB", flush=True)


PARTS = {"habits": 0, "frames": 1, "fade": 2, "caption": 4, "quiz": 5}
"""What is computed → the number of its seed, so that one part can be made again alone."""


def main() -> None:
    """Command line."""
    need_checkout("toyworld.make_lessons")
    parser = command_line("toyworld.make_lessons", __doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--tries", type=int, default=240, help="clips drawn for the quiz")
    args = parser.parse_args()
    lm, detector = load_backbone("toyworld", "cpu"), load_detector("toyworld")
    parts: dict[str, Callable[[Rng], dict[str, Any]]] = {
        "habits": lambda rng: habits(),
        "frames": lambda rng: frames_lesson(lm, rng),
        "fade": lambda rng: fade_lesson(lm, rng),
        "caption": lambda rng: caption_lesson(lm, detector, rng, args.tries // 4),
        "quiz": lambda rng: quiz_lesson(lm, detector, rng, args.tries),
    }
    for name in args.only:
        write(name, parts[name](np.random.default_rng([SEED, PARTS[name]])))


if __name__ == "__main__":
    main()
