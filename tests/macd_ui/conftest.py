"""A page's store with small models, and its handlers."""

import pytest

from macd_studio.macd_ui.examples import examples
from macd_studio.macd_ui.handlers import make_handlers
from macd_studio.macd_ui.store import Store
from tests.fakes import BoxDetector, ByteLM


@pytest.fixture
def store(monkeypatch):
    store = Store()
    monkeypatch.setattr(store.models, "backbone", lambda name, *_: ByteLM())
    monkeypatch.setattr(store.models, "detector", lambda name, *_: BoxDetector())
    yield store
    store.close()


@pytest.fixture
def handlers(store):
    return make_handlers(store, examples())
