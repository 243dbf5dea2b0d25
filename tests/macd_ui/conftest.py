"""A page's store with small models, and its handlers."""

import pytest

from macd_studio.macd_ui.examples import examples
from macd_studio.macd_ui.handlers import make_handlers
from macd_studio.macd_ui.settings import ServerSettings
from macd_studio.macd_ui.store import Store
from tests.fakes import BoxDetector, ByteLM


@pytest.fixture
def new_store(monkeypatch):
    """Makes stores of settings, with small models."""
    stores = []

    def made(backbone=ByteLM, detector=BoxDetector, **settings):
        store = Store(settings=ServerSettings(**settings))
        monkeypatch.setattr(store.models, "backbone", lambda *_: backbone())
        monkeypatch.setattr(store.models, "detector", lambda *_: detector())
        stores.append(store)
        return store

    yield made
    for store in stores:
        store.close()


@pytest.fixture
def store(new_store):
    return new_store()


@pytest.fixture
def handlers(store):
    return make_handlers(store, examples())
