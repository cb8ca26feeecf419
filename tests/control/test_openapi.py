"""The OpenAPI document tells the truth: schemathesis sends what it allows and what it forbids."""

import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    ignored_auth,
    negative_data_rejection,
    positive_data_acceptance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from preempt_exporter.control.openapi import openapi_document
from preempt_exporter.control.table import OPERATIONS
from tests.control.running_control import TOKEN, RunningControl, control

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    positive_data_acceptance,
    negative_data_rejection,
    ignored_auth,
    unsupported_method,
]

EXCEPTIONS = {(path, positive_data_acceptance) for path in ("/admin/resume", "/admin/act", "/v1/events")}
"""Which of lane, run and mode an action takes depends on the action, and a text is hardly ever JSON Lines: a schema of
single fields cannot say so."""


@schemathesis.serializer("application/x-ndjson")
def as_lines(context: schemathesis.SerializationContext, value: object) -> bytes:
    """A body of text as it is."""
    return str(value).encode(errors="surrogatepass")


schema = schemathesis.openapi.from_dict(openapi_document(OPERATIONS))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningControl]:
    with control(tmp_path_factory.mktemp("control")) as service:
        yield service


@schema.parametrize()
@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_every_operation_does_what_the_document_says(case: schemathesis.Case, running: RunningControl) -> None:
    """No server error, no status, content type or body that the document does not know, no way in without the token."""
    key = case.headers.get("Idempotency-Key")
    if key is not None and re.fullmatch("[!-~]{1,256}", str(key)):
        # Generated keys repeat, which is another matter; what is wrong as a key stays wrong.
        case.headers["Idempotency-Key"] = uuid.uuid4().hex
    checks = [check for check in CHECKS if (case.path, check) not in EXCEPTIONS]
    case.call_and_validate(base_url=running.url, headers={"Authorization": f"Bearer {TOKEN}"}, checks=checks)


def test_the_served_document_is_the_one_that_is_tested(tmp_path: Path) -> None:
    """`/openapi.json` holds every path of the table, and the webhook's."""
    with control(tmp_path) as service:
        served = service.client.ask("GET", "/openapi.json")
    tested = openapi_document(OPERATIONS)
    assert {path: served["paths"][path] for path in tested["paths"]} == tested["paths"]
    assert set(served["paths"]) - set(tested["paths"]) == {"/alertmanager"}
