"""Gradio is imported whole, and writes nothing into its own folder."""

import subprocess
import sys

SEEN = """
import pathlib
written = []
real = pathlib.Path.write_text
pathlib.Path.write_text = lambda self, *a, **k: written.append(self.name) or real(self, *a, **k)
read = []
real_read = pathlib.Path.read_text
pathlib.Path.read_text = lambda self, *a, **k: read.append(self.suffix) or real_read(self, *a, **k)
FIRST
import gradio
from gradio import component_meta
assert gradio.Textbox(label="question").label == "question"
print(len([n for n in written if n.endswith(".pyi")]), read.count(".py") + read.count(".pyi"))
"""


def counts(first):
    ran = subprocess.run(
        [sys.executable, "-c", SEEN.replace("FIRST", first)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [int(n) for n in ran.stdout.split()]


def test_a_page_reads_and_writes_no_stubs():
    assert counts("import macd_studio.macd_ui") == [0, 0]
