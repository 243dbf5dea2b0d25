"""A real backbone and a real detector, downloaded by the page's own run from a hub on loopback."""

import json
import os
import subprocess
import sys

import pytest

from macd_studio.core.system.shipped import shipped
from tests import hub
from tests.core.test_detect import tiny_rt_detr

RUN = r"""
import json, sys
from macd_studio.macd_ui.examples import examples
from macd_studio.macd_ui.handlers import make_handlers
from macd_studio.macd_ui.store import Store
from dataclasses import replace
from macd_studio.core.objects.registry import DETECTORS
from tests.macd_ui.test_zerogpu import FIELDS


DETECTORS["rt-detr"] = replace(DETECTORS["rt-detr"], hub=("somebody/model", None))
store = Store()
try:
    handlers = make_handlers(store, examples())
    asked = json.loads(sys.argv[1])
    values = FIELDS | {"example": 0, "video": None, "question": "Is there a cup?", "methods": []}
    for out in handlers.runs.run(values | asked, "tab"):
        shown = out.get("viewer", {}).get("status")
        if shown:
            print(json.dumps([shown["stage"], shown["fraction"], shown["message"], shown["error"]]))
    trace = store.sessions.open("tab").trace
    print(json.dumps([trace.status, trace.backbone.name, trace.detector.name] if trace else None))
finally:
    store.close()
"""


def run_page(home, address, **asked):
    """What the page showed, and the run's status with its models; each run is a new server."""
    env = {"HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1", "HF_HUB_OFFLINE": "0",
           "HF_ENDPOINT": address}  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", RUN, json.dumps(asked)], env=os.environ | env, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    *shown, last = [json.loads(line) for line in done.stdout.splitlines() if line[0] in "[n"]
    return shown, last


def fractions(shown, stage):
    return [f for s, f, message, _ in shown if s == stage and message.startswith("Downloading")]


@pytest.mark.long
def test_a_backbone_is_downloaded_before_the_visitors_eyes_and_goes_on(tmp_path):
    sent = []
    whole = (shipped("backbone") / "model.safetensors").stat().st_size
    with hub.serving(
        shipped("backbone"), bytes_per_s=5e6, breaks_at=whole // 2, sent=sent
    ) as address:
        shown, last = run_page(tmp_path, address, backbone="somebody/model")
    assert last is None or last[1] != "somebody/model"
    assert "broke off" in shown[-1][3]
    assert "goes on where it stopped" in shown[-1][3]
    first = sum(n for name, _, n in sent if name == "model.safetensors")
    assert whole // 3 < first < whole

    sent.clear()
    with hub.serving(shipped("backbone"), bytes_per_s=5e6, sent=sent) as address:
        shown, last = run_page(tmp_path, address, backbone="somebody/model")
    assert last[:2] == ["complete", "somebody/model"]
    fetched = fractions(shown, "load")
    assert len(fetched) > 2
    assert fetched == sorted(fetched)
    weights = [(at, n) for name, at, n in sent if name == "model.safetensors"]
    assert weights[0][0] > 0, "it began again"
    assert sum(n for _, n in weights) < whole


@pytest.mark.long
def test_a_detector_is_downloaded_before_the_visitors_eyes(tmp_path):
    detector = tmp_path / "detector"
    tiny_rt_detr(detector)
    size = (detector / "model.safetensors").stat().st_size
    with hub.serving(detector, bytes_per_s=size / 2) as address:
        shown, last = run_page(tmp_path / "home", address, detector="rt-detr")
    assert last[0] == "complete"
    assert last[2] == "rt-detr"
    messages = [message for stage, _, message, _ in shown if stage == "detect"]
    assert any("somebody/model" in m for m in messages)
    assert fractions(shown, "detect")
    # the hub is gone; what was downloaded is enough
    shown, last = run_page(tmp_path / "home", address, detector="rt-detr")
    assert last[2] == "rt-detr"
