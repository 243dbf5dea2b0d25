"""What goes into the package and the sdist, and what the package needs.

requirements.txt names what the whole project needs, for Spaces install nothing else. The page's
own part of it, Ray, and what quantises weights are extras here; all else is in pyproject.toml.
The folders of macd_studio/parts.py become one package, whether or not this checkout has the links.
"""

import re
import sys
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT))

from macd_studio.parts import CODE, DATA, LIST, PACKAGE, list_of, listed, write_rest  # noqa: E402

PAGE = ("gradio",)


def wanted(file: str) -> dict[str, str]:
    """Name → requirement, of the lines that name a package."""
    lines = (line.split("#")[0].strip() for line in (ROOT / file).read_text().splitlines())
    return {re.split("[<>=~!]", z)[0]: z for z in lines if z and not z.startswith("-")}


class Build(build_py):
    """Also writes what belongs to the source and is not installed; /source.zip hands it out."""

    def run(self) -> None:
        """Builds the package."""
        super().run()
        if not self.editable_mode:
            write_rest(ROOT, Path(self.build_lib) / PACKAGE)


class Source(sdist):
    """Every file of the project, and the list of them."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """Fills the folder that is packed."""
        names = listed(ROOT)
        super().make_release_tree(base_dir, names)
        (Path(base_dir) / LIST).write_text(list_of(names), encoding="utf-8")


needed, further = wanted("requirements.txt"), wanted("requirements-dev.txt")
inside = [part for name in CODE for part in (name, *(f"{name}.{p}" for p in find_packages(name)))]
setup(
    packages=[PACKAGE, *(f"{PACKAGE}.{name}" for name in (*inside, *DATA))],
    package_dir={PACKAGE: PACKAGE, **{f"{PACKAGE}.{name}": name for name in (*CODE, *DATA)}},
    install_requires=[z for name, z in needed.items() if name not in PAGE],
    extras_require={
        "page": [needed[name] for name in PAGE],
        "ray": [further["ray"]],
        "quantised": [further[n] for n in ("bitsandbytes", "accelerate")],
    },
    cmdclass={"build_py": Build, "sdist": Source},
)
