"""Whether Prometheus takes a regular expression: its dialect is RE2, as Go has it.

Python's own parser judges what both have in common; before that, spellings that only RE2 knows are put into Python's
words, and those that only Python knows are found. https://github.com/google/re2/wiki/Syntax

promtool stays the last judge, of names of scripts in `\\p{}` for example.
"""

import re
import warnings

_MOST_REPEATS = 1000
_CLASSES = "alnum|alpha|ascii|blank|cntrl|digit|graph|lower|print|punct|space|upper|word|xdigit"
_PIECE = re.compile(
    rf"""(?P<quoted>\\Q.*?\\E)
    |(?P<character>\\(?:[pP](?:\{{\^?\w+\}}|[A-Z])|x\{{[0-9a-fA-F]{{1,6}}\}}|[1-7][0-7]{{1,2}}|0[0-7]{{0,2}}))
    |(?P<end>\\z)
    |(?P<same>\\(?:x[0-9a-fA-F]{{2}}|[aftnrvbBdDsSwWA_]|[^\w\x80-\U0010ffff])|\(\?P<\w+>)
    |(?P<strange>\\.?)
    |(?P<flags>\(\?[imsU]*(?:-[imsU]+)?(?P<inside>[:)]))
    |(?P<unknown>\(\?)
    |(?P<class>\[:\^?(?:{_CLASSES}):\])
    |(?P<no_class>\[:\^?\w*:\])
    |(?P<possessive>(?:[*+?]|\{{\d+(?:,\d*)?\}})\+)
    |(?P<repeat>\{{(?P<least>\d+)(?:,(?P<most>\d*))?\}})""",
    re.VERBOSE | re.DOTALL,
)
_REFUSED = ("strange", "unknown", "no_class", "possessive")


def is_re2(pattern: str) -> bool:
    """Whether `pattern` may stand behind `=~`."""
    pieces = list(_PIECE.finditer(pattern))
    if any(piece[name] is not None for piece in pieces for name in _REFUSED):
        return False
    repeats = (count for piece in pieces for count in (piece["least"], piece["most"]) if count)
    if any(len(count) > len(str(_MOST_REPEATS)) or int(count) > _MOST_REPEATS for count in repeats):
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of sets within sets, which neither dialect has
            re.compile(_PIECE.sub(_in_pythons_words, pattern))
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def _in_pythons_words(piece: re.Match[str]) -> str:
    if piece["quoted"] is not None:
        return re.escape(piece["quoted"][2:].removesuffix(r"\E"))
    if piece["character"] is not None or piece["class"] is not None:
        return "x"
    if piece["end"] is not None:
        return r"\Z"
    if piece["flags"] is not None:
        return "(?:" if piece["inside"] == ":" else ""
    return piece[0]
