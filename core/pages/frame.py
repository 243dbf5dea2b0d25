"""The frame of every page that this project writes: head, styles of both schemes, escaping.

Bodies are `Markup`: what a template of `template` makes, or `Markup.format` and `Markup.join`,
which escape what is put into them. Text alone cannot be a body.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jinja2 import Environment, StrictUndefined, UndefinedError
from markupsafe import Markup

from macd_studio.core.system.shipped import document_style

_ENVIRONMENT = Environment(
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    undefined=StrictUndefined,
)


def template(source: str) -> Callable[..., Markup]:
    """A template of Jinja as a function of its values, each escaped unless it is `Markup`.

    The function raises LookupError where a value lacks what the template names.

    >>> template("<p>{{ name }}</p>")(name="<b>")
    Markup('<p>&lt;b&gt;</p>')
    """
    made = _ENVIRONMENT.from_string(source)

    def render(**values: Any) -> Markup:
        try:
            return Markup(made.render(values))
        except UndefinedError as error:  # such as a report that lacks something
            raise LookupError(str(error)) from None

    return render


_PAGE = template("""\
<!doctype html>
<html lang="{{ language }}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
{% if policy %}
<meta http-equiv="Content-Security-Policy" content="{{ policy }}">
{% endif %}
<title>{{ title }}</title>
<link rel="icon" href="data:,">
{% if stylesheet %}
<link rel="stylesheet" href="{{ stylesheet }}">
{% endif %}
{% if style %}
<style>
{{ style }}</style>
{% endif %}
{% if head %}
{{ head }}
{% endif %}
</head>
<body{% if body_class %} class="{{ body_class }}"{% endif %}>
{{ body }}
</body>
</html>
""")


def page(
    title: str,
    body: Markup,
    *,
    language: str = "en",
    policy: str = "",
    stylesheet: str = "",
    style: str = "",
    head: Markup | None = None,
    body_class: str = "",
) -> str:
    """A page as HTML.

    policy: of its content, for a page that opens from disk; of this project's own words, as is
    `style`, which the page holds as it is (`document_style` for a page to be read). stylesheet:
    address of further styles. head: what else the head holds. Raises TypeError for a body that is
    text.
    """
    if not isinstance(body, Markup):
        raise TypeError("the body of a page is Markup: see `template`")
    return str(
        _PAGE(
            title=title,
            body=body,
            language=language,
            policy=Markup(policy),
            stylesheet=stylesheet,
            style=Markup(style),
            head=head,
            body_class=body_class,
        )
    )


def document(
    title: str, body: Markup, width: str, style: str = "", above: Markup | None = None
) -> str:
    """A page to be read: a report, a guide. width: of its lines at most, in CSS.

    style: further CSS. above: what comes before the main part, such as links.
    """
    return page(
        title,
        Markup("{}<main>\n{}\n</main>").format(above + "\n" if above else "", body),
        style=document_style(width) + style,
    )
