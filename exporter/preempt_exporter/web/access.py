"""Who may see the page and its API, which tell task names and budgets; the scrape is not decided here."""

from collections.abc import Mapping

from preempt_exporter.http_server.hosts import host_name, is_loopback
from preempt_exporter.web.settings import PageAudience

FORWARDING_HEADERS = ("forwarded", "x-forwarded-for", "x-real-ip", "via")

HOW_TO_OPEN = "require a login in --web.config.file, or start the exporter with --web.page=all"


def reason_to_refuse(
    client: str | None, headers: Mapping[str, str], *, listen_hosts: frozenset[str], audience: PageAudience, login: bool
) -> str | None:
    """Why this client may not see the page, as a sentence for it; None: it may.

    Whoever got past a login may, and so may anyone under `audience` `all`. Otherwise only clients on this machine,
    and of those none whose request came through a proxy (its client is elsewhere) or was addressed to a foreign
    name: a web page that points its own name at 127.0.0.1 would read the queue through the visitor's browser.
    """
    if login or audience == "all":
        return None
    if client is None or not is_loopback(client):
        return f"the page and /api/v1 are shown to clients on this machine only; {HOW_TO_OPEN}"
    if any(name in headers for name in FORWARDING_HEADERS):
        return f"this request came through a proxy, so its client may be anywhere; {HOW_TO_OPEN}"
    host = host_name(headers.get("host", ""))
    if host and host != "localhost" and host not in listen_hosts and not is_loopback(host):
        return f"the Host header names neither this machine's loopback nor a listen address; {HOW_TO_OPEN}"
    return None
