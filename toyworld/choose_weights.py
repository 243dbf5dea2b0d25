"""Says which training ships, by a fixed rule: `python -m toyworld.choose_weights FOLDER…`.

A training is a folder with the log of `toyworld.train_backbone`. Of those that reach every bar of
QUALITY on the log's last line, the one with the lowest smoothed loss at its last step ships.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from macd_studio.commands import parser as command_line
from macd_studio.core.errors import OptionError

Accuracy = dict[str, dict[str, float]]

QUALITY: Accuracy = {
    "consistent": dict.fromkeys(("present", "absent", "animal", "motion", "order"), 0.97),
    "breaking": {"present": 0.78, "absent": 0.78, "motion": 0.88, "order": 0.74},
}
"""Kind of clip → question → the least share of exactly right answers."""


@dataclass(frozen=True)
class Training:
    """One finished training: its last smoothed loss, and what it answers right."""

    folder: Path
    loss: float
    accuracy: Accuracy

    @property
    def missed(self) -> list[str]:
        """The bars it does not reach, in words."""
        return [
            f"{mode} {question} {self.accuracy[mode][question]:.1%} < {bar:.0%}"
            for mode, bars in QUALITY.items()
            for question, bar in bars.items()
            if self.accuracy[mode][question] < bar
        ]


def read_training(folder: Path) -> Training:
    """The training of a folder. Raises OptionError where its log has no finished training."""
    log = folder / "log.jsonl"
    rows = [json.loads(z) for z in log.read_text().splitlines()] if log.is_file() else []
    if not rows or rows[-1]["stage"] != "done":
        raise OptionError(f"no finished training is in {folder}", "Train on with the same command")
    losses = [r["total"] for r in rows if r["stage"] == "all" and "total" in r]
    return Training(folder, losses[-1], rows[-1]["accuracy"])


def choose(trainings: list[Training]) -> Training | None:
    """The one that ships; None where none reaches every bar."""
    good = [t for t in trainings if not t.missed]
    return min(good, key=lambda t: t.loss, default=None)


def main() -> None:
    """Command line."""
    parser = command_line("toyworld.choose_weights", __doc__)
    parser.add_argument("folders", type=Path, nargs="+")
    trainings = [read_training(f) for f in parser.parse_args().folders]
    for t in trainings:
        print(f"{t.folder}: loss {t.loss:.4f}; " + ("; ".join(t.missed) or "reaches every bar"))
    best = choose(trainings)
    print("none ships: the weights stay" if best is None else f"ships: {best.folder}")


if __name__ == "__main__":
    main()
