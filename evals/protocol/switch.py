"""How two figures were answered, as jobs, and the first of them with one cause of the other.

Models' folders are held against the hashes that the runs recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from macd_studio.core.checkpoint.adapter import find_adapter
from macd_studio.core.checkpoint.files import WHOLE, weight_files, weights_hash
from macd_studio.core.errors import BackboneCorrupt, BenchmarkError, MacdError, OptionError
from macd_studio.core.methods import find_method
from macd_studio.core.options import RunOptions, options_from
from macd_studio.evals.benchmarks.layout import read_json
from macd_studio.evals.protocol import causes as cause
from macd_studio.evals.protocol.causes import SEARCHES
from macd_studio.evals.protocol.figure import Figure
from macd_studio.evals.protocol.jobs import DEVICES, USUAL_CONTRAST, Job, folder_of, has_device
from macd_studio.evals.running.given import DIGITS, FILES, folder_hashes
from macd_studio.evals.running.rows import Setting, read_setting

WEIGHTS = "weights"


def models_of(figure: Figure) -> Sequence[dict[str, Any]]:
    """Who answered, as the run recorded it; [] without a protocol."""
    return figure.protocol.models if figure.protocol else []


def changed(figure: Figure, folder: Path) -> set[str]:
    """The roles of a model's files (see `jobs.role_of`) that the folder holds otherwise now.

    A model's configuration belongs to its weights. A role without a recorded hash counts as
    changed, as nothing tells that it is the same.
    """
    models = models_of(figure)
    if not models:
        return {*FILES, WEIGHTS} - {"config"}
    now = folder_hashes(str(folder))
    lost = {role for role in FILES if any(m.get(role) != now[role] for m in models)}
    if not all(_same_weights(m, folder) for m in models):
        lost.add(WEIGHTS)
    return {WEIGHTS if role == "config" else role for role in lost}


def _same_weights(model: Mapping[str, Any], folder: Path) -> bool:
    recorded = str(model.get("weights") or "")
    try:
        now = weights_hash(weight_files(folder), whole=recorded.startswith(f"{WHOLE}:"))
        found = find_adapter(folder, folder.name, BackboneCorrupt)
        adapter = found.described(folder.name).sha256[:DIGITS] if found else ""
    except (MacdError, OSError, ValueError):
        return False
    return bool(recorded) and (recorded, model.get("adapter") or "") == (now, adapter)


ROLES = {
    cause.PROCESSOR: "processor",
    cause.TOKENIZER: "tokenizer",
    cause.TEMPLATE: "template",
    cause.GENERATION: "generation",
    cause.WEIGHTS: WEIGHTS,
}
"""Cause → the files of a model's folder that it exchanges."""
PROMPTS = ("published", "bare")
FRAMES = ("frames", "at", "start", "end")
LENGTHS = ("max_tokens", "max_thought")


def job_of(figure: Figure, data: Path | None) -> Job:
    """How a folder of ours was answered, on its device where this machine has that.

    data: where its questions and videos are now. Raises BenchmarkError and OptionError.
    """
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
    setting = replace(setting, options=replace(setting.options, lazy=False))
    device = device_of(figure)
    return Job(setting, figure.method, given, device=device if has_device(device) else "")


def device_of(figure: Figure) -> str:
    """On which kind of device a figure was answered: of DEVICES, "" where that is not known."""
    models = models_of(figure)
    device = str(models[0].get("device", "")) if models else figure.said.get("device", "")
    kind = device.partition(":")[0]
    return kind if kind in DEVICES else ""


def job_of_second(
    first: Figure, second: Figure, start: Job, python: Path | None, second_data: Path | None = None
) -> Job:
    """The second figure's job; of a printed one the first's, with what the row states.

    Its folder of questions and videos is the first's where it is not here any more.
    """
    end = job_of(second, second_data) if second.folder else _stated(second, start)
    if not Path(end.setting.data).is_dir():
        end = replace(end, setting=replace(end.setting, data=start.setting.data))
    device = device_of(second)
    end = replace(end, device=device if has_device(device) else start.device)
    if python is not None:
        end = replace(end, python=str(python))
    if not second.folder:
        return end
    folders = [folder_of(j.setting.backbone) for j in (start, end)]
    lost = lost_roles(first, second)
    kept = replace(end, setting=replace(end.setting, backbone=start.setting.backbone))
    if folders[0] is None or folders[1] is None:
        return kept if lost else end
    own, other = (folder_hashes(str(f)) for f in folders)
    differ = {role for role in FILES if own[role] != other[role]}
    differ |= {WEIGHTS} if "config" in differ or _weights(first) != _weights(second) else set()
    parts = [(r, str(folders[1])) for r in ROLES.values() if r in differ and r not in lost]
    return replace(kept, parts=tuple(parts))


def _weights(figure: Figure) -> list[tuple[Any, Any]]:
    return [(m.get("weights"), m.get("adapter")) for m in models_of(figure)]


def lost_roles(first: Figure, second: Figure) -> dict[str, str]:
    """Roles of files that a model's folder does not hold as a run recorded them → the reason.

    What is exchanged would not be what the two figures differ by.
    """
    lost: dict[str, str] = {}
    for whose, figure in (("first", first), ("second", second)):
        folder = folder_of(job_of(figure, None).setting.backbone) if figure.folder else None
        for role in changed(figure, folder) if folder else ():
            lost.setdefault(role, f"the {whose}'s folder does not hold what the run recorded")
    return lost


def _stated(second: Figure, start: Job) -> Job:
    """The first's job with what a printed row says of its own. Raises OptionError."""
    said, setting = worded(second.said), start.setting
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
    if values.get("prompts") in PROMPTS:
        setting = replace(setting, published=values["prompts"] == PROMPTS[0])
    contrast = start.contrast
    if {"alpha", "beta"} & set(values) and find_method(start.method).second_views:
        alpha, beta = contrast or USUAL_CONTRAST
        contrast = values.get("alpha", alpha), values.get("beta", beta)
    return replace(start, setting=read_setting(setting.as_dict()), contrast=contrast)


def worded(said: Mapping[str, str]) -> Mapping[str, str]:
    """What a row states, in this project's words: others write temperature 0 for greedy search."""
    if said.get("temperature") not in ("0", "0.0"):
        return said
    return {"search": "greedy"} | {n: v for n, v in said.items() if n != "temperature"}


def _plain(value: Any) -> dict[str, Any]:
    return {f.name: getattr(value, f.name) for f in fields(value)}


def switch(name: str, job: Job, end: Job) -> Job:
    """The job with what belongs to one cause as the other has it; itself where that is the same."""
    own, other = job.setting, end.setting
    options, others = own.options, other.options
    if name == cause.ANNOTATION:
        own = _files(own, other.data, own.clips or own.data)
    elif name == cause.CLIP:
        own = _files(own, own.data, other.clips or other.data)
    elif name == cause.FRAMES:
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
    if name == cause.DEVICE:
        job = replace(job, device=end.device)
    return job


def _files(setting: Setting, data: str, clips: str) -> Setting:
    """With the questions of one folder about the videos of another, or of the same."""
    return replace(setting, data=data, clips="" if clips == data else clips)


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
    pairs = [*_pairs(_said(start), _said(changed))]
    return "; ".join(f"{n} {a} → {b}" for n, a, b in pairs[:3])


def _said(job: Job) -> dict[str, Any]:
    """A job in the words of the command line."""
    setting = job.setting.as_dict()
    prompts = "published" if setting.pop("published") else "bare"
    alpha, beta = job.contrast or (None, None)
    more = {"prompts": prompts, "frame size": setting.pop("side"), "α": alpha, "β": beta,
            "method": job.method, "Python": job.python, "device": job.device}  # fmt: skip
    return setting | more | dict(job.parts)


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
    if isinstance(value, float):
        return f"{value:g}"
    text = Path(value).name if isinstance(value, str) and "/" in value else str(value)
    return text[:60]
