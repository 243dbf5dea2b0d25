"""A stand-in for `spaces` with ZeroGPU's traps: it forks, pickles, counts seconds, wants no CUDA.

Of the real package it takes over: a task is a generator that runs in a forked process; arguments
and what it yields are pickled; the process is killed after the declared seconds; errors arrive as
`gr.Error` with the name of their class alone; closing the generator ends the process at its next
yield. Tensors on any device but the CPU are refused on their way back.
"""

from __future__ import annotations

import io
import multiprocessing
import pickle
import threading
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import gradio as gr
import torch

from tests.patience import PATIENCE_S


class Strict(pickle.Pickler):
    """Refuses what a worker may not send."""

    def reducer_override(self, value: Any) -> Any:
        """See pickle.Pickler."""
        if isinstance(value, torch.Tensor) and value.device.type != "cpu":
            raise pickle.PicklingError(f"a tensor on {value.device} cannot leave the worker")
        return NotImplemented


@dataclass
class FakeSpaces:
    """quota_s: what is left of the visitor's quota. scale: real seconds a declared one lasts.

    declared: the duration of each call. processes: how many were forked. sent: what came back,
    pickled.
    """

    quota_s: float = 10_000
    scale: float = PATIENCE_S
    declared: list[int] = field(default_factory=list)
    processes: int = 0
    sent: list[bytes] = field(default_factory=list)

    def module(self) -> types.ModuleType:
        """What `import spaces` gives."""
        module = types.ModuleType("spaces")
        module.GPU = self.gpu
        module.gradio_auto_wrap = unwrapped
        return module

    def gpu(self, task: Callable[..., Iterator[Any]], *, duration: Callable[..., int]) -> Any:
        """The decorator."""

        def call(*args: Any) -> Iterator[Any]:
            seconds = duration(*args)
            self.declared.append(seconds)
            if seconds > self.quota_s:
                words = f"You have exceeded your GPU quota ({seconds}s requested). <a>Log in</a>"
                raise gr.Error(words, title="ZeroGPU quota exceeded", print_exception=False)
            self.quota_s -= seconds
            yield from self._stream(task, packed(args), seconds)

        return call

    def _stream(self, task: Callable[..., Any], args: bytes, seconds: float) -> Iterator[Any]:
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe()
        stop = context.Event()
        process = context.Process(target=work, args=(task, args, theirs, stop), daemon=True)
        process.start()
        self.processes += 1
        theirs.close()
        over = threading.Timer(seconds * self.scale, process.kill)
        over.start()
        try:
            while True:
                try:
                    kind, content = ours.recv()
                except EOFError:
                    words, title = "GPU task aborted", "ZeroGPU worker error"
                    raise gr.Error(words, title=title, print_exception=False) from None
                if kind == "end":
                    return
                if kind == "error":
                    raise gr.Error(content, title="ZeroGPU worker error", print_exception=False)
                self.sent.append(content)
                yield pickle.loads(content)
        finally:
            stop.set()
            over.cancel()
            ours.close()
            process.join(PATIENCE_S)


def unwrapped(task: Any) -> Any:
    """What Gradio asks for each of its functions; spaces wraps them only where it was told to."""
    return task


def packed(value: Any) -> bytes:
    """The value as bytes; raises PicklingError for what cannot cross."""
    out = io.BytesIO()
    Strict(out).dump(value)
    return out.getvalue()


def work(task: Callable[..., Any], args: bytes, pipe: Any, stop: Any) -> None:
    """The forked process."""
    try:
        try:
            for value in task(*pickle.loads(args)):
                if stop.is_set():
                    return
                pipe.send(("value", packed(value)))
            pipe.send(("end", None))
        except BrokenPipeError:
            return
        except Exception as error:
            pipe.send(("error", type(error).__name__))
    finally:
        pipe.close()
