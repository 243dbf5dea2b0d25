"""What differs between two runs, run again on some questions: each cause alone, all in order."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from macd_studio.core.errors import BenchmarkError, MacdError, OptionError
from macd_studio.core.methods import find_method
from macd_studio.core.options import RunOptions, options_from
from macd_studio.evals.benchmarks.layout import read_json
from macd_studio.evals.protocol import causes as cause
from macd_studio.evals.protocol.causes import ORDER, SEARCHES, differences
from macd_studio.evals.protocol.figure import Figure
from macd_studio.evals.protocol.given import FILES, folder_hashes
from macd_studio.evals.protocol.jobs import Job, Texts, answer, folder_of
from macd_studio.evals.running.rows import read_setting
from macd_studio.evals.running.run import DERIVED
from macd_studio.evals.statistics.intervals import Interval
from macd_studio.evals.statistics.stats import mean_difference

Say = Callable[[str], None]
ROLES = {
    cause.PROCESSOR: "processor",
    cause.TOKENIZER: "tokenizer",
    cause.TEMPLATE: "template",
    cause.GENERATION: "generation",
    cause.WEIGHTS: "weights",
}
"""Cause → the files of a model's folder that it exchanges."""
FRAMES = ("frames", "at", "start", "end")
LENGTHS = ("max_tokens", "max_thought")


def rerun(
    first: Figure, second: Figure, n: int, out: Path, data: Path | None, python: Path | None,
    say: Say,
) -> dict[str, Any]:  # fmt: skip
    """The shares by running again, as plain data; see `show`.

    n: questions at most. out: where rows are kept. data: where the questions of the first figure
    are now. python: the interpreter of the second's packages. Raises MacdError.
    """
    if not first.folder:
        raise OptionError(
            "--rerun answers again what a folder of ours answered", "Give such a folder as A"
        )
    if first.method in DERIVED or second.method in DERIVED:
        raise OptionError(
            f"the answers of {' and '.join(DERIVED)} follow from others", "Choose another --method"
        )
    start = _job(first, data)
    end = _job_of_second(first, second, start, python)
    order = [c for c in ORDER if switch(c, start, end) != start]
    ids = chosen(first, second, n)
    folder = out / "rerun"
    say(f"{len(ids)} questions, {2 * len(order) + 1} runs at most")

    def right(texts: Mapping[str, str | None]) -> np.ndarray:
        verdicts = [first.verdict(texts.get(i), first.items[i])[0] for i in ids]
        return np.array(verdicts, float)

    clusters = [first.clusters.get(i, i) for i in ids]

    def change(a: np.ndarray, b: np.ndarray) -> list[float]:
        found: Interval = mean_difference(a, b, clusters)
        return [100 * x for x in found]

    done: dict[Job, Texts] = {}

    def run(job: Job, what: str) -> Texts:
        if job not in done:
            say(f"answering: {what}")
            done[job] = answer(job, ids, folder)
        return done[job]

    base = run(start, "as before")
    stored = right(first.texts)
    begin, left = right(base), _left(first, second, ids, order)
    shares: list[dict[str, Any]] = []
    state, before = start, begin
    for name in order:
        try:
            alone = right(run(switch(name, start, end), f"{name} alone"))
            state = switch(name, state, end)
            after = right(run(state, f"{name} in order"))
        except MacdError as error:
            raise OptionError(f"{name} cannot be run again: {error.cause}", error.remedy) from None
        detail = described(name, start, end)
        shares.append({"cause": name, "detail": detail, "alone": change(begin, alone),
                       "in_order": change(before, after)})  # fmt: skip
        before = after
    total = 100 * float(before.mean() - begin.mean())
    if second.has_answers:
        rest: list[float | None] = [*change(before, right(second.texts))]
    else:
        assert second.stated is not None
        rest = [second.stated[0] - 100 * float(before.mean()), None, None]
    return {
        "n": len(ids),
        "order": order,
        "causes": shares,
        "interaction": total - sum(s["alone"][0] for s in shares),
        "repeated": sum((base.get(i) or "") == (first.texts.get(i) or "") for i in ids),
        "not_repeated": change(stored, begin),
        "rest": rest,
        "left": left,
    }


def chosen(first: Figure, second: Figure, n: int) -> list[str]:
    """n questions that both answer, spread over all of them, always the same ones."""
    both = [i for i in first.items if not second.has_answers or i in second.items]
    ranked = sorted(both, key=lambda i: hashlib.sha256(i.encode()).hexdigest())[:n]
    return [i for i in both if i in set(ranked)]


def _job(figure: Figure, data: Path | None) -> Job:
    report = read_json(Path(figure.folder) / "report.json")
    if "setting" not in report:
        raise BenchmarkError(
            "the report is of an older version, without its setting", "Run it again"
        )
    setting = read_setting(report["setting"])
    if data is not None:
        setting = replace(setting, data=str(data))
    contrast = report.get("contrasts", {}).get(figure.method)
    given = None if contrast is None else (float(contrast[0]), float(contrast[1]))
    return Job(replace(setting, options=replace(setting.options, lazy=False)), figure.method, given)


def _job_of_second(first: Figure, second: Figure, start: Job, python: Path | None) -> Job:
    """The second figure's job; of a printed one the first's, with what the row states."""
    end = _job(second, None) if second.folder else _stated(second, start)
    end = replace(end, setting=replace(end.setting, data=start.setting.data))
    if python is not None:
        end = replace(end, python=str(python))
    if not second.folder:
        return end
    folders = [folder_of(j.setting.backbone) for j in (start, end)]
    if folders[0] is None or folders[1] is None:
        return end
    own, other = (folder_hashes(str(f)) for f in folders)
    differ = {role for role in FILES if own[role] != other[role]}
    differ |= {"weights"} if "config" in differ or _weights(first) != _weights(second) else set()
    parts = tuple((role, str(folders[1])) for role in ROLES.values() if role in differ)
    return replace(end, setting=replace(end.setting, backbone=start.setting.backbone), parts=parts)


def _weights(figure: Figure) -> list[Any]:
    models = figure.protocol.models if figure.protocol else []
    return [m.get("weights") for m in models]


def _stated(second: Figure, start: Job) -> Job:
    """The first's job with what a printed row says of its own. Raises OptionError."""
    said, setting = second.said, start.setting
    video: dict[str, Any] = {}
    decode: dict[str, Any] = {}
    more: dict[str, Any] = {}
    kinds: dict[str, Callable[[str], Any]] = {
        "frames": int, "fps": float, "size": int, "seed": int, "max_tokens": int,
        "temperature": float, "alpha": float, "beta": float,
    }  # fmt: skip
    try:
        values = {n: kinds.get(n, str)(v) for n, v in said.items()}
    except ValueError:
        raise OptionError("the printed row holds a value that is no number", "Mend it") from None
    video |= {n: values[n] for n in ("frames", "fit") if n in values}
    decode |= {n: values[n] for n in ("search", "temperature", "max_tokens") if n in values}
    if "seed" in values:
        decode["seed"] = more["seed"] = values["seed"]
    options = options_from({**_plain(setting.options), **more,
                            "video": {**_plain(setting.options.video), **video},
                            "decode": {**_plain(setting.options.decode), **decode}})  # fmt: skip
    changed = {"fps": "fps", "size": "side", "dtype": "dtype"}
    setting = replace(setting, options=options, **{f: values[n] for n, f in changed.items()
                                                   if n in values})  # fmt: skip
    if "prompts" in values:
        setting = replace(setting, published=values["prompts"] != "bare")
    contrast = start.contrast
    if contrast is not None:
        contrast = values.get("alpha", contrast[0]), values.get("beta", contrast[1])
    return replace(start, setting=read_setting(setting.as_dict()), contrast=contrast)


def _plain(value: Any) -> dict[str, Any]:
    return {f.name: getattr(value, f.name) for f in fields(value)}


def switch(name: str, job: Job, end: Job) -> Job:
    """The job with what belongs to one cause as the other has it; itself where that is the same."""
    own, other = job.setting, end.setting
    options, others = own.options, other.options
    if name == cause.FRAMES:
        video = replace(options.video, **{n: getattr(others.video, n) for n in FRAMES})
        own = replace(own, fps=other.fps, options=replace(options, video=video))
    elif name == cause.SIZE:
        own = replace(own, side=other.side)
    elif name == cause.FIT:
        video = replace(options.video, fit=others.video.fit)
        own = replace(own, options=replace(options, video=video))
    elif name == cause.DTYPE:
        own = replace(own, dtype=other.dtype)
    elif name == cause.QUANTISED:
        own = replace(own, held=other.held)
    elif name in (cause.SEARCH, cause.SEED, cause.GENERATION):
        own = replace(own, options=_decoding(name, options, others))
    elif name == cause.DETECTOR:
        own = replace(own, detector=other.detector, boxes=other.boxes, masks=other.masks)
    elif name == cause.OPTIONS:
        own = replace(own, options=_rest(options, others))
    elif name == cause.TEMPLATE:
        own = replace(own, published=other.published)
    elif name == cause.WEIGHTS and not end.parts:
        own = replace(own, backbone=other.backbone)
    job = replace(job, setting=own)
    if name in ROLES and ROLES[name] in dict(end.parts):
        parts = dict(job.parts) | {ROLES[name]: dict(end.parts)[ROLES[name]]}
        job = replace(job, parts=tuple(sorted(parts.items())))
    if name == cause.METHOD:
        job = replace(job, method=end.method)
    if name == cause.CONTRAST and find_method(job.method).second_views:
        job = replace(job, contrast=end.contrast)
    if name == cause.VERSIONS:
        job = replace(job, python=end.python)
    return job


def _decoding(name: str, own: RunOptions, other: RunOptions) -> RunOptions:
    if name == cause.SEED:
        decode = replace(own.decode, seed=other.decode.seed)
        mask = replace(own.mask, fill_seed=other.mask.fill_seed)
        return replace(own, seed=other.seed, decode=decode, mask=mask)
    names = SEARCHES if name == cause.SEARCH else LENGTHS
    return replace(own, decode=replace(own.decode, **{n: getattr(other.decode, n) for n in names}))


def _rest(own: RunOptions, other: RunOptions) -> RunOptions:
    """Every option that belongs to no cause of its own."""
    kept = {"video": own.video, "decode": own.decode, "seed": own.seed, "lazy": own.lazy}
    mask = replace(other.mask, fill_seed=own.mask.fill_seed)
    return replace(other, mask=mask, **kept)  # type: ignore[arg-type]


def described(name: str, start: Job, end: Job) -> str:
    """What a cause exchanges, in words: the first values that differ."""
    changed = switch(name, start, end)
    pairs = [*_pairs(start.setting.as_dict(), changed.setting.as_dict())]
    pairs += _pairs({"method": start.method, "α, β": start.contrast, "Python": start.python,
                     **dict(start.parts)},
                    {"method": changed.method, "α, β": changed.contrast, "Python": changed.python,
                     **dict(changed.parts)})  # fmt: skip
    return "; ".join(f"{n} {a} → {b}" for n, a, b in pairs[:3])


def _pairs(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    found: list[tuple[str, str, str]] = []
    for name in dict.fromkeys([*a, *b]):
        x, y = a.get(name), b.get(name)
        if isinstance(x, Mapping) and isinstance(y, Mapping):
            found += _pairs(x, y)
        elif x != y:
            found.append((name, _word(x), _word(y)))
    return found


def _word(value: Any) -> str:
    if value is None:
        return "–"
    text = Path(value).name if isinstance(value, str) and "/" in value else str(value)
    return text[:60]


def _left(first: Figure, second: Figure, ids: Sequence[str], order: Sequence[str]) -> list[str]:
    """What differs and cannot be run again here."""
    found = differences(first, second, [i for i in ids if i in second.items])
    named = {n for names in found.causes.values() for n in names}
    return [n for n in ORDER if n in named and n not in order]
