"""Answers on which scoring rules are compared with the programs that they follow.

`PYTHONPATH=. python tests/evals/harness_cases.py FILE` writes what the installed
lmms-eval says of them.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from macd_studio.evals.benchmarks.base import Item

OPTIONS = {
    "mvbench": ("up", "down", "to the left", "to the right", "up and down"),
    "perception-test": ("up", "down", "to the left"),
    "video-mme": ("Up.", "Down.", "To the left.", "To the right."),
}
WRITTEN = (
    "", " ", "\n", ".", "(", ")", "A", "B", " B", "B ", "b", "(b)", "(B)", "B)", "B.", "B:", "B,",
    "B!", "'B'", '"B"', "**B**", "*B*", "[B]", "{B}", "$B$", "\\boxed{B}", "B\n", "B\nbecause",
    "B.\nbecause", "(B) down", "(b) down", "(B)down", "B. down", "b. down", "B: down", "B) down",
    "B - down", "Bdown", "B1", "down", "Down", "Down.", " down ", "to the left", "up and down",
    "It goes down.", "It goes up and then down.", "X.", "X", "Z", "(Z)", "E", "e", "(E)", "F", "f",
    "H", "D", "D.", "d", "a", "A dog", "a dog", "A dog moves to the left", "A or B", "A and C",
    "Neither A nor B", "Not A but B", "not A, B.", "There is a dog. The answer is C", "I", "I see",
    "Answer: B", "Answer:B", "answer: b", "ANSWER: B", "Answer: X", "The answer is B",
    "The answer is: B", "The answer is (B).", "the answer is b", "The answer is down",
    "The answer is a cup", "The best answer is: B", "The best answer is B. Down.",
    "The correct answer is **B**. Here is why: A is wrong", "Best answer: D", "Best option: D",
    "The best option is D", "The correct option is D", "Option: C", "Option C", "option c",
    "Options A, B, C and D", "The choice is C", "I choose C", "I pick the letter C",
    "My answer is C",
    "I would choose (C) because A is wrong", "(A) is wrong, (C) is right", "C is right, A is wrong",
    "A: no. B: yes.", "A. B. C. D.", "Cannot tell", "Cannot determine the answer", "No idea",
    "Best guess", "Dogs and Cats", "I'm sorry, but without the image provided I cannot say B",
    "I can't process this file. B", "答案是C", "选B", "정답은 B", "答えはD", "1", "1,000", "1.5",
    "B 1.5",
    "The video shows that the ball rolls over the table and then falls off",
    "The video shows that the ball rolls over the table and then falls off: C",
    "First it goes up, then down, then to the left, then to the right, then up and down, and so on",
    "BECAUSE", "BAD", "ABCD", "B C", "C, B", "B/C", "B-C", "B_C", "no", "yes", "No.", "Yes, B",
    "<think>A or B?</think>B", "<think>A</think>\n\n(C)", "A it is</think>The answer is B",
    "<think></think>", "<think>A</think>B<think>C</think>", "<analysis>A</analysis> C",
)  # fmt: skip
PIECES = ("A", "B", "C", "D", "(B)", "c.", "(a)", "E", "Z", "a", "the", "dog", "down", "up", "or",
          "answer is", "Answer:", "best", "The best option is", "I", "not", ",", ".", ":", ")",
          "Best", "\n", "  ", "choice is", "To the left.")  # fmt: skip


def texts() -> tuple[str, ...]:
    """The answers, written and put together; always the same."""
    dice = random.Random(7)
    joined = (" ".join(dice.choices(PIECES, k=dice.randint(2, 7))) for _ in range(240))
    glued = ("".join(dice.choices(PIECES, k=dice.randint(2, 4))) for _ in range(80))
    return tuple(dict.fromkeys((*WRITTEN, *joined, *glued)))


def letters(benchmark: str) -> str:
    """The letters of its options."""
    return "ABCDE"[: len(OPTIONS[benchmark])]


def item(benchmark: str, truth: str) -> Item:
    """A question whose right answer is that letter."""
    return Item("q", "v", "r", "", "choice", "Which way?", truth, options=OPTIONS[benchmark])


Judge = Callable[[str, str], bool]
"""(answer, the right letter) → whether it counts."""


def judged(judges: dict[str, Judge]) -> dict[str, dict[str, str]]:
    """Benchmark → answer → all letters for which it would count as right."""
    return {
        name: {t: "".join(z for z in letters(name) if judge(t, z)) for t in texts()}
        for name, judge in judges.items()
    }


def of_lmms_eval() -> dict[str, Judge]:
    """What the installed lmms-eval says, thinking spans removed as its command line does."""
    tasks = "lmms_eval.tasks"
    mvbench = import_module(f"{tasks}.mvbench.utils").mvbench_process_results
    perception = import_module(f"{tasks}.perceptiontest.val.utils")
    video_mme = import_module(f"{tasks}.videomme.utils").videomme_process_results
    strip = import_module("lmms_eval.api.reasoning").strip_reasoning_tags
    pairs = [["<think>", "</think>"], ["<analysis>", "</analysis>"]]

    def of_mvbench(text: str, truth: str) -> bool:
        options = list(OPTIONS["mvbench"])
        doc = {"candidates": options, "answer": options["ABCDE".index(truth)]}
        return mvbench(doc, [strip(text, pairs)])["mvbench_accuracy"]["score"] == 1

    def of_perception_test(text: str, truth: str) -> bool:
        doc = {"answer_id": "ABC".index(truth), "video_name": "v", "question": "q"}
        judge = perception.perceptiontest_val_process_results_mc
        return judge(doc, [strip(text, pairs)])["accuracy"]["correct"] == 1

    def of_video_mme(text: str, truth: str) -> bool:
        keys = ("question_id", "duration", "domain", "sub_category", "task_type", "videoID")
        doc = dict.fromkeys(keys, "x") | {"answer": truth}
        return video_mme(doc, [strip(text, pairs)])["videomme_perception_score"]["score"] == 1.0

    return {"mvbench": of_mvbench, "perception-test": of_perception_test, "video-mme": of_video_mme}


def write(path: Path, program: str, of: str, judges: dict[str, Judge]) -> None:
    """What a program says of all answers, one line an answer."""
    lines = [f'{{"program": {json.dumps(program)}, "version": {json.dumps(of)}, "right": {{']
    blocks = []
    for name, said in judged(judges).items():
        rows = ",\n".join(
            f"{json.dumps(t, ensure_ascii=False)}: {json.dumps(z)}" for t, z in said.items()
        )
        blocks.append(f"{json.dumps(name)}: {{\n{rows}\n}}")
    path.write_text("\n".join([*lines, ",\n".join(blocks), "}}"]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]), "lmms-eval", version("lmms-eval"), of_lmms_eval())
