"""A worker of a batch, as a process: asks to start, reports what it is told to on standard input, prints answers.

`python -m tests.control.batch_worker URL TASK LANE`; a line of input is an operation, `complete` or `checkpoint`.
"""

import sys

from preempt_exporter.client import ControlClient

if __name__ == "__main__":
    url, task, lane = sys.argv[1:]
    control = ControlClient(url, patience_s=20)
    fields = {"complete": {"output_tokens": 9}, "checkpoint": {"checkpoint_tokens": 5}}
    print(control.task(task, "admit", lane=lane, run="night", prompt_tokens=100)["outcome"], flush=True)
    for line in sys.stdin:
        op = line.strip()
        print(control.task(task, op, run="night", **fields.get(op, {}))["outcome"], flush=True)
