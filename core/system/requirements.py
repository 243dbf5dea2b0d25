"""Whether the installed libraries are of the versions that this one was tested with."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, requires, version

from packaging.requirements import Requirement

NAME = "macd-studio"
NAMED = ("torch", "transformers")
"""Those that others' projects pin too, and whose versions change what a model computes."""


def untested_versions() -> list[str]:
    """A sentence for each that is installed in a version outside of the tested range.

    pip keeps to the ranges when it installs this project, and not when it is asked for another
    version later. Nothing where the project itself is not installed, or the library is missing,
    which its import tells.
    """
    try:
        lines = requires(NAME) or ()
    except PackageNotFoundError:
        return []
    told = []
    for wanted in map(Requirement, lines):
        if wanted.name not in NAMED:
            continue
        try:
            installed = version(wanted.name)
        except PackageNotFoundError:
            continue
        if not wanted.specifier.contains(installed, prereleases=True):
            told.append(
                f"{wanted.name} {installed} is installed, and {wanted} was tested: results may"
                f" differ, or fail. To install a tested one: pip install '{wanted}'."
            )
    return told
