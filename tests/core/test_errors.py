import ast
import pickle
from pathlib import Path

import pytest

from macd_studio.core import errors

TREE = [
    "BackboneCorrupt BackboneError BackboneNotFound BenchmarkError BlindGradient Cancelled",
    "CorruptVideo",
    "DecodeLimit DetectorError MacdError NoVideoStream NotAVideo NotApplicable NumericalError",
    "OptionError OutOfMemory PlatformError QuestionError RemoteError SeveralVideos TraceError",
    "TracksError",
    "UnsupportedBackbone VideoError VideoNotFound VideoTooLarge VideoTooLong VideoTooSmall",
]


def public() -> list[str]:
    return sorted(
        n for n, v in vars(errors).items() if isinstance(v, type) and "Error" in str(v.mro())
    )


def test_the_tree_is_pinned():
    assert public() == " ".join(TREE).split()


@pytest.mark.parametrize("name", " ".join(TREE).split())
def test_each_says_cause_and_remedy_and_survives_a_process_border(name):
    error = getattr(errors, name)("it broke", "Mend it")
    assert str(error) == "it broke. Mend it."
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.cause, again.remedy) == (type(error), "it broke", "Mend it")


def written(node):
    """The text of a literal, an ellipsis for what is filled in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(v.value if isinstance(v, ast.Constant) else "…" for v in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


@pytest.mark.parametrize("house", ["core", "evals", "ratings", "macd_ui", "toyworld"])
def test_a_remedy_is_a_sentence(house):
    kinds = {*public(), "QuotaError"}
    remedies = [
        (path.name, text)
        for path in (Path(__file__).parents[2] / house).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in kinds
        if len(node.args) == 2 and (text := written(node.args[1]).strip())
    ]
    assert len(remedies) > 2
    for name, text in remedies:
        assert text[0].isupper() or text[0] == "…", (name, text)
        assert len(text.split()) > 1, (name, text)
        assert text[-1] != ".", (name, text)
