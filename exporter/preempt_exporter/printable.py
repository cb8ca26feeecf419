"""Names out of ledgers on a terminal."""


def printable(text: str) -> str:
    """A name that cannot move the cursor or hide itself: what does not print shows as its escape."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
