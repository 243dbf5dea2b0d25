"""Runs whose answers a rule invents, written by the real code: reports and protocols to compare.

What a run is computed from decides which answers are wrong, so that every cause moves the figure by
a known amount.
"""

import hashlib
import json
from dataclasses import replace
from types import SimpleNamespace

from macd_studio.core.options import RunOptions
from macd_studio.evals.benchmarks.questions import Questions
from macd_studio.evals.protocol import record
from macd_studio.evals.protocol.bounds import NAME_OF_FILE
from macd_studio.evals.running.rows import Row, Setting
from macd_studio.evals.scoring.report import make_report

N = 120
SAYS = ("{}", "It is {}.", "I think {}", "{} or not", "Yes and no")
MODEL = {
    "name": "a model", "family": "f", "revision": "", "weights": "sampled:1", "adapter": "",
    "quantised": "", "dtype": "float32", "device": "cpu", "device_name": "", "processor": "p1",
    "tokenizer": "t1", "template": "c1", "generation": "g1", "config": "k1",
    "versions": {"python": "3.11", "torch": "2.11.0", "transformers": "5.23.0"},
}  # fmt: skip
USUAL = 8, None, True, "float32", "p1", "5.23.0", 1.0, 0, "greedy"
"""Frames, size, prompts, dtype, processor, version, α, seed and search of the plain run."""
HOW = {
    "frames": {"frames": 4}, "size": {"side": 280}, "template": {"published": False},
    "dtype": {"model": {"dtype": "bfloat16"}}, "processor": {"model": {"processor": "p2"}},
    "versions": {"model": {"versions": MODEL["versions"] | {"transformers": "5.17.0"}}},
    "α and β": {"alpha": 2.0}, "seed": {"seed": 1}, "search": {"search": "sample"},
    "parser": {"rule": "strict"}, "denominator": {"over": "answered"},
    "annotation": {"flipped": True},
}  # fmt: skip
"""Cause → how a run is asked for that differs by it alone."""


def joined(*names):
    """What runs are asked for that differ by all of these."""
    how = {}
    for name in names:
        own = HOW[name]
        how |= {k: ({**how.get(k, {}), **v} if isinstance(v, dict) else v) for k, v in own.items()}
    return how


def chance(*parts):
    """A number in [0, 1) that is always the same for the same parts."""
    return int(hashlib.sha256(repr(parts).encode()).hexdigest()[:8], 16) / 2**32


def questions(folder, flipped, reworded=False, clip="c"):
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(N // 2):
        (folder / f"{i}.mp4").write_text(clip)
    rows = []
    for i in range(N):
        truth = i % 2 == 0
        if flipped and chance("flip", i) < 0.2:
            truth = not truth
        asked = f"Is that {i}?" if reworded else f"Is it {i}?"
        rows.append({"video": f"{i // 2}.mp4", "question": asked, "id": str(i),
                     "answer": "yes" if truth else "no"})  # fmt: skip
    (folder / "questions.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))


def said(k, method, of_all, of_macd=USUAL[6:], of_files=("c", "cpu", False)):
    """The answer to question k. Each thing that is not usual spoils questions of its own.

    of_all, of_macd: as USUAL has them; of_files: clip, device, and whether questions are reworded.
    """
    drawn = of_all if method == "baseline" else (*of_all, *of_macd)
    unusual = [j for j, (v, usual) in enumerate(zip(drawn, USUAL, strict=False)) if v != usual]
    files = zip(("clip", "device", "words"), of_files, ("c", "cpu", False), strict=True)
    unusual += [name for name, v, usual in files if v != usual]
    wrong = chance(k) < 0.2 or any(chance("wrong", j, k) < 0.15 for j in unusual)
    truth = "yes" if k % 2 == 0 else "no"
    answer = {"yes": "no", "no": "yes"}[truth] if wrong else truth
    words = SAYS[int(len(SAYS) * chance("words", k))]
    return words.format(answer) if chance("odd", k) < 0.4 else answer


def run(folder, frames=8, side=None, published=True, model=None, alpha=1.0, seed=0, search="greedy",
        rule=None, over="all", flipped=False, clip="c", reworded=False, code=None):  # fmt: skip
    """Writes report.json and protocol.json of such a run and returns the accuracy in percent."""
    data = folder / "data"
    questions(data, flipped, reworded, clip)
    options = RunOptions(seed=seed)
    options = replace(options, video=replace(options.video, frames=frames),
                      decode=replace(options.decode, search=search))  # fmt: skip
    setting = Setting("eventhallusion", options, "toyworld", data=str(data), side=side,
                      published=published, dtype=(model or {}).get("dtype", "auto"))  # fmt: skip
    own = Questions(data)
    asked = [replace(i, after=" Answer yes or no." if published else "") for i in own.everything]
    benchmark = SimpleNamespace(
        name="eventhallusion", cluster=own.cluster, group=own.group, regimes=own.regimes,
        official=own.official, check_sizes=lambda: [], files=own.files, everything=asked,
        fingerprint=own.fingerprint,
    )  # fmt: skip
    by = MODEL | (model or {})
    answers = {}
    for item in asked:
        k = int(item.id)
        version = by["versions"]["transformers"]
        of_all = frames, side, published, by["dtype"], by["processor"], version
        for method in ("baseline", "macd"):
            text = said(k, method, of_all, (alpha, seed, search), (clip, by["device"], reworded))
            given = {}
            if method == "baseline":
                source = hashlib.sha256(repr((frames, side, clip)).encode()).hexdigest()[:32]
                read = hashlib.sha256((source + by["processor"]).encode()).hexdigest()[:32]
                w = side or 320
                given = {"clip": clip, "frames": list(range(frames)), "by": by, "tokens": 9,
                         "times": [i / frames for i in range(frames)], "source": [w, w, source],
                         "read": [96, 96, read], "prompt": f"{k} {published}"}  # fmt: skip
            answers[item.id, method] = Row("k", item.id, method, text, given=given)
    report = make_report(benchmark, asked, answers, ["baseline", "macd"], rule, over)
    report |= {"contrasts": {"macd": [alpha, 0.1]}, "contrast_sources": {"macd": "given"}}
    report["setting"] = setting.as_dict()
    folder.joinpath("report.json").write_text(json.dumps(report))
    made = record.make_protocol(benchmark, setting, asked, answers, report)
    made["made_by"]["code"] = code or made["made_by"]["code"]
    folder.joinpath(NAME_OF_FILE).write_text(json.dumps(made))
    return report["scores"]["macd"]["accuracy"]
