"""Actions of the viewer with extreme values, sent to a public server: each gets a sentence."""

import json
import re

import pytest

from macd_studio.macd_ui import sentences
from macd_studio.macd_ui.settings import ServerSettings
from tests.raw import Visitor, words
from tests.security.conftest import serving

HUGE = 10**400
REMEDY = re.compile(r"\. (Choose|Give|Write|Move|Type|Reload|Draw|Ask) ")
"""A sentence of an error ends with what to do."""
NAN, INF = float("nan"), float("inf")
EVIDENCE = (
    {"token": 8192}, {"token": HUGE}, {"token": NAN}, {"token": True}, {"token": [1]},
    {"kinds": ["gradient"] * 17}, {"kinds": ["x" * 40]}, {"kinds": [[]]},
    {"layers": ",".join(["0-9999"] * 64)}, {"kinds": ["occlusion-grid"], "patches": "99x99"},
    {"knock_out": [str(i) for i in range(20)]}, {"knock_out": [1]}, {"boxes": ["0,0,1,1"] * 21},
    {"boxes": ["nan,0,1,1"]}, {"boxes": ["1e309,0,1,1"]}, {"boxes": [{}]},
    {"boxes": ["0,0,1,1"], "knock_out_layers": "1-9999"}, {"against": "x" * 201},
    {"against": "\x00"}, {"against": {}},
)  # fmt: skip
ENOUGH = (
    {"token": HUGE}, {"spans": 10**9}, {"spans": -1}, {"margin": INF}, {"margin": 1e308},
    {"boxes": ["0,0,1,1"] * 64}, {"boxes": ["0,0,1e-9,1"]}, {"search": "all"}, {"keep": "x"},
    {"keep": {}}, {"same": "x"}, {"same": []},
)  # fmt: skip
POINT = {"points": [[0.5, 0.5, True]]}
POINTS = (
    POINT | {"frame": HUGE}, POINT | {"frame": NAN}, {"points": []}, {"points": [[NAN, 0, True]]},
    {"points": [[1e308, -1e308, True]] * 300}, {"points": {}}, {"points": [[]]},
    POINT | {"label": {}}, POINT | {"label": "x" * 10**5},
)  # fmt: skip
ACTIONS = (
    *({"do": "evidence", "evidence": {"token": 1} | values} for values in EVIDENCE),
    *({"do": "enough", "enough": {"token": 1} | values} for values in ENOUGH),
    *({"do": "point", "label": "x", "frame": 0} | values for values in POINTS),
    {"do": "redecode", "alpha": HUGE, "beta": 0}, {"do": "redecode", "alpha": 1e308, "beta": 0},
    {"do": "redecode", "alpha": NAN, "beta": 0}, {"do": "redecode", "alpha": 1, "beta": 0.1,
                                                  "method": ["macd"]},
    {"do": ["edit"]}, {"do": {}}, {"do": None}, {"do": "edit"}, {"do": "edit", "edit": [[]]},
    {"do": "evidence"}, {"do": "enough", "enough": 1}, {"do": "x" * 10**5}, {}, [], 7, "x", None,
)  # fmt: skip


@pytest.fixture(scope="module")
def tab():
    """A visitor whose page shows a run of its own."""
    with serving(ServerSettings(public=True)) as server:
        visitor = Visitor(server.url)
        visitor.send("run")
        (session,) = server.sessions.all()
        visitor.run = session.current.run
        yield visitor


@pytest.mark.parametrize("action", ACTIONS, ids=lambda a: json.dumps(a)[:60])
def test_an_extreme_action_gets_a_sentence(tab, action, caplog):
    if isinstance(action, dict):
        action = {**action, "run": tab.run}
    told = words(tab.send("act", action))
    assert sentences.unforeseen(True) not in told
    assert REMEDY.search(told), told
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
