"""Files of users who may log in, and delays for whoever guesses their passwords.

A file holds one `user:hash` per line, the hash by scrypt. A right password is never refused.

python -m macd_ui.serving.passwords FILE USER    # asks for the password, adds or replaces the user
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import re
import secrets
import sys
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from getpass import getpass
from pathlib import Path

from macd_studio.commands import parser as command_line
from macd_studio.core.errors import MacdError, OptionError
from macd_studio.core.system.whole import written_whole

KIND = "scrypt"
COST = {"n": 2**14, "r": 8, "p": 1}
USER = re.compile(r"[A-Za-z0-9._@-]{1,64}")
LONGEST = 1000
MAX_USERS = 10_000


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
    if not users or len(users) > MAX_USERS:
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
    parser = command_line(
        "macd_ui.serving.passwords",
        "Adds a user who may log in; the password is asked for, or read from a pipe.",
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
    try:
        with written_whole(path, private=True) as part:
            part.write_text("".join(f"{user}:{stored}\n" for user, stored in users.items()))
    except OSError as error:
        raise SystemExit(f"{str(path)!r} cannot be written ({error.strerror})") from None
    print(f"{len(users)} users may log in")


if __name__ == "__main__":
    main()


FREE = 3
"""Wrong passwords of one account from one address before an attempt waits."""
FIRST_S, LONGEST_S = 1.0, 30.0
"""The first wait, which doubles with each wrong password, and the longest."""
APART_S = 1.0
"""Between two attempts that wait, so that many at once get no more guesses."""
FORGOTTEN_S = 3600.0
"""After so long without an attempt, wrong passwords no longer count."""
REMEMBERED = 10_000
SENDER: ContextVar[str] = ContextVar("sender", default="")
"""The address of the request that is being answered, which the gate sets."""


@dataclass
class _Pair:
    """An account as somebody at one address sees it. free_at: when its next attempt may be made."""

    wrong: int = 0
    waiting: int = 0
    seen_at: float = 0.0
    free_at: float = 0.0


@dataclass
class _Turn:
    """One password of an address is looked at, at a time."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


class Delays:
    """Passwords that were tried, by account and sender.

    The owner of an account does not wait for what is guessed elsewhere, and neither do other
    accounts at an address where somebody guesses. clock, sleep: in seconds; for tests.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.clock, self.sleep = clock, sleep
        self._pairs: OrderedDict[tuple[str, str], _Pair] = OrderedDict()
        self._turns: dict[str, _Turn] = {}
        self._hashing = asyncio.Semaphore(1)

    async def check(self, account: str, matches: Callable[[], bool]) -> bool:
        """Whether the password matches, once it is this attempt's turn.

        matches: takes processor time, and is called in a thread; one at a time for each sender, and
        one at all, so that a flood of one sender makes no other wait for more than its share.
        """
        sender = SENDER.get()
        pair = self._pair(account, sender)
        pair.waiting += 1
        try:
            if (wait := self._wait_s(pair)) > 0:
                await self.sleep(wait)
            turn = self._turns.setdefault(sender, _Turn())
            turn.users += 1
            try:
                async with turn.lock, self._hashing:
                    right = await asyncio.to_thread(matches)
            finally:
                turn.users -= 1
                if not turn.users:
                    self._turns.pop(sender, None)
        finally:
            pair.waiting -= 1
        pair.seen_at = self.clock()
        pair.wrong = 0 if right else pair.wrong + 1
        return right

    def _pair(self, account: str, sender: str) -> _Pair:
        pair = self._pairs.setdefault((account, sender), _Pair())
        self._pairs.move_to_end((account, sender))
        while len(self._pairs) > REMEMBERED:
            self._pairs.popitem(last=False)
        if pair.wrong and not pair.waiting and self.clock() - pair.seen_at > FORGOTTEN_S:
            pair.wrong = 0
        return pair

    def _wait_s(self, pair: _Pair) -> float:
        """How long this attempt waits; those that wait already count as wrong ones."""
        beyond = pair.wrong + pair.waiting - 1 - FREE
        if beyond < 0:
            return 0.0
        now = self.clock()
        start = max(now + min(FIRST_S * 2.0 ** min(beyond, 32), LONGEST_S), pair.free_at)
        pair.free_at = start + APART_S
        return start - now
