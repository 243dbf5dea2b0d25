"""How many cases each fuzz target takes, the same every time, and how fast they were."""

import contextlib
import functools
import os
import resource
import time

import torch  # noqa: F401 - a library that is loaded within a limit may be left half loaded
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

CASES = int(os.environ.get("MACD_FUZZ_CASES", "100"))
SPEEDS: dict[str, float] = {}
"""Cases a second by target, for the summary that `conftest.py` prints."""

MEMORY_MB = 300
"""What one case may take above what the process holds before it."""

HOSTILE = [
    None, True, False, 0, -1, 1, 2, 7, 0.5, -0.0, 1e30, -1e300, 2**31, 2**53, 2**63, -(2**64),
    10**400, "", "0", "1", "no", "x" * 300, "\0", "\ud800", "\u202e", "\x1b[2J", "</script>", [],
    {}, [[]], [{}], {"": 0}, [0], [1, 2], [None], ["a"], [[0, 0]], [[1]], {"kind": "level"},
]  # fmt: skip
"""Values that are sound in some place and not in another."""

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(HOSTILE),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4)
    ),
    max_leaves=8,
)
"""Whatever JSON holds, and what Python's reader of it gives beside: NaN, infinities, surrogates."""


@contextlib.contextmanager
def limited_memory(megabytes=MEMORY_MB):
    """Allocations that take the process more than this above what it holds now raise MemoryError.

    Without room the system would end other processes first.
    """
    with open("/proc/self/status") as lines:
        held = next(int(x.split()[1]) for x in lines if x.startswith("VmData:")) * 1024
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = held + megabytes * 2**20
    resource.setrlimit(resource.RLIMIT_DATA, (most if hard < 0 else min(most, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def cases(*strategies, share=1.0):
    """The decorator of a fuzz target: `CASES` cases, derived from the test alone.

    share: of these, in a run of the usual number; for targets whose cases take longer.
    """
    count = CASES if "MACD_FUZZ_CASES" in os.environ else round(CASES * share)

    def decorate(target):
        @settings(
            max_examples=count,
            deadline=None,
            derandomize=True,
            database=None,
            phases=(Phase.explicit, Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        )
        @given(st.tuples(*strategies))
        def fuzz(drawn):
            fuzz.count += 1
            with limited_memory():
                target(*drawn)

        fuzz.count = 0

        @functools.wraps(target)
        def timed():
            fuzz.count = 0
            began = time.perf_counter()
            fuzz()
            SPEEDS[f"{target.__module__.split('.')[-1]}.{target.__name__}"] = fuzz.count / (
                time.perf_counter() - began
            )

        del timed.__wrapped__  # its arguments are no fixtures
        return timed

    return decorate


def is_clear_error(error):
    """Whether an error says what to do, in a message that can be written and is not endless."""
    str(error).encode()
    return bool(error.remedy) and len(str(error)) < 1000


def paths_in(value, path=()):
    """Every place of a JSON value, as keys and indices from its root."""
    if not isinstance(value, dict | list):
        return
    for key, node in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, key)
        yield from paths_in(node, (*path, key))


def change_at(value, path, how, new):
    """Changes one place: "set", "drop", "twice", "rename" or "swap" with a neighbour."""
    node = value
    for key in path[:-1]:
        if not isinstance(node, dict | list):
            return  # an earlier change took the place away
        try:
            node = node[key]
        except (KeyError, IndexError, TypeError):
            return
    last = path[-1]
    if not isinstance(node, dict | list):
        return
    try:
        old = node[last]
    except (KeyError, IndexError, TypeError):
        return
    if how == "set":
        node[last] = new
    elif how == "drop":
        del node[last]
    elif how == "twice":
        if isinstance(node, list):
            node.insert(last, old)
        else:
            node[str(new)[:20]] = old
    elif how == "swap":
        other = next(iter(node)) if isinstance(node, dict) else 0
        node[last], node[other] = node[other], old
