"""One row of the report: a lane's figures, the slack that is there, and what the tokens cost."""

from msgspec import Struct

from preempt_exporter.decide.break_even import LaneFigures, SlackVerdict, slack_verdict
from preempt_exporter.decide.lane_object import lane_object
from preempt_exporter.decide.token_price import TokenPrice


class ReportRow(Struct, frozen=True, kw_only=True):
    """A lane as the report shows it."""

    figures: LaneFigures
    slack_s: float
    """Slack that jobs have, in seconds."""
    margin_s: float
    price: TokenPrice | None = None

    @property
    def verdict(self) -> SlackVerdict:
        """`OK` if the slack covers what the lane requires."""
        verdict = slack_verdict(self.figures.required_slack_s, self.slack_s)
        assert verdict is not None
        return verdict

    @property
    def money_per_completed_job(self) -> float | None:
        """Price of the known tokens of all attempts / completed jobs with any; None without price or tokens."""
        figures = self.figures
        if self.price is None or figures.tokens_per_completed_job is None:
            return None
        return self.price.of(figures.tokens_in, figures.tokens_out) / max(1, figures.completed_with_known_tokens)

    @property
    def rework_money_per_completed_job(self) -> float | None:
        """The part of it that attempts other than the first `ok` one of their job cost."""
        figures = self.figures
        if self.price is None or figures.tokens_per_completed_job is None:
            return None
        rework = self.price.of(figures.rework_tokens_in, figures.rework_tokens_out)
        return rework / max(1, figures.completed_with_known_tokens)


def row_object(row: ReportRow) -> dict[str, object]:
    """The row as an object of `report --json`, with what the tokens cost where the lane has a price."""
    lane = lane_object(row.figures, row.slack_s)
    if row.price is not None:
        lane["money_per_completed_job"] = row.money_per_completed_job
        lane["rework_money_per_completed_job"] = row.rework_money_per_completed_job
    return lane
