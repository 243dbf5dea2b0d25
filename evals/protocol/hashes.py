"""Hashes of texts that two runs are compared by."""

from __future__ import annotations

import hashlib
import json

from macd_studio.evals.benchmarks.base import Item

DIGITS = 32
"""Hexadecimal digits of a hash that are kept."""


def digest(text: str) -> str:
    """The kept digits of a text's SHA-256."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:DIGITS]


def asked_hash(item: Item) -> str:
    """Of what the annotation asks: the question and its options."""
    return digest(json.dumps([item.question, list(item.options)]))


def around_hash(item: Item) -> str:
    """Of the text that is put around a question, without the options' words."""
    before, after = item.before, item.after
    for option in sorted(item.options, key=len, reverse=True):
        before, after = before.replace(option, "…"), after.replace(option, "…")
    return digest(json.dumps([before, after]))
