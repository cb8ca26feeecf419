"""What an operator can say about serving: where to listen, who may see what, how patient to be with clients."""

from typing import Literal

from msgspec import Struct

from preempt_exporter.http_server.patience import Patience

DEFAULT_LISTEN_ADDRESS = ":9877"

PageAudience = Literal["loopback", "all"]


class WebSettings(Struct, frozen=True, kw_only=True):
    """Everything `serve` needs to know besides what it serves."""

    listen_addresses: tuple[str, ...] = (DEFAULT_LISTEN_ADDRESS,)
    config_file: str | None = None
    """Path of a web configuration file (docs/web-config.md); None: plain HTTP without login."""
    page: PageAudience = "loopback"
    """Who may see the page and the API where no login is required."""
    patience: Patience = Patience()
