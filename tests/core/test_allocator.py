"""Freed memory goes back to the system in a program of ours that holds a large model."""

import platform
import subprocess
import sys

import pytest

from macd_studio.core.system import allocator

PROGRAM = """
import sys
import numpy as np
from macd_studio.core.system import allocator
if sys.argv[1] == "ours":
    allocator.own_process()
print(allocator.return_freed(int(sys.argv[2])))
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


def test_where_the_c_library_has_no_such_setting_nothing_is_done(monkeypatch):
    monkeypatch.setattr(allocator, "_ours", True)
    monkeypatch.setattr(allocator.ctypes, "CDLL", lambda _: object())
    assert not allocator.return_freed(10**9)
    monkeypatch.setattr(allocator.sys, "platform", "darwin")
    assert not allocator.return_freed(10**9)
