"""The worker of `drill task --kill`: a process that decodes nothing, a tick at a time, and says how far it got.

Started as `python -m preempt_exporter.drill.task_worker FROM TO PER_TICK TICK_MS`; one number a line on standard
output. It ends by itself when nobody reads any more.
"""

import sys
import time


def main() -> int:
    """Count up."""
    tokens, target, per_tick, tick_ms = (int(word) for word in sys.argv[1:5])
    try:
        while tokens < target:
            time.sleep(tick_ms / 1000)
            tokens = min(tokens + per_tick, target)
            print(tokens, flush=True)
    except BrokenPipeError:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
