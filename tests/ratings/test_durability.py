"""Servers that are killed, disks that are full: every acknowledged rating is there afterwards."""

import random
import shutil
import threading
import time

import httpx
import pytest

from macd_studio.ratings.branches import merge, read_rows
from macd_studio.ratings.check import check_study
from macd_studio.ratings.store import Study
from macd_studio.ratings.web import CODE_HEADER
from tests.patience import PATIENCE_S
from tests.ratings.killable import Server
from tests.ratings.studies import copy_study, raw


@pytest.fixture
def study_path(tmp_path):
    return copy_study(tmp_path, 6)


def write_until_killed(server, code, rng, kills):
    """A client that repeats what was not acknowledged, as the page does, while the server dies.

    Gives uuid → (task, side, new) of what was acknowledged, and the last rating of each side.
    """
    acknowledged, last, waiting, killed = {}, {}, [], 0
    headers = {CODE_HEADER: code}
    tasks = httpx.get(f"{server.url}/rate/api/session", headers=headers).json()["tasks"]
    spent = 0.01
    while killed < kills:
        # after some ratings, at any moment of the next one: how long one takes is measured
        left, stop = rng.randrange(4), threading.Timer(0, server.kill)
        client = httpx.Client(base_url=server.url, headers=headers, timeout=PATIENCE_S)
        try:
            while True:
                if not waiting:
                    side, new = rng.randrange(2), rng.randint(1, 5)
                    task = rng.choice(tasks)["id"]
                    waiting = [raw("rate", task, side=side, new=new)]
                if left == 0:
                    stop = threading.Timer(rng.uniform(0.0, 1.5 * spent), server.kill)
                    stop.start()
                left -= 1
                began = time.monotonic()
                reply = client.post("/rate/api/events", json={"events": waiting})
                spent = time.monotonic() - began
                for outcome in reply.json()["outcomes"]:
                    assert outcome["committed"], outcome
                    e = next(w for w in waiting if w["uuid"] == outcome["uuid"])
                    acknowledged[e["uuid"]] = (e["task"], e["side"], e["new"])
                    last[e["task"], e["side"]] = e["new"]
                waiting = []
        except httpx.TransportError:
            stop.join()
            killed += 1
            server.start()
        finally:
            client.close()
    return acknowledged, last


def check_after_kills(path, code, kills, seed):
    server = Server(path)
    try:
        server.start()
        acknowledged, last = write_until_killed(server, code, random.Random(seed), kills)
    finally:
        server.end()
    assert len(acknowledged) > kills / 2
    assert check_study(path)["events"] >= len(acknowledged)
    with Study(path, write=False) as study:
        stored = {
            r["uuid"]: (r["task"], r["side"], r["new"])
            for r in study.rows("SELECT * FROM events ORDER BY id")
        }
        answers = {(task, side): new for task, side, new in stored.values()}
    assert {u: stored.get(u) for u in acknowledged} == acknowledged
    # one more may be there that was written, but whose acknowledgement the kill swallowed
    assert len(stored) - len(acknowledged) <= 1
    if len(stored) == len(acknowledged):
        assert {k: answers[k] for k in last} == last


@pytest.mark.parametrize("kills", [4, pytest.param(220, marks=pytest.mark.long)])
def test_a_killed_server_loses_nothing(study_path, kills):
    with Study(study_path) as study:
        (code,) = study.invite(1)
    check_after_kills(study_path, code, kills, seed=kills)


def test_two_servers_that_do_not_know_of_each_other_lose_nothing(study_path, tmp_path):
    """An old server goes on while a new one has restored what it had; both are killed at times."""
    with Study(study_path) as study:
        (code,) = study.invite(1)
    paths = [study_path, tmp_path / "two.db"]
    shutil.copy(study_path, paths[1])
    servers, done = [Server(path) for path in paths], [({}, {}), ({}, {})]

    def work(i):
        done[i] = write_until_killed(servers[i], code, random.Random(i), 1)

    try:
        for server in servers:
            server.start()
        shared = raw("consent")
        for server in servers:
            reply = httpx.post(f"{server.url}/rate/api/events", headers={CODE_HEADER: code},
                               json={"events": [shared]}, timeout=PATIENCE_S)  # fmt: skip
            assert reply.json()["outcomes"][0]["committed"]
        threads = [threading.Thread(target=work, args=(i,)) for i in (0, 1)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        for server in servers:
            server.end()
    acknowledged = done[0][0] | done[1][0]
    assert min(len(one[0]) for one in done) > 0
    branches = []
    for path in paths:
        with Study(path, write=False) as study:
            branches.append(read_rows(study))
    results = []
    for path, other in zip(paths, reversed(branches), strict=True):
        with Study(path) as study:
            (fork,) = merge(study, other).forks
            assert fork.twice == 1
            stored = study.rows("SELECT * FROM history ORDER BY stamp, writer")
            results.append([(r["uuid"], r["task"], r["side"], r["new"]) for r in stored])
        check_study(path)
    assert results[0] == results[1]
    uuids = [uuid for uuid, *_ in results[0]]
    assert len(set(uuids)) == len(uuids)
    assert {u: tuple(values) for u, *values in results[0] if u in acknowledged} == acknowledged
    assert shared["uuid"] in uuids


def test_a_disk_that_is_full_for_the_process(study_path):
    """The system refuses to let the file grow; what was acknowledged before stays, and is all."""
    with Study(study_path) as study:
        (code,) = study.invite(1)
        (task, *_) = study.tasks(study.rater_of(code))
    # room for the file and a log, little more
    server = Server(study_path, limit=study_path.stat().st_size + 40_000)
    acknowledged, refused = [], None
    try:
        server.start()
        with httpx.Client(base_url=server.url, headers={CODE_HEADER: code}) as client:
            for n in range(3000):
                e = raw("flag", task["id"], note=f"{n} " + "x" * 900)
                reply = client.post("/rate/api/events", json={"events": [e]}, timeout=PATIENCE_S)
                if reply.status_code != 200:
                    refused = e, reply
                    break
                acknowledged.append(e["uuid"])
    finally:
        server.end()
    assert refused is not None, "the disk never was full"
    assert refused[1].status_code == 507
    assert len(acknowledged) > 3
    with Study(study_path) as study:  # without the limit
        stored = [r["uuid"] for r in study.rows("SELECT uuid FROM events ORDER BY id")]
    assert stored == acknowledged
    check_study(study_path)
