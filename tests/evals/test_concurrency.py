"""Evaluations of a backbone that a server holds: several clips at once, what a failure leaves."""

from argparse import Namespace
from dataclasses import replace

import httpx
import pytest

from macd_studio.core.errors import OptionError, RemoteError
from macd_studio.evals.benchmarks.base import evaluation_options
from macd_studio.evals.commands.common import check_engine_flags, for_reader
from macd_studio.evals.printing.figures import certified_section, clamped_section, title
from macd_studio.evals.running import engine
from macd_studio.evals.running.rows import Setting
from macd_studio.evals.running.run import complete, plan
from macd_studio.evals.statistics.metrics import certified_tokens, clamped_shares
from tests.vllm_server import NAME, FakeVLLM, opened

METHODS = ("baseline", "mask-all")


@pytest.fixture
def setting():
    options = evaluation_options(
        {"decode": {"max_tokens": 2}, "ascent": {"gradient": "difference"},
         "mask": {"frame_mask": "off"}}
    )  # fmt: skip
    return Setting("toyworld", options, boxes="truth")


def wanted(setting, n=1):
    contrasts = dict.fromkeys(METHODS, (1.0, 0.1))
    return plan(setting.open(), setting, "test", n, METHODS, contrasts)[:6]


def test_several_clips_at_once_give_the_rows_of_one_after_another(
    setting, toyworld, monkeypatch, tmp_path
):
    planned = wanted(setting)
    near = complete(planned, setting, tmp_path / "near" / "rows")
    server = FakeVLLM(toyworld)
    lm = opened(server)
    monkeypatch.setattr(engine, "_backbone", lambda *_: lm)
    far = complete(planned, setting, tmp_path / "far" / "rows", engine.side_by_side(3))
    assert far.keys() == near.keys()
    for key, row in near.items():
        other = far[key]
        assert not other.error
        assert (other.text, other.first, other.tokens, other.open) == (
            row.text, row.first, row.tokens, row.open
        )  # fmt: skip
        assert other.certified == other.tokens
        assert row.certified is None
    assert certified_tokens([*near.values()]) == {}
    told = certified_tokens([*far.values()])["certified"]
    assert told["certified"] == told["tokens"] == sum(row.tokens for row in far.values())
    text = "".join(certified_section({"both": [told], "none": []}))
    assert f"| both | {told['tokens']} | 100.0 |" in text
    assert "none" not in text


def test_what_was_answered_before_a_server_failed_is_kept_and_the_run_goes_on(
    setting, toyworld, monkeypatch, tmp_path
):
    planned, rows = wanted(setting), tmp_path / "rows"
    server = FakeVLLM(toyworld)
    lm = opened(server)
    monkeypatch.setattr(engine, "_backbone", lambda *_: lm)
    last = len(server.requests) + 14

    def before(number, path):
        if number > last:
            raise httpx.ConnectError("refused")

    server.before = before
    with pytest.raises(RemoteError, match="no server answers"):
        complete(planned, setting, rows, engine.side_by_side(2))
    server.before = None
    kept = complete(planned, setting, rows, lambda *_: ())
    assert 0 < len(kept) < len(planned)
    assert len(complete(planned, setting, rows, engine.side_by_side(2))) == len(planned)


def test_tables_name_noise_that_a_server_rounded(setting, toyworld, monkeypatch, tmp_path):
    methods = ("baseline", "vcd")
    planned = plan(setting.open(), setting, "test", 1, methods, {})[:4]
    lm = opened(FakeVLLM(toyworld, exact=False))
    monkeypatch.setattr(engine, "_backbone", lambda *_: lm)
    rows = complete(planned, setting, tmp_path / "rows", engine.side_by_side(2))
    shares = clamped_shares({m: [r for r in rows.values() if r.method == m] for m in methods})
    assert list(shares["clamped"]) == ["vcd"]
    assert 0.005 < shares["clamped"]["vcd"] < 0.5
    assert title("vcd", shares) == "VCD (8 bit)"
    assert title("baseline", shares) == title("baseline")
    text = "".join(clamped_section(shares))
    assert f"| VCD (8 bit) | {100 * shares['clamped']['vcd']:.1f} |" in text
    assert "".join(clamped_section({})) == ""


def flags(**changed):
    given = dict(
        engine=None, workers=1, address=None, gpus_per_worker=None, concurrency=None,
        backbone="toyworld",
    )  # fmt: skip
    return Namespace(**given | changed)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"concurrency": 4}, "needs a backbone that a server holds"),
        ({"backbone": NAME, "workers": 2}, "Ray is for models"),
        ({"backbone": NAME, "concurrency": 0}, "concurrency is 0"),
        ({"backbone": NAME, "concurrency": 257}, "concurrency is 257"),
    ],
)
def test_flags_that_do_not_fit_are_refused(changed, told):
    with pytest.raises(OptionError, match=told):
        check_engine_flags(flags(**changed))
    check_engine_flags(flags(backbone=NAME, concurrency=8))


def test_a_server_s_slopes_are_read_by_differences(setting):
    exact = replace(setting.options, ascent=replace(setting.options.ascent, gradient="exact"))
    assert for_reader(exact, NAME).ascent.gradient == "difference"
    assert for_reader(exact, "toyworld") is exact
