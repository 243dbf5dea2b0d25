"""What a program of ours sets: what becomes of freed memory, and how threads wait."""

import os
import platform
import re
import subprocess
import sys

import pytest

from macd_studio.core.system import process

PROGRAM = """
import sys
import numpy as np
from macd_studio.core.system import process
if sys.argv[1] == "ours":
    process.configure_process()
print(process.return_freed(int(sys.argv[2])))
taken = lambda: int(open("/proc/self/statm").read().split()[1]) * 4096 / 2**20
before = taken()
blocks = [np.ones(2**14) for _ in range(1600)]  # 128 kB each
kept = blocks[::40]
del blocks
print(taken() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
@pytest.mark.parametrize(
    ("whose", "parameters", "returns"),
    [("ours", 10**9, True), ("ours", 10**6, False), ("another", 10**9, False)],
)
def test_only_a_program_of_ours_with_a_large_model_returns_it(whose, parameters, returns):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, whose, str(parameters)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    changed, megabytes = done.stdout.split()
    assert changed == str(returns)
    assert (float(megabytes) < 20) == returns  # of 200, of which 5 are still held


KEEPS = """
import sys
from contextlib import nullcontext
import numpy as np
from macd_studio.core.system import process
if sys.argv[1] == "server":
    process.keep_heaps_small()
elif sys.argv[1] == "model":
    process.configure_process()
    process.return_freed(10**9)
faults = lambda: int(open("/proc/self/stat").read().rsplit(")", 1)[1].split()[7])
taken = lambda: int(open("/proc/self/statm").read().split()[1]) * 4096 / 2**20
def work():
    for _ in range(50):
        np.ones(2**20)  # 8 MB
work()
before = faults()
with process.freed_kept() if sys.argv[2] == "kept" else nullcontext():
    with process.freed_kept() if sys.argv[2] == "kept" else nullcontext():
        work()
    if sys.argv[1] == "late":
        process.configure_process()
        process.return_freed(10**9)
    work()
print(faults() - before)
held = [np.ones(2**20) for _ in range(20)]
held = held[-1:]
before = faults()
work()
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
@pytest.mark.parametrize(
    ("whose", "how", "inside", "after"),
    [
        ("server", "returned", True, True),
        ("server", "kept", False, True),
        ("model", "returned", True, True),
        ("model", "kept", False, True),
        ("late", "kept", False, True),
        ("another", "kept", False, False),
    ],
)
def test_freed_blocks_are_kept_while_that_is_asked_for(whose, how, inside, after):
    """50 blocks of 8 MB one after the other: cleared anew by the system each time, or once."""
    done = subprocess.run(
        [sys.executable, "-c", KEEPS, whose, how], capture_output=True, text=True, check=True,
        env=os.environ | {"NUMPY_MADVISE_HUGEPAGE": "0"},  # one page fault for each 4 kB
    )  # fmt: skip
    once = 8 * 2**20 / 4096
    cleared = [int(pages) > 10 * once for pages in done.stdout.split()]
    assert cleared == [inside, after]


def test_where_the_c_library_has_no_such_setting_nothing_is_done(monkeypatch):
    monkeypatch.setattr(process, "_ours", True)
    monkeypatch.setattr(process.ctypes, "CDLL", lambda _: object())
    assert not process.return_freed(10**9)
    monkeypatch.setattr(process.sys, "platform", "darwin")
    assert not process.return_freed(10**9)


THREADS = """
import ctypes, os, sys
from macd_studio.core.cli.main import main
from macd_studio.core.system.process import configure_process
assert "torch" not in sys.modules  # which reads the setting once, when it is imported
if sys.argv[1] == "ours":
    configure_process()
import torch
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="another OpenMP runtime")
@pytest.mark.parametrize(
    ("whose", "said", "spins"),
    [
        ("ours", {}, 1000),
        ("ours", {process.SPINS: "7"}, 7),
        ("ours", {process.POLICY: "passive"}, 0),
        ("another", {}, None),
    ],
)
def test_threads_that_wait_spin_for_a_moment_in_a_program_of_ours_alone(whose, said, spins):
    ours = (process.SPINS, process.POLICY)
    plain = {name: value for name, value in os.environ.items() if name not in ours}
    done = subprocess.run(
        [sys.executable, "-c", THREADS, whose], capture_output=True, text=True, check=True,
        env=plain | said | {"OMP_DISPLAY_ENV": "VERBOSE"},
    )  # fmt: skip
    told = dict(re.findall(r"(\w+) = '([^']*)'", done.stderr))
    if spins is None:
        assert int(told[process.SPINS]) > 100_000, "the runtime's own"
    else:
        assert int(told[process.SPINS]) == spins
