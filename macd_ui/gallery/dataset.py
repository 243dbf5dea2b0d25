"""`python -m macd_ui.gallery.dataset OWNER/NAME FOLDER`: a gallery that a dataset on the hub keeps.

For a Space without a bucket, whose disk does not last: the command commits the traces of a folder
to the dataset, and a server with `--gallery-dataset OWNER/NAME` fetches them when it starts. Exit
codes: 0 committed, 2 bad input or refused by the hub.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from macd_studio.commands import parser as command_line
from macd_studio.core.errors import MacdError, OptionError
from macd_studio.core.text.words import count, visible
from macd_studio.macd_ui.deploy import check_name
from macd_studio.macd_ui.gallery.site import Site
from macd_studio.macd_ui.sites import exit_code

PATTERNS = ["*.macd", "index.json"]
"""The files of a gallery; nothing else is committed or fetched."""


class DatasetError(MacdError):
    """The hub did not take or give the dataset."""


def push(dataset: str, folder: Path) -> int:
    """Commits the traces of a folder, each of which must be readable; gives how many there are.

    The dataset is made where there is none, and then private. A push that broke off can be made
    again: files that the hub has by then are not sent again. Raises DatasetError, OptionError.
    """
    from huggingface_hub import HfApi

    check_name(dataset, "dataset")
    site = Site([folder])
    runs = site.refresh()
    if site.problems:
        file, problem = next(iter(site.problems.items()))
        raise OptionError(f"{visible(file.name)[:100]} cannot be read ({problem})", "Leave it out")
    if not runs:
        raise OptionError(
            f"{visible(str(folder))[:200]} holds no traces", "Name a folder of .macd files"
        )
    try:
        api = HfApi()
        api.create_repo(dataset, repo_type="dataset", private=True, exist_ok=True)
        api.upload_folder(
            repo_id=dataset,
            repo_type="dataset",
            folder_path=folder,
            allow_patterns=PATTERNS,
            commit_message=f"Gallery of {count(len(runs), 'run')}",
        )
    except Exception as error:  # the client raises errors of many libraries
        raise DatasetError(
            f"the hub did not take the traces ({type(error).__name__})",
            "Log in with `hf auth login`, check the name, and run it again: it goes on",
        ) from error
    return len(runs)


def pull(dataset: str) -> Path:
    """The folder of a dataset's traces; what was fetched before is not fetched again.

    Where the hub cannot be asked it is what was fetched last. Raises DatasetError, OptionError.
    """
    from huggingface_hub import snapshot_download

    check_name(dataset, "dataset")
    try:
        return Path(snapshot_download(dataset, repo_type="dataset", allow_patterns=PATTERNS))
    except Exception as error:
        raise DatasetError(
            f"the gallery's dataset {dataset!r} cannot be fetched ({type(error).__name__})",
            "Check its name and the token HF_TOKEN, and start again",
        ) from error


def main(arguments: Sequence[str] | None = None) -> int:
    """Commits a folder; gives the exit code."""
    parser = command_line("macd_ui.gallery.dataset", __doc__)
    parser.add_argument("dataset", metavar="OWNER/NAME", help="of the dataset")
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="of .macd files")
    given = parser.parse_args(arguments)

    def commit() -> None:
        number = push(given.dataset, given.folder)
        print(f"{count(number, 'run')} in the dataset {given.dataset}")

    return exit_code(commit, "the dataset")


if __name__ == "__main__":
    sys.exit(main())
