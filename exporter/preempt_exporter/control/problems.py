"""Errors as RFC 9457 problem objects: what went wrong, in words, at a status that says whose move it is."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.responses import Response

PROBLEM_TYPE = "application/problem+json"


class Problem(Exception):
    """A request that cannot be carried out. Decisions and refusals are answers, never problems."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        """`detail` is a sentence for the client; `more` are further members of the object."""
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})
        self.more = dict(more or {})

    def response(self) -> Response:
        """The problem object; `type` is left out, which means `about:blank`: the status says what kind it is."""
        members = {
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            **self.more,
        }
        return Response(
            msgspec.json.encode(members), status_code=self.status, headers=self.headers, media_type=PROBLEM_TYPE
        )
