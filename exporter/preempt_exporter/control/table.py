"""Every operation of the service but the webhook's, whose rules are given at the start."""

from preempt_exporter.control.admin import ADMIN_OPERATIONS
from preempt_exporter.control.events import EVENT_OPERATIONS
from preempt_exporter.control.operations import Operation
from preempt_exporter.control.routing import ROUTING_OPERATIONS
from preempt_exporter.control.runs import RUN_OPERATIONS
from preempt_exporter.control.shards import SHARD_OPERATIONS
from preempt_exporter.control.tasks import TASK_OPERATIONS

OPERATIONS: tuple[Operation, ...] = (
    *TASK_OPERATIONS,
    *RUN_OPERATIONS,
    *SHARD_OPERATIONS,
    *EVENT_OPERATIONS,
    *ROUTING_OPERATIONS,
    *ADMIN_OPERATIONS,
)
