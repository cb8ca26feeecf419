"""Bearer tokens: read from a file, generated into one of mode 0600 at the first start, compared in constant time."""

import hmac
import os
import secrets
from hashlib import sha256
from pathlib import Path

from preempt_exporter.errors import UnreadableInput, UsageError, why_not_written

LEAST_CHARACTERS = 8


def token_path(ledger: Path) -> Path:
    """Where the service's token is unless told otherwise; `act` looks there too."""
    return ledger.with_name(f"{ledger.name}.control-token")


def webhook_token_path(ledger: Path) -> Path:
    """Where the token for Alertmanager is unless told otherwise."""
    return ledger.with_name(f"{ledger.name}.alertmanager-token")


def read_token(path: Path) -> str:
    """The token in a file, white space around it aside. Raises `UnreadableInput`, or `UsageError` for a bad one."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except UnicodeDecodeError:
        text = ""
    except OSError as error:
        raise UnreadableInput(str(path), error) from error
    if len(text) < LEAST_CHARACTERS or not text.isprintable() or " " in text:
        raise UsageError(f"{path}: not a token; it holds one word of {LEAST_CHARACTERS} or more ASCII characters")
    return text


def read_or_generate_token(path: Path) -> tuple[str, bool]:
    """The token in the file, and whether it was generated now. Never overwrites a file."""
    # Whole before it has its name: a crash in between must not leave an empty token behind.
    aside = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        if path.exists():
            return read_token(path), False
        aside.unlink(missing_ok=True)
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        token = secrets.token_urlsafe(32)
        try:
            os.write(descriptor, token.encode() + b"\n")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        try:
            os.link(aside, path)
        except FileExistsError:
            return read_token(path), False
        finally:
            aside.unlink(missing_ok=True)
    except OSError as error:
        raise UnreadableInput(str(path), f"no token could be put there: {why_not_written(error)}") from error
    return token, True


def is_bearer(authorization: str | None, token: str) -> bool:
    """Whether an Authorization header carries the token; takes as long for a near miss as for a far one."""
    scheme, _, given = (authorization or "").partition(" ")
    # Of hashes, since the comparison itself tells apart lengths.
    digests = [sha256(text.encode("utf-8", "surrogatepass")).digest() for text in (given.strip(), token)]
    return hmac.compare_digest(*digests) and scheme.lower() == "bearer"
