"""The check of a vLLM server: its comparisons, held against the stand-in, and how it is printed."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from bench import report, vllm_compare
from bench.vllm_check import check_way
from bench.vllm_compare import (
    Checks,
    Local,
    check_reads,
    compare_reads,
    compare_tokens,
    drawn_questions,
)
from macd_studio.core.backbones.remote.client import Counted
from macd_studio.core.decoding.certificate import Errors
from tests.vllm_server import FakeVLLM, opened

TOKENS = {
    "certificates": {"certified": 90, "close": 10}, "tokens": 100, "certified_and_other": [],
    "questions": 30, "requests": 1500,
    "timed": {"questions": 20, "requests": 1000, "server": 60.0, "local": 30.0},
    "together": {"questions": 10, "at_once": 4, "seconds": 15.0},
}  # fmt: skip

FOUND = {
    "server": {
        "url": "", "version": "0", "model": "tiny", "length": 0, "exact": False, "most": -1,
        "vocabulary": 96, "chosen": True, "question": "prompt", "alone": 0.0, "among": 0.0,
        "rounding": 0.03, "flat": 1.0,
    },
    "reads": {
        "reads": 12, "log_p": 0.02, "loss": 0.01, "rounded": {"log_p": 2e-6, "loss": 3e-7},
        "plain": {"log_p": 4e-6},
    },
    "signs": {"strengths": 18, "decided": 10, "same_sign": 9},
}  # fmt: skip


def figures(**changed):
    machine = {"processor": "x", "cores": 2, "date": "2026-01-01"}
    return {
        "models": {"tiny": {"machine": machine, "common": FOUND | {"tokens": TOKENS | changed}}}
    }


def rows_of(found):
    return "\n".join(report.server_lines(found)).splitlines()


def test_requests_and_seconds_stand_beside_local_ones():
    shown = rows_of(figures())
    assert "| tiny | common | 2.0e-06 | 2.0e-02 | 10 of 18 | 9 | 50 | 2.0× |" in shown
    assert shown[-1] == "Measured: 2 cores of an x, 2026-01-01."
    two = figures()
    model = two["models"]["tiny"]
    two["models"]["big"] = model | {"machine": model["machine"] | {"cores": 4}}
    assert rows_of(two)[-1].endswith("tiny on 2 cores of an x, 2026-01-01; big on 4 cores of an x,"
                                     " 2026-01-01.")  # fmt: skip
    assert shown[-3].endswith(": tiny, common: 1.50 s instead of 3.00 s (10 questions, 4 at once).")
    alone = figures(together={"questions": 0, "at_once": 4, "seconds": 0.0})
    assert not any("at once" in line for line in rows_of(alone))
    assert "not measured" in report.server_lines(None)


@pytest.mark.long
def test_a_row_that_is_off_fails_the_check(toyworld, capsys):
    """As a server's pixels, positions or weights would make it."""

    def off(path, answer):
        for choice in answer.get("choices", []):
            for row in choice["logprobs"]["content"][0]["top_logprobs"]:
                row["logprob"] -= 1e-4
        return answer

    for after, passed in ((None, True), (off, False)):
        checks = Checks()
        far = opened(FakeVLLM(toyworld, after=after))
        reads = compare_reads(toyworld, far, drawn_questions(1))
        check_reads(checks, "x", reads, Errors(far.server.video_error, far.server.error))
        assert (checks.failed == 0) == passed
    assert "FAILED  x: log_p of 2 views" in capsys.readouterr().out


@pytest.mark.long
def test_a_server_that_rounds_is_held_against_the_same_rounded_frames(toyworld, monkeypatch):
    monkeypatch.setattr(vllm_compare, "METHODS_TRIED", ("baseline", "vcd"))
    checks, cases = Checks(), drawn_questions(1)
    far = opened(FakeVLLM(toyworld, exact=False))
    found = check_way(checks, "x", far, Local(toyworld), cases, cases, ())
    assert checks.failed == 0
    assert found["reads"]["rounded"]["log_p"] <= 1e-5 < found["reads"]["log_p"]
    assert found["reads"]["plain"]["log_p"] <= 1e-5
    assert found["tokens"]["timed"]["requests"] == found["tokens"]["requests"] > 2
    assert np.isfinite(found["tokens"]["certified_share"]).all()


@pytest.mark.long
def test_answers_under_other_masks_are_told_and_not_compared(toyworld, monkeypatch):
    monkeypatch.setattr(vllm_compare, "METHODS_TRIED", ("baseline", "mask-all"))
    (case,) = drawn_questions(1)
    known = vllm_compare.answer(case, toyworld)
    whole = known["mask-all"]
    view = replace(whole.second_views[0].view, level=(0.5,) * len(case.tracks))
    moved = replace(whole, second_views=(replace(whole.second_views[0], view=view),))
    server = SimpleNamespace(
        server=SimpleNamespace(error=1e-3, video_error=1e-3),
        _way=SimpleNamespace(client=SimpleNamespace(counted=Counted())),
    )
    for other, told in ((whole, 0), (moved, 1)):
        answers = {"mask-all": other, "baseline": known["baseline"]}
        monkeypatch.setattr(
            vllm_compare, "answer",
            lambda case, reader, answers=answers: answers if reader is server else known,
        )  # fmt: skip
        found = compare_tokens(Local(toyworld), server, [case])
        assert len(found["other_masks"]) == told
        assert found["tokens"] == len(known["baseline"].tokens) + (1 - told) * len(whole.tokens)
