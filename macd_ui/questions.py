"""Several questions about one clip, one run after the other; the detector and what the model read
of the video serve all of them. And a new run with another detector. Events, no layout.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from macd_studio.core.errors import MacdError, OptionError
from macd_studio.core.methods import clamped_share, in_8_bits
from macd_studio.core.objects.registry import named
from macd_studio.core.objects.truth import is_right
from macd_studio.core.text.question import clean_question
from macd_studio.macd_ui import zerogpu
from macd_studio.macd_ui.session_view import Updates
from macd_studio.macd_ui.traces import StoredTrace
from macd_studio.viewer import identity
from macd_studio.viewer.payload import title_of

if TYPE_CHECKING:
    from macd_studio.core.types import Trace
    from macd_studio.macd_ui.runs import Runs
    from macd_studio.macd_ui.session import Session
from macd_studio.macd_ui.store import Store

MOST = 12
"""Questions asked at once."""
FETCH_S, LOOK_S = 10.0, 0.05
"""How long a run waits until the page has fetched the one before, which it keeps; how often it is
looked for, seconds."""


def read_questions(text: Any) -> list[str]:
    """1 to MOST questions, one on each line, each once. Raises OptionError or QuestionError."""
    lines = [line.strip() for line in text.splitlines()] if isinstance(text, str) else []
    questions = list(dict.fromkeys(line for line in lines if line))
    if not 1 <= len(questions) <= MOST:
        raise OptionError(
            f"there are {len(questions)} questions", f"Write 1 to {MOST}, one on each line"
        )
    return [clean_question(question) for question in questions]


def ask_several(runs: Runs, values: Mapping[str, Any], text: Any, key: str) -> Iterator[Updates]:
    """Runs the form's clip with each question in turn; Stop ends the whole list.

    The update "answers" holds all answers so far. What the model read of the video stays until
    the last question is answered.
    """
    session = runs.store.sessions.open(key)
    try:
        questions = read_questions(text)
    except MacdError as error:
        yield runs.view.show_error(session, error, "form")
        return
    if not zerogpu.active():  # there each run has a process of its own
        from macd_studio.core.run.cache import StageCache

        session.cache = session.cache or StageCache()
        session.cache.keep_prefill = True
    rows: list[dict[str, Any]] = []
    try:
        for number, question in enumerate(questions):
            if number:
                _wait_until_fetched(runs.store, session)
            yield {"question": question, "answers": {"rows": list(rows), "of": len(questions)}}
            before = session.current
            yield from runs.run({**values, "question": question}, key)
            if session.stop.is_set() or not _answered(session.current, before):
                return
            assert session.trace is not None
            rows.append(answers_of(session.trace))
            yield {"answers": {"rows": list(rows), "of": len(questions)}}
    finally:
        if session.cache is not None:
            session.cache.forget_prefill()


def _wait_until_fetched(store: Store, session: Session) -> None:
    """Until an open page has the file of the run that the next one replaces."""
    until = time.monotonic() + FETCH_S
    while store.is_unfetched(session) and time.monotonic() < until:
        if session.stop.wait(LOOK_S):
            return


def answers_of(trace: Trace) -> dict[str, Any]:
    """A row of the table of several questions. run: its `identity`; right: None where not known.

    answers: {} of a run that masks only.
    """
    answers = {
        name: {
            "title": in_8_bits(title_of(name), clamped_share(answer)),
            "text": answer.text,
            "right": is_right(answer.text, trace.truth) if answer.finished else None,
        }
        for name, answer in trace.answers.items()
    }
    return {
        "question": trace.question,
        "clip": trace.clip.name,
        "run": identity(trace),
        "answers": answers,
    }


def _answered(shown: StoredTrace | None, before: StoredTrace | None) -> bool:
    """Whether the last run gave a whole trace: after one that failed, the others would too."""
    return shown is not None and shown is not before and shown.status == "complete"


def run_with_detector(
    runs: Runs, action: Any, values: Mapping[str, Any], key: str
) -> Iterator[Updates]:
    """Runs the question on show again with regions of no class in place of detected objects."""
    session = runs.store.sessions.open(key)
    name = action.get("detector") if isinstance(action, Mapping) else None
    shown = session.current or (runs.view.first and StoredTrace(runs.view.first[1]))
    if (
        not isinstance(name, str)
        or name not in named("nothing")
        or not shown
        or action.get("run") != shown.run
    ):
        error = OptionError(
            "this cannot be run again from here", "Choose the detector in the settings, and run"
        )
        yield runs.view.show_error(session, error, "form")
        return
    chosen = {"detector": name, "question": shown.request.spec.question, "tracks": None}
    yield dict(chosen)
    yield from runs.run({**values, **chosen}, key)
