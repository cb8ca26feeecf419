"""The values of the pack that may be others, and where each stands in the committed files."""

from msgspec import Struct

from preempt_exporter.rules_pack.vocabulary import THRESHOLD_NAMES

EVERY_RULE = "*"


class Place(Struct, frozen=True):
    """Words around a value, `{}`, in the rule of that name; a space in them is any white space."""

    rule: str
    words: str


class Parameter(Struct, frozen=True):
    """A value with its default, its meaning, and every place where it stands."""

    name: str
    default: str
    help: str
    places: tuple[Place, ...]
    is_number: bool = True


def _parameter(name: str, default: str, help_text: str, *places: tuple[str, str]) -> Parameter:
    everywhere = [Place(rule, words) for rule, words in places]
    if name in THRESHOLD_NAMES:
        everywhere.append(Place("ThresholdsDiffer", f'preempt_threshold{{name="{name}"}} != {{}}'))
    return Parameter(name, default, help_text, tuple(everywhere))


def _text(name: str, default: str, help_text: str, *places: tuple[str, str]) -> Parameter:
    return Parameter(name, default, help_text, tuple(Place(rule, words) for rule, words in places), is_number=False)


_JOB = 'job="{}"'

PARAMETERS = (
    _parameter(
        "queue_age_frac",
        "0.5",
        "fraction of its deadline past which a task's age fires",
        ("QueueAgeHalfDeadline", "> {} * deadline_ms"),
        ("QueueAgeHalfDeadline", "than {} of its deadline"),
    ),
    _parameter(
        "restart_frac",
        "0.2",
        "fraction of its budget past which a task's restart tokens fire",
        ("RestartTokensBeatSlack", "> {} * task_budget"),
        ("RestartTokensBeatSlack", "than {} of its budget"),
    ),
    _parameter(
        "max_preempts",
        "2",
        "preemptions at which a task is not admitted again",
        ("TaskPreemptBudgetSpent", "preempts >= {} and"),
        ("TaskPreemptBudgetSpent", "at {} of them"),
    ),
    _parameter(
        "rework_max",
        "1.5",
        "attempts per completed job above which a lane fires",
        ("LaneReworkHigh", "ratio > {} and"),
        ("LaneReworkHigh", "more than {},"),
    ),
    _parameter(
        "interventions_per_100_max",
        "5",
        "interventions per 100 completed jobs above which a lane fires",
        ("LaneInterventionsHigh", "ratio > {} and"),
        ("LaneInterventionsHigh", "more than {},"),
    ),
    _parameter("margin_s", "300", "seconds that the exporter's required slack keeps in hand"),
    _parameter(
        "completed_jobs_min",
        "20",
        "completed jobs below which a lane's figures are not judged",
        *((rule, "sum >= {}") for rule in ("LaneReworkHigh", "LaneInterventionsHigh", "LaneTooTight")),
        *((rule, "at least {} completed") for rule in ("LaneReworkHigh", "LaneInterventionsHigh", "LaneTooTight")),
    ),
    _parameter(
        "host_preempts",
        "2",
        "preemptions by one host in 24 hours that fire",
        ("HostPreemptedTwice", "preempt_lane_host_preempts_max) >= {}"),
    ),
    _parameter(
        "reclaimed_preempts",
        "5",
        "preemptions in 5 minutes above which a lane may be reclaimed",
        ("LaneReclaimed", 'event="preempt"}) > {} and'),
        ("LaneReclaimed", "more than {} and"),
    ),
    _parameter(
        "reclaimed_share",
        "0.3",
        "share of the running tasks that these must exceed",
        ("LaneReclaimed", "> {} * lane:"),
        ("LaneReclaimed", "more than {} of the tasks"),
    ),
    _parameter(
        "spend_frac",
        "0.9",
        "fraction of its token budget past which a run fires",
        ("SpendNearCeiling", "ratio > {}"),
        ("SpendNearCeiling", "more than {} of it"),
        ("SpendAtCeiling", "ratio > {} and"),
    ),
    _parameter(
        "ledger_silent_s",
        "120",
        "seconds without a line that make a ledger silent",
        ("LedgerSilent", "timestamp_seconds) > {}"),
        ("LedgerSilent", "over {} seconds"),
    ),
    _parameter(
        "clock_skew_s",
        "5",
        "seconds that a stamp may be ahead",
        ("LedgerClockSkew", "skew_seconds) > {}"),
        ("LedgerClockSkew", "more than {} seconds"),
    ),
    _parameter(
        "disk_avail_bytes",
        "1073741824",
        "bytes that must be left where a ledger is",
        ("LedgerDiskLow", "avail_bytes) < {}"),
    ),
    _parameter(
        "ledger_lag_s",
        "60",
        "seconds that the exporter may read behind",
        ("LedgerBehind", "lag_seconds) > {}"),
        ("LedgerBehind", "more than {} seconds"),
    ),
    _parameter(
        "snapshot_age_s",
        "900",
        "seconds that an exporter's last snapshot may be old",
        ("SnapshotOld", "> 0)) > {}"),
        ("SnapshotOld", "more than {} seconds"),
    ),
    _text(
        "job",
        "preempt-exporter",
        "name of the scrape job",
        *((rule, _JOB) for rule in ("ExporterDownTasksLive", "ExporterDown", "ExporterAbsent")),
    ),
    _text(
        "runbook_base",
        "https://example.invalid/preempt-exporter/docs/runbooks",
        "where the runbooks are",
        (EVERY_RULE, 'runbook_url: "{}/'),
    ),
    _text(
        "dashboard_url",
        "https://example.invalid/grafana/d/preempt-exporter",
        "where the dashboard is",
        (EVERY_RULE, 'dashboard_url: "{}'),
    ),
)
SELECTOR = "selector"
SELECTOR_HELP = 'label matchers for every selector, such as cluster="eu" (default: none)'
