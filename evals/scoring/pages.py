"""HTML of a run over video files: the report, and the questions behind its cells; no script."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any

from core.methods import find_method
from core.words import visible

Report = dict[str, Any]
QUESTIONS = "questions.html"


def anchor(split: str) -> str:
    """The id of a split's questions.

    >>> anchor("pet & animal/2")
    's-pet-animal-2'
    """
    return "s-" + re.sub(r"[^a-z0-9]+", "-", split.lower()).strip("-")


def link_cells(page: str, splits: list[str]) -> str:
    """The report's page, in which the name of a split leads to its questions."""
    for split in splits:
        shown = html.escape(split)
        link = f'<a href="{QUESTIONS}#{anchor(split)}">{shown}</a>'
        for cell in ("td", "th"):
            page = page.replace(f"<{cell}>{shown}</{cell}>", f"<{cell}>{link}</{cell}>")
    return page


def questions_page(report: Report) -> str:
    """Every question by split, what each method answered, and whether that counts."""
    body = "\n".join(_sections(report))
    title = html.escape(visible(f"{report['benchmark']}: questions"))
    return _PAGE.replace("TITLE", title).replace("BODY", body)


def _sections(report: Report) -> Iterator[str]:
    methods = report["methods"]
    heads = "".join(f"<th>{_text(find_method(m).title)}</th>" for m in methods)
    yield f"<h1>{_text(report['benchmark'])}</h1>"
    yield '<p><a href="report.html">Back to the report</a></p>'
    for split in dict.fromkeys(q["split"] for q in report["questions"]):
        mine = [q for q in report["questions"] if q["split"] == split]
        yield f'<h2 id="{anchor(split)}">{_text(split)}</h2>'
        yield '<div class="wide" tabindex="0" role="region" aria-label="questions"><table>'
        yield f"<tr><th>id</th><th>clip</th><th>question</th><th>truth</th>{heads}</tr>"
        for question in mine:
            options = "; ".join(question["options"])
            asked = _text(question["question"]) + (f"<br><i>{_text(options)}</i>" * bool(options))
            cells = "".join(_answer(question["answers"][m]) for m in methods)
            yield (
                f"<tr><td>{_text(question['id'])}</td><td>{_text(question['clip'])}</td>"
                f"<td>{asked}</td><td>{_text(question['truth'])}</td>{cells}</tr>"
            )
        yield "</table></div>"


def _answer(said: Report) -> str:
    if said["error"]:
        return f'<td class="wrong">failed: {_text(said["error"])}</td>'
    sign, kind = ("✓", "right") if said["right"] else ("✗", "wrong")
    margin = "" if said["margin"] is None else f"<br><small>margin {said['margin']:+.2f}</small>"
    return f'<td class="{kind}">{sign} {_text(said["text"] or "")}{margin}</td>'


def _text(text: str) -> str:
    return html.escape(visible(str(text)))


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>TITLE</title>
<style>
:root { color-scheme: light dark; --line: #8884; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 80rem; margin: 2rem auto; padding: 0 1rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: 13px; }
th, td { text-align: left; vertical-align: top; padding: .3rem .7rem .3rem 0;
  border-bottom: 1px solid var(--line); }
.right { color: light-dark(#05603a, #6ce9a6); } .wrong { color: light-dark(#912018, #fda29b); }
</style></head><body>
BODY
</body></html>
"""
