"""A backbone that a server holds: what it answers is what the model in this process answers."""

import json
import threading
from copy import copy
from dataclasses import replace

import httpx
import numpy as np
import pytest

import macd_studio as macd
from macd_studio.core.backbones import open_backbone
from macd_studio.core.backbones.remote import reader as reader_module
from macd_studio.core.backbones.remote.client import Client
from macd_studio.core.backbones.remote.files import normalised_apart
from macd_studio.core.backbones.remote.reader import RemoteReader
from macd_studio.core.backbones.remote_address import read_address
from macd_studio.core.cli.main import main
from macd_studio.core.decoding.certificate import (
    certificates,
    count_certified,
    errors_in,
    least_beta,
)
from macd_studio.core.errors import (
    BackboneError,
    BackboneNotFound,
    Cancelled,
    MacdError,
    NotApplicable,
    OptionError,
    RemoteError,
)
from macd_studio.core.methods import METHODS
from macd_studio.core.options import AscentOptions, RunOptions
from macd_studio.core.records import BackboneRecord
from macd_studio.core.report.summary import as_json, as_table, as_text
from macd_studio.core.run.order import decoding_views
from macd_studio.core.system.shipped import TOYWORLD, assets
from macd_studio.core.traces.bundle import load, save
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.second_view import SecondView
from macd_studio.core.whatif.workbench import Workbench
from macd_studio.viewer.payload import payload
from tests.fakes import BoxDetector, clip
from tests.vllm_server import NAME, WRONG, FakeVLLM, opened


@pytest.fixture(scope="module")
def asked():
    """The frames and question of a shipped example."""
    return load(assets() / "examples" / "background.macd")


@pytest.fixture(scope="module")
def exact(toyworld):
    return opened(FakeVLLM(toyworld))


@pytest.fixture(scope="module")
def common(toyworld):
    return opened(FakeVLLM(toyworld, exact=False))


@pytest.fixture(scope="module")
def whole(exact):
    return run(exact)


def encoded_by(lm, asked):
    return lm.encode_frames(asked.model_frames, asked.question)


def test_prompt_and_pixels_need_no_weights(exact, toyworld, asked):
    far, near = encoded_by(exact, asked), encoded_by(toyworld, asked)
    assert far.input_ids.tolist() == near.input_ids.tolist()
    assert far.query.tolist() == near.query.tolist()
    np.testing.assert_array_equal(far.video, near.video)
    assert all(p.device.type == "meta" for p in exact._lm.model.parameters())


@pytest.mark.parametrize(("way", "off"), [("exact", 1e-5), ("common", 3e-2)])
def test_rows_and_losses_are_those_of_the_model(way, off, toyworld, asked, request):
    lm = request.getfixturevalue(way)
    near, far = encoded_by(toyworld, asked), encoded_by(lm, asked)
    views = near.video[None].repeat(2, 1, 1, 1, 1)
    views[1, :4] *= 0.31
    one, other = toyworld.prefill(near, views), lm.prefill(far, views)
    np.testing.assert_allclose(
        lm.question_log_p(far, other), toyworld.question_log_p(near, one), atol=off
    )
    for tokens in ((), (73,)):
        for row, whole in zip(
            lm.next_logits(other, tokens), toyworld.next_logits(one, tokens), strict=True
        ):
            np.testing.assert_allclose(row.values, whole.values - whole.log_partition, atol=off)
            assert row.log_partition == 0.0


@pytest.mark.long
def test_a_run_with_measured_slopes_equals_that_of_the_model(exact, toyworld, toy_detector):
    video = assets() / "examples" / "repaired.mp4"
    question = load(video.with_suffix(".macd")).question
    far, near = (
        macd.compare(
            video, question, ["mask-all", "vcd", "random-place", "vcd+code"], backbone=lm,
            detector=toy_detector, ascent={"gradient": "difference"}, decode={"max_tokens": 3},
        )
        for lm in (exact, toyworld)
    )  # fmt: skip
    assert far.status == near.status == "complete"
    assert far.counterfactual.level.tolist() == near.counterfactual.level.tolist()
    for name, answer in near.answers.items():
        assert [s.token for s in far.answers[name].tokens] == [s.token for s in answer.tokens]
    assert far.backbone.server == "vLLM 0.32.0, exact way"
    assert far.backbone.log_p_error == exact.server.error
    assert 1e-3 <= exact.server.error < 0.05
    assert "gradient" in far.backbone.lacks
    benches = [Workbench(trace, lm) for trace, lm in ((far, exact), (near, toyworld))]
    for bench in benches:
        bench.measure_controls(2)
        bench.measure_occlusion()
    one, other = (bench.trace for bench in benches)
    assert one.controls.outcomes == other.controls.outcomes
    np.testing.assert_allclose(one.occlusion.loss_change, other.occlusion.loss_change, atol=1e-4)


def test_noise_that_a_server_rounds_to_8_bits_has_a_name_of_its_own(common, exact, tmp_path):
    """How much of it was clamped is said by file, summary, JSON, notes and page."""
    trace = run(common, ("vcd", "mask-all"))
    view = trace.answers["vcd"].second_views[0].view
    shown = trace.answers["vcd"].second_views[0].shown
    at_an_end = ((shown == 0) | (shown == 255)).mean()
    assert 0.005 < view.clamped <= at_an_end < view.clamped + 0.02
    share = f"{100 * view.clamped:.1f} %"
    told = "".join(w for w in trace.warnings if "vcd (8 bit)" in w)
    assert share in told
    assert "mask-all (8 bit)" not in as_text(trace)
    assert "vcd (8 bit)" in as_table(trace)
    assert "vcd (8 bit)" in as_text(trace)
    assert as_json(trace)["answers"]["vcd"]["name"] == "vcd (8 bit)"
    assert as_json(trace)["answers"]["vcd"]["second_views"][0]["clamped"] == view.clamped
    assert payload(trace)["trace"]["answers"]["vcd"]["title"] == "VCD (8 bit)"
    again = load(save(trace, tmp_path / "far.macd"))
    assert again.answers["vcd"].second_views[0].view.clamped == view.clamped
    plain = run(exact, ("vcd",))
    assert plain.answers["vcd"].second_views[0].view.clamped is None
    assert "8 bit" not in as_text(plain) + as_table(plain)
    assert as_json(plain)["answers"]["vcd"]["name"] == "vcd"


# what servers do wrong


def run(lm, methods=("mask-all",), **more):
    """A small one: two frames, one object, at most two tokens."""
    return macd.compare(
        clip(2, 64), "Which animal is in the video?", list(methods), backbone=lm,
        detector=BoxDetector((("dog", 0.9, (0.1, 0.1, 0.4, 0.5)),)),
        mask={"frame_mask": "off"}, decode={"max_tokens": 2},
        **{"ascent": {"gradient": "difference"}} | more,
    )  # fmt: skip


def test_a_server_without_scale_out_is_asked_by_chat_and_says_what_would_help(common):
    told = "\n".join(common.server.lines())
    assert "start it with --enable-scale-out" in told
    assert "frames in 8 bits" in told
    assert not common.server.exact
    assert common.server.rounding > 0
    assert any(
        "8 bits for every view (start it with --enable-scale-out)" in n for n in common.notes
    )


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"keeps": lambda at: at[::2]}, "differs from the one made here"),
        ({"keeps": lambda at: at[::-1]}, "reorders"),
        ({"exact": False, "keeps": lambda at: at[::2]}, "differs from the one made here"),
        ({"exact": False, "keeps": lambda at: at * 0}, "does not read all frames"),
        ({"trusts": False}, "--trust-request-mm-kwargs"),
        ({"limit": 0}, "gives no log-probabilities: start it with"),
        ({"root": "/nowhere/else"}, "MACD_VLLM_FILES"),
    ],
)
def test_a_server_that_cannot_be_believed_is_refused_with_the_reason(wrong, told, toyworld):
    with pytest.raises(BackboneError, match=told):
        opened(FakeVLLM(toyworld, **wrong))


def lying(path, answer):
    """Another token's id in the place of the likeliest."""
    if path == "/inference/v1/generate" and answer["choices"]:
        (choice,) = answer["choices"]
        choice["token_ids"] = [choice["logprobs"]["content"][0]["top_logprobs"][-1]["token_id"]]
    return answer


def other_prompt(path, answer):
    if "token_ids" in answer:
        answer["token_ids"] = [5, *answer["token_ids"][1:]]
    return answer


def damaged(path, answer):
    return [answer] if path.endswith("generate") else answer


def not_a_number(path, answer):
    for choice in answer.get("choices", []):
        choice["logprobs"]["content"][0]["logprob"] = "NaN"
    return answer


@pytest.mark.parametrize(
    ("after", "told"),
    [
        (lying, "cannot be used"),
        (other_prompt, "from token 1 on"),
        (damaged, "cannot be used: it is no object"),
        (not_a_number, "in the place of a log-probability"),
    ],
)
def test_an_answer_that_no_vllm_gives_is_refused(after, told, toyworld):
    with pytest.raises(RemoteError, match=told):
        opened(FakeVLLM(toyworld, after=after))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"<html>hello", "is not JSON"),
        (b'{"data": 3}', "does not list its models"),
        (b'{"data": [{"id": "a"}, {"id": "b"}]}', "holds 2 models"),
        (b'{"data": [{"id": NaN}]}', "in the place of a log-probability"),
    ],
)
def test_what_is_no_vllm_server_is_told_apart(content, told):
    with pytest.raises(MacdError, match=told):
        opened(lambda request: httpx.Response(200, content=content))


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (401, "MACD_VLLM_KEY"),
        (302, "sends requests on"),
        (500, "answers 500: 'boom'"),
        (413, "size"),
    ],
)
def test_a_refusal_is_told_with_its_remedy(status, told):
    with pytest.raises(RemoteError, match=told):
        opened(lambda request: httpx.Response(status, json=WRONG))


def test_no_server_and_a_silent_one_are_told_apart():
    def nobody(request):
        raise httpx.ConnectError("refused", request=request)

    def silent(request):
        raise httpx.ReadTimeout("late", request=request)

    with pytest.raises(RemoteError, match=r"no server answers at http://vllm\.test:8000"):
        opened(nobody)
    with pytest.raises(RemoteError, match="did not answer within"):
        opened(silent)


def test_the_key_is_sent_and_neither_proxies_nor_redirects_are_followed(toyworld, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.test")
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.test")
    client = Client(read_address(NAME), key="secret")
    assert client._http.headers["Authorization"] == "Bearer secret"
    assert not client._http.follow_redirects
    assert not client._http._mounts  # no proxy of the environment


def test_what_passes_is_asked_again_and_nothing_changes(toyworld, whole):
    """Errors, broken connections and a restart in the middle of a run."""
    server = FakeVLLM(toyworld)
    lm = opened(server, concurrency=1)

    def before(number, path):
        if number % 7 == 0:
            return httpx.Response(503)
        if number % 5 == 0:
            raise httpx.RemoteProtocolError("peer closed connection")

    server.before = before
    trace = run(lm)
    assert trace.status == "complete"
    assert trace.counterfactual.level.tolist() == whole.counterfactual.level.tolist()
    for name, answer in whole.answers.items():
        assert trace.answers[name].text == answer.text


def test_a_stopped_run_does_not_wait_for_the_server(toyworld, exact, asked):
    waiting, release = threading.Event(), threading.Event()
    server = FakeVLLM(toyworld)
    lm = opened(server)

    def before(number, path):
        waiting.set()
        release.wait(60)

    server.before = before
    stopping = lm.stopping_when(waiting.is_set)
    encoded = encoded_by(stopping, asked)
    with pytest.raises(Cancelled):
        stopping.next_logits(stopping.prefill(encoded, encoded.video))
    release.set()


@pytest.mark.long
def test_a_limit_of_twenty_is_lived_with(toyworld, exact):
    lm = opened(FakeVLLM(toyworld, limit=20))
    assert lm.server.most == 20
    assert "--max-logprobs -1" in "\n".join(lm.server.lines())
    trace, whole = (run(one, ("vcd", "vcd+code", "tcd")) for one in (lm, exact))
    assert "logit of every token" in trace.skipped["vcd+code"]
    assert "zero of the logits" in trace.skipped["tcd"]
    for name in ("baseline", "macd", "vcd"):
        assert trace.answers[name].text == whole.answers[name].text
        assert len(trace.answers[name].tokens[0].candidates) == 20
        assert trace.answers[name].tokens[0].floor > -np.inf


def test_tokens_that_cannot_be_named_are_found_in_the_row_or_refused(toyworld, asked):
    lm = opened(FakeVLLM(toyworld, limit=20, chosen=False))
    assert not lm.server.chosen
    encoded = encoded_by(lm, asked)
    views = lm.prefill(encoded, encoded.video)
    (row,) = lm.next_logits(views, (), [73, 74])
    assert {73, 74} <= set(row.ids.tolist())
    with pytest.raises(NotApplicable, match="--max-logprobs -1"):
        lm.next_logits(views, (), [0, 5])


def test_without_log_probabilities_of_the_prompt_masks_are_still_contrasted(toyworld, toy_detector):
    lm = opened(FakeVLLM(toyworld, prompt=False))
    assert lm.server.question == ""
    assert "no loss of the question" in "\n".join(lm.server.lines())
    trace = run(lm, ("mask-all", "vcd", "random-place"), ascent={})
    assert set(trace.answers) == {"baseline", "macd-measured", "mask-all", "vcd", "random-place"}
    assert any("--gradient difference" in warning for warning in trace.warnings)
    with pytest.raises(NotApplicable, match="Leave --gradient difference out"):
        run(lm)


@pytest.mark.parametrize(
    "name",
    ["vllm:", "vllm:ftp://a:1", "vllm:http://", "vllm:http://u:p@h:1", "vllm:http://h:x/m",
     "vllm:http://h:1/m?a=b", "vllm:http://h:1/m#x", "vllm:http://h:1/\n", "vllm:" + "h" * 2000,
     "http://h:1"],
)  # fmt: skip
def test_a_wrong_address_is_refused_before_anything_is_sent(name):
    with pytest.raises(BackboneNotFound, match=r"vllm:http://HOST:PORT|MACD_VLLM_KEY"):
        read_address(name)
    with pytest.raises(BackboneNotFound):
        macd.trace("none.mp4", "Is it so?", backbone=name)


@pytest.mark.parametrize(
    ("address", "url", "model"),
    [("https://h.example", "https://h.example", ""),
     ("http://h:1/", "http://h:1", ""),
     ("http://[::1]:8000/org/m", "http://[::1]:8000", "org/m"),
     ("http://h:1//models/m", "http://h:1", "/models/m"),  # a server names a local model so
     ("http://h:1/a%20b/", "http://h:1", "a b/")],
)  # fmt: skip
def test_the_model_s_name_is_what_the_server_calls_it(address, url, model):
    found = read_address(f"vllm:{address}")
    assert (found.url, found.model, found.name) == (url, model, f"vllm:{address}")


def test_how_weights_are_held_is_not_asked_of_a_server():
    with pytest.raises(OptionError, match="business of the server"):
        open_backbone(NAME, weights="int8")


def test_what_is_certified_is_said_in_summary_json_and_file(exact, whole, tmp_path):
    trace = whole
    tokens = as_json(trace)["answers"]["macd"]["tokens"]
    assert {token["certificate"] for token in tokens} == {"certified"}
    assert f"macd {len(tokens)} of {len(tokens)}" in as_text(trace)
    again = load(save(trace, tmp_path / "far.macd"))
    assert again.backbone.server == trace.backbone.server
    assert certificates(again, again.answers["macd"]) == ("certified",) * len(tokens)
    assert errors_in(again) == (exact.server.video_error, exact.server.error)
    assert payload(again)["trace"]["log_p_errors"] == errors_in(again)._asdict()
    near = replace(trace, backbone=replace(trace.backbone, log_p_error=0.0))
    assert payload(near)["trace"]["log_p_errors"] is None
    assert "certificate" not in as_json(near)["answers"]["macd"]["tokens"][0]
    assert "Certified" not in as_text(near)


def test_the_command_prints_what_a_server_can_do(exact, monkeypatch, capsys):
    monkeypatch.setattr(reader_module, "open_server", lambda name: exact)
    assert main(["probe", NAME]) == 0
    assert "by token ids and unrounded pixels" in capsys.readouterr().out
    assert main(["probe", NAME, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["error"] == exact.server.error
    assert main(["probe", "vllm:ftp://a"]) == 2
    assert "no http or https address" in capsys.readouterr().err


@pytest.mark.long
def test_a_table_of_what_a_server_tells_ends_at_its_beta(toyworld, whole):
    """With 20 of 96 tokens a β below the 20th's share would let unknown ones through."""
    lm = opened(FakeVLLM(toyworld, limit=20))
    trace = run(lm)
    answer = trace.answers["macd"]
    least = least_beta(trace, answer)
    floors = [s.floor - s.base.max() for s in answer.tokens if s.others]
    assert least == pytest.approx(np.exp(max(floors)))
    assert 0 < least < 0.1
    assert payload(trace)["trace"]["answers"]["macd"]["least_beta"] == least
    assert least_beta(whole, answer) == 0.0


@pytest.mark.parametrize("beta", [0.1, pytest.param(1e-6, marks=pytest.mark.long)])
def test_large_vocabularies_are_told_whole_only_where_that_is_needed(
    beta, toyworld, exact, monkeypatch
):
    """A rule over every token, and a cut that reaches below what is told, ask for whole rows."""
    server = FakeVLLM(toyworld)
    lm = opened(server)
    monkeypatch.setattr(reader_module, "TOP", 8)
    monkeypatch.setattr(reader_module, "SMALL", 10)
    start = len(server.requests)
    more = {"contrast": {"alpha": 1.0, "beta": beta}}
    far, near = (run(one, ("vcd+code", "mask-all"), **more) for one in (lm, exact))
    for name, answer in near.answers.items():
        other = far.answers[name]
        assert [s.token for s in other.tokens] == [s.token for s in answer.tokens]
    widths = {name: len(far.answers[name].tokens[0].candidates) for name in ("macd", "vcd+code")}
    asked = [body["sampling_params"].get("logprobs") for path, body in server.requests[start:]
             if path.endswith("generate")]  # fmt: skip
    assert -1 in asked
    if beta == 0.1:
        assert widths["macd"] == 8
        assert asked.count(8) > asked.count(-1)


def test_text_among_the_video_s_tokens_is_never_sent_the_exact_way(toyworld):
    """vLLM's engine would end of it, and the server with it."""

    def sparse(path, answer):
        if "features" in answer:
            answer["features"]["mm_placeholders"]["video"][0]["length"] += 2
        return answer

    server = FakeVLLM(toyworld, after=sparse)
    lm = opened(server)
    assert not lm.server.exact
    assert "text stands among the video's tokens" in "\n".join(lm.server.lines())
    assert "--enable-scale-out" not in "\n".join([*lm.server.lines(), *lm.notes])
    assert any("8 bits for every view (text stands among" in note for note in lm.notes)
    assert not [path for path, _ in server.requests if path == "/inference/v1/generate"]


def test_families_that_were_not_compared_are_named(exact):
    assert not any("was not found" in note for note in exact.notes)
    lm = copy(exact._lm)
    lm.info = replace(lm.info, family="internvl")
    notes = RemoteReader(lm, exact._way, exact.server, exact._sample).notes
    assert any("'internvl' was not found to be read by vLLM" in note for note in notes)


def test_videos_that_are_normalised_otherwise_than_pictures_are_not_left_to_the_server(
    toyworld, common, monkeypatch
):
    """vLLM normalises both as it does pictures: it tells no prompt, token or error of that."""
    load = reader_module.load_files

    def other(source, name):
        lm = load(source, name)
        assert not normalised_apart(lm)
        lm.processor.image_processor.image_mean = [0.1, 0.2, 0.3]
        assert normalised_apart(lm)
        return lm

    monkeypatch.setattr(reader_module, "load_files", other)
    with pytest.raises(RemoteError, match="normalises videos as it does pictures") as told:
        opened(FakeVLLM(toyworld))
    assert "--no-mm-device-do-normalize" in str(told.value)
    assert not any("--no-mm-device-do-normalize" in note for note in common.notes)
    lm = other(str(TOYWORLD / "backbone"), NAME)
    notes = RemoteReader(lm, common._way, common.server, common._sample).notes
    assert any("--no-mm-device-do-normalize" in note for note in notes)


def test_a_trace_of_one_error_is_certified_by_it_in_every_view(whole, tmp_path):
    """As older versions wrote it; 100 nats certify nothing, in the plain video neither."""
    trace = whole
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
            assert exact.has_plain_prompt(views.base), method.name
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
