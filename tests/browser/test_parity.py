"""The viewer's scripts compute what the core computes; see parity.py for the fixtures."""

import pytest

from macd_studio.viewer import bundle
from tests.browser.parity import CASES, ENTRIES

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("name", CASES)
def test_the_browser_agrees_with_the_core(bare, name):
    CASES[name]().run(bare, bundle(*ENTRIES))
