"""Asking a running exporter, for commands that take `--url`."""

import urllib.error
import urllib.request

from preempt_exporter.errors import UnreadableInput, UsageError

TIMEOUT_S = 30


def fetch(url: str) -> bytes:
    """The body at `url`; `UsageError` for what is no HTTP address, `UnreadableInput` for any other answer than 200."""
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"--url: '{url}' does not begin with http:// or https://")
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        raise UnreadableInput(url, f"status {error.code}: {error.read(300).decode(errors='replace')}") from error
    except (OSError, ValueError) as error:
        raise UnreadableInput(url, f"no answer: {getattr(error, 'reason', error)}") from error
