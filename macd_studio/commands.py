"""How a command of the project is called from where this process runs: said here alone.

In a checkout `python -m core`; where the package is installed `macd`, and `python -m
macd_studio.evals` for what has no script. Texts name the form of a checkout; `here` turns it into
the one that exists.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from pathlib import Path

from macd_studio.parts import CODE, PACKAGE, ROOT, is_checkout

SCRIPTS = {"core": "macd", "macd_ui": "macd-studio"}
"""Package → the command that an installation makes for it."""
_PAGE = "python app.py"
_SAID = re.compile(
    rf"python app\.py|python\s+-m\s+((?:{'|'.join(CODE)})\b[\w.]*)|make browser-model"
)


def called(module: str) -> str:
    """The words that run a module: for "core" `python -m core`, `macd` or another form.

    >>> called("bench.report") if is_checkout() and Path.cwd() == ROOT else "python -m bench.report"
    'python -m bench.report'
    """
    script = SCRIPTS.get(module)
    if script and Path(sys.argv[0] if sys.argv else "").name == script:
        return script  # as it was called this time
    if _in_checkout():
        return _PAGE if module == "macd_ui" else f"python -m {module}"
    if script and (module == "macd_ui" or shutil.which(script)):
        return script
    return f"python -m {PACKAGE}" if module == "core" else f"python -m {PACKAGE}.{module}"


def here(text: str) -> str:
    """A text that names commands as a checkout has them, with the form that exists here."""
    if _in_checkout() and Path(sys.argv[0] if sys.argv else "").name not in SCRIPTS.values():
        return text

    def form(found: re.Match[str]) -> str:
        if found[0] == _PAGE:
            return called("macd_ui")
        if found[0].startswith("make"):
            return found[0] if _in_checkout() else called("macd_ui.engine")
        return called(found[1])

    return _SAID.sub(form, text)


def parser(module: str, about: str | None) -> argparse.ArgumentParser:
    """The parser of a module's command line. about: the module's description."""
    return _Parser(prog=called(module), description=about)


class _Parser(argparse.ArgumentParser):
    """Names commands in its help as they are called from here."""

    def format_help(self) -> str:
        """See `argparse.ArgumentParser`."""
        return here(super().format_help())


def pipe_closed() -> int:
    """What a command exits with where nobody reads its output any more, as in `… | head`: 0.

    What is left in the buffers cannot be written at the end of the process either: it goes nowhere.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    return 0


def need_checkout(module: str) -> None:
    """Ends with a sentence where a module runs that reads or writes what only a checkout has."""
    if not is_checkout():
        sys.exit(
            f"error: {called(module)} needs a checkout: it reads or writes files that are not"
            f" installed. Clone the project, and run `python -m {module}` in it."
        )


def _in_checkout() -> bool:
    """Whether this is a checkout, and its folder the current one."""
    try:
        return is_checkout() and Path.cwd() == ROOT
    except OSError:  # the current folder is gone
        return False
