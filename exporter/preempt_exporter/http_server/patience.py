"""How patient to be with clients."""

from msgspec import Struct


class Patience(Struct, frozen=True, kw_only=True):
    """How long a client may take over each step, in seconds, and how many clients are kept at once."""

    connections: int = 512
    """Connections at once; beyond that the one nearest to the end of our patience is closed, never the new one."""
    handshake_s: float = 5.0
    """From accept to the end of the TLS handshake."""
    request_s: float = 5.0
    """From accept, or a request's first byte, to its last header."""
    idle_s: float = 20.0
    """Between requests: longer than the usual scrape interval of 15 s, so that a scraper keeps its connection."""
    answer_s: float = 60.0
    """For us to compute an answer; a scraper gave up long before."""
    send_s: float = 30.0
    """For the client to take the whole answer."""
    close_s: float = 3.0
    """For the client to agree that the connection is over."""
    shutdown_s: float = 5.0
    """For requests in flight once we are told to stop."""
