"""The main path of the page where every run and change computes in a forked worker.

The tests are those of the ordinary page; the server is a Space with shared GPUs (ZeroGPU), under a
stand-in that forks, pickles both ways and refuses tensors of a device (`tests/zero_gpu.py`).
"""

import pytest

from tests.browser import test_page, test_whatif
from tests.browser.conftest import QUIET, free_port, serve
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Where the server writes a line for each process that it forks."""
    return tmp_path_factory.mktemp("space") / "forked"


@pytest.fixture(scope="module")
def server(log):
    """In the place of the ordinary one."""
    process, url = serve(free_port(), ("-m", "tests.browser.shared_gpu", str(log)))
    yield url
    process.terminate()
    assert process.wait(timeout=PATIENCE_S) == 0


@pytest.fixture(scope="module")
def quiet():
    """On a Space Gradio asks for fonts and for the Space's likes; the page's policy stops both."""
    return (*QUIET, "Content Security Policy", "Space not found")


@pytest.fixture
def forked(log):
    """How many processes were forked since the test began."""

    def count():
        return len(log.read_text().splitlines()) if log.exists() else 0

    before = count()
    return lambda: count() - before


def test_the_whole_way(page, toy_mp4, tmp_path, forked):
    page.wait_for_selector("#cost:has-text('of your GPU quota')")
    test_page.test_the_whole_way(page, toy_mp4, tmp_path)
    assert forked() == 1


def test_levels_names_and_masks_change_by_hand(page, toy_mp4, tmp_path, forked):
    test_whatif.test_levels_names_and_objects_change_by_hand(page, toy_mp4, tmp_path)
    assert forked() == 7  # the run and six changes; undo and redo need no model


def test_moved_alpha_is_decoded_on(page, forked):
    test_whatif.test_moved_alpha_is_decoded_on(page)
    assert forked() == 1


def test_methods_stand_side_by_side(page, toy_mp4, forked):
    test_page.test_methods_stand_side_by_side(page, toy_mp4)
    assert forked() == 1
