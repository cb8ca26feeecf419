"""Asking a running exporter, for commands that take `--url`."""

import urllib.error
import urllib.request
from http.client import HTTPException
from urllib.parse import urlsplit

from preempt_exporter.errors import UnreadableInput, UsageError

TIMEOUT_S = 30
HERE = ("localhost", "127.0.0.1", "::1")


def fetch(url: str) -> bytes:
    """The body at `url`; `UsageError` for what is no HTTP address, `UnreadableInput` for any other answer than 200.

    The environment's proxies are asked for other machines only, as Prometheus' own tools do.
    """
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"--url: '{url}' does not begin with http:// or https://; write it like http://localhost:9877")
    try:
        proxies = urllib.request.ProxyHandler({} if urlsplit(url).hostname in HERE else None)
        with urllib.request.build_opener(proxies).open(url, timeout=TIMEOUT_S) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        raise UnreadableInput(url, f"status {error.code}: {error.read(300).decode(errors='replace')}") from error
    except (OSError, ValueError, HTTPException) as error:
        raise UnreadableInput(
            url, f"no answer: {getattr(error, 'reason', error)}; does an exporter serve there?"
        ) from error
