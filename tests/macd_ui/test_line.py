"""The line for the device: order, places, expectations, leaving."""

import threading

import pytest

from macd_studio.core.errors import MacdError
from macd_studio.macd_ui.queues import JobQueue, QueueFull
from macd_studio.macd_ui.sentences import place_in_queue


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def test_places_are_in_the_order_of_coming():
    line = JobQueue()
    a, b, c = line.enter(), line.enter(), line.enter()
    assert [t.ahead for t in (a, b, c)] == [0, 1, 2]
    assert a.wait(0)
    assert not b.wait(0)
    a.leave()
    assert [t.ahead for t in (b, c)] == [0, 1]
    assert b.wait(0)
    assert not c.wait(0)


def test_one_who_waits_can_leave_from_the_middle():
    line = JobQueue()
    a, b, c = line.enter(), line.enter(), line.enter()
    b.leave()
    b.leave()
    assert (a.ahead, c.ahead, len(line)) == (0, 1, 2)


def test_the_expected_wait_adds_up_and_falls_while_the_first_computes():
    clock = Clock()
    line = JobQueue(clock=clock)
    a, b, c = line.enter(10.0), line.enter(4.0), line.enter(9.0)
    assert (a.wait_s, b.wait_s, c.wait_s) == (0, 10, 14)
    clock.now += 3
    line.enter(5.0).leave()  # one who only waited takes no time along
    assert (b.wait_s, c.wait_s) == (7, 11)
    a.update(20.0)  # it takes longer than was thought
    clock.now += 1
    assert (b.wait_s, c.wait_s) == (19, 23)
    clock.now += 50  # longer still: an expectation is never below nothing
    assert (b.wait_s, c.wait_s) == (0, 4)
    a.leave()
    assert c.wait_s == 4  # the time of the next one starts only now
    clock.now += 1
    assert c.wait_s == 3
    assert place_in_queue(c.runs_ahead, c.wait_s) == "Waiting: 1 run before yours, about 3 s"
    b.update(None)
    assert c.wait_s is None
    line.enter()
    last = line.enter()
    assert place_in_queue(last.runs_ahead, last.wait_s) == "Waiting: 3 runs before yours"


def test_what_the_server_does_itself_is_no_run():
    line = JobQueue()
    line.enter(is_run=False)
    first = line.enter()
    assert first.ahead == 1
    assert place_in_queue(first.runs_ahead, first.wait_s) == "Waiting until the models are ready"
    last = line.enter()
    assert place_in_queue(last.runs_ahead, last.wait_s) == "Waiting: 1 run before yours"


def test_a_full_line_says_what_to_do():
    line = JobQueue(max_waiting=2)
    for _ in range(3):
        line.enter()
    with pytest.raises(QueueFull) as told:
        line.enter()
    assert isinstance(told.value, MacdError)
    assert "Try again" in told.value.remedy
    assert len(line) == 3


def test_leaving_lets_the_next_one_in_even_after_an_error():
    line = JobQueue()
    first, second = line.enter(), line.enter()

    def compute():
        with first:
            assert not second.wait(0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        compute()
    assert second.wait(0)


def test_a_wait_ends_when_it_is_ones_turn_and_when_one_is_stopped():
    line = JobQueue()
    first, second = line.enter(), line.enter()
    stop, results = threading.Event(), []

    def waiting():
        thread = threading.Thread(target=lambda: results.append(second.wait(60, stop.is_set)))
        thread.start()
        return thread

    thread = waiting()
    stop.set()
    line.wake()
    thread.join(30)
    assert results == [False]
    stop.clear()
    thread = waiting()
    first.leave()
    thread.join(30)
    assert results == [False, True]


def test_only_one_computes_at_a_time():
    line = JobQueue(max_waiting=100)
    inside, most, order = [], [], []

    def job(i, ticket):
        with ticket:
            assert ticket.wait(60)
            inside.append(i)
            most.append(len(inside))
            order.append(i)
            inside.remove(i)

    jobs = [threading.Thread(target=job, args=(i, line.enter())) for i in range(20)]
    for thread in reversed(jobs):
        thread.start()
    for thread in jobs:
        thread.join(60)
    assert max(most) == 1
    assert order == list(range(20))
