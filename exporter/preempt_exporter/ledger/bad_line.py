"""A line that could not be read, as a value: which of a closed set of reasons, and where."""

from msgspec import Struct

LINE_ERROR_REASONS: tuple[str, ...] = (
    "too_long",
    "too_deep",
    "not_json",
    "lone_surrogate",
    "broken_utf8",
    "not_an_object",
    "unknown_kind",
    "missing_field",
    "wrong_type",
    "out_of_range",
    "id_too_long",
    "lane_too_long",
)
"""Every bad line has exactly one of these: what is wrong with the line as a whole, else with its first bad field.

- `too_long`: more than `MAX_LINE_BYTES` before the newline, NULs in front aside.
- `too_deep`: arrays and objects nested more than `MAX_NESTING` deep.
- `not_json`: no JSON text, or more than one.
- `lone_surrogate`: an escape for half of a surrogate pair, anywhere on the line.
- `broken_utf8`: invalid UTF-8 in a field that is read; elsewhere it is ignored with its field.
- `not_an_object`: JSON, but not an object.
- `unknown_kind`: an `event` of no known name, or neither `event` nor `job_id`.
- `missing_field`: a required field is not there, or is an empty name.
- `wrong_type`: a field has another type than its kind of line gives it; null where it is required is one.
- `out_of_range`: a negative count, NaN, a number past 2^53, a word outside a closed set.
- `id_too_long`, `lane_too_long`: a name of more than 256, a lane of more than 64 bytes.
"""


class BadLine(Struct, frozen=True, kw_only=True):
    """One line that is skipped and counted, and that changes nothing else."""

    reason: str
    """One of `LINE_ERROR_REASONS`."""
    detail: str
    """What is wrong, in a few words that fit on one line and never quote more than a few bytes of input."""
    offset: int = 0
    """Position of the line's first byte in the data that was decoded."""
    line: int = 0
    """Index of the line in that data, from 0, blank lines included."""
