"""One question before the first screen: who answers it otherwise than wanted rates nothing.

The file is JSON, and checked as a whole when the study is made:

    {"question": "…", "options": ["…", "…"], "answer": "…", "code": "SCREENED", "address": "https://…"}

`answer` is one of the options. `code` and `address`, which may be missing, are shown to those who
fail. No rater receives which answer is the right one.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from macd_studio.core.errors import OptionError
from macd_studio.core.validation import Text, shown
from macd_studio.ratings.errors import Refused, read_text

ASKED, PASSED, FAILED = "asked", "passed", "failed"
MOST_OPTIONS = 8
QUESTION, OPTION = Text(500), Text(200)
PARTICIPANT = re.compile(r"[A-Za-z0-9_-]{1,64}")
PATTERN = "Give 1 to 64 letters, digits, - or _"
RETURN_ADDRESS = re.compile(r"https://[!-~]{1,500}")
REMEDY = "Write it as docs/rating.md shows"
MAX_BYTES = 2**16


@dataclass(frozen=True)
class Screening:
    """answer: the number of the right option, from 1. code, address: for those who fail, or ""."""

    question: str
    options: tuple[str, ...]
    answer: int
    code: str = ""
    address: str = ""

    @property
    def sealed(self) -> dict[str, Any]:
        """What the preregistration commits to."""
        return {
            "question": self.question, "options": list(self.options), "answer": self.answer
        }  # fmt: skip


def read_screening(path: Path) -> Screening:
    """Reads the file; raises OptionError or Refused, which name the bad place."""
    called = f"the screening question {path.name[:100]!r}"
    if path.is_file() and path.stat().st_size > MAX_BYTES:
        raise OptionError(f"{called} is too large", REMEDY)
    try:
        raw = json.loads(read_text(path, called, REMEDY))
    except (ValueError, RecursionError) as error:
        raise OptionError(f"{called} cannot be read ({type(error).__name__})", REMEDY) from error
    known = {"question", "options", "answer", "code", "address"}
    if not isinstance(raw, dict) or not known >= raw.keys() >= {"question", "options", "answer"}:
        raise OptionError(f"{called} has other keys than question, options, answer", REMEDY)
    given = raw["options"]
    if not isinstance(given, list) or not 2 <= len(given) <= MOST_OPTIONS:
        raise OptionError(f"{called} has no options", f"Give a list of 2 to {MOST_OPTIONS}")
    options = [_words(OPTION, one, f"options[{i}]") for i, one in enumerate(given)]
    if len({one.casefold() for one in options}) < len(options):
        raise OptionError(f"{called} has an option twice", "Give different ones")
    answer = _words(OPTION, raw["answer"], "answer")
    if answer not in options:
        raise OptionError(f"the answer {shown(answer)} is none of the options", "Give one of them")
    code, address = raw.get("code", ""), raw.get("address", "")
    check_completion(code, address)
    question = _words(QUESTION, raw["question"], "question")
    return Screening(question, tuple(options), 1 + options.index(answer), code, address)


def _words(rule: Text, value: Any, name: str) -> str:
    words = rule.read(value, name).strip()
    if not words:
        raise OptionError(f"{name} is blank", "Write what raters are to read")
    return words


def check_completion(code: Any, address: Any) -> None:
    """Raises Refused for what is no completion code or return address; "" is none of either."""
    if code != "" and not (isinstance(code, str) and PARTICIPANT.fullmatch(code)):
        raise Refused("the completion code is not one", PATTERN)
    if address != "" and not (isinstance(address, str) and RETURN_ADDRESS.fullmatch(address)):
        raise Refused("the return address is not one", "Give one that begins with https://")
