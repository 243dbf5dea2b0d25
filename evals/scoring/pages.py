"""HTML of the questions behind the cells of a report over video files; no script.

Every cell of the report leads to a list of its questions by name; each of those to the question
with all answers; and each answer to its trace: the file where one was kept, else the command that
computes it.
"""

from __future__ import annotations

import hashlib
import html
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from macd_studio.core.system.shipped import document_style
from macd_studio.core.text.words import count, visible
from macd_studio.evals.printing.figures import Link, as_cell, own_title
from macd_studio.evals.scoring.show import AGAINST

Report = dict[str, Any]
Links = Callable[[str], list[tuple[str, str]]]
"""Key of an answer's row → (text, address) of what is kept of it."""
QUESTIONS = "questions.html"
LISTED = 500
"""Questions that a list names."""


def anchor(*names: str) -> str:
    """The id of a list of questions; other names have another one.

    >>> anchor("entire"), anchor("entire", "macd")
    ('s-entire', 's-entire-macd')
    >>> anchor("pet & animal/2") != anchor("pet animal 2")
    True
    """
    plain = "-".join(re.sub(r"[^a-z0-9_-]+", "-", name.lower()) for name in names)
    if plain != "-".join(names):
        plain = f"{plain}-{hashlib.sha256(repr(names).encode()).hexdigest()[:6]}"
    return f"s-{plain}"


def link_of(report: Report) -> Link:
    """Where the cells of the report lead; see `evals.printing.figures.page`."""
    methods = {own_title(m, report): m for m in report["methods"]}
    first = next(iter(report["scores"].values()))
    splits = {as_cell(s): s for s in ("all", *first["splits"])}
    labels = {as_cell(d): {as_cell(v): v for v in values} for d, values in first["labels"].items()}
    dimensions = {as_cell(d): d for d in first["labels"]}

    def link(heading: str, kind: str, row: str, column: str) -> str:
        if heading == AGAINST and not row:
            return _at(splits[column]) if column in splits else ""
        if heading == AGAINST and row in methods:
            return _at(splits.get(column, "all"), methods[row])
        if heading in methods and kind == "split" and row in splits:
            return _at(splits[row], methods[heading])
        if heading in methods and row in labels.get(kind, {}):
            return _at(dimensions[kind], labels[kind][row], methods[heading])
        return ""

    return link


def _at(*names: str) -> str:
    return f"{QUESTIONS}#{anchor(*names)}"


def questions_page(report: Report, folder: str = "FOLDER", links: Links = lambda key: []) -> str:
    """Every question by split, what each method answered, and whether that counts.

    folder: of the report, for the command that computes a trace. links: to what is kept.
    """
    body = "\n".join(_sections(report, folder, links))
    title = html.escape(visible(f"{report['benchmark']}: questions"))
    return (
        _PAGE.replace("STYLE", document_style("80rem"))
        .replace("TITLE", title)
        .replace("BODY", body)
    )


def _sections(report: Report, folder: str, links: Links) -> Iterator[str]:
    methods = {m: own_title(m, report) for m in report["methods"]}
    every: list[Report] = report["questions"]
    numbers = {id(q): f"q-{i}" for i, q in enumerate(every)}
    yield f"<h1>{_text(report['benchmark'])}</h1>"
    yield '<p><a href="report.html">Back to the report</a></p>'
    yield (
        "<p>A trace holds one answer with its masks, logits and tokens, and opens in the viewer."
        " Beside each question stands the command that computes one again from the same video,"
        " options and models; <code>--method NAME</code> chooses whose answer.</p>"
    )
    yield f'<h2 id="{anchor("all")}">all</h2>'
    yield from _lists(every, ("all",), methods, numbers)
    for dimension, value in dict.fromkeys(tuple(z) for q in every for z in q.get("labels", ())):
        of_part = [q for q in every if [dimension, value] in q["labels"]]
        yield f"<h2>{_text(dimension)}: {_text(value)}</h2>"
        yield from _lists(of_part, (dimension, value), methods, numbers)
    for split in dict.fromkeys(q["split"] for q in every):
        of_part = [q for q in every if q["split"] == split]
        yield f'<h2 id="{anchor(split)}">{_text(split)}</h2>'
        yield from _lists(of_part, (split,), methods, numbers)
        yield from _table(of_part, methods, numbers, folder, links)


def _lists(
    questions: Sequence[Report],
    names: tuple[str, ...],
    methods: dict[str, str],
    numbers: dict[int, str],
) -> Iterator[str]:
    """By method: what it repairs and spoils of these questions, and what else it has wrong."""
    yield '<ul class="lists">'
    for method in methods:
        right = [q for q in questions if q["answers"][method]["right"]]
        wrong = [q for q in questions if not q["answers"][method]["right"]]
        parts = {"wrong": wrong}
        if method != "baseline" and "baseline" in methods:
            parts = {
                "repaired": [q for q in right if not q["answers"]["baseline"]["right"]],
                "spoiled": [q for q in wrong if q["answers"]["baseline"]["right"]],
                "wrong as before": [q for q in wrong if not q["answers"]["baseline"]["right"]],
            }
        shown = "; ".join(
            f"{name}: {_names(members, numbers)}" for name, members in parts.items() if members
        )
        yield (
            f'<li id="{anchor(*names, method)}"><b>{_text(methods[method])}</b>'
            f" {len(right)} of {count(len(questions), 'question')} right{'; ' * bool(shown)}{shown}"
            "</li>"
        )
    yield "</ul>"


def _names(questions: Sequence[Report], numbers: dict[int, str]) -> str:
    listed = ", ".join(
        f'<a href="#{numbers[id(q)]}">{_text(q["id"])}</a>' for q in questions[:LISTED]
    )
    more = len(questions) - LISTED
    return f"{listed} and {more} more" if more > 0 else listed


def _table(
    questions: Sequence[Report],
    methods: dict[str, str],
    numbers: dict[int, str],
    folder: str,
    links: Links,
) -> Iterator[str]:
    heads = "".join(f"<th>{_text(title)}</th>" for title in methods.values())
    yield '<table tabindex="0">'
    yield f"<tr><th>id</th><th>clip</th><th>question</th><th>truth</th>{heads}</tr>"
    for question in questions:
        options = "; ".join(question["options"])
        asked = _text(question["question"]) + (f"<br><i>{_text(options)}</i>" * bool(options))
        cells = "".join(_answer(question["answers"][m], links) for m in methods)
        yield (
            f'<tr id="{numbers[id(question)]}"><td>{_text(question["id"])}</td>'
            f"<td>{_text(question['clip'])}</td><td>{asked}"
            f"<details><summary>trace</summary><code>{_text(command(folder, question['id']))}"
            f"</code></details></td><td>{_text(question['truth'])}</td>{cells}</tr>"
        )
    yield "</table>"


def command(folder: str, question: str) -> str:
    """The command that computes the trace of a question's answer."""
    words = ["python", "-m", "evals", "trace", folder, question, "--out", "answer.macd"]
    dashed = any(word.startswith("-") for word in (folder, question))
    # after -- argparse takes a word that begins with a dash for what it is
    return shlex.join([*words[:4], "--out", "answer.macd", "--", *words[4:6]] if dashed else words)


def _answer(answer: Report, links: Links) -> str:
    if answer["error"]:
        return f'<td class="wrong">failed: {_text(answer["error"])}</td>'
    if answer.get("left_out"):
        return f'<td class="wrong">does not apply: {_text(answer["left_out"])}</td>'
    sign, kind = ("✓", "right") if answer["right"] else ("✗", "wrong")
    margin = "" if answer["margin"] is None else f"margin {answer['margin']:+.2f}"
    kept = [f'<a href="{html.escape(to)}">{_text(name)}</a>' for name, to in links(answer["key"])]
    small = " · ".join([*filter(None, [margin]), *kept])
    note = f"<br><small>{small}</small>" if small else ""
    return f'<td class="{kind}">{sign} {_text(answer["text"] or "")}{note}</td>'


def _text(text: str) -> str:
    return html.escape(visible(str(text)))


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>TITLE</title>
<style>
STYLE:target { background: var(--warn); }
.lists { font-size: var(--type-s); padding-left: 20px; } code { overflow-wrap: anywhere; }
.right { color: var(--good); } .wrong { color: var(--bad); }
</style></head><body>
<main>
BODY
</main>
</body></html>
"""
