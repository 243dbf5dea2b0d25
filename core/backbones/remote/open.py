"""Opens a server by its address: reads the model's files here, and asks what the server can do."""

from __future__ import annotations

from collections.abc import Callable

from macd_studio.core.backbones.remote.client import CONCURRENCY, Client
from macd_studio.core.backbones.remote.files import load_files
from macd_studio.core.backbones.remote.probe import choose_model, probe
from macd_studio.core.backbones.remote.reader import RemoteReader
from macd_studio.core.backbones.remote_address import Address, files, key, read_address
from macd_studio.core.types import Progress

Connect = Callable[[Address], Client]


def open_server(
    name: str,
    progress: Progress | None = None,
    question: str = "",
    concurrency: int = CONCURRENCY,
    connect: Connect | None = None,
    exact: bool = True,
) -> RemoteReader:
    """A reader of the model at `vllm:http://HOST:PORT[/MODEL]`, once it was probed.

    The key is read from MACD_VLLM_KEY. Tokenizer and processor come from MACD_VLLM_FILES, a folder
    or hub id, or from where the server says that its model is. progress: told what is done.
    question: refused where the model will refuse it. concurrency: requests under way at once.
    connect: another way to make the client. exact: False asks by chat, whatever the server can.
    Raises RemoteError where the server cannot be used, with the reason, BackboneNotFound for a
    wrong address, and what `load_backbone` raises for files that are missing.
    """
    progress, address = progress or Progress(), read_address(name)
    progress.begin(f"Asking {address.url}")
    client = connect(address) if connect else Client(address, key(), concurrency)
    client = client.stopping_when(lambda: progress.stopped, progress)
    model, origin, length = choose_model(client.get("/v1/models"), address.model)
    lm = load_files(files() or origin, name)
    if question:
        lm.refuse_control_tokens(question)
    progress.begin(f"Trying what {address.url} can do")
    server, way, sample = probe(client, lm, model, length, exact)
    return RemoteReader(lm, way.over(client.stopping_when(lambda: False)), server, sample)
