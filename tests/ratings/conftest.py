"""An open study of a module's PLAN, and the site that serves it."""

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from macd_studio.ratings.store import Study
from macd_studio.ratings.web import StudySite
from tests.ratings.studies import copy_study


@pytest.fixture
def study(request, tmp_path):
    """PLAN: arguments of `copy_study`."""
    with Study(copy_study(tmp_path, **request.module.PLAN)) as opened:
        yield opened


@pytest.fixture
def site(study):
    return StudySite(study)


@pytest.fixture
def client(site):
    return TestClient(Starlette(routes=site.routes()))
