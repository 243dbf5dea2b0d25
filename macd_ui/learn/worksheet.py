"""A sheet to print, and the teacher's answer key, from the chapters' own data.

`python -m macd_ui.learn.worksheet` prints the key, with the examples of MACD_EXAMPLES_DIR.
"""

from __future__ import annotations

from collections.abc import Sequence

from macd_studio.core.pages.frame import page, template
from macd_studio.macd_ui.learn.chapters import (
    NEEDS_MODEL,
    Chapter,
    read_chapters,
    read_strings,
)
from macd_studio.macd_ui.learn.lessons import all_values, quiz
from macd_studio.macd_ui.learn.markup import plain
from macd_studio.macd_ui.learn.roles import examples_by_role
from macd_studio.macd_ui.sites import titled

_SHEET = template("""\
<main>
<h1>{{ title }}</h1>
<p class="ln-lines">Name ______________________ Date ______________</p>
<p>Predict before you look. For each question mark one answer, and how sure you are.</p>
{% for chapter in chapters %}
<section><h2>{{ loop.index0 }}. {{ chapter.title }}</h2>
{% if chapter.prediction %}
<p>{{ plain(chapter.prediction.question) }}</p>
<ul class="ln-boxes">
{%- for option in chapter.prediction.options %}<li>☐ {{ plain(option) }}</li>{% endfor %}</ul>
<p>☐ 35 % ☐ 50 % ☐ 70 % ☐ 90 % ☐ 99 %</p>
{% if not loop.first %}
<p>What surprised you?</p><p class="ln-lines">&nbsp;</p><p class="ln-lines">&nbsp;</p>
{% endif %}
{% endif %}
{% if chapter.quiz %}
<ul class="ln-boxes">
{%- for _ in clips[chapter.quiz] %}
<li>Clip {{ loop.index }}: ______________________</li>{% endfor %}</ul>
<p class="ln-lines">Right: ____ of ____</p>
<p>What surprised you?</p><p class="ln-lines">&nbsp;</p><p class="ln-lines">&nbsp;</p>
{% endif %}
{% for step in chapter.steps if step.task and (model or step.done != needs_model) %}
{% if loop.first %}<ul class="ln-boxes">{% endif -%}
<li>☐ {{ plain(step.task) }}</li>
{%- if loop.last %}</ul>{% endif %}
{% endfor %}
</section>
{% endfor %}
</main>""")


def worksheet(chapters: Sequence[Chapter], language: str, model: bool = False) -> str:
    """The sheet as a page of its own: predictions with their options, clips, tasks, and lines.

    model: whether one runs in the course; without it the tasks that need one are left out.
    """
    title = read_strings(language)["worksheet"]
    body = _SHEET(
        title=title, chapters=chapters, clips=quiz(), plain=plain, model=model,
        needs_model=NEEDS_MODEL,
    )  # fmt: skip
    return page(
        titled(title), body, language=language, stylesheet="learn.css", body_class="ln-sheet"
    )


def answer_key(chapters: Sequence[Chapter]) -> str:
    """Right answers and misconceptions, as Markdown; the course holds the reasons."""
    lines = []
    for number, chapter in enumerate(chapters):
        if chapter.prediction is None:
            continue
        right = chapter.prediction.options[chapter.prediction.answer]
        lines += [
            f"## {number}. {chapter.title}",
            "",
            f"*{plain(chapter.prediction.question)}*",
            "",
            f"**{plain(right)}.**",
            "",
        ]
        for belief, instead in chapter.misconceptions:
            lines.append(f"- Often believed: {belief} Instead: {instead}")
        lines.append("")
    return "\n".join(lines).strip()


if __name__ == "__main__":
    print(answer_key(read_chapters("en", all_values(examples_by_role()))))
