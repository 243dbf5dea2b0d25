"""The app as a Space starts it, by what `make space-check` runs."""

import pytest

from tests.bench.spaces import checked

pytestmark = pytest.mark.long


def test_a_cpu_space_serves_its_visitors(browser):
    """browser: only to skip where there is none."""
    names = checked()
    for word in ("uploaded clip runs", "α is moved", "by hand", "compared", "trace is opened",
                 "course", "gallery", "rater rates", "rescores"):  # fmt: skip
        assert any(word in name for name in names), word
