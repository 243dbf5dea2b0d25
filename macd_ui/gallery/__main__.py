"""`python -m macd_ui.gallery OUT TRACES…`: a static site of traces, for any host or no host.

Exit codes: 0 written, 2 bad input. What the site's maker should know goes to stderr.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from macd_studio.commands import parser as command_line
from macd_studio.core.text.words import count
from macd_studio.macd_ui.engine import built
from macd_studio.macd_ui.gallery.site import MAX_KB, Site, write_site
from macd_studio.macd_ui.sites import INDEX, exit_code


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the site; gives the exit code."""
    parser = command_line("macd_ui.gallery", __doc__)
    parser.add_argument("out", metavar="OUT", help="folder to be written: new, or a gallery")
    parser.add_argument(
        "traces", metavar="TRACES", nargs="+", help=".macd files or folders of them"
    )
    parser.add_argument(
        "--max-kb",
        type=_kilobytes,
        default=MAX_KB,
        metavar="KB",
        help="of a run's page; pictures are compressed to fit (default: %(default)s)",
    )
    given = parser.parse_args(arguments)

    def write() -> None:
        engine = built()
        site = Site([Path(p) for p in given.traces], given.max_kb, engine=engine)
        for note in write_site(site, Path(given.out)):
            print(f"note: {note}", file=sys.stderr)
        print(f"{count(len(site.runs), 'run')}: {Path(given.out) / INDEX}")

    return exit_code(write, "the gallery")


def _kilobytes(text: str) -> int:
    number = int(text)
    if not 20 <= number <= 100_000:
        raise argparse.ArgumentTypeError("choose 20 to 100000 kB")
    return number


if __name__ == "__main__":
    sys.exit(main())
