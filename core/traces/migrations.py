"""Files of older schemas → the present one, one named step per version, in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from macd_studio.core.errors import TraceError
from macd_studio.core.media.webp import LOSSLESS_PIXELS, picture_size
from macd_studio.core.traces.archive import DAMAGED
from macd_studio.core.traces.container import Pictures
from macd_studio.core.traces.format import SCHEMA, Arrays

Step = Callable[[dict[str, Any], Arrays, Pictures], None]


def model_frames_apart(manifest: dict[str, Any], arrays: Arrays, pictures: Pictures) -> None:
    """1 → 2. Schema 1 held the model's frames alone, without loss where they are small."""
    height, width = picture_size(pictures["frames"][0])
    manifest["model"] = None
    if height * width <= LOSSLESS_PIXELS:
        manifest["model"] = {
            "content": [0, 0, width, height],
            "stretch": 1.0,
            "duration": manifest["clip"].get("duration", 0.0),
        }
        pictures["model"] = pictures["frames"]
    for answer in manifest["answers"]:
        answer["total_ms"] = answer["ms"]


def rules_by_name(manifest: dict[str, Any], arrays: Arrays, pictures: Pictures) -> None:
    """2 → 3. Schema 2 knew the linear rule only, and called a view's caption `said`."""
    manifest["skipped"] = {}
    for answer in manifest["answers"]:
        answer["rule"] = "linear"
        view = answer["view"]
        if "said" in view:
            view["caption"] = view.pop("said")
        view.setdefault("kind", "none")


def occlusion_report(manifest: dict[str, Any], arrays: Arrays, pictures: Pictures) -> None:
    """3 → 4. Up to schema 3 the occlusion report was called `ledger`."""
    manifest["occlusion"] = manifest.pop("ledger", None)
    for name in [name for name in arrays if name.startswith("ledger_")]:
        arrays[name.replace("ledger_", "occlusion_", 1)] = arrays.pop(name)


def fields_by_name(manifest: dict[str, Any], arrays: Arrays, pictures: Pictures) -> None:
    """4 → 5. Up to schema 4 an answer's first second view stood apart from those after it.

    And some parts had names of their own.
    """
    manifest["model_frames"] = manifest.pop("model")
    losses, occlusion = manifest.pop("losses"), manifest.get("occlusion")
    manifest["counterfactual"] = losses and dict(zip(("base_loss", "loss"), losses, strict=True))
    if occlusion is not None:
        manifest["occlusion"] = dict(zip(("correlation", "verdict"), occlusion, strict=True))
    for name in [name for name in arrays if name.startswith("evidence")]:
        arrays[f"{name}_values"] = arrays.pop(name)
    for i, answer in enumerate(manifest["answers"]):
        first = {"view": answer.pop("view"), "shown": answer.pop("shown", False)}
        views = [first, *answer.pop("further", [])] if answer.pop("two_views") else []
        answer["second_views"] = [{"shown": False} | view for view in views]
        names = {"counter": "other0"} | {f"further{j}": f"other{j + 1}" for j in range(len(views))}
        for old, new in names.items():
            for end in ("", "_log_z"):
                if (values := arrays.pop(f"answer{i}_{old}{end}", None)) is not None:
                    arrays[f"answer{i}_{new}{end}"] = values
        for j in range(len(views)):
            if (frames := pictures.pop(f"shown{100 * j + i}", None)) is not None:
                pictures[f"shown{i}_{j}"] = frames
        weights = arrays.get(f"answer{i}_weights")
        if weights is not None and weights.shape[1:] == (3,):
            further = arrays.pop(f"answer{i}_further_weights", weights[:, :0])
            columns = (
                weights[:, :1],
                weights[:, 1 : 1 + min(1, len(views))],
                further,
                weights[:, 2:],
            )
            arrays[f"answer{i}_weights"] = np.concatenate(columns, axis=1)


MIGRATIONS: dict[int, Step] = {
    1: model_frames_apart,
    2: rules_by_name,
    3: occlusion_report,
    4: fields_by_name,
}
"""What brings a manifest of each schema to the next one."""


def migrate(manifest: dict[str, Any], arrays: Arrays, pictures: Pictures) -> None:
    """Brings a file's parts to the present schema, in place. Raises TraceError for no schema."""
    while manifest["schema"] != SCHEMA:
        step = MIGRATIONS.get(manifest["schema"])
        if step is None:
            raise TraceError("the trace is of an unknown schema", DAMAGED)
        step(manifest, arrays, pictures)
        manifest["schema"] += 1
