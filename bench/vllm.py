"""A vLLM server on this machine's CPU, started for a while; see `make vllm` for its environment."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.server import ROOT, answers, free_port, running, wait_until

VLLM = ROOT / ".venv-vllm" / "bin" / "vllm"
WAIT_S = 900.0
"""How long a start may take: 80 s on two idle cores, minutes on busy ones."""
SETTINGS = {
    "VLLM_CPU_KVCACHE_SPACE": "1", "TORCHDYNAMO_DISABLE": "1", "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "OMP_NUM_THREADS": "1",
}  # fmt: skip
NO_CACHES = "PYTHONDONTWRITEBYTECODE"
"""Left out of its environment: three processes would compile the modules of vLLM, each anew."""
COMMON = (
    "--dtype", "float32", "--enforce-eager", "--max-model-len", "2048", "--limit-mm-per-prompt",
    '{"video":1,"image":0}', "--trust-request-mm-kwargs",
)  # fmt: skip
ALL = ("--max-logprobs", "-1", "--enable-scale-out")
"""What the exact way and whole rows need beside."""


@contextmanager
def served(folder: Path, options: Sequence[str], log: Path) -> Iterator[str]:
    """While inside, vLLM serves a folder; gives the backbone's name. log: where it writes.

    Raises StartError where it ends before it answers.
    """
    port = free_port()
    # by its Python, as a checkout that was moved leaves the path in the script's first line behind
    words = [VLLM.with_name("python"), VLLM, "serve", folder, "--host", "127.0.0.1", "--port", port,
             *COMMON, *options]  # fmt: skip
    environment = {k: v for k, v in os.environ.items() if k != NO_CACHES} | SETTINGS
    with running(words, log, env=environment, cwd=folder) as process:
        wait_until(process, lambda: answers(f"http://127.0.0.1:{port}/health"), log, WAIT_S)
        yield f"vllm:http://127.0.0.1:{port}"
