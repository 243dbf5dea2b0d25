"""A vLLM server on this machine's CPU, started for a while; see `make vllm` for its environment."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from bench.server import ROOT
from bench.space import free_port

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
def served(folder: Path, options: Sequence[str] = ALL, log: Path | None = None) -> Iterator[str]:
    """While inside, vLLM serves a folder; gives the backbone's name. log: where it writes.

    Raises RuntimeError where it ends before it answers.
    """
    port = free_port()
    # by its Python, as a checkout that was moved leaves the path in the script's first line behind
    words = [VLLM.with_name("python"), VLLM, "serve", folder, "--host", "127.0.0.1", "--port", port,
             *COMMON, *options]  # fmt: skip
    environment = {k: v for k, v in os.environ.items() if k != NO_CACHES} | SETTINGS
    with open(log or os.devnull, "wb") as out:
        process = subprocess.Popen(
            [str(word) for word in words], env=environment, stdout=out, stderr=out,
            cwd=folder, start_new_session=True,
        )  # fmt: skip
        try:
            _wait(process, port, log)
            yield f"vllm:http://127.0.0.1:{port}"
        finally:
            _end(process)


def _wait(process: subprocess.Popen[bytes], port: int, log: Path | None) -> None:
    began = time.monotonic()
    with httpx.Client(trust_env=False) as client:
        while time.monotonic() - began < WAIT_S:
            if process.poll() is not None:
                raise RuntimeError(f"vLLM ended with {process.returncode}; its log: {log}")
            try:
                if client.get(f"http://127.0.0.1:{port}/health").status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.5)
    raise RuntimeError(f"vLLM does not answer after {WAIT_S:.0f} s; its log: {log}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the server and the processes that it started, which are its process group."""
    for kind in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, kind)
        except ProcessLookupError:
            break
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            continue
    process.wait()
