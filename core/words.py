"""How counts read in messages. Imports nothing."""


def count(n: int, noun: str) -> str:
    """A number with its noun, which is in the plural but for one.

    >>> count(1, "object"), count(0, "object")
    ('1 object', '0 objects')
    """
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
