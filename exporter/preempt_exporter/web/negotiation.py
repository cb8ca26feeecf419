"""Which format and which coding a client gets, from its Accept headers (RFC 9110, section 12.5)."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

TEXT_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS_CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"


class Preference(Struct, frozen=True):
    """One element of an Accept header."""

    name: str
    quality: float
    parameters: Mapping[str, str]


def prefers_openmetrics(accept: str | None) -> bool:
    """Whether a scrape with this Accept header gets OpenMetrics 1.0.0 rather than the text format 0.0.4.

    Each format has the quality of the most specific range that names it; the higher wins, then the one named more
    specifically, then the one named first. A version that we do not speak names nothing. Where nothing fits, the
    text format is served all the same, as Prometheus' own libraries do.
    """
    preferences = list(parse(accept))
    text = _standing(preferences, "text/plain", "0.0.4")
    openmetrics = _standing(preferences, "application/openmetrics-text", "1.0.0")
    return openmetrics > text and openmetrics[0] > 0


def accepts_gzip(accept_encoding: str | None) -> bool:
    """Whether the answer may be compressed: gzip is accepted, by name or by `*`, and no worse than plain."""
    qualities = {preference.name: preference.quality for preference in parse(accept_encoding)}
    anything = qualities.get("*", 0.0)
    gzip = qualities.get("gzip", qualities.get("x-gzip", anything))
    return gzip > 0 and gzip >= qualities.get("identity", anything)


def parse(header: str | None) -> Iterator[Preference]:
    """The elements of an Accept header, names in lower case; an element whose quality is no number is left out."""
    for element in _split(header or "", ","):
        name, *raw_parameters = (part.strip() for part in _split(element, ";"))
        parameters = {}
        for raw in raw_parameters:
            key, _, value = raw.partition("=")
            parameters[key.strip().lower()] = value.strip().strip('"')
        quality = _quality(parameters.pop("q", "1"))
        if name and quality is not None:
            yield Preference(name.lower(), quality, parameters)


def _standing(preferences: list[Preference], media_type: str, version: str) -> tuple[float, int, int]:
    """How a format stands: quality, how specifically it is named (0 to 3), how early."""
    kind = media_type.partition("/")[0]
    best: tuple[int, float, int] | None = None
    for place, preference in enumerate(preferences):
        if preference.name == media_type:
            asked = preference.parameters.get("version")
            if asked not in (None, version):
                continue
            specificity = 2 if asked is None else 3
        elif preference.name == f"{kind}/*":
            specificity = 1
        elif preference.name in ("*/*", "*"):
            specificity = 0
        else:
            continue
        if best is None or (specificity, preference.quality) > best[:2]:
            best = (specificity, preference.quality, -place)
    if best is None:
        return (0.0, 0, 0)
    return (best[1], best[0], best[2])


def _quality(text: str) -> float | None:
    try:
        quality = float(text)
    except ValueError:
        return None
    return min(quality, 1.0) if quality >= 0 else None


def _split(text: str, separator: str) -> Iterator[str]:
    """Split at `separator` outside quoted strings."""
    start, quoted = 0, False
    for at, character in enumerate(text):
        if character == '"':
            quoted = not quoted
        elif character == separator and not quoted:
            yield text[start:at]
            start = at + 1
    yield text[start:]
