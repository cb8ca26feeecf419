"""The OpenAPI document, from the same records that decode the bodies."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from preempt_exporter import __version__
from preempt_exporter.control.operations import Operation
from preempt_exporter.control.problems import PROBLEM_TYPE
from preempt_exporter.ledger.records import MAX_ID_BYTES

_REF = "#/components/schemas/{name}"
_NAME = re.compile(r"\{(\w+)(?::path)?\}")
_OUTSIDE_THE_BODY = frozenset({"op", "run", "shard"})
"""Fields of spend requests that the path says."""

_PROBLEM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["title", "status", "detail"],
    "properties": {
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
}
_ALWAYS = {
    "400": "Not JSON, or a header or path that cannot be read",
    "401": "No bearer token",
    "403": "A browser's Origin, or a Host that is not ours",
    "413": "The body is too large",
    "422": "A field is wrong, or the Idempotency-Key was used for another request",
    "503": "The ledger or the store cannot be written: nothing was done, try again",
}


def openapi_document(operations: Sequence[Operation]) -> dict[str, Any]:
    """OpenAPI 3.1 for these operations."""
    records = [operation.takes for operation in operations if operation.takes is not None]
    records += [operation.answers for operation in operations]
    _, schemas = msgspec.json.schema_components(list(dict.fromkeys(records)), ref_template=_REF)
    for operation in operations:
        if operation.fields and operation.takes is not None:
            _without_path_fields(schemas[operation.takes.__name__])
    for operation in operations:
        if operation.takes is not None and operation.takes is not operation.answers:
            _as_the_ledger_reads(schemas[operation.takes.__name__])
    schemas["Problem"] = _PROBLEM_SCHEMA
    paths: dict[str, Any] = {}
    for operation in operations:
        path = _NAME.sub(r"{\1}", operation.path)
        paths.setdefault(path, {})[operation.method.lower()] = _described(operation, path)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "preempt-exporter control",
            "version": __version__,
            "description": "Admission, spend and switches of one ledger. Decisions and refusals are answers (200).",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "webhookToken": {"type": "http", "scheme": "bearer"},
            },
        },
    }


def _described(operation: Operation, path: str) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": re.sub(r"\W+", "_", f"{operation.method.lower()}_{path}").strip("_"),
        "summary": operation.summary,
        "security": [{"webhookToken" if operation.webhook else "token": []}],
        "parameters": [
            {
                "name": name,
                "in": "path",
                "required": True,
                "schema": {"type": "string", "minLength": 1, "maxLength": MAX_ID_BYTES},
            }
            for name in _NAME.findall(operation.path)
        ],
        "responses": {
            "200": {"description": "The answer", "content": {"application/json": {"schema": _ref(operation.answers)}}},
            **{status: _problem(words) for status, words in _ALWAYS.items()},
            **{str(status): _problem("Refused") for status in operation.refusals},
        },
    }
    if operation.method == "POST":
        described["parameters"].append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "required": False,
                "description": "A repeat with the same key gives the first answer, for 24 hours",
                "schema": {"type": "string", "minLength": 1, "maxLength": 256, "pattern": "^[!-~]+$"},
            }
        )
    if operation.raw:
        content = {"application/x-ndjson": {"schema": {"type": "string"}}}
        described["requestBody"] = {"required": False, "content": content}
    elif operation.takes is not None:
        described["requestBody"] = {
            "required": bool(_required_fields(operation)),
            "content": {"application/json": {"schema": _ref(operation.takes)}},
        }
    return described


def _required_fields(operation: Operation) -> list[str]:
    assert operation.takes is not None
    outside = _OUTSIDE_THE_BODY if operation.fields and operation.path.startswith("/v1/runs/") else frozenset()
    fields = msgspec.structs.fields(operation.takes)
    return [field.name for field in fields if field.required and field.name not in outside]


def _without_path_fields(schema: dict[str, Any]) -> None:
    if "op" not in schema.get("properties", {}):
        return
    for name in _OUTSIDE_THE_BODY:
        schema["properties"].pop(name, None)
    schema["required"] = [name for name in schema.get("required", []) if name not in _OUTSIDE_THE_BODY]
    schema.pop("title", None)


def _as_the_ledger_reads(schema: dict[str, Any]) -> None:
    """Names that may be absent may be empty, and `run` and `job_id` may be integers."""
    for name in ("lane", "run", "host", "job_id"):
        property_ = schema["properties"].get(name)
        if property_ is None:
            continue
        options = property_.setdefault("anyOf", [dict(property_)])
        for key in [key for key in property_ if key not in ("anyOf", "default", "description")]:
            del property_[key]
        if name not in schema.get("required", ()):
            for option in options:
                option.pop("minLength", None)
        if name in ("run", "job_id") and {"type": "integer"} not in options:
            options.append({"type": "integer"})


def _ref(kind: Any) -> dict[str, str]:
    return {"$ref": _REF.format(name=kind.__name__)}


def _problem(words: str) -> dict[str, Any]:
    return {"description": words, "content": {PROBLEM_TYPE: {"schema": {"$ref": _REF.format(name="Problem")}}}}
