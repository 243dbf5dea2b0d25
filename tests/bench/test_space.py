"""The app as a Space starts it: what `make space-check` tries without a browser."""

import pytest

from tests.bench.spaces import checked


@pytest.mark.long
def test_a_cpu_space_starts_and_ends():
    names = checked("--brief")
    for word in ("answers", "cookie", "frame", "whole source", "written outside", "SIGTERM"):
        assert any(word in name for name in names), word
