"""The app in the conditions of a Hugging Face Space on a CPU, as far as this machine allows."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import http.client
import json
import os
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.server import children, wait_until
from macd_studio.macd_ui.deploy import plan

HOST = "owner-name.hf.space"
WAIT_S = 120.0
"""How long a step may take before it counts as hanging."""
OTHER_USER = 1000
"""The user that a Space runs as."""
CLOSED_PROXY = "http://127.0.0.1:9"
CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS, IFF_UP_RUNNING = 0x8914, 0x41
WITHOUT_PRIVILEGES = ["--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]


def leave_network(conditions: dict[str, str]) -> dict[str, str]:
    """Cuts this process and those it starts off from every network but loopback.

    Where that is not allowed, gives the environment of proxies that refuse every connection.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if sys.platform == "linux" and libc.unshare(CLONE_NEWNET) == 0:
        with socket.socket() as s:
            fcntl.ioctl(s, SIOCSIFFLAGS, struct.pack("16sH14s", b"lo", IFF_UP_RUNNING, b""))
        conditions["network"] = "none but loopback"
        return {}
    conditions["network"] = f"proxies at a closed port ({CLOSED_PROXY})"
    names = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
    local = {"NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost"}
    return dict.fromkeys(names, CLOSED_PROXY) | local


class Space:
    """The app as a Space starts it; ends and removes what it made with the block.

    checkout: the tracked files, read-only. writable: HOME and the temporary folder. prepare: makes
    files there before the start, and gives environment variables.
    """

    def __init__(
        self,
        port: int,
        network: dict[str, str],
        conditions: dict[str, str],
        prepare: Callable[[Space], dict[str, str]] = lambda space: {},
    ) -> None:
        self.port, self.url = port, f"http://127.0.0.1:{port}/"
        self._network, self.conditions, self._prepare = network, conditions, prepare

    def __enter__(self) -> Space:
        self._owner: int | None = None
        self.folder = Path(tempfile.mkdtemp(prefix="space-check-"))
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self) -> None:
        self.folder.chmod(0o755)
        self.checkout = copy_checkout(self.folder / "app")
        self.writable = [self.folder / "home", self.folder / "tmp"]
        drop = self._choose_user()
        more = self._prepare(self)
        self.give_away()
        self.before = snapshot([self.checkout])
        self.log = self.folder / "log"
        self.began = time.monotonic()
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*drop, sys.executable, "app.py"],
                cwd=self.checkout,
                env=self._environment() | more,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def give_away(self) -> None:
        """Lets the app's user have what was made in the folders that it may write to."""
        if self._owner is not None:
            for folder in self.writable:
                for path in [folder, *folder.rglob("*")]:
                    os.chown(path, self._owner, self._owner)

    def _choose_user(self) -> list[str]:
        """The command before the app's, which gives up what a Space's user does not have."""
        for folder in self.writable:
            folder.mkdir()
        conditions = self.conditions
        if os.getuid() != 0 or shutil.which("setpriv") is None:
            conditions["user"] = f"this one (uid {os.getuid()}): another cannot be had"
            return []
        other = ["setpriv", f"--reuid={OTHER_USER}", f"--regid={OTHER_USER}", "--clear-groups",
                 *WITHOUT_PRIVILEGES]  # fmt: skip
        if _runs([*other, "sh", "-c", f'"{sys.executable}" -c "import torch"']):
            self._owner = OTHER_USER
            conditions["user"] = f"uid {OTHER_USER}"
            return other
        conditions["user"] = f"root without capabilities: uid {OTHER_USER} cannot run this Python"
        return ["setpriv", *WITHOUT_PRIVILEGES]

    def _environment(self) -> dict[str, str]:
        home, temporary = map(str, self.writable)
        kept = {k: os.environ[k] for k in ("PATH", "LANG") if k in os.environ}
        return kept | self._network | {
            "HOME": home,
            "TMPDIR": temporary,
            "SYSTEM": "spaces",
            "SPACE_ID": "owner/name",
            "SPACE_HOST": HOST,
            "SPACE_AUTHOR_NAME": "owner",
            "SPACE_REPO_NAME": "name",
            "GRADIO_SERVER_NAME": "0.0.0.0",
            "GRADIO_SERVER_PORT": str(self.port),
        }  # fmt: skip

    def logged(self) -> str:
        """What the app wrote to its output."""
        return self.log.read_text(errors="replace")

    def wait_until_open(self) -> float:
        """Waits until the page answers; gives the seconds since the start. Raises StartError."""
        return wait_until(self.process, self._open, self.log, WAIT_S) - self.began

    def _open(self) -> bool:
        with contextlib.suppress(OSError, http.client.HTTPException):
            status, _, body = self.get("/healthz")
            return status == 200 and json.loads(body)["status"] == "ok"
        return False

    def get(self, path: str, **headers: str) -> tuple[int, list[tuple[str, str]], bytes]:
        """Status, headers with names in lower case, and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        try:
            connection.request(
                "GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()}
            )
            answer = connection.getresponse()
            body = answer.read()
            return answer.status, [(k.lower(), v) for k, v in answer.getheaders()], body
        finally:
            connection.close()

    def written_outside(self) -> list[str]:
        """Files that the app changed in its checkout, or holds open for writing elsewhere."""
        changed = sorted(snapshot([self.checkout]) ^ self.before)
        allowed = tuple(f"{p.resolve()}/" for p in (*self.writable, Path("/dev"), Path("/proc")))
        outside = [p for p in open_for_writing(self.process.pid) if not p.startswith(allowed)]
        return [p for p, *_ in changed] + [p for p in outside if p != str(self.log)]

    def stop(self) -> int:
        """Ends the app as a Space does that is restarted; gives its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(WAIT_S)

    def __exit__(self, *exception: object) -> None:
        process = getattr(self, "process", None)
        if process is not None and process.poll() is None:
            process.kill()
            process.wait()
        for folder, _, _ in os.walk(self.folder):  # its files can be deleted by their owner again
            os.chmod(folder, 0o755)
        shutil.rmtree(self.folder, ignore_errors=True)


def _runs(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, cwd="/").returncode == 0


def copy_checkout(target: Path) -> Path:
    """What `macd_ui.deploy` pushes, in a folder where nothing can be written."""
    for name, content in plan("owner/name").files.items():
        place = target / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.read_bytes())
    for path in [*target.rglob("*"), target]:
        path.chmod(path.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))
    return target


def snapshot(folders: list[Path]) -> set[tuple[str, int, int]]:
    """Every file and folder with its size and the time of its last change."""
    entries = set()
    for folder in folders:
        for path in [folder, *folder.rglob("*")]:
            about = path.lstat()
            entries.add((str(path), about.st_size, about.st_mtime_ns))
    return entries


def open_for_writing(pid: int) -> list[str]:
    """Regular files that a process and its children hold open for writing; [] if unknown."""
    open_files = []
    for process in [pid, *children(pid)]:
        for number in Path(f"/proc/{process}/fd").glob("*"):
            with contextlib.suppress(OSError, StopIteration):
                target = os.readlink(number)
                about = Path(f"/proc/{process}/fdinfo/{number.name}").read_text()
                flags = next(z.split()[1] for z in about.splitlines() if z.startswith("flags"))
                if int(flags, 8) & (os.O_WRONLY | os.O_RDWR) and target.startswith("/"):
                    open_files.append(target.removesuffix(" (deleted)"))
    return open_files
