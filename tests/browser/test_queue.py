"""The rating page's event queue: nothing is lost, sent twice at once, or asked for without end."""

import json
from pathlib import Path

import pytest

from macd_studio.viewer import bundle

STUDY = "http://study.test/"
OPEN = """([scope, answers]) => {
  const sent = [], timers = [], changes = [];
  const setTimeout = (act, ms) => timers.push({ act, ms }), clearTimeout = () => {};
  const { Failed, Queue } = %s;
  const queue = new Queue(scope, async (events) => {
    sent.push(events.map((e) => e.task));
    const answer = answers.length > 1 ? answers.shift() : answers[0];
    if (typeof answer === "number") throw new Failed(answer, "no");
    const taken = (e) => Boolean(answer["*"]) || answer[e.task] === "taken";
    return { outcomes: events.filter((e) => answer["*"] || answer[e.task])
      .map((e) => ({ uuid: e.uuid, committed: taken(e), reason: "late" })) };
  }, (reply, failure) => changes.push(failure ? failure.status : reply ? "reply" : "added"));
  window.test = { queue, sent, timers, changes, waits: () => timers.map(({ ms }) => ms) };
}"""
PENDING = "test.queue.pending().map(([, e]) => [e.task, test.queue.refused.get(e.uuid) ?? null])"


@pytest.fixture
def opened(browser):
    """Opens queues, each in a tab of its own; all tabs share the browser's store."""
    context = browser.new_context(folds="", reduced_motion="reduce")
    context.route(f"{STUDY}**", lambda route: route.fulfill(body="", content_type="text/html"))

    def open_queue(*answers, scope="a"):
        page = context.new_page()
        page.goto(STUDY)
        page.evaluate(OPEN % bundle(Path("ratings/page/queue.js")), [scope, list(answers)])
        return page

    yield open_queue
    context.close()


def add(page, *tasks):
    page.evaluate(
        "(tasks) => { for (const task of tasks) test.queue.add({ kind: 'rate', task }); }",
        list(tasks),
    )


def flush(page, times=1):
    """Sends what waits; returns what was sent so far, and the waits before each next time, ms."""
    page.evaluate("() => { test.timers.length = 0; }")
    for _ in range(times):
        page.evaluate("test.queue.flush()")
    return page.evaluate("test.sent"), page.evaluate("test.waits()")


def test_what_the_server_refuses_is_not_sent_again(opened):
    page = opened({"a": "taken", "b": "refused", "c": "taken"})
    add(page, "a", "b", "c")
    sent, _ = flush(page, 4)
    assert sent == [["a", "b", "c"]]
    assert page.evaluate(PENDING) == [["b", "late"]]  # the page tells it, and keeps it
    page = opened({"d": "taken"}, scope="other")
    add(page, "d", "e")
    sent, waits = flush(page, 4)  # nothing is said of "e": ever more rarely
    assert (sent, waits) == ([["d", "e"], ["e"], ["e"], ["e"]], [1000, 2000, 4000, 8000])


def test_events_go_in_their_order_and_at_most_fifty_at_once(opened):
    page = opened({"*": True})
    names = [f"{i:03}" for i in range(120)]
    add(page, *names)
    sent, waits = flush(page, 3)
    assert [len(batch) for batch in sent] == [50, 50, 20]
    assert [name for batch in sent for name in batch] == names
    assert waits == [0, 0, 0]  # what the server took is followed at once
    assert page.evaluate(PENDING) == []


@pytest.mark.parametrize(
    ("status", "waits"),
    [
        (0, [1000, 2000, 4000, 8000, 16000, 20000, 20000]),  # no connection: ever more rarely
        (500, [1000, 2000, 4000, 8000, 16000, 20000, 20000]),
        (409, [20000] * 7),  # closed: the organiser may change that
        (401, []),  # a wrong code stays wrong
    ],
)
def test_a_failure_loses_nothing_and_is_not_repeated_in_a_hurry(opened, status, waits):
    page = opened(status)
    add(page, "a")
    sent, waited = flush(page, 7)
    assert waited == waits
    assert sent == [["a"]] * 7
    assert page.evaluate(PENDING) == [["a", None]]
    told = page.evaluate("test.changes.filter((one) => one !== 'added')")
    assert told == [status] * 7


def test_after_a_failure_that_ends_the_next_wait_is_short_again(opened):
    page = opened(0, 0, {"*": True}, 0)
    add(page, "a")
    flush(page, 3)
    add(page, "b")
    assert flush(page)[1] == [1000]


def test_what_one_tab_left_another_sends_and_a_stranger_does_not(opened):
    first = opened(0)
    add(first, "a", "b")
    stored = json.loads(first.evaluate("JSON.stringify({ ...localStorage })"))
    assert len(stored) == 2
    first.close()
    stranger = opened({"*": True}, scope="another")
    assert flush(stranger)[0] == []
    second = opened({"*": True})
    add(second, "c")
    sent, _ = flush(second)
    assert sorted(sent[0]) == ["a", "b", "c"]
    assert sent[0].index("a") < sent[0].index("b")  # each tab's in the order it was made
    assert second.evaluate("localStorage.length") == 0


def test_confirmations_are_forgotten_after_a_month_and_no_sooner(opened):
    """What a browser restores after a crash must not be sent again."""
    page = opened({})
    left = page.evaluate(f"""async () => {{
      const {{ Kept }} = {bundle(Path("ratings/page/kept.js"))};
      const kept = new Kept(), now = Date.now;
      await kept.open();
      for (const days of [0, 29, 31, 400]) {{
        Date.now = () => now() - days * 24 * 3600 * 1000;
        await kept.confirm("a-1", `after ${{days}}`);
      }}
      Date.now = now;
      await kept.tidy();
      return [...(await kept.read("a")).confirmed].sort();
    }}""")
    assert left == ["after 0", "after 29"]


def test_only_one_request_is_under_way(opened):
    page = opened({"*": True})
    add(page, "a", "b")
    page.evaluate("Promise.all([test.queue.flush(), test.queue.flush()])")
    assert page.evaluate("test.sent") == [["a", "b"]]


def test_without_the_browser_s_store_events_wait_in_memory(opened):
    page = opened(0, {"*": True})
    page.evaluate("() => { Storage.prototype.setItem = () => { throw new Error('full'); }; }")
    add(page, "a")
    assert page.evaluate("test.queue.storeWorks") is False
    flush(page)
    assert page.evaluate(PENDING) == [["a", None]]
    assert flush(page)[0] == [["a"], ["a"]]
    assert page.evaluate(PENDING) == []
