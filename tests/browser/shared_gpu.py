"""The page as a Space with shared GPUs serves it, under the stand-in for `spaces`.

`python -m tests.browser.shared_gpu LOG`. Appends a line to LOG for each forked run or change: the
seconds that it declared.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SPACE = {"SPACES_ZERO_GPU": "true", "SPACE_ID": "owner/name", "SYSTEM": "spaces"}


def main(log: Path) -> None:
    """Serves until a signal comes."""
    os.environ |= SPACE
    from tests.zero_gpu import FakeSpaces

    class Logged(FakeSpaces):
        def _stream(self, task: Any, args: bytes, seconds: float) -> Iterator[Any]:
            with log.open("a") as file:
                file.write(f"{seconds:g}\n")
            yield from super()._stream(task, args, seconds)

    sys.modules["spaces"] = Logged().module()
    from macd_studio.macd_ui.serving.server import main as serve

    serve(["--host", "127.0.0.1"])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
