"""HTML of the questions behind the cells of a report over video files; no script.

Every cell of the report leads to a list of its questions by name; each of those to the question
with all answers; and each answer to its trace: the file where one was kept, else the command that
computes it.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from macd_studio.core.pages.blocks import Link
from macd_studio.core.pages.frame import document, template
from macd_studio.core.text.words import count, visible
from macd_studio.evals.printing.figures import as_cell, own_title
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
    first = report["scores"][report["methods"][0]]
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
    every: list[Report] = report["questions"]
    numbers = {id(q): f"q-{i}" for i, q in enumerate(every)}
    body = _QUESTIONS(
        benchmark=report["benchmark"],
        parts=list(_parts(report["methods"], every)),
        methods=report["methods"],
        number=lambda question: numbers[id(question)],
        title_of=lambda method: own_title(method, report),
        command=lambda question: command(folder, question),
        links=links,
        count=count,
        most=LISTED,
        visible=lambda text: visible(str(text)),
    )
    return document(visible(f"{report['benchmark']}: questions"), body, "80rem", _STYLE)


_STYLE = """\
:target { background: var(--warn); }
.lists { font-size: var(--type-s); padding-left: 20px; } code { overflow-wrap: anywhere; }
.right { color: var(--good); } .wrong { color: var(--bad); }
"""
_QUESTIONS = template("""\
{% macro names(questions) -%}
{% for q in questions[:most] %}<a href="#{{ number(q) }}">{{ visible(q.id) }}</a>
{%- if not loop.last %}, {% endif %}{% endfor %}
{%- if questions | length > most %} and {{ questions | length - most }} more{% endif %}
{%- endmacro %}
{% macro cell(answer) -%}
{% if answer.error %}
<td class="wrong">failed: {{ visible(answer.error) }}</td>
{%- elif answer.left_out is defined and answer.left_out %}
<td class="wrong">does not apply: {{ visible(answer.left_out) }}</td>
{%- else %}
<td class="{{ 'right' if answer.right else 'wrong' }}">{{ '✓' if answer.right else '✗' }}
{{- ' ' ~ visible(answer.text or '') }}
{%- set kept = links(answer.key) %}
{%- if kept or answer.margin is not none %}<br><small>
{%- if answer.margin is not none %}margin {{ '%+.2f' | format(answer.margin) }}
{%- if kept %} · {% endif %}{% endif %}
{%- for name, to in kept %}<a href="{{ to }}">{{ visible(name) }}</a>
{%- if not loop.last %} · {% endif %}{% endfor %}</small>{% endif %}</td>
{%- endif %}
{%- endmacro %}
<h1>{{ visible(benchmark) }}</h1>
<p><a href="report.html">Back to the report</a></p>
<p>A trace holds one answer with its masks, logits and tokens, and opens in the viewer. Beside \
each question stands the command that computes one again from the same video, options and models; \
<code>--method NAME</code> chooses whose answer.</p>
{% for part in parts %}
<h2{% if part.id %} id="{{ part.id }}"{% endif %}>{{ visible(part.title) }}</h2>
<ul class="lists">
{% for method, id, right, lists in part.methods %}
<li id="{{ id }}"><b>{{ title_of(method) }}</b>
{{- ' ' }}{{ right }} of {{ count(part.questions | length, 'question') }} right
{%- for name, members in lists %}; {{ name }}: {{ names(members) }}{% endfor %}</li>
{% endfor %}
</ul>
{% if part.listed %}
<table tabindex="0">
<tr><th>id</th><th>clip</th><th>question</th><th>truth</th>
{%- for m in methods %}<th>{{ title_of(m) }}</th>{% endfor %}</tr>
{% for q in part.questions %}
<tr id="{{ number(q) }}"><td>{{ visible(q.id) }}</td><td>{{ visible(q.clip) }}</td>
{#- #}<td>{{ visible(q.question) }}
{%- if q.options %}<br><i>{{ visible(q.options | join('; ')) }}</i>{% endif %}
<details><summary>trace</summary><code>{{ visible(command(q.id)) }}</code></details></td>
{#- #}<td>{{ visible(q.truth) }}</td>{% for m in methods %}{{ cell(q.answers[m]) }}{% endfor %}</tr>
{% endfor %}
</table>
{% endif %}
{% endfor %}""")


_Counted = tuple[str, str, int, list[tuple[str, list[Report]]]]
"""A method, the id of its list, how many it has right, and lists of the others by name."""


@dataclass(frozen=True)
class _Part:
    """Some questions under a heading; listed: whether they stand there with their answers."""

    title: str
    names: tuple[str, ...]
    questions: Sequence[Report]
    methods: list[_Counted]
    listed: bool = False

    @property
    def id(self) -> str:
        """Of the heading; that of a label has none."""
        return anchor(*self.names) if len(self.names) == 1 else ""


def _parts(methods: list[str], every: list[Report]) -> Iterator[_Part]:
    def part(title: str, names: tuple[str, ...], of: list[Report], listed: bool = False) -> _Part:
        return _Part(title, names, of, _lists(names, of, methods), listed)

    yield part("all", ("all",), every)
    for dimension, value in dict.fromkeys(tuple(z) for q in every for z in q.get("labels", ())):
        of = [q for q in every if [dimension, value] in q["labels"]]
        yield part(f"{dimension}: {value}", (dimension, value), of)
    for split in dict.fromkeys(q["split"] for q in every):
        yield part(split, (split,), [q for q in every if q["split"] == split], listed=True)


def _lists(
    names: tuple[str, ...], questions: Sequence[Report], methods: list[str]
) -> list[_Counted]:
    """By method: what it repairs and spoils of these questions, and what else it has wrong."""
    made = []
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
        lists = [(name, of) for name, of in parts.items() if of]
        made.append((method, anchor(*names, method), len(right), lists))
    return made


def command(folder: str, question: str) -> str:
    """The command that computes the trace of a question's answer."""
    words = ["python", "-m", "evals", "trace", folder, question, "--out", "answer.macd"]
    dashed = any(word.startswith("-") for word in (folder, question))
    # after -- argparse takes a word that begins with a dash for what it is
    return shlex.join([*words[:4], "--out", "answer.macd", "--", *words[4:6]] if dashed else words)
