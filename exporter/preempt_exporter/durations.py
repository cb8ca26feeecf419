"""Durations as Prometheus writes them: `500ms`, `30s`, `1h30m`, `87600h`."""

import re

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000, "y": 31_536_000_000}
_DURATION = re.compile(
    r"(?:(?P<y>\d+)y)?(?:(?P<w>\d+)w)?(?:(?P<d>\d+)d)?(?:(?P<h>\d+)h)?(?:(?P<m>\d+)m)?(?:(?P<s>\d+)s)?(?:(?P<ms>\d+)ms)?"
)


def parse_duration_ms(text: str) -> int:
    """Milliseconds of a duration such as `5m`; `0` needs no unit. `ValueError` for anything else."""
    if text == "0":
        return 0
    match = _DURATION.fullmatch(text) if text.isascii() and len(text) <= 64 else None
    if match is None or not text:
        raise ValueError(f"'{text}' is not a duration such as 500ms, 30s, 5m or 24h")
    return sum(int(count) * _UNITS_MS[unit] for unit, count in match.groupdict(default="0").items())
