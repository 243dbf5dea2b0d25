"""Files of users who may log in: one `user:hash` per line, the hash by scrypt.

python -m macd_ui.serving.passwords FILE USER    # asks for the password, adds or replaces the user
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import hmac
import os
import re
import secrets
import sys
from collections.abc import Awaitable, Callable
from getpass import getpass
from pathlib import Path

from macd_studio.core.errors import MacdError, OptionError
from macd_studio.macd_ui.serving.delays import Delays

KIND = "scrypt"
COST = {"n": 2**14, "r": 8, "p": 1}
USER = re.compile(r"[A-Za-z0-9._@-]{1,64}")
LONGEST = 1000
MOST_USERS = 10_000


def hash_password(password: str) -> str:
    """`scrypt$SALT$HASH`, both in base64."""
    salt = secrets.token_bytes(16)
    return "$".join(
        (KIND, *(base64.b64encode(b).decode() for b in (salt, _digest(password, salt))))
    )


def _digest(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(password.encode("utf-8", "surrogatepass"), salt=salt, dklen=32, **COST)


def matches(password: str, stored: str) -> bool:
    """Whether a password is the one that was hashed; takes as long for a wrong one."""
    _, salt, digest = (base64.b64decode(p) if i else b"" for i, p in enumerate(stored.split("$")))
    return hmac.compare_digest(_digest(password, salt), digest)


def read_users(path: str | Path) -> dict[str, str]:
    """User → hash. Raises OptionError for a file that is missing or holds anything else."""
    remedy = f"Add users by: python -m macd_ui.serving.passwords {path} USER"
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"the file of users {str(path)!r} cannot be read", remedy) from error
    users: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        user, _, stored = line.strip().partition(":")
        parts = stored.split("$")
        if not USER.fullmatch(user) or len(parts) != 3 or parts[0] != KIND or not _decodes(parts):
            raise OptionError(f"line {number} of {str(path)!r} is not user:hash", remedy)
        users[user] = stored
    if not users or len(users) > MOST_USERS:
        raise OptionError(f"{str(path)!r} holds {len(users)} users", remedy)
    return users


def _decodes(parts: list[str]) -> bool:
    try:
        salt, digest = (base64.b64decode(p, validate=True) for p in parts[1:])
    except ValueError:
        return False
    return len(salt) == 16 and len(digest) == 32


def checker(path: str | Path, delays: Delays) -> Callable[[str, str], Awaitable[bool]]:
    """A check of user and password against the file, which is read now, once.

    delays: slow down guessing, and keep the work off the thread that answers requests.
    """
    users = read_users(path)
    nobody = hash_password(secrets.token_urlsafe())

    def right(user: str, password: str) -> bool:
        # an unknown user takes as long as a wrong password
        return matches(password, users.get(user, nobody)) and user in users

    async def check(user: str, password: str) -> bool:
        if len(password) > LONGEST or len(user) > LONGEST:
            return False
        return await delays.check(user, lambda: right(user, password))

    return check


def main() -> None:
    """Adds a user to a file, or gives one another password."""
    parser = argparse.ArgumentParser(
        prog="python -m macd_ui.serving.passwords",
        description="Adds a user who may log in; the password is asked for, or read from a pipe.",
    )
    parser.add_argument("file")
    parser.add_argument("user")
    args = parser.parse_args()
    if not USER.fullmatch(args.user):
        parser.error("a user's name has 1 to 64 letters, digits or . _ @ -")
    if sys.stdin.isatty():
        password = getpass("Password: ")
        if getpass("Again: ") != password:
            raise SystemExit("these are two different passwords; nothing was changed")
    else:
        password = sys.stdin.readline().rstrip("\n")
    if not 8 <= len(password) <= LONGEST:
        raise SystemExit(f"a password has 8 to {LONGEST} characters; nothing was changed")
    path = Path(args.file)
    try:
        users = read_users(path) if path.exists() else {}
    except MacdError as error:
        raise SystemExit(str(error)) from None
    users[args.user] = hash_password(password)
    beside = path.with_name(f"{path.name}.new")
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
            out.writelines(f"{user}:{stored}\n" for user, stored in users.items())
        beside.replace(path)
    except OSError as error:
        raise SystemExit(f"{str(path)!r} cannot be written ({error.strerror})") from None
    print(f"{len(users)} users may log in")


if __name__ == "__main__":
    main()
