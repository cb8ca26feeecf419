"""What a typed model dropped of a document: keys that its schema does not know."""

from collections.abc import Mapping
from typing import Any


def unknown_keys(given: Any, known: Any, place: str = "") -> list[str]:
    """Places in `given` whose key is not in `known`, which is what the model gave back."""
    if isinstance(given, Mapping):
        if not isinstance(known, Mapping):
            return [place]
        return [
            found
            for key, value in given.items()
            for found in (
                unknown_keys(value, known[key], f"{place}.{key}".lstrip("."))
                if key in known
                else [f"{place}.{key}".lstrip(".")]
            )
        ]
    if isinstance(given, list) and any(isinstance(item, Mapping) for item in given):
        pairs = zip(given, known, strict=True)
        return [
            found for at, (item, other) in enumerate(pairs) for found in unknown_keys(item, other, f"{place}[{at}]")
        ]
    return []
