"""For whom the gate counts what it bounds: visitors, addresses, proxies and tabs."""

from macd_studio.macd_ui.serving import connections
from macd_studio.macd_ui.serving.identity import session_key
from macd_studio.macd_ui.serving.upstream import NO_SESSION
from macd_studio.macd_ui.settings import read_settings
from tests.raw import API
from tests.security.gate_alone import MINE, PEER, Asked, Users


def test_a_refusal_names_who_is_counted_and_what_helps(tmp_path):
    """People behind one address learn that they are counted together; users are counted alone."""
    for number, (settings, counted, helps) in enumerate((
        ({"public": True}, "from your address", "--visitors-per-address N"),
        ({"public": True, "auth": "users"}, "of yours", ""),
    )):  # fmt: skip
        folder = tmp_path / str(number)
        folder.mkdir()
        gate = Asked(folder, **settings)
        gate.quota.refused = {"answer", "request"}
        for asked in (gate.ask(), gate.ask("POST", f"{API}/reset", {})):
            assert asked.status == 429
            assert f"Too many requests {counted}. Wait a few seconds." in asked.text
            assert helps in asked.text
            assert ("--visitors" in asked.text) == bool(helps)


def test_the_requests_of_a_proxy_count_for_its_visitors(tmp_path, monkeypatch):
    proxies = read_settings(["--trusted-proxy", "10.0.0.1"], {}).proxies
    monkeypatch.setattr(connections, "most_of_one", lambda: 2)
    gate = Asked(tmp_path, proxies=proxies)
    answers = []

    def inside():  # more of them while one is under way
        if len(connections._asked) and sum(connections._asked.values()) < 4:
            for who in ("1.1.1.1", "2.2.2.2"):
                answers.append((who, gate.ask(peer="10.0.0.1", x_forwarded_for=who).status))

    gate.app.inside = inside
    assert gate.ask(peer="10.0.0.1", x_forwarded_for="1.1.1.1").status == 200
    assert ("1.1.1.1", 503) in answers
    assert ("2.2.2.2", 200) in answers
    assert not connections._asked
    answers.clear()
    assert gate.ask(peer="10.0.0.9").status == 200  # no proxy: its connections are counted
    assert not answers


def test_a_stream_counts_for_the_tab_as_long_as_it_is_open(tmp_path):
    key, program = session_key("h", MINE), session_key("h", None)
    gate = Asked(tmp_path, Users(key))
    gate.app.inside = lambda: gate.streams.append("inside")
    for path, query in ((f"{API}/queue/data", "session_hash=h&x="), (f"{API}/heartbeat/h", "")):
        gate.streams.clear()
        answer = gate.ask(path=path, query=query, cookie=MINE)
        assert (answer.status, answer.text) == (200, "fine")
        assert gate.streams == [("opened", key), "inside", ("closed", key)]
    assert gate.last.path == f"{API}/heartbeat/{key}"
    assert gate.last.scope["raw_path"] == gate.last.path.encode()
    assert gate.app.seen[0].query == {"session_hash": [key], "x": [""]}
    places = [("stream", PEER, 1), ("stream closed", PEER)]
    assert [n for n in gate.quota.noted if n[0] != "answer"] == 2 * places
    gate.app.error = ZeroDivisionError()
    gate.streams.clear()
    assert gate.ask(path=f"{API}/heartbeat/h").status == 500
    assert gate.streams == [("opened", program), "inside", ("closed", program)]
    assert gate.ask(path=f"{API}/queue/data").status == 400  # of no session
    gate.quota.refused = {"stream"}
    refused = gate.ask(path=f"{API}/heartbeat/h")
    assert refused.status == 429
    assert "too many streams" in refused.text


def test_a_stream_of_which_nothing_is_known_ends_at_once(tmp_path):
    gate = Asked(tmp_path, Users())
    answer = gate.ask(path=f"{API}/queue/data", query="session_hash=h", cookie=MINE)
    assert (answer.status, answer.text) == (200, NO_SESSION)
    assert answer.headers["content-type"][0].startswith("text/event-stream")
    assert not gate.app.seen
    assert not gate.streams
    (tmp_path / "two").mkdir()
    alone = Asked(tmp_path / "two")
    assert alone.ask(path=f"{API}/queue/data", query="session_hash=h").text == "fine"
