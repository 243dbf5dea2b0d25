"""Requests that are odd rather than hostile: each is answered, and in a sentence."""

import json
import logging

import pytest

from macd_studio.core.system.shipped import assets
from macd_studio.macd_ui import sentences
from macd_studio.macd_ui.actions import plain_action
from macd_studio.macd_ui.serving.bodies import check_path, without_odd_ranges
from macd_studio.macd_ui.serving.upstream import Framework, status_of
from tests.raw import API, Visitor
from tests.security.conftest import exchanged

HUGE = 10**400
FILE = "/static/img/logo.svg"


@pytest.fixture(scope="module")
def program(public):
    return Visitor(public.url, cookies=False)


@pytest.fixture(autouse=True)
def _no_traceback(caplog):
    with caplog.at_level(logging.WARNING):
        yield
    assert not [r for r in caplog.records if r.exc_info]


CALLS = {
    "no inputs": ("trace", {"data": []}, "takes 3 inputs and got 0"),
    "one of three": ("trace", {"data": [None]}, "takes 3 inputs and got 1"),
    "too many": ("open", {"data": [None] * 50}, "takes 1 input and got 50"),
    "no list": ("rescore", {"data": {}}, "brings no list"),
    "nothing": ("rescore", {}, "brings no list"),
}


@pytest.mark.parametrize("what", CALLS)
def test_a_call_with_other_inputs_is_refused_with_their_number(program, what):
    name, body, words = CALLS[what]
    for kind in ("run", "api", "call"):
        answer = program.http.post(f"{API}/{kind}/{name}", json=body)
        assert answer.status_code == 400, kind
        assert words in answer.json()["error"]
        assert "/gradio_api/info" in answer.json()["error"]


@pytest.mark.parametrize(
    ("name", "body", "words"),
    [
        ("trace", {"data": []}, "no input 'data'"),
        ("trace", {}, "lacks the input 'video'"),
        ("open", {"file": None, "x" * 500: 1}, "no input 'xxx"),
    ],
)
def test_a_call_by_names_is_refused_by_name(program, name, body, words):
    answer = program.http.post(f"{API}/call/v2/{name}", json=body)
    assert answer.status_code == 400
    assert words in answer.json()["error"]
    assert len(answer.json()["error"]) < 200


@pytest.mark.parametrize(
    "number", ["NaN", "-Infinity", "1e999", "true", '{"path": NaN}', "[]", '"x"']
)
def test_an_input_that_is_none_is_the_caller_s_fault(program, number):
    """Gradio answers 500 to whatever goes wrong with a call."""
    rest = {"open": "", "rescore": ", NaN, 0.1", "trace": ', "Is there a dog?", {"seed": NaN}'}
    for kind in ("run", "api"):
        for name, more in rest.items():
            answer = program.http.post(
                f"{API}/{kind}/{name}", content=f'{{"data": [{number}{more}]}}',
                headers={"content-type": "application/json"},
            )  # fmt: skip
            assert answer.status_code == 400, (kind, name)
            assert answer.json()["error"].endswith("."), answer.text


@pytest.mark.parametrize(
    ("status", "told", "passed"),
    [
        (500, {"error": "seed is nan. Choose a whole number."}, 400),
        (500, {"error": sentences.unforeseen(True)}, 500),
        (500, {"error": sentences.NO_MEMORY}, 503),
        (500, {"error": sentences.FULL_DISK}, 507),
        (500, {"error": None}, 500),
        (500, ["x"], 500),
        (200, {"error": "a value of an answer"}, 200),
    ],
)
def test_the_status_says_whose_fault_it_is(status, told, passed):
    start = {"type": "http.response.start", "status": status}
    body = json.dumps(told).encode()
    parts = [{"type": "http.response.body", "body": b} for b in (body[:5], body[5:])]
    assert status_of([start, *parts], sentences.unforeseen(True)) == passed
    assert status_of([start], sentences.unforeseen(True)) == status


def test_a_whole_call_passes(program):
    content = (assets() / "examples" / "repaired.macd").read_bytes()
    file = program.file("a.macd", content)
    last, tokens = program.call("rescore", file, 1.0, 0.1)
    assert last == "complete"
    assert tokens
    answer = program.http.post(f"{API}/call/v2/rescore", json={"file": file, "alpha": 1.0})
    assert answer.status_code == 200


def test_a_body_without_its_fields_is_told_in_words(public, program):
    for path in ("cancel", "reset"):
        answer = program.http.post(f"{API}/{path}", json={"session_hash": 7})
        assert answer.status_code in (400, 422)
        assert answer.json()["error"].endswith(".")
    visitor = Visitor(public.url)
    answer = visitor.http.post(f"{API}/queue/join", json={"session_hash": visitor.hash})
    assert (answer.status_code, answer.json()["error"][-1]) == (404, ".")


@pytest.mark.parametrize(
    "asked", ["bytes=0-1,3-4", "bytes=--1", "bytes=-", f"bytes={'9' * 400}-", "lines=1-2", "bytes="]
)
def test_a_range_that_is_none_is_ignored(program, asked):
    whole = program.http.get(FILE)
    answer = program.http.get(FILE, headers={"range": asked})
    assert (answer.status_code, answer.content) == (200, whole.content)
    page = Visitor(program.http.base_url)
    path = page.file("a.txt", b"0123456789")["path"]
    answer = page.http.get(f"{API}/file={path}", headers={"range": asked})
    assert (answer.status_code, answer.content) == (200, b"0123456789")


def test_one_part_of_a_file_can_be_had(program):
    answer = program.http.get(FILE, headers={"range": "bytes=1-3"})
    assert (answer.status_code, len(answer.content)) == (206, 3)
    kept = [(b"range", b"bytes=-5"), (b"Range", b" bytes=7-"), (b"x", b"bytes=--1")]
    assert without_odd_ranges(kept) == kept


@pytest.mark.parametrize(
    "folder", ["/assets/", "/static/", "/docs/", "/t/", "/files/example/", "/"]
)
@pytest.mark.parametrize("length", [300, 4000])
def test_a_long_address_names_nothing(program, folder, length):
    answer = program.http.get(folder + "a" * length)
    assert answer.status_code == 404
    assert answer.text.endswith("The page is at /.")


def test_the_longest_name_of_a_file_is_no_long_address():
    check_path("/x/" + "a" * 255)
    check_path("/".join(["a" * 200] * 5))


def test_no_answer_names_the_server(public, program):
    assert "server" not in program.http.get("/healthz").headers
    assert "server" not in program.http.get("/nothing").headers
    broken = f"POST {API}/reset HTTP/1.1\r\nHost: HOST\r\nContent-Length: x\r\n\r\n"
    assert b"\r\nserver:" not in exchanged(public, broken, ends=True)[1].lower()


def test_a_number_too_large_for_the_machine_is_told(public):
    for name in ("alpha", "beta"):
        action = {"do": "redecode", "alpha": 1.0, "beta": 0.1, name: HUGE}
        with pytest.raises(sentences.MacdError, match="about 400 digits is too large"):
            plain_action(action)


def test_the_inputs_of_the_page_s_own_events_are_as_many(public):
    visitor = Visitor(public.url)
    framework = Framework(public.page.app)
    for event in visitor.config["dependencies"]:
        content = {"data": [None] * len(event["inputs"])}
        assert not framework.wrong_inputs("queue", "", event["id"], content), event["api_name"]
