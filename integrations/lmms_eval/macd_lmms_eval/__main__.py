"""`python -m macd_lmms_eval eventhallusion DATA TASKS`: a benchmark's folder as lmms-eval's tasks.

TASKS is then given to lmms-eval as --include_path. The task macd_eventhallusion is for any model;
video_controls asks macd_studio the same by the method, its controls and plain decoding.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from macd_studio.core.errors import BenchmarkError, MacdError
from macd_studio.core.methods import find_method
from macd_studio.evals.benchmarks import open_files

OFFERED = ("eventhallusion", "video-pope", "questions")
CONTROLS = ("baseline", "random-place", "random-average-4", "mask-all", "blank", "reversed")
"""Methods of the tasks `video_controls`, beside the one whose gain is in question."""


def main(argv: list[str] | None = None) -> int:
    """Parses and writes; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m macd_lmms_eval", description=__doc__)
    parser.add_argument("benchmark", choices=OFFERED)
    parser.add_argument("data", type=Path)
    parser.add_argument("tasks", type=Path)
    parser.add_argument("--method", default="macd", help="whose gain the controls are for")
    args = parser.parse_args(argv)
    try:
        print(write_task(args.benchmark, args.data, args.tasks, args.method))
    except MacdError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def write_task(benchmark: str, data: Path, tasks: Path, method: str = "macd") -> str:
    """Writes documents and task files; returns the name of the task for any model.

    Raises OptionError for a method that there is not, BenchmarkError for questions that a document
    does not hold whole: other than English yes and no, or about a part of a video.
    """
    methods = dict.fromkeys((find_method(method).name, *CONTROLS))
    opened = open_files(benchmark, data.absolute())
    parts = {a.id for a in opened.asked if a.start or a.end is not None}
    other = [i.id for i in opened.everything if i.kind != "yes-no" or i.options or i.id in parts]
    if other:
        raise BenchmarkError(
            f"{len(other)} questions, such as {other[0]}, are not answered by yes or no, or are"
            " about a part of a video",
            "Leave them out, and cut the videos",
        )
    name = f"macd_{benchmark.replace('-', '_')}"
    folder = (tasks / name).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    videos = {a.id: str(a.video) for a in opened.asked}
    docs = [
        {"question_id": i.id, "question": i.question, "before": i.before, "after": i.after,
         "answer": i.truth, "split": i.regime, "video": videos[i.id],
         "cluster": opened.cluster(i), "benchmark": benchmark}
        for i in opened.everything
    ]  # fmt: skip
    lines = "".join(json.dumps(d) + "\n" for d in docs)
    (folder / "docs.jsonl").write_text(lines, encoding="utf-8")
    functions = Path(__file__).parent / "task_functions.py"
    (folder / "utils.py").write_text(functions.read_text(encoding="utf-8"), encoding="utf-8")
    for asked in ("", *methods):
        own = f"{name}_{asked.replace('-', '_')}" if asked else name
        text = _TASK.format(name=own, docs=json.dumps(str(folder / "docs.jsonl")),
                            tokens=opened.max_tokens)  # fmt: skip
        if asked:
            text = text.replace("do_sample: false\n", f"do_sample: false\n  method: {asked}\n")
            text += _CONTROL
        (folder / f"{own}.yaml").write_text(text, encoding="utf-8")
    return name


_TASK = """dataset_path: json
dataset_kwargs:
  data_files:
    test: {docs}
task: {name}
test_split: test
output_type: generate_until
cluster_key: cluster
doc_to_visual: !function utils.doc_to_visual
doc_to_text: !function utils.doc_to_text
doc_to_messages: !function utils.doc_to_messages
doc_to_target: answer
generation_kwargs:
  max_new_tokens: {tokens}
  temperature: 0
  do_sample: false
process_results: !function utils.process_results
metric_list:
  - metric: macd_accuracy
    aggregation: !function utils.accuracy
    higher_is_better: true
metadata:
  - version: 0.1
"""
_CONTROL = """tag: video_controls
lmms_eval_specific_kwargs:
  macd_studio:
    by_method: true
"""


if __name__ == "__main__":
    raise SystemExit(main())
