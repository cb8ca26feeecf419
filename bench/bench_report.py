"""`report` against polars doing the same aggregation over the same attempt lines, each a process of its own."""

import importlib.util
import random
import sys
from pathlib import Path

from measure import Result, ratio_in_turn, seconds_of_command

PEER = """
import sys
import polars as pl

lines = pl.scan_ndjson(sys.argv[1])
wait = (pl.col("start_s") - pl.col("enqueue_s")).clip(lower_bound=0)
run = (pl.col("end_s") - pl.col("start_s")).clip(lower_bound=0)
index = pl.min_horizontal(pl.len() - 1, (0.95 * (pl.len() - 1)).round(mode="half_to_even").cast(pl.UInt32))
figures = lines.group_by("lane").agg(
    attempts=pl.len(),
    jobs=pl.col("job_id").n_unique(),
    completed=pl.col("job_id").filter(pl.col("outcome") == "ok").n_unique(),
    run_s=run.sum(),
    p95_wait_s=wait.sort().get(index),
    p95_run_s=run.sort().get(index),
    tokens=(pl.col("tokens_in") + pl.col("tokens_out")).sum(),
    interventions=pl.col("interventions").sum(),
)
print(figures.collect(engine="streaming"))
"""


def write_attempts(path: Path, lines: int) -> None:
    """Attempt lines of three lanes, a tenth of them preempted."""
    draws = random.Random(7)
    with path.open("w") as file:
        for number in range(lines):
            start_s = number + draws.expovariate(1 / 300)
            end_s = start_s + draws.expovariate(1 / 90)
            outcome = "preempted" if draws.random() < 0.1 else "ok"
            lane = ("free", "spot", "paid")[number % 3]
            file.write(
                f'{{"job_id":"j{number // 3}","lane":"{lane}","attempt":1,"enqueue_s":{number},"start_s":{start_s:.3f},'
                f'"end_s":{end_s:.3f},"outcome":"{outcome}","tokens_in":9000,"tokens_out":2000,"interventions":0}}\n'
            )


def report_against_polars(path: Path, lines: int) -> Result:
    """Processor time of polars over that of `report`: above 1, `report` needs less."""
    what = "report, against polars"
    if importlib.util.find_spec("polars") is None:
        return Result(what, float("nan"), "reported", "polars is not there; pip install '.[bench]'")
    report = [sys.executable, "-m", "preempt_exporter.cli.main", "report", str(path), "--slack-s", "1800"]
    peer = [sys.executable, "-c", PEER, str(path)]
    ratio = ratio_in_turn(lambda: seconds_of_command(peer), lambda: seconds_of_command(report))
    per_second = lines / seconds_of_command(report)
    return Result(what, ratio, "reported", f"{per_second:,.0f} lines a second; polars drops no repeats")
