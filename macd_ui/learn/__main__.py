"""`python -m macd_ui.learn OUT [--zip]`: the course as a static site, for any host or no host.

`python -m macd_ui.learn collect FOLDER [--picture FILE.svg] [--names]`: what a class predicted, see
`collect`.

index.html in OUT opens from disk; with --zip everything lies in OUT.zip too, to be handed out.
Exit codes: 0 written, 2 bad input.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from macd_studio.commands import parser as command_line
from macd_studio.macd_ui.engine import built
from macd_studio.macd_ui.learn import collect as collecting
from macd_studio.macd_ui.learn.picture import picture
from macd_studio.macd_ui.learn.site import Site, example_folders, write_site
from macd_studio.macd_ui.sites import INDEX, exit_code


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the course, or reports on a class; gives the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["collect"]:
        return _collect(given[1:])
    parser = command_line("macd_ui.learn", __doc__)
    parser.add_argument("out", metavar="OUT", help="folder to be written: new, or a course")
    parser.add_argument("--zip", action="store_true", help="write OUT.zip too")
    parser.add_argument("--language", default="en", help="of the texts (default: %(default)s)")
    parser.add_argument("--home", default="", metavar="URL", help="a main page to link to")
    parser.add_argument(
        "--examples",
        action="append",
        default=[],
        metavar="FOLDER",
        help="examples that fit a role by their kind, before those of MACD_EXAMPLES_DIR",
    )
    options = parser.parse_args(given)
    out = Path(options.out)

    def write() -> None:
        folders = example_folders(options.examples)
        site = Site(options.language, options.home, folders, built())
        size = write_site(site, out)
        if options.zip:
            shutil.make_archive(str(out), "zip", out.parent, out.name)
        print(f"{size / 1e6:.1f} MB: {out / INDEX}")

    return exit_code(write, "the course")


def _collect(arguments: Sequence[str]) -> int:
    parser = command_line("macd_ui.learn collect", collecting.__doc__)
    parser.add_argument("folder", metavar="FOLDER", help="with the files that readers saved")
    parser.add_argument("--language", default="en", help="of the texts (default: %(default)s)")
    parser.add_argument(
        "--examples", action="append", default=[], metavar="FOLDER", help="as the course had them"
    )
    parser.add_argument(
        "--picture", type=Path, metavar="FILE.svg", help="draw the predictions of the class too"
    )
    parser.add_argument(
        "--names", action="store_true",
        help="with a table of the names that pupils typed: for you, not for the class",
    )  # fmt: skip
    options = parser.parse_args(arguments)

    def tell() -> None:
        site = Site(options.language, folders=example_folders(options.examples))
        chapters = site.chapters()
        found = collecting.collect(Path(options.folder), site.edition(), site.questions())
        if options.picture is not None:
            options.picture.write_text(picture(found, chapters), encoding="utf-8")
        print(collecting.report(found, chapters, site.tasks()), end="")
        if options.names:
            print(f"\n{collecting.names(found)}", end="")

    return exit_code(tell, "the picture")


if __name__ == "__main__":
    sys.exit(main())
