"""The study over HTTP: who reaches what, and what a rater's browser receives."""

import json
import re
import sqlite3

import pytest

from macd_studio.ratings.errors import Refused
from macd_studio.ratings.events import read_event
from macd_studio.ratings.secret import ALPHABET, LENGTH, new_code
from macd_studio.ratings.web import CODE_HEADER
from tests.ratings.studies import known, make_study, rate, raw

PLAN = {"clips": 4, "arms": ("macd", "random-elsewhere", "mask-all"), "repeat": 0.25,
        "gold": (known(1), known(2, training=True))}  # fmt: skip


@pytest.fixture
def code(study):
    return study.invite(1)[0]


@pytest.fixture
def organiser():
    return make_study.last.organiser


def get(client, path, code, **how):
    return client.get(path, headers={CODE_HEADER: code}, **how)


def post(client, path, code, body):
    return client.post(path, headers={CODE_HEADER: code}, json=body)


def send(client, code, *events):
    return post(client, "/rate/api/events", code, {"events": list(events)})


def session(client, code):
    return get(client, "/rate/api/session", code).json()


def test_a_rater_gets_opaque_items_and_no_arm(client, study, code):
    """Every byte of a whole session: no arm, no part, no name of a clip; all pictures of a size."""
    received, sizes = [], set()
    first = get(client, "/rate/api/session", code)
    received.append(first)
    for task in first.json()["tasks"]:
        received.append(get(client, f"/rate/api/item/{task['id']}", code))
        for which in ("clip", *range(len(task["ratings"]))):
            answer = get(client, f"/rate/api/media/{task['id']}/{which}", code)
            received.append(answer)
            sizes.add(len(answer.content))
        marks = [raw("rate", task["id"], side=s, new=3) for s in range(len(task["ratings"]))]
        received.append(send(client, code, *marks, raw("next", task["id"])))
    assert all(r.status_code == 200 for r in received)
    assert len(sizes) == 1
    words = ["macd", "random", "mask-all", "mask_all", "known", "gold", "repeat", "clip-",
             "arm", "level", "hidden", "seed", "sha256", *(r["sha256"] for r in study.rows(
                 "SELECT sha256 FROM clips"))]  # fmt: skip
    for answer in received:
        noise = "/media/" in str(answer.url)  # in which short words occur by chance
        for word in words:
            assert word not in str(answer.headers).lower(), (answer.url, word)
            if not noise or len(word) > 5:
                assert word.encode() not in answer.content.lower(), (answer.url, word)
    for item in (r.json() for r in received if "/item/" in str(r.url)):
        assert set(item) == {"id", "question", "width", "height", "times", "motion"}
    for task in first.json()["tasks"]:
        assert set(task) == {
            "id", "kind", "ratings", "reasons", "preference", "done", "skipped"}  # fmt: skip
        assert task["kind"] in ("training", "item")


@pytest.mark.parametrize("uuid", ["\ud800" * 36, "a" * 100_000, ["\ud800"], {"\ud800": 1}, 10**400])
def test_an_event_without_a_sound_uuid_holds_up_no_other(client, study, code, uuid):
    """A refusal that cannot be written would leave the events beside it without an answer."""
    task = session(client, code)["tasks"][0]["id"]
    sound, odd = (raw("rate", task, side=0, new=n) for n in (4, 5))
    content = json.dumps({"events": [sound, odd | {"uuid": uuid}]})
    answer = post_text(client, code, content)
    assert answer.status_code == 200
    told = {o["committed"]: o for o in answer.json()["outcomes"]}
    assert told[True]["uuid"] == sound["uuid"]
    assert told[False]["reason"].startswith("uuid is ")
    assert session(client, code)["tasks"][0]["ratings"][0] == 4


def post_text(client, code, content):
    """The answer to events as they are written, halves of pairs among them."""
    headers = {CODE_HEADER: code, "content-type": "application/json"}
    return client.post("/rate/api/events", headers=headers, content=content)


def test_ids_differ_between_raters_and_say_nothing(client, study):
    ids = [[t["id"] for t in session(client, c)["tasks"]] for c in study.invite(3)]
    flat = [i for one in ids for i in one]
    assert len(set(flat)) == len(flat)
    assert all(len(i) == 32 and int(i, 16) >= 0 for i in flat)
    order = study.rows("SELECT id FROM tasks ORDER BY id")
    assert [r["id"] for r in order] != flat


def test_nothing_opens_without_a_code(client, code):
    task = session(client, code)["tasks"][0]["id"]
    for wrong in ("", "A" * 24, code[:-1], code + "A"):
        for path in ("session", f"item/{task}", f"media/{task}/clip"):
            assert get(client, f"/rate/api/{path}", wrong).status_code == 401
    assert get(client, "/rate/api/session", code).status_code == 200


def test_wrong_codes_lock_nobody_out(client, code, organiser):
    """Codes cannot be guessed, so that wrong ones need no counting."""
    for path in ("/rate/api/session", "/organise/api/state"):
        assert {get(client, path, "B" * 24).status_code for _ in range(30)} == {401}
    assert get(client, "/rate/api/session", code).status_code == 200
    assert get(client, "/organise/api/state", organiser).status_code == 200


def test_codes_have_at_least_80_random_bits():
    codes = {new_code() for _ in range(1000)}
    assert len(codes) == 1000
    assert len(ALPHABET) ** min(map(len, codes)) > 2**80
    for place in range(LENGTH):  # every place is drawn from all letters
        assert len({c[place] for c in codes}) == len(ALPHABET)


def test_a_rater_cannot_reach_another_s_answers(client, study):
    one, two = study.invite(2)
    task = session(client, one)["tasks"][0]["id"]
    assert get(client, f"/rate/api/item/{task}", two).status_code == 404
    assert get(client, f"/rate/api/media/{task}/0", two).status_code == 404
    outcome = send(client, two, raw("rate", task, side=0, new=1)).json()["outcomes"][0]
    assert outcome["committed"] is False
    assert session(client, one)["tasks"][0]["ratings"] == [None, None]


def test_a_rater_cannot_reach_the_organiser(client, code):
    for path in ("state", "report", "export"):
        assert get(client, f"/organise/api/{path}", code).status_code == 401
    for path in ("control", "invite"):
        answer = post(client, f"/organise/api/{path}", code, {"state": "closed", "count": 1})
        assert answer.status_code == 401


def test_a_rater_never_gets_the_organiser_s_cookie(client, site, code, organiser):
    assert post(client, "/organise/api/enter", code, {}).status_code == 401
    assert not site.knows_organiser("; ".join(f"{k}={v}" for k, v in client.cookies.items()))
    answer = post(client, "/organise/api/enter", organiser, {})
    header = answer.headers["set-cookie"]
    assert "HttpOnly" in header
    assert organiser not in header
    assert site.knows_organiser(header.split(";")[0])
    assert not site.knows_organiser("macd_organiser=x")
    site.study.renew_organiser()
    assert not site.knows_organiser(header.split(";")[0])


def test_ratings_are_committed_and_reported_back(client, code):
    task = session(client, code)["tasks"][1]["id"]
    mark = raw("rate", task, side=0, new=4)
    reply = send(client, code, mark, raw("consent")).json()
    assert reply["outcomes"][0] == {"uuid": mark["uuid"], "committed": True}
    shown = {
        "id": task,
        "kind": "item",
        "ratings": [4, None],
        "reasons": [[], []],
        "preference": None,
        "skipped": False,
        "done": False,
    }
    assert reply["tasks"] == [shown]
    again = session(client, code)
    assert again["consented"] is True
    assert again["tasks"][1]["ratings"] == [4, None]


def test_training_gets_feedback_once_both_are_rated(client, code):
    first, item = session(client, code)["tasks"][:2]
    assert first["kind"] == "training"
    assert send(client, code, raw("rate", first["id"], side=0, new=4)).json()["feedback"] == {}
    reply = send(client, code, raw("rate", first["id"], side=1, new=4)).json()
    lines = reply["feedback"][first["id"]]
    assert sorted((line["fits"], line["why"]) for line in lines) == [
        (False, "hides the cup"), (True, "hides the dog")]  # fmt: skip
    marks = [raw("rate", item["id"], side=s, new=4) for s in (0, 1)]
    assert send(client, code, *marks).json()["feedback"] == {}


@pytest.mark.parametrize("elapsed", [10**400, -(10**400), 1e308, "1", None, [1], True])
def test_a_time_that_is_none_loses_no_rating(client, code, study, elapsed):
    task = session(client, code)["tasks"][1]["id"]
    mark = raw("rate", task, side=0, new=4) | {"elapsed": elapsed}
    assert send(client, code, mark).json()["outcomes"][0]["committed"] is True
    assert [r["elapsed_ms"] for r in study.rows("SELECT elapsed_ms FROM events")] == [None]


RATE = ("rate", {"side": 0, "new": 4})
REASON = ("reason", {"note": "missed", "side": 0, "new": 1})
BAD = [
    (RATE, {"new": 10**400}, "new is a number"),
    (RATE, {"count": 10**400}, "count is"),
    (RATE, {"new": 6}, "new is 6"),
    (RATE, {"new": "5 OR 1"}, "new is '5"),
    (RATE, {"new": True}, "new is True"),
    (RATE, {"new": 2.5}, "new is 2.5"),
    (RATE, {"new": None}, "a rating has no value"),
    (RATE, {"side": 2}, "side is 2"),
    (RATE, {"side": True}, "side is True"),
    (RATE, {"uuid": "x"}, "uuid is 'x'"),
    (RATE, {"task": "../../etc"}, "task is"),
    (RATE, {"kind": "delete"}, "there is no event"),
    (RATE, {"time": 1e99}, "time is"),
    (RATE, {"arm": "macd"}, "unknown key 'arm'"),
    (RATE, {"tab": "<script>"}, "tab is"),
    (REASON, {"side": None}, "side is None"),
    (REASON, {"note": "ugly"}, "there is no reason 'ugly'"),
    (REASON, {"note": None}, "there is no reason None"),
    (REASON, {"new": 2}, "a reason is 2"),
    (REASON, {"new": True}, "a reason is True"),
    *(
        (("prefer", {}), {"new": value}, "a preference is")
        for value in (3, -1, True, "1", 1.5, [1])
    ),
]


@pytest.mark.parametrize(("sound", "change", "says"), BAD, ids=str)
def test_what_is_no_event(sound, change, says):
    kind, sound = sound
    event = raw(kind, "a" * 32, **sound)
    assert read_event(event).new == sound.get("new")
    with pytest.raises(Refused, match=re.escape(says)):
        read_event(event | change)


def test_a_bad_event_is_refused_alone(client, code, study):
    task = session(client, code)["tasks"][1]["id"]
    bad, good = (raw("rate", task, side=side, new=new) for side, new in ((0, 6), (1, 2)))
    outcomes = {o["uuid"]: o for o in send(client, code, bad, good).json()["outcomes"]}
    assert outcomes[good["uuid"]]["committed"] is True
    assert outcomes[bad["uuid"]]["committed"] is False
    assert outcomes[bad["uuid"]]["reason"].startswith("new is 6")
    assert len(study.rows("SELECT * FROM events")) == 1


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"[" * 100_000, b'{"events": []}', b'{"events": {}}',
             b'{"events": [1]}', b"\xff"],
)  # fmt: skip
def test_a_bad_body_is_refused(client, code, body):
    headers = {CODE_HEADER: code, "content-type": "application/json"}
    answer = client.post("/rate/api/events", headers=headers, content=body)
    if answer.status_code == 200:
        assert answer.json()["outcomes"][0]["committed"] is False
    else:
        assert answer.status_code == 400
        assert answer.json()["error"]


def test_a_large_body_is_refused(client, code):
    headers = {CODE_HEADER: code}
    assert client.post("/rate/api/events", headers=headers, content=b"x" * 2**21).status_code == 413


def test_a_full_disk_is_told_as_not_saved(client, code, study, monkeypatch):
    task = session(client, code)["tasks"][1]["id"]

    class Full:
        in_transaction = False

        def execute(self, sql, *values):
            if sql.startswith("BEGIN"):
                raise sqlite3.OperationalError("database or disk is full")
            return real.execute(sql, *values)

    real = study._db
    monkeypatch.setattr(study, "_db", Full())
    mark = raw("rate", task, side=0, new=4)
    answer = send(client, code, mark)
    assert answer.status_code == 507
    assert "full" in answer.json()["error"]
    monkeypatch.setattr(study, "_db", real)
    assert send(client, code, mark).json()["outcomes"][0]["committed"] is True


def test_an_unforeseen_error_is_no_acknowledgement(client, code, study, monkeypatch):
    monkeypatch.setattr(study, "append", lambda *_: 1 / 0)
    answer = send(client, code, raw("consent"))
    assert answer.status_code == 500
    assert "sent again" in answer.json()["error"]


def test_the_organiser_sees_progress_but_not_which_arm_is_ahead(client, study, organiser):
    for c in study.invite(3):
        rater = study.rater_of(c)
        for task in study.tasks(rater):
            rate(study, rater, task["id"], [2, 4])
    answer = get(client, "/organise/api/state", organiser)
    state = answer.json()
    assert [r["done"] for r in state["raters"]] == [r["screens"] for r in state["raters"]]
    assert state["power"] is None  # who rates all alike is marked
    assert "three raters who were not named" in state["too_few_to_stop"]
    assert state["agreement"]["alpha"]["value"] is not None
    assert {"gold", "repeat_same", "seconds"} <= set(state["raters"][0])
    assert not {"differences", "arms"} & set(state)
    assert '"mean"' not in answer.text
    assert get(client, "/organise/api/report?format=md", organiser).text.startswith("# Rating")
    assert "macd" in get(client, "/organise/api/export?format=csv", organiser).text
    for bad in ("report?format=pdf", "export?format=xml"):
        assert get(client, f"/organise/api/{bad}", organiser).status_code == 400


def test_pausing_and_closing(client, study, code, organiser):
    task = session(client, code)["tasks"][0]["id"]
    post(client, "/organise/api/control", organiser, {"state": "paused"})
    answer = get(client, f"/rate/api/item/{task}", code)
    assert (answer.status_code, "Come back later" in answer.text) == (409, True)
    assert session(client, code)["state"] == "paused"
    assert send(client, code, raw("rate", task, side=0, new=4)).status_code == 200
    post(client, "/organise/api/control", organiser, {"state": "closed"})
    assert send(client, code, raw("rate", task, side=0, new=3)).status_code == 409
    for path in (f"item/{task}", f"media/{task}/clip"):
        answer = get(client, f"/rate/api/{path}", code)
        assert answer.status_code == 410
        assert "closed and takes no more ratings" in answer.text
        assert "later" not in answer.text
    bad = post(client, "/organise/api/control", organiser, {"state": "deleted"})
    assert bad.status_code == 400


def test_the_organiser_s_page_follows_every_change(client, study, organiser):
    """What was computed for the page is used again only where nothing has changed."""

    def state():
        return get(client, "/organise/api/state", organiser).json()

    def control(what):
        post(client, "/organise/api/control", organiser, {"state": what})

    assert state()["study"]["state"] == "open"
    for what in ("paused", "open", "paused", "closed"):
        control(what)
        assert state()["study"]["state"] == what
    control("open")
    (code,) = study.invite(1)
    assert [r["done"] for r in state()["raters"]] == [0]
    rater = study.rater_of(code)
    rate(study, rater, study.tasks(rater)[-1]["id"], [2, 4])
    assert [r["done"] for r in state()["raters"]] == [1]
    study.revoke("R01")
    assert [r["revoked"] for r in state()["raters"]] == [True]
    study.erase("R01")
    assert state()["raters"] == []


def test_inviting_and_revoking(client, study, organiser):
    codes = post(client, "/organise/api/invite", organiser, {"count": 2}).json()["codes"]
    assert session(client, codes[0])["rater"] == "R01"
    post(client, "/organise/api/revoke", organiser, {"rater": "R01"})
    assert get(client, "/rate/api/session", codes[0]).status_code == 403
    # a revoked browser that asks again is no guesser
    for _ in range(10):
        assert get(client, "/rate/api/session", codes[0]).status_code == 403
    body = {"rater": "R01", "restore": True}
    post(client, "/organise/api/revoke", organiser, body)
    assert get(client, "/rate/api/session", codes[0]).status_code == 200
    for count in (0, 101, "x", 1.5):
        answer = post(client, "/organise/api/invite", organiser, {"count": count})
        assert answer.status_code == 400


@pytest.mark.parametrize(
    "name", ["../web.py", "..%2Fweb.py", "%2e%2e/store.py", "web.py", ".env", "rate.html"]
)
def test_only_the_page_s_own_files_are_served(client, name):
    assert client.get(f"/rate/static/{name}").status_code == 404


def test_the_pages_need_nothing_from_elsewhere(client):
    for path in (
        "/rate",
        "/organise",
        "/rate/static/rate.js",
        "/rate/static/organise.js",
        "/rate/static/study.css",
    ):
        text = client.get(path).text
        assert "http://" not in text
        assert "https://" not in text
        assert "onclick" not in text
        assert not re.findall(r"""["'`(]/(?!/)[a-z]""", text)  # it may stand below a path


@pytest.mark.parametrize("name", ["rate", "organise"])
def test_a_page_names_its_script_and_nothing_from_the_root(client, name):
    answer = client.get(f"/{name}")
    text = answer.text
    assert text.startswith('<!doctype html>\n<html lang="en">')
    assert re.findall("<script[^>]*>", text) == [
        f'<script type="module" src="rate/static/{name}.js">'
    ]
    assert '<link rel="stylesheet" href="rate/static/study.css">' in text
    assert "<main>" in text  # the body is markup, and not escaped
    assert answer.headers["x-robots-tag"] == "noindex"
