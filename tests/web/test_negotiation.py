import pytest
from hypothesis import given
from hypothesis import strategies as st

from preempt_exporter.web.negotiation import accepts_gzip, prefers_openmetrics

PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,"
    "text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
)
PROMETHEUS_3_PROTOBUF = (
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6," + PROMETHEUS_3
)
PROMETHEUS_3_TEXT_FIRST = (
    "text/plain;version=0.0.4;q=0.6,application/openmetrics-text;version=1.0.0;escaping=underscores;q=0.5,*/*;q=0.2"
)
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"


@pytest.mark.parametrize(
    ("accept", "openmetrics"),
    [
        (None, False),
        ("", False),
        ("*/*", False),
        ("text/*", False),
        ("application/*", True),
        (BROWSER, False),
        (PROMETHEUS_2, True),
        (PROMETHEUS_3, True),
        (PROMETHEUS_3_PROTOBUF, True),
        (PROMETHEUS_3_TEXT_FIRST, False),
        ("application/openmetrics-text", True),
        ("application/openmetrics-text; version=1.0.0; charset=utf-8", True),
        ('Application/OpenMetrics-Text; Version="1.0.0"', True),
        ("application/openmetrics-text;version=2.0.0", False),
        ("application/openmetrics-text;version=0.0.1", False),
        ("application/openmetrics-text;version=2.0.0,application/openmetrics-text;version=1.0.0;q=0.1", True),
        ("application/openmetrics-text;version=2.0.0;q=0.9,text/plain;q=0.1", False),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;q=0,*/*", False),
        ("application/openmetrics-text;q=0.000", False),
        ("application/openmetrics-text;q=0.1,text/plain;q=0.2", False),
        ("application/openmetrics-text;q=0.2,text/plain;q=0.1", True),
        ("application/openmetrics-text,*/*", True),
        ("*/*,application/openmetrics-text;q=0.5", False),
        ("text/plain;q=0,*/*;q=0.5", True),
        ("text/plain,application/openmetrics-text", False),
        ("application/openmetrics-text,text/plain", True),
        ("application/openmetrics-text;q=x,text/plain;q=0.1", False),
        ("application/openmetrics-text;q=nan,text/plain;q=0.1", False),
        ("application/openmetrics-text ; q=0.5 , text/plain ; q=0.4", True),
        ('text/plain;note="a,application/openmetrics-text;q=1";q=0.5', False),
        ("application/vnd.google.protobuf", False),
        (",,;q=1,", False),
    ],
)
def test_the_format_with_the_highest_quality_that_we_speak_is_chosen(accept: str | None, openmetrics: bool) -> None:
    """Quality, then specificity, then order decide; unknown versions and formats fall back to text 0.0.4."""
    assert prefers_openmetrics(accept) is openmetrics


@pytest.mark.parametrize(
    ("accept_encoding", "gzip"),
    [
        (None, False),
        ("", False),
        ("gzip", True),
        ("GZIP", True),
        ("x-gzip", True),
        ("gzip;q=0", False),
        ("gzip;q=0.0, *", False),
        ("*", True),
        ("*;q=0", False),
        ("identity", False),
        ("identity;q=0, *;q=0.1", True),
        ("identity, gzip;q=0.5", False),
        ("identity;q=0.5, gzip", True),
        ("deflate, gzip;q=1.0, *;q=0.5", True),
        ("deflate, br, zstd", False),
        ("br;q=1.0, gzip;q=0.8, *;q=0.1", True),
        ("gzip;q=0.5, *;q=0.8", False),
        ("gzip;q=nope", False),
    ],
)
def test_gzip_is_used_only_where_it_is_accepted_and_no_worse_than_plain(
    accept_encoding: str | None, gzip: bool
) -> None:
    """`gzip;q=0` and silence mean plain, `*` includes gzip, a dearer identity wins."""
    assert accepts_gzip(accept_encoding) is gzip


@given(st.text(alphabet='aqgzip*/;=,."0159 -\t', max_size=60) | st.text(max_size=60))
def test_no_header_is_too_strange(header: str) -> None:
    """Whatever a client sends, it gets one of two formats, plain or compressed."""
    assert prefers_openmetrics(header) in (True, False)
    assert accepts_gzip(header) in (True, False)
