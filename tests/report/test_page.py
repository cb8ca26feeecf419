"""The report's rows, table cells and page."""

from html.parser import HTMLParser

from preempt_exporter.decide.break_even import LaneAccumulator
from preempt_exporter.decide.token_price import TokenPrice
from preempt_exporter.ledger.records import Attempt
from preempt_exporter.report.histogram import BOUNDS_S, bars, bound_words
from preempt_exporter.report.page import page_of
from preempt_exporter.report.row import ReportRow, row_object
from preempt_exporter.report.table import cells_of, columns_of


def lane_of(name: str = "free", *, tokens: int | None = 1_000_000) -> LaneAccumulator:
    """One job: a preempted attempt and an ok one, each of 10 s wait and 100 s run."""
    lane = LaneAccumulator(name)
    for number, outcome in enumerate(("preempted", "ok"), 1):
        lane.add(
            Attempt(
                job_id="j",
                lane=name,
                attempt=number,
                enqueue_s=0,
                start_s=10,
                end_s=110,
                outcome=outcome,
                tokens_in=tokens,
                tokens_out=tokens,
                interventions=0,
            )
        )
    return lane


def row_of(lane: LaneAccumulator, slack_s: float = 510.0, price: TokenPrice | None = None) -> ReportRow:
    """The lane's row with a margin of 300 s: it requires 510 s."""
    return ReportRow(figures=lane.figures(margin_s=300), slack_s=slack_s, margin_s=300, price=price)


class Tags(HTMLParser):
    """Checks that every tag is closed, and keeps what could load something."""

    VOID = ("meta", "rect", "line", "br")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loading: list[str] = []
        self.names: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.loading += [str(value) for name, value in attrs if name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_money_is_the_price_of_all_attempts_and_of_those_that_were_rework() -> None:
    """Two attempts of a million tokens each way at 1 and 3: 8 per job, half of it rework."""
    row = row_of(lane_of(), price=TokenPrice(per_million_in=1, per_million_out=3))
    assert (row.money_per_completed_job, row.rework_money_per_completed_job) == (8.0, 4.0)
    assert {"money_per_completed_job", "rework_money_per_completed_job"} < set(row_object(row))
    assert cells_of(row, with_money=True)[-2:] == ("8.0000", "4.0000")


def test_without_price_or_tokens_money_is_unknown() -> None:
    """No price, no money columns; a price but no token count, a question mark."""
    assert row_of(lane_of()).money_per_completed_job is None
    assert "money/job" not in columns_of([row_of(lane_of())])
    unknown = row_of(lane_of(tokens=None), price=TokenPrice(per_million_in=1, per_million_out=3))
    assert unknown.money_per_completed_job is None
    assert cells_of(unknown, with_money=True)[-2:] == ("?", "?")


def test_the_verdict_turns_at_the_required_slack() -> None:
    """10 + 2 x 100 + 300 = 510 s."""
    assert row_of(lane_of(), 510.0).verdict == "OK"
    assert row_of(lane_of(), 509.0).verdict == "TOO TIGHT"


def test_the_page_is_well_formed_and_loads_nothing() -> None:
    """One table row and two distributions per lane, one slack picture, nothing from elsewhere."""
    lanes = [lane_of("free"), lane_of("paid")]
    page = page_of([row_of(lane) for lane in lanes], lanes, notes=["measured"], model="once")
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert tags.loading == []
    assert tags.names.count("svg") == 1 + 2 * len(lanes)
    assert tags.names.count("tr") == 1 + len(lanes)
    assert "url(" not in page
    assert "<script" not in page


def test_names_from_the_telemetry_are_escaped() -> None:
    """A lane that is called like a script tag stays text, in the table and in the pictures."""
    lane = lane_of("<script>alert(1)</script>")
    page = page_of([row_of(lane)], [lane], notes=["a < b"], model="requeue")
    assert "<script" not in page
    assert "a &lt; b" in page
    assert "every further attempt waits again" in page


def test_an_empty_report_is_a_page_without_pictures() -> None:
    """No lane, no division by nothing."""
    assert "<svg" not in page_of([], [], notes=[], model="once")


def test_zero_slack_and_zero_durations_have_a_picture() -> None:
    """All lengths 0 do not divide by 0."""
    lane = LaneAccumulator("free")
    row = ReportRow(figures=lane.figures(margin_s=0), slack_s=0.0, margin_s=0.0)
    assert "given 0 s" in page_of([row], [lane], notes=[], model="once")


def test_a_duration_on_a_bound_counts_below_it() -> None:
    """1 s is within the first bar, more than a day in the last, and nothing is lost."""
    counts = bars([0.0, 1.0, 1.5, 86400.0, 86401.0])
    assert (counts[0], counts[1], counts[-2], counts[-1], sum(counts)) == (2, 1, 1, 1, 5)
    assert [bound_words(index) for index in (0, 5, 10, len(BOUNDS_S))] == ["1 s", "2 min", "1 h", "> 24 h"]
