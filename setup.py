"""What goes into the wheel; everything else about the project is said in pyproject.toml.

`assets/` lies beside the packages in a checkout and inside `core` once installed, where it cannot
collide with another project's folder of that name; `core.shipped.assets` knows both places.
"""

from setuptools import find_packages, setup

PACKAGES = ("core", "evals", "macd_ui", "ratings", "toyworld", "viewer")

setup(
    packages=[*find_packages(include=[*PACKAGES, *(f"{p}.*" for p in PACKAGES)]), "core.assets"],
    package_dir={"core.assets": "assets"},
)
