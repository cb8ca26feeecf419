"""The exposition formats: text 0.0.4 and OpenMetrics 1.0.

Sample lines are the same bytes in both, so a group of samples is built once as text and framed here.
"""

from collections.abc import Iterable, Mapping

from preempt_exporter.metrics.families import Family

Samples = Mapping[str, list[str]]
"""By family name, its sample lines without newline."""


def framed(families: Iterable[Family], samples: Samples, *, openmetrics: bool) -> list[str]:
    """The lines of the families that have samples, each family after its metadata, in the order given.

    OpenMetrics names a counter's family without `_total`; sample names are the same in both formats. The closing
    `# EOF` is the caller's.
    """
    framed_lines = []
    for family in families:
        lines = samples.get(family.name)
        if not lines:
            continue
        name = family.name.removesuffix("_total") if openmetrics else family.name
        framed_lines.append(f"# HELP {name} {family.help}\n# TYPE {name} {family.kind}")
        framed_lines.extend(lines)
    return framed_lines


def label_value(text: str) -> str:
    """A label value between its quotes: backslash, quote and newline escaped."""
    if '"' in text or "\\" in text or "\n" in text:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return text


def number(value: float) -> str:
    """A sample value: whole numbers in full without exponent or fraction, others as the shortest exact text."""
    if isinstance(value, int):
        return str(value)
    if value == float("inf"):
        return "+Inf"
    if value == float("-inf"):
        return "-Inf"
    if value != value:  # noqa: PLR0124 - the one value that differs from itself
        return "NaN"
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)


def sample(name: str, value: float, /, **labels: str) -> str:
    """One sample line; empty label values are left out, since to Prometheus they are absent."""
    inner = ",".join(f'{key}="{label_value(text)}"' for key, text in labels.items() if text)
    return f"{name}{{{inner}}} {number(value)}" if inner else f"{name} {number(value)}"
