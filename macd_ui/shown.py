"""What is shown, what would be run, and the line that states where they differ. Pure."""

from __future__ import annotations

from macd_ui.session import Asked

LONGEST = 80


def difference(shown: Asked | None, requested: Asked | None) -> str:
    """A sentence for the page where a run would compute something else than what is shown.

    wanted: None where the form holds no clip. Empty where both agree or nothing is shown.
    """
    if shown is None:
        return ""
    if requested is None:
        return f"Shown: {_named(shown)}. To run, choose an example or a clip."
    if shown.same_as(requested):
        return ""
    return f"Shown: {_named(shown)}. Run would analyse {_named(requested)}."


def _named(asked: Asked) -> str:
    question = " ".join(asked.question.split())
    if len(question) > LONGEST:
        question = question[: LONGEST - 1] + "…"
    return f"{asked.clip} · {f'“{question}”' if question else 'no question'}"
