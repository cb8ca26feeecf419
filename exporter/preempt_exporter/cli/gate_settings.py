"""What the commands that decide are told: the thresholds' flags and variables, and the initial mode."""

import os
from argparse import ArgumentParser
from collections.abc import Mapping

from preempt_exporter.config import Config, add_setting_arguments
from preempt_exporter.decide.admission import AdmissionMode
from preempt_exporter.errors import UsageError
from preempt_exporter.gate.settings import GateSettings

ADMISSION_NAMES = (
    "task.deadline-ms",
    "task.budget",
    "lane.default",
    "thresholds.queue-age-frac",
    "thresholds.restart-frac",
    "thresholds.max-preempts",
    "thresholds.restart-must-fit",
)
"""Settings that an admission decision depends on."""

MODES: dict[str, AdmissionMode] = {"normal": "normal", "reject_preempt_budget": "reject_preempt_budget"}


def add_admission_arguments(parser: ArgumentParser) -> None:
    """Declare the thresholds and defaults of admission."""
    add_setting_arguments(parser, ADMISSION_NAMES)


def gate_settings(config: Config, environ: Mapping[str, str] | None = None) -> GateSettings:
    """A gate's settings from the resolved configuration and `ADMIT_MODE`. Raises UsageError."""
    environ = os.environ if environ is None else environ
    mode = environ.get("ADMIT_MODE") or "normal"
    if mode not in MODES:
        raise UsageError(f"ADMIT_MODE: '{mode}' is none of {', '.join(MODES)}")
    lanes = config.lane_settings()
    return GateSettings(
        thresholds=config.thresholds(),
        defaults=config.tasks().defaults,
        initial_mode=MODES[mode],
        lane_default=lanes.default,
        silent_after_ms=config.tasks().silent_after_ms,
        prefill_tokens_per_s=lanes.prefill_tokens_per_s,
    )
