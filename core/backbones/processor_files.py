"""The processor of a model's folder, or what of it is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import (
    AutoImageProcessor,
    AutoProcessor,
    AutoTokenizer,
    AutoVideoProcessor,
)

from macd_studio.core.backbones.prompt import check_template, media_part
from macd_studio.core.errors import (
    UnsupportedBackbone,
)


def read_processor(folder: str, name: str) -> Any:
    """The processor of a folder. Raises UnsupportedBackbone, with what of it is missing."""
    safe: dict[str, Any] = {"trust_remote_code": False, "local_files_only": True}
    try:
        processor = AutoProcessor.from_pretrained(folder, **safe)
    except (OSError, ValueError) as error:
        readers = {
            "tokenizer": AutoTokenizer,
            "part for pictures": AutoImageProcessor,
            "part for video": AutoVideoProcessor,
        }
        missing = [part for part, reader in readers.items() if not _reads(reader, folder, safe)]
        if not missing:
            raise
        raise UnsupportedBackbone(
            f"the processor of {name!r} has no {' and no '.join(missing)}",
            ("Complete its folder" if Path(name).is_dir() else "Choose another, or complete a copy")
            + " with the tokenizer's files, processor_config.json, preprocessor_config.json and"
            " video_preprocessor_config.json, as far as it has them",
        ) from error
    pictures = getattr(processor, "image_processor", None)
    if getattr(pictures, "backend", "torchvision") != "torchvision":
        # PIL would round pictures, and has no gradient; before 5.18 the whole processor hands the
        # choice to its part for videos, too, which has none
        fast = AutoImageProcessor.from_pretrained(folder, backend="torchvision", **safe)
        processor.image_processor = fast
    media_part(processor, name)
    check_template(processor)
    return processor


def _reads(reader: Any, folder: str, safe: dict[str, Any]) -> bool:
    try:
        reader.from_pretrained(folder, **safe)
    except (OSError, ValueError):
        return False
    return True
