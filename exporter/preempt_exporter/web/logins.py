"""Passwords against bcrypt hashes, paid once per password and not on every scrape."""

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections import OrderedDict
from collections.abc import Mapping

import bcrypt

MAX_REMEMBERED = 128
MAX_PASSWORD_BYTES = 72
"""bcrypt reads no further; longer passwords are cut, as every other implementation of it does."""


class Logins:
    """The users of one reading of the web configuration."""

    def __init__(self, users: Mapping[str, str]) -> None:
        """`users` maps names to bcrypt hashes."""
        self._hashes = {name: hashed.encode("ascii") for name, hashed in users.items()}
        # A hash that nothing fits, as dear as the dearest real one: an unknown name must not answer sooner.
        cost = max((int(hashed[4:6]) for hashed in users.values()), default=10)
        self._nobody = f"$2b${cost:02d}$".encode("ascii") + b"." * 53
        self._key = secrets.token_bytes(32)
        self._remembered: OrderedDict[bytes, None] = OrderedDict()

    def remembers(self, authorization: str | None) -> bool:
        """Whether these very credentials were verified before; costs next to nothing."""
        credentials = parse_basic(authorization)
        return credentials is not None and self._digest(*credentials) in self._remembered

    def verify(self, authorization: str | None) -> bool:
        """Whether the value of an Authorization header lets its sender in; costs one bcrypt, so call it in a thread."""
        credentials = parse_basic(authorization)
        if credentials is None:
            return False
        name, password = credentials
        known = name in self._hashes
        fits = _fits(password, self._hashes[name] if known else self._nobody)
        if not (known and fits):
            return False
        self._remembered[self._digest(name, password)] = None
        while len(self._remembered) > MAX_REMEMBERED:
            self._remembered.popitem(last=False)
        return True

    def _digest(self, name: str, password: bytes) -> bytes:
        """What is remembered: of no use without this process' key, and never the password."""
        name_bytes = name.encode("utf-8", "surrogateescape")
        message = len(name_bytes).to_bytes(4, "big") + name_bytes + password
        return hmac.new(self._key, message, hashlib.sha256).digest()


def parse_basic(authorization: str | None) -> tuple[str, bytes] | None:
    """User name and password of a Basic Authorization header; None where it is none."""
    found = re.fullmatch(r"(?i:basic) +([A-Za-z0-9+/=]+) *", authorization or "")
    if found is None:
        return None
    try:
        decoded = base64.b64decode(found[1], validate=True)
    except binascii.Error:
        return None
    name, colon, password = decoded.partition(b":")
    return (name.decode("utf-8", "surrogateescape"), password) if colon else None


def _fits(password: bytes, hashed: bytes) -> bool:
    try:
        return bcrypt.checkpw(password[:MAX_PASSWORD_BYTES], hashed)
    except ValueError:
        # A NUL byte in the password, which no hash was made from.
        return False
