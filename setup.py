"""What goes into the wheel: one package, with `assets/` inside; all else is in pyproject.toml."""

from setuptools import find_packages, setup

setup(packages=[*find_packages(include=["macd_studio", "macd_studio.*"]), "macd_studio.assets"])
