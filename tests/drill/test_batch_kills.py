"""`drill batch` under `kill -9`: of everything at once, of the driver alone, of single workers."""

import json
import os
import random
import signal
import time
from pathlib import Path

import pytest

from preempt_exporter.cli.main import main
from preempt_exporter.drill.batch_jobs import piece_of_output, read_jobs
from tests.drill.killed_batch import PATIENCE_S, KilledBatch, kill_group, wait_until, worker_of

JOBS = 400
KILLS = 54
SEED = 4711
STEP_BYTES = 64
TOKENS_PER_STEP = STEP_BYTES // 4


def test_kills_at_any_instant_lose_no_job_and_repeat_no_side_effect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """54 kills of whole groups, drivers and workers: each job's effect once, work kept, each attempt one line."""
    flags = ("--output-bytes", "512", "--step-bytes", str(STEP_BYTES))
    with KilledBatch(tmp_path, *flags) as batch:
        rng = random.Random(SEED)
        kills = {"group": 0, "driver": 0, "worker": 0}
        driver = batch.start()
        while sum(kills.values()) < KILLS:
            # Half of the kills fall on work, the others on what dispatches, or starts, recovers and writes its jobs.
            await_news_of = rng.choice(("checkpoints", "checkpoints", "attempts", None))
            if await_news_of is not None:
                wait_for_more(batch, await_news_of)
            time.sleep(rng.uniform(0, 0.08))  # the random instant itself
            assert driver.poll() is None, driver.communicate()
            kind = rng.choice(("group", "driver", "worker"))
            if kind == "worker":
                worker = worker_of(driver)
                if worker is None:
                    continue
                try:
                    os.kill(worker, signal.SIGKILL)
                except ProcessLookupError:
                    continue
                kills[kind] += 1
                continue
            kills[kind] += 1
            if kind == "driver":
                driver.kill()
                driver.wait()
                driver, killed = batch.start("--resume"), driver  # at once: its worker may still be at work
                assert killed.stderr is not None
                assert killed.stdout is not None
                killed.stderr.close()
                killed.stdout.close()
            else:
                kill_group(driver)
                driver = batch.start("--resume")
        out, err = driver.communicate(timeout=PATIENCE_S)
        assert (driver.returncode, err) == (0, b""), err
        assert min(kills.values()) >= 5
        assert b"400 done, 0 failed, 0 left" in out
    the_work_was_kept(batch)
    every_effect_happened_once(batch, capsys)
    every_attempt_has_its_line(batch, kills["worker"])
    the_report_shows_it(batch, capsys)


def wait_for_more(batch: KilledBatch, table: str) -> None:
    """Until the table has more rows than now."""
    question = f"SELECT COUNT(*) FROM {table}"
    before = batch.number(question)
    wait_until(lambda: batch.number(question) > before)


def the_work_was_kept(batch: KilledBatch) -> None:
    """Each job's attempts begin where checkpoints ended; over all of them a death costs one step at most."""
    assert batch.number("SELECT COUNT(*) FROM attempts WHERE resumed_at_bytes > 0") >= 10
    rows = batch.ask("SELECT job_id, SUM(tokens_out), SUM(outcome = 'preempted') FROM attempts GROUP BY job_id")
    assert len(rows) == JOBS
    for job_id, tokens, deaths in rows:
        assert 128 <= int(str(tokens)) <= 128 + TOKENS_PER_STEP * int(str(deaths)), job_id
    for job in read_jobs(batch.jobs, "any"):
        pieces = batch.ask(f"SELECT text FROM checkpoints WHERE job_id = '{job.job_name}' ORDER BY start")
        assert "".join(str(text) for (text,) in pieces) == piece_of_output(job, 0, 512)


def every_effect_happened_once(batch: KilledBatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The list of effects, which nothing but the key table guards, has each key once; `--query` says the same."""
    assert batch.ask("SELECT COUNT(*), COUNT(DISTINCT key) FROM effects") == [(JOBS, JOBS)]
    most_asked = batch.ask("SELECT key, asked FROM keys ORDER BY asked DESC, key LIMIT 1")
    key, asked = most_asked[0]
    assert main(["drill", "batch", "--query", str(key), "--telemetry", str(batch.telemetry), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["happened"], answer["asked"]) == (1, asked)


def every_attempt_has_its_line(batch: KilledBatch, workers_killed: int) -> None:
    """No line twice, none missing, numbers without gaps; who died with the driver has one intervention, others none."""
    lines = [json.loads(line) for line in batch.telemetry.read_text().splitlines()]
    assert len(lines) == len({line["id"] for line in lines}) == batch.number("SELECT COUNT(*) FROM attempts")
    by_name: dict[tuple[str, str], list[int]] = {}
    for line in lines:
        by_name.setdefault((line["lane"], line["job_id"]), []).append(line["attempt"])
    assert all(sorted(numbers) == list(range(1, len(numbers) + 1)) for numbers in by_name.values())
    assert {line["outcome"] for line in lines} == {"ok", "preempted"}
    assert sum(line["outcome"] == "ok" for line in lines) == JOBS
    deaths = [line for line in lines if line["outcome"] == "preempted"]
    alone = sum(line["interventions"] == 0 for line in deaths)
    assert 0 < alone <= workers_killed
    assert all(line["interventions"] in ((0, 1) if line["outcome"] == "preempted" else (0,)) for line in lines)
    assert len(deaths) - alone >= KILLS // 3
    assert all(len(numbers) <= 2 for (lane, _), numbers in by_name.items() if lane == "free")


def the_report_shows_it(batch: KilledBatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Rework above 1.0 and interventions per 100 jobs above 0 in the lane where the slots were lost."""
    assert main(["report", str(batch.telemetry), "--slack-s", "3600", "--json"]) == 0
    free = json.loads(capsys.readouterr().out)[0]
    assert free["lane"] == "free"
    assert free["rework_multiplier"] > 1.0
    assert free["interventions_per_100"] > 0
