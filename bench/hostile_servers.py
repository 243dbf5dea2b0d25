"""What hostile model servers take of the client: seconds, memory, and what it says.

    python -m bench.hostile_servers --out bench/results/hostile-servers.json

Each answer is asked for once by a process of its own. The time for an exchange is scaled down to
`SCALED_S` from 600 s; bytes and memory are as they are.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SCALED_S = 4.0
PAUSE_S = 0.02
SLACK = 1.5
"""A whole exchange takes at most so many times its time: the client looks now and then."""
MEMORY_MB = 1100
"""Above the process: an answer of 256 MB, what it is unpacked from, and the values of JSON."""


@contextmanager
def answering(pieces: Any, pause: float = 0.0) -> Iterator[int]:
    """A server that answers every request with these pieces; its port."""
    listening = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def talk(peer: socket.socket) -> None:
        with peer:
            try:
                peer.recv(65536)
                for piece in pieces():
                    if over.is_set():
                        return
                    peer.sendall(piece)
                    if pause:
                        time.sleep(pause)
            except OSError:
                return  # the client has gone

    def serve() -> None:
        while not over.is_set():
            try:
                peer, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=talk, args=(peer,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield listening.getsockname()[1]
    finally:
        over.set()
        listening.close()


def ask(port: int) -> dict[str, Any]:
    """What one request takes of this process."""
    from macd_studio.core.backbones.remote import client as module
    from macd_studio.core.backbones.remote.client import Client
    from macd_studio.core.backbones.remote_address import read_address
    from macd_studio.core.errors import MacdError

    setattr(module, "TRIES", 1)  # noqa: B010
    client = Client(read_address(f"vllm:http://127.0.0.1:{port}"), answer_s=SCALED_S / 2)
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    try:
        client.get("/version")
        said = "read"
    except MacdError as error:
        said = error.cause
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "seconds": round(time.monotonic() - began, 2),
        "mb": round((peak - before) / 1024, 1),
        "answer": said.replace(str(port), "PORT")[:120],
    }


def measure(pieces: Any, pause: float = 0.0) -> dict[str, Any]:
    """Time and memory that a client takes for the pieces, in a process of its own."""
    made = pieces()
    ready = itertools.chain([next(made)], made)  # a large body is made before it is asked for
    with answering(lambda: ready, pause) as port:
        done = subprocess.run(
            [sys.executable, "-m", "bench.hostile_servers", "--ask", str(port)],
            stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def markdown(rows: dict[str, Any]) -> str:
    """The table of docs/security.md: the most memory and time of the answers of each outcome."""
    lines = ["| outcome | answers | most MB | of | most s |", "|---|---|---|---|---|"]
    alike: dict[str, list[str]] = {}
    for what, row in rows.items():
        told = row["answer"]
        outcome = "no answer in time" if "did not answer" in told else "refused"
        alike.setdefault("read" if told == "read" else outcome, []).append(what)
    for outcome, whats in alike.items():
        most = max(whats, key=lambda what: rows[what]["mb"])
        longest = max(rows[what]["seconds"] for what in whats)
        lines.append(
            f"| {outcome} | {len(whats)} | {rows[most]['mb']:.0f} | {most} | {longest:.1f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measures all, or asks once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--ask", type=int, metavar="PORT")
    args = parser.parse_args()
    if args.ask:
        print(json.dumps(ask(args.ask)))
        return
    from tests.hostile_servers import DRIPPING, FLOODING, TEXTS

    rows = {}
    for group in (DRIPPING, FLOODING, TEXTS):
        for what, pieces in group.items():
            rows[what] = measure(pieces, PAUSE_S if group is DRIPPING else 0.0)
            print(what, rows[what], file=sys.stderr, flush=True)
    if args.out is not None:
        args.out.write_text(json.dumps({"scaled_s": SCALED_S, "rows": rows}, indent=1) + "\n")
    print(markdown(rows))


if __name__ == "__main__":
    main()
