"""Whether models' folders still hold what runs were computed from, by the hashes of these runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from macd_studio.core.checkpoint.adapter import find_adapter
from macd_studio.core.checkpoint.files import WHOLE, weight_files, weights_hash
from macd_studio.core.errors import BackboneCorrupt, MacdError
from macd_studio.evals.protocol.figure import Figure
from macd_studio.evals.running.given import DIGITS, FILES, folder_hashes

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
