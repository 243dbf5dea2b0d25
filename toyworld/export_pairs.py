"""The drawn world in the layouts of benchmarks of pairs: the same scene, of which another is true.

A pair is drawn twice: with an object, and without it or with another one in its place. Everything
else is the same to the last pixel.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

from macd_studio.toyworld import questions as ask
from macd_studio.toyworld.export_files import (
    Json,
    Rng,
    Writer,
    absent_from,
    clear_spec,
    clip_rng,
    moving_question,
    one_of,
    wrong_motion,
)
from macd_studio.toyworld.world import ClipSpec, ObjectSpec

LETTERS = "ABCD"


def without(spec: ClipSpec, label: str) -> ClipSpec:
    """The same clip without the object of a class."""
    return replace(spec, objects=tuple(o for o in spec.objects if o.label != label))


def instead(spec: ClipSpec, label: str, other: str) -> ClipSpec:
    """The same clip with an object of another class at its place, moving alike."""

    def swapped(o: ObjectSpec) -> ObjectSpec:
        return replace(o, label=other) if o.label == label else o

    return replace(spec, objects=tuple(map(swapped, spec.objects)))


def pairs(part: int, n: int, remove: bool) -> Iterator[tuple[Rng, ClipSpec, ClipSpec, str, str]]:
    """n pairs: draws, clip, partner, the class that changes, and what stands there instead.

    remove: whether nothing stands there; the last is then a class that neither clip shows.
    """
    for i in range(n):
        rng = clip_rng(6, part, i)
        spec = clear_spec(rng)
        label = one_of(rng, spec.labels)
        other = absent_from(rng, spec)[0]
        partner = without(spec, label) if remove else instead(spec, label, other)
        yield rng, spec, partner, label, other


def _videohallucer(out: Writer, n: int) -> None:
    """Objects of one clip, and one question about two clips."""
    same: list[Json] = []
    for i, (_, spec, _, label, other) in enumerate(pairs(0, n, remove=True)):
        out.video(f"object_relation/videos/{i:03d}.mp4", spec)
        same.append({
            "basic": {"video": f"{i:03d}.mp4", "question": ask.exists(label), "answer": "yes"},
            "hallucination": {"video": f"{i:03d}.mp4", "question": ask.exists(other),
                              "answer": "no"},
            "type": "object",
        })  # fmt: skip
    out.json("object_relation/object_relation.json", same)
    two: list[Json] = []
    for i, (_, spec, partner, label, _) in enumerate(pairs(1, n, remove=True)):
        for name, drawn in ((f"{i:03d}_a.mp4", spec), (f"{i:03d}_b.mp4", partner)):
            out.video(f"semantic_detail/videos/{name}", drawn)
        question = ask.exists(label)
        two.append({
            "basic": {"video": f"{i:03d}_a.mp4", "question": question, "answer": "yes"},
            "hallucination": {"video": f"{i:03d}_b.mp4", "question": question, "answer": "no"},
            "type": "semantic_detail",
        })  # fmt: skip
    out.json("semantic_detail/semantic_detail.json", two)


def _vidhalluc(out: Writer, n: int) -> None:
    """What each clip of a pair shows, in yes/no and with several right letters; one order."""
    binary: dict[str, Json] = {}
    choice: dict[str, Json] = {}
    order: dict[str, Json] = {}
    for i, (rng, spec, partner, label, other) in enumerate(pairs(2, n, remove=False)):
        clips = {f"pair{i}_clip_1": spec, f"pair{i}_clip_2": partner}
        for name, drawn in clips.items():
            out.video(f"data/ACH/{name}.mp4", drawn)
        binary[str(i)] = [{
            "q": ask.exists(z),
            "a": {name: "Yes" if z in drawn.labels else "No" for name, drawn in clips.items()},
        } for z in (label, other)]  # fmt: skip
        kinds = [label, other, *absent_from(rng, spec, 3)[1:2], *spec.labels]
        kinds = list(dict.fromkeys(kinds))[:4]
        choice[str(i)] = {
            name: {
                "Question": ask.DESCRIBE,
                "Choices": dict(zip(LETTERS, kinds, strict=False)),
                "Correct Answer": "".join(z for z, k in zip(LETTERS, kinds, strict=False)
                                          if k in drawn.labels),
            }
            for name, drawn in clips.items()
        }  # fmt: skip
        late = clear_spec(clip_rng(6, 3, i), 2, late=1.0)
        first, second = sorted(late.objects, key=lambda o: o.appears)[:2]
        out.video(f"data/TSH/order{i}.mp4", late)
        turned = i % 2 == 1
        named = (second, first) if turned else (first, second)
        order[str(i)] = {
            "video": f"order{i}",
            "Question": f"Action A: {ask.with_article(named[0].label)} appears. Action B:"
                        f" {ask.with_article(named[1].label)} appears. ",
            "Correct Answer": "BA" if turned else "AB",
        }  # fmt: skip
    out.json("ach_binaryqa.json", binary)
    out.json("ach_mcq.json", choice)
    out.json("tsh.json", order)


def _vidpair_halluc(out: Writer, n: int) -> None:
    """Pairs with another object at the same place, or another motion of the same one."""
    rows: dict[str, list[Json]] = {"binary": [], "multiple_choice": []}
    listed: list[Json] = []
    for i, (rng, spec, partner, label, other) in enumerate(pairs(4, n, remove=False)):
        aspect = ("object", "action")[i % 2]
        asked = [ask.exists(label), ask.exists(other)]
        if aspect == "action":
            turned = wrong_motion(rng, spec, label)
            moved = (replace(o, motion=turned) if o.label == label else o for o in spec.objects)
            partner = replace(spec, objects=tuple(moved))
            asked = [ask.moves(label, m) for m in (spec.find(label).motion, turned)]
        pair = f"{aspect}_{i:04d}"
        names = [f"{pair}/R_{pair}_{k}.mp4" for k in range(2)]
        first, second = (f"VidPair-Halluc/{name}" for name in names)
        listed.append({"pair_id": pair, "positive_video": first, "adversarial_video": second,
                       "aspect": aspect})  # fmt: skip
        question, _, options = moving_question(rng, spec)
        for k, (name, drawn) in enumerate(zip(names, (spec, partner), strict=True)):
            out.video(f"VidPair-Halluc/{name}", drawn)
            for j, words in enumerate(asked):
                rows["binary"].append({
                    "qa_id": f"{pair}-b{k}{j}", "id": pair, "aspect": aspect,
                    "repo_video_path": f"VidPair-Halluc/{name}", "question": words,
                    "answer": "yes" if j == k else "no"})  # fmt: skip
            if aspect == "object":
                kinds = [label, other, *absent_from(rng, spec, 4)[1:3]]
                question, answer = ask.DESCRIBE, (label, other)[k]
            else:
                kinds = list(dict.fromkeys([spec.find(label).motion, turned, *options]))[:4]
                question, answer = ask.which_way(label), drawn.find(label).motion
            rows["multiple_choice"].append({
                "qa_id": f"{pair}-m{k}", "id": pair, "aspect": aspect,
                "repo_video_path": f"VidPair-Halluc/{name}", "question": question,
                "choices_json": json.dumps(dict(zip(LETTERS, kinds, strict=True))),
                "answer": LETTERS[kinds.index(answer)]})  # fmt: skip
    for split, records in rows.items():
        out.lines(f"qa/hf/{split}.jsonl", records)
    out.json("pairs/pairs.json", listed)


PAIR_FORMATS: dict[str, Callable[[Writer, int], None]] = {
    "videohallucer": _videohallucer,
    "vidhalluc": _vidhalluc,
    "vidpair-halluc": _vidpair_halluc,
}
