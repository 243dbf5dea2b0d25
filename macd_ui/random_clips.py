"""Random draws: clips of the toy world that nobody chose, with their truth.

A seed decides scene, objects, question and answer, so that a draw can be repeated by its number.
"""

from __future__ import annotations

import secrets
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from macd_studio.toyworld.world import ClipSpec

MAX_SEED = 10**9
"""Seeds are whole numbers below this."""
COUNTED_TOO = "yes-bias"
"""The control that is counted beside baseline and MACD, on the questions it applies to."""


@dataclass(frozen=True)
class RandomClip:
    """A drawn clip on disk (video: its path), its question and the true answer.

    about: how it was chosen; "" for one that nobody chose.
    """

    seed: int
    video: str
    question: str
    truth: str
    about: str = ""

    @property
    def methods(self) -> tuple[str, ...]:
        """What is counted beside baseline and MACD."""
        return (COUNTED_TOO,) if self.truth in ("yes", "no") else ()


def fresh_seed() -> int:
    """A seed that nobody chose."""
    return secrets.randbelow(MAX_SEED)


def draw_clip(seed: int, folder: Path) -> RandomClip:
    """Draws a clip and writes it into a new folder in `folder`, as `draw-SEED.mp4`.

    The same seed gives the same clip, question and truth.
    """
    # imported with the first draw: drawing needs OpenCV and the benchmark's regimes
    from macd_studio.evals.benchmarks.toyworld_crossed import random_item

    world, item = random_item(seed)
    path = write_clip(world.spec(item.clip), folder, f"draw-{seed}")
    return RandomClip(seed, str(path), item.question, item.truth)


def write_clip(spec: ClipSpec, folder: Path, name: str) -> Path:
    """Draws a clip into a new folder in `folder`, as `NAME.mp4`."""
    from macd_studio.toyworld.clips import FPS, SECONDS, TITLE, write_frames
    from macd_studio.toyworld.scenes import MASTER
    from macd_studio.toyworld.world import frame_times, render

    frames = render(spec, frame_times(SECONDS * FPS), MASTER)
    # made now, and not before the frames are drawn: a server deletes empty folders of uploads
    path = Path(tempfile.mkdtemp(dir=folder)) / f"{name}.mp4"
    write_frames(frames, path, FPS, {"title": TITLE}, preset="veryfast")
    return path


def can_draw() -> bool:
    """Whether this installation can draw."""
    from importlib.util import find_spec

    return all(find_spec(name) for name in ("toyworld", "evals", "cv2"))
