"""The errors that certificates of a server's answers rest on, from the reader to the trace."""

from dataclasses import replace

import pytest

from macd_studio.core.decoding.certificate import count_certified, errors_in
from macd_studio.core.errors import NotApplicable
from macd_studio.core.methods import METHODS
from macd_studio.core.options import AscentOptions, RunOptions
from macd_studio.core.records import BackboneRecord
from macd_studio.core.report.summary import as_text
from macd_studio.core.run.order import decoding_views
from macd_studio.core.system.shipped import assets
from macd_studio.core.traces.bundle import load, save
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.second_view import SecondView
from tests.core.test_remote import encoded_by, run
from tests.vllm_server import FakeVLLM, opened


@pytest.fixture(scope="module")
def asked():
    """The frames and question of a shipped example."""
    return load(assets() / "examples" / "background.macd")


@pytest.fixture(scope="module")
def exact(toyworld):
    return opened(FakeVLLM(toyworld))


def test_a_trace_of_one_error_is_certified_by_it_in_every_view(exact, tmp_path):
    """As older versions wrote it; 100 nats certify nothing, in the plain video neither."""
    trace = run(exact)
    apart = replace(trace.backbone, log_p_error=100.0, video_log_p_error=1e-3)
    assert "0.001 nats in the video and 100 nats in other views" in as_text(
        replace(trace, backbone=apart)
    )
    counted = count_certified(replace(trace, backbone=apart), trace.answers["baseline"])
    assert counted[0] == counted[1] > 0
    old = apart.as_dict()
    del old["video_log_p_error"]
    again = load(
        save(replace(trace, backbone=BackboneRecord.from_dict(old)), tmp_path / "old.macd")
    )
    assert "video_log_p_error" not in again.backbone.as_dict()
    assert errors_in(again) == (100.0, 100.0)
    assert count_certified(again, again.answers["baseline"])[0] == 0
    assert "for every error up to 100 nats" in as_text(again)


@pytest.mark.long
def test_the_first_view_of_every_method_is_the_plain_video(exact, asked):
    """Or that under another prompt: its error holds of nothing else."""
    options = RunOptions(ascent=AscentOptions(gradient="difference"))
    context = MethodContext(exact, encoded_by(exact, asked), asked.tracks, options)
    refused = []
    for method in METHODS.values():
        try:
            context.need(*method.needs)
            views = decoding_views(context, method)
        except NotApplicable as error:
            refused.append(str(error))
        else:
            assert exact.reads_plainly(views.base), method.name
    assert not any("first view" in why for why in refused)


def test_another_first_view_than_the_plain_video_is_refused_under_a_server(exact, toyworld, asked):
    far, near = (
        MethodContext(lm, encoded_by(lm, asked), asked.tracks, RunOptions())
        for lm in (exact, toyworld)
    )
    masked = SecondView(base=exact.prefill(far.encoded, far.encoded.video * 0.5))
    with pytest.raises(NotApplicable, match="not the video as it is"):
        decoding_views(far, METHODS["baseline"], masked)
    for plain in (exact.prefill(far.encoded, far.encoded.video.clone()), far.prefill_text()):
        decoding_views(far, METHODS["baseline"], SecondView(base=plain))
    masked = SecondView(base=near.prefill(near.encoded.video * 0.5))
    assert decoding_views(near, METHODS["baseline"], masked).base is masked.base


def test_noise_widens_the_error_that_certificates_rest_on(toyworld):
    server = opened(FakeVLLM(toyworld, noise=0.01)).server
    assert server.alone > 1e-3
    assert server.error == pytest.approx(
        3 * max(server.alone, server.among, server.flat, server.padding)
    )
