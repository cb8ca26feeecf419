"""After a batch drill: its telemetry, its keys, and the slack that the router asks for, put back."""

import math
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from msgspec import Struct

from preempt_exporter.decide.break_even import LaneAccumulator
from preempt_exporter.errors import UsageError
from preempt_exporter.ledger.chunk import Chunk
from preempt_exporter.ledger.records import Attempt
from preempt_exporter.own_file import own_file
from preempt_exporter.router.router_yml import RouterConfig
from preempt_exporter.state.telemetry import Telemetry
from preempt_exporter.yaml_section import read_section


class DroppedTelemetry(Struct, frozen=True, kw_only=True):
    """What became of the telemetry."""

    removed: tuple[str, ...] = ()
    """Files that held nothing but this batch's lines."""
    lines_of_others: int = 0
    """Where there are any the files stay as they are: a ledger is append-only."""


def drop_telemetry(chunks: Iterable[Chunk], run: str | None) -> DroppedTelemetry:
    """Remove the files that the chunks come from if every line in them is an attempt of `run`."""
    paths: dict[str, None] = {}

    def noted() -> Iterable[Chunk]:
        for chunk in chunks:
            paths[chunk.path] = None
            yield chunk

    telemetry = Telemetry(noted())
    own = sum(attempt.run == run for attempt in telemetry)
    others = telemetry.lines - telemetry.repeats - own
    if others:
        return DroppedTelemetry(lines_of_others=others)
    for path in paths:
        Path(path).unlink(missing_ok=True)
    return DroppedTelemetry(removed=tuple(paths))


def paid_lanes_required_slack_s(config: RouterConfig, attempts: Iterable[Attempt]) -> float:
    """The slack that the router's last lane requires by these attempts, as `report` measures it, in whole seconds.

    Raises `UsageError` where there are too few completed jobs to say.
    """
    paid = config.lanes[-1].name
    accumulator = LaneAccumulator(paid)
    for attempt in attempts:
        if attempt.lane == paid:
            accumulator.add(attempt)
    figures = accumulator.figures(margin_s=config.policy.thresholds.margin_s)
    least = config.policy.routing.completed_jobs_min
    if figures.completed < least:
        raise UsageError(
            f"lane {paid} has {figures.completed} of {least} completed jobs in the telemetry, too few to measure its "
            "required slack; say it with --require-slack-s"
        )
    return math.ceil(figures.required_slack_s)


def set_require_slack_s(path: Path, slack_s: float, check: Callable[[str], object]) -> str:
    """Write the value of `router.admission.require_slack_s` and nothing else; what stood there.

    The file is replaced whole, once `check` has read the new one. Raises `UsageError` where the key is missing, or
    `path` is no regular file.
    """
    path = own_file(path, "--config")
    admission = read_section(str(path)).section("router").section("admission")
    before = admission.text("require_slack_s")
    if before is None:
        raise UsageError(f"{path}: router.admission has no require_slack_s to set; add it")
    start, end = admission.span("require_slack_s")
    aside = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        text = path.read_bytes().decode("utf-8")
        aside.write_bytes(f"{text[:start]}{slack_s:.15g}{text[end:]}".encode())
        check(str(aside))
        aside.chmod(path.stat().st_mode & 0o7777)
        aside.replace(path)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}; require_slack_s stays {before}") from error
    finally:
        aside.unlink(missing_ok=True)
    return before
