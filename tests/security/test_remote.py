"""A server that holds a backbone is asked where it was named at the start, and nowhere else."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from macd_studio.core.embedded import EMBEDDED
from macd_studio.core.errors import BackboneNotFound, OptionError
from macd_studio.core.system.shipped import assets
from macd_studio.core.traces.bundle import load
from macd_studio.macd_ui.jobs import Jobs
from macd_studio.macd_ui.models import Models
from macd_studio.macd_ui.settings import ServerSettings, read_settings

NAME = "vllm:http://127.0.0.1:9"


@pytest.mark.parametrize("public", [False, True])
def test_no_visitor_makes_the_page_ask_a_server(public):
    for listed in ((EMBEDDED,), ("a",)):
        settings = ServerSettings(public=public, backbones=listed)
        with pytest.raises(OptionError, match=r"does not (ask|offer)"):
            settings.check_models(NAME, EMBEDDED)
    named = ServerSettings(public=public, backbones=(EMBEDDED, NAME))
    named.check_models(NAME, EMBEDDED)
    with pytest.raises(OptionError, match="does not ask"):
        named.check_models(NAME + "0", EMBEDDED)


def test_whoever_names_it_no_model_is_opened_that_was_not_named():
    with pytest.raises(OptionError, match="does not ask the server"):
        Models(named=("vllm:http://127.0.0.1:8",)).backbone(NAME)


def test_a_file_that_names_a_server_makes_nobody_ask_it():
    trace = load(assets() / "examples" / "background.macd")
    made = replace(trace, backbone=replace(trace.backbone, name=NAME))
    with pytest.raises(OptionError, match="does not ask the server"):
        Jobs(SimpleNamespace(settings=ServerSettings()), None).check_maker(made, NAME)


def test_a_wrong_address_ends_the_start(tmp_path):
    assert NAME in read_settings(["--backbone", NAME]).backbones
    with pytest.raises(BackboneNotFound, match="MACD_VLLM_KEY"):
        read_settings(["--backbone", "vllm:http://user:secret@127.0.0.1:9"])
