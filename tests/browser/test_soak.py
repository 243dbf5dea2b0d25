"""The soak run's visitors fire the page's own events; the server is the browser tests'."""

from collections import Counter

import pytest

from bench.soak import Material, visit
from macd_studio.macd_ui.examples import examples


@pytest.mark.long
def test_what_visitors_do_is_counted(server, toy_mp4):
    done = sum(
        (visit(server, seed, Material([toy_mp4], [examples()[0].trace])) for seed in (6, 8)),
        Counter(),
    )
    assert done["run"] == 2
    assert not done["failed"]
