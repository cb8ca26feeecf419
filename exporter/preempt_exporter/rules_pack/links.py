"""Where the links of alerts lead, as far as an address tells."""

from urllib.parse import urlsplit

_NOBODYS_DOMAINS = ("invalid", "example", "example.com", "example.net", "example.org")
"""Set aside for documentation, with all below them (RFC 2606): nothing is ever served there."""


def leads_nowhere(url: str) -> bool:
    """Whether nobody who clicks on it can arrive: no web address with a host, or one of a domain that is nobody's."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".")
    except ValueError:
        return True
    if parts.scheme not in ("http", "https") or not host:
        return True
    return any(host == domain or host.endswith(f".{domain}") for domain in _NOBODYS_DOMAINS)
