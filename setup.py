"""What goes into the wheel: one package, with `assets/` inside, and what it needs.

requirements.txt names what the whole project needs, for Spaces install nothing else. The page's
own part of it, Ray, and what quantises weights are extras here; all else is in pyproject.toml.
"""

import re
from pathlib import Path

from setuptools import find_packages, setup

PAGE = ("gradio",)


def wanted(file: str) -> dict[str, str]:
    """Name → requirement, of the lines that name a package."""
    lines = (line.split("#")[0].strip() for line in Path(file).read_text().splitlines())
    return {re.split("[<>=~!]", z)[0]: z for z in lines if z and not z.startswith("-")}


needed = wanted("requirements.txt")
setup(
    packages=[*find_packages(include=["macd_studio", "macd_studio.*"]), "macd_studio.assets"],
    install_requires=[z for name, z in needed.items() if name not in PAGE],
    extras_require={
        "page": [needed[name] for name in PAGE],
        "ray": [wanted("requirements-dev.txt")["ray"]],
        "quantised": [wanted("requirements-dev.txt")[n] for n in ("bitsandbytes", "accelerate")],
    },
)
