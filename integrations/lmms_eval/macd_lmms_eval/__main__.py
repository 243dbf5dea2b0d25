"""`python -m macd_lmms_eval eventhallusion DATA TASKS`: a benchmark's folder as lmms-eval's task.

TASKS is then given to lmms-eval as --include_path; the task's name is macd_eventhallusion.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from macd_studio.core.errors import MacdError
from macd_studio.evals.benchmarks import open_files

OFFERED = ("eventhallusion", "video-pope")


def main(argv: list[str] | None = None) -> int:
    """Parses and writes; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m macd_lmms_eval", description=__doc__)
    parser.add_argument("benchmark", choices=OFFERED)
    parser.add_argument("data", type=Path)
    parser.add_argument("tasks", type=Path)
    args = parser.parse_args(argv)
    try:
        print(write_task(args.benchmark, args.data, args.tasks))
    except MacdError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def write_task(benchmark: str, data: Path, tasks: Path) -> str:
    """Writes documents and task file; returns the task's name."""
    opened = open_files(benchmark, data.absolute())
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
    text = _TASK.format(name=name, docs=json.dumps(str(folder / "docs.jsonl")),
                        tokens=opened.max_tokens)  # fmt: skip
    (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
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


if __name__ == "__main__":
    raise SystemExit(main())
