"""`make demo`: a live drill and the exporter on its ledger, side by side, told in a line every few seconds.

Both are real processes of the installed command. Ctrl-C, or `DEMO_SECONDS`, ends them and prints a summary.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

from preempt_exporter.stopping import stopping_at_signals

PORT = 9877
TELL_EVERY_S = 3.0
START_PATIENCE_S = 30.0
STOP_PATIENCE_S = 15.0


def main() -> int:
    """Run the demo; 0 unless one of the two processes broke down."""
    seconds = os.environ.get("DEMO_SECONDS", "")
    if seconds and not re.fullmatch(r"\d+(\.\d+)?", seconds):
        print(f"DEMO_SECONDS: '{seconds}' is not a number of seconds", file=sys.stderr)
        return 2
    folder = Path(tempfile.mkdtemp(prefix="preempt-demo-"))
    try:
        return _show(folder, float(seconds) if seconds else None)
    except BrokenPipeError:  # nobody reads on: both processes were stopped on the way here
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _show(folder: Path, seconds: float | None) -> int:
    ledger = folder / "attempts.jsonl"
    port = _free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "preempt_exporter.cli.main"]
    drill = [*command, "drill", "live", "--ledger", str(ledger)]
    serve = [*command, "serve", str(ledger), f"--web.listen-address=127.0.0.1:{port}", "--log.level=warning"]
    stop = threading.Event()
    with stopping_at_signals(stop), (folder / "serve.log").open("wb") as log:
        # A session of their own: Ctrl-C reaches this process alone, which then stops both in order.
        processes = [
            subprocess.Popen(drill, stdout=subprocess.PIPE, start_new_session=True),
            subprocess.Popen(serve, stderr=log, start_new_session=True),
        ]
        shown = False
        try:
            shown = _wait_until_ready(url, processes, stop)
            if shown:
                _say_where(url, ledger)
                _tell(url, processes, stop, seconds)
        finally:
            summary = _stop(processes)
        # A process that was stopped before it could listen for signals has died of ours, which is no breakdown.
        broke = [process.returncode for process in processes if process.returncode not in (0, -signal.SIGTERM)]
        print(f"\n{summary}" if summary else "", end="")
    if broke or not (shown or stop.is_set()):
        print((folder / "serve.log").read_text(errors="replace"), file=sys.stderr)
        why = f"exit status {broke[0]}" if broke else f"the exporter was not ready within {START_PATIENCE_S:.0f} s"
        print(f"the demo broke down: {why}", file=sys.stderr)
        return 1
    print("demo ended; nothing is left running")
    return 0


def _free_port() -> int:
    for port in (PORT, 0):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise AssertionError("the system always has a port")


def _wait_until_ready(url: str, processes: list[subprocess.Popen[bytes]], stop: threading.Event) -> bool:
    give_up_s = time.monotonic() + START_PATIENCE_S
    while time.monotonic() < give_up_s and not stop.is_set():
        if any(process.poll() is not None for process in processes):
            return False
        if _get(f"{url}/-/ready") is not None:
            return True
        stop.wait(0.1)
    return False


def _say_where(url: str, ledger: Path) -> None:
    print(
        f"""
A fake batch is running over two lanes; its free slots are taken back at random.

  page      {url}/
  metrics   {url}/metrics
  ledger    {ledger}
  try       .venv/bin/preempt-exporter status {ledger}

Ctrl-C ends it.
""",
        flush=True,
    )


def _tell(url: str, processes: list[subprocess.Popen[bytes]], stop: threading.Event, seconds: float | None) -> None:
    end_s = None if seconds is None else time.monotonic() + seconds
    while not stop.is_set() and all(process.poll() is None for process in processes):
        left_s = TELL_EVERY_S if end_s is None else min(TELL_EVERY_S, end_s - time.monotonic())
        if left_s <= 0 or stop.wait(left_s):
            return
        print(_line(url), flush=True)


def _line(url: str) -> str:
    """What a scrape and the API say, in a line."""
    metrics = (_get(f"{url}/metrics") or b"").decode()
    tasks = json.loads(_get(f"{url}/api/v1/tasks") or b"[]")
    live = [task for task in tasks if task["queue_age_ms"] is not None]
    told = " | ".join(
        (
            f"{len(live):3d} live",
            f"{_total(metrics, 'preempt_events_total', 'preempt'):3.0f} preemptions",
            f"{_total(metrics, 'preempt_restart_tokens_total'):6.0f} restart tokens",
            f"{_total(metrics, 'preempt_events_total', 'complete'):3.0f} complete",
            f"{_total(metrics, 'preempt_events_total', 'drain'):3.0f} drained",
        )
    )
    if live and live[0]["deadline_slack_ms"] is not None:
        worst = live[0]
        told += f" | least slack {worst['deadline_slack_ms'] / 1000:.0f} s: {worst['task_id']}, {worst['next_action']}"
    return told


def _total(metrics: str, name: str, event: str = "") -> float:
    label = f'event="{event}"' if event else ""
    return sum(
        float(line.rsplit(" ", 1)[1]) for line in metrics.splitlines() if line.startswith(name + "{") and label in line
    )


def _get(url: str) -> bytes | None:
    past_no_proxy = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with past_no_proxy.open(url, timeout=5) as answer:
            return bytes(answer.read())
    except OSError:
        return None


def _stop(processes: list[subprocess.Popen[bytes]]) -> str:
    """End both, the drill first; what the drill said it wrote."""
    summary = ""
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            out, _ = process.communicate(timeout=STOP_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            out, _ = process.communicate()
        summary = summary or (out or b"").decode(errors="replace")
    return summary


if __name__ == "__main__":
    sys.exit(main())
