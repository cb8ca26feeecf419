"""What to do now: the actions that firing alerts ask for, and the few numbers behind them."""

from grafana_foundation_sdk.models import dashboard as model

from dashboards.pieces import EXPORTER, GREEN, LANE, ORANGE, RED, Column, Line, number, rows, value_words

ACTION_IN_WORDS = {
    "drain_and_reject": ("Drain the lane, admit nothing: preempt-exporter act drain_and_reject --lane LANE", RED),
    "abandon_lane": ("Leave the lane until it is given back: preempt-exporter act abandon_lane --lane LANE", RED),
    "stop_run": ("Stop the run, or raise its budget: preempt-exporter act stop_run --run RUN", RED),
    "route_to_paid": ("Send new jobs to the paid lane: preempt-exporter act route_to_paid --lane LANE", ORANGE),
    "reject_enqueue": ("Admit no new task to the lane: preempt-exporter act reject_enqueue --lane LANE", ORANGE),
    "reclaim_lease": ("Declare expired leases and silent tasks lost: preempt-exporter act reclaim_lease", ORANGE),
    "fix_idempotency": ("A person's work: find what sends the same work twice; open the runbook", ORANGE),
    "inspect_ledger": ("A person's work: look at the ledger; open the runbook", ORANGE),
    "restart_exporter": ("A person's work: bring the exporter back; open the runbook", ORANGE),
}
_SEVERITIES = {"page": ("page", RED), "ticket": ("ticket", ORANGE)}
_FIRING = 'ALERTS{alertstate="firing",action!="",cluster=~"$cluster",lane=~"$lane|",run=~"$run|",task_id=~"$task_id|"}'


def now_row() -> list[object]:
    """The panels, left to right."""
    actions = rows(
        "What to do now",
        "The action that each firing alert asks for, pages first, and for how many tasks, lanes or runs it fires; a "
        "click on the alert opens its runbook. "
        "Empty: nothing fires, or the rules are not loaded, which `preempt-exporter doctor` tells. "
        "No action adds capacity: more of what is taken back is more work lost.",
        (
            # A row for thousands of tasks that need the same: the tasks themselves are in the table below.
            Column(f"count by (cluster, severity, action, alertname, lane, run) ({_FIRING})", "firing", "short"),
        ),
        shown={"severity": "severity", "action": "do this", "alertname": "alert", "lane": "lane", "run": "run"}
        | {"cluster": "cluster"},
        sorted_by="severity",
        height=8,
    )
    actions.no_value("Nothing fires")
    actions.override_by_name(
        "do this",
        [
            model.DynamicConfigValue(id_val="mappings", value=[value_words(ACTION_IN_WORDS)]),
            model.DynamicConfigValue(id_val="custom.cellOptions", value={"type": "color-text"}),
            model.DynamicConfigValue(id_val="custom.width", value=640),
        ],
    )
    actions.override_by_name(
        "severity",
        [
            model.DynamicConfigValue(id_val="mappings", value=[value_words(_SEVERITIES)]),
            model.DynamicConfigValue(id_val="custom.cellOptions", value={"type": "color-background"}),
        ],
    )
    runbook = {"title": "Runbook", "url": "${runbooks}/${__value.text}.md", "targetBlank": True}
    actions.override_by_name("alert", [model.DynamicConfigValue(id_val="links", value=[runbook])])
    return [
        actions,
        number(
            "Live tasks",
            "Tasks that wait, run, or were preempted and wait again; every task, whether it has series or not.",
            "short",
            Line(f"sum by (state) (preempt_tasks{{{LANE}}})", "{{state}}"),
            width=8,
        ),
        number(
            "Least slack",
            "The smallest deadline slack of any live task. Below zero its deadline has passed.",
            "ms",
            Line(f"min(preempt_task_deadline_slack_ms_min{{{LANE}}})", "least slack"),
            steps=((None, RED), (0, ORANGE), (60_000, GREEN)),
        ),
        number(
            "Past a threshold",
            "Live tasks past each threshold of the policy; any task here wants the action above.",
            "short",
            Line(f"sum by (threshold) (preempt_tasks_over_threshold{{{LANE}}})", "{{threshold}}"),
            width=8,
            steps=((None, GREEN), (1, ORANGE)),
        ),
        number(
            "Lanes that drain",
            "Lanes under an action that closes them. The way back: preempt-exporter act resume --lane LANE.",
            "short",
            Line(f"sum(max by (cluster, lane) (preempt_lane_draining{{{LANE}}}))", "draining"),
            width=2,
            steps=((None, GREEN), (1, ORANGE)),
        ),
        number(
            "Exporter",
            "Whether every exporter can be scraped and has caught up with its ledgers.",
            "short",
            # One that is down says nothing of being ready.
            Line(f"min(preempt_exporter_ready{{{EXPORTER}}} or up{{{EXPORTER}}})", "ready"),
            width=2,
            steps=((None, RED), (1, GREEN)),
            words={"0": ("not ready", RED), "1": ("ready", GREEN)},
        ),
    ]
