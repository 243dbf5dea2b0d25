"""The viewer's scripts compute what the core computes; see parity.py for the fixtures."""

import pytest

from macd_studio.viewer import bundle
from scripts.js_mutants import MUTANTS
from tests.browser.parity import CASES, ENTRIES


@pytest.mark.parametrize("name", CASES)
def test_the_browser_agrees_with_the_core(bare, name):
    CASES[name]().run(bare, bundle(*ENTRIES))


def test_every_fault_of_the_mutants_can_still_be_planted():
    script = bundle(*ENTRIES)
    assert [name for name, (old, _) in MUTANTS.items() if script.count(old) != 1] == []
