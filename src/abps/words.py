"""Counts in words: `1 episode`, `2 episodes`, `0 processes`."""

__all__ = ["counted"]


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun.

    Args:
        number: how many.
        noun: of one.
        plural: of several, where it is not the noun with an s.
    """
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
