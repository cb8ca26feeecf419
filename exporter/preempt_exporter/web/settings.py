"""What an operator can say about serving: where to listen, who may see what, how patient to be with clients."""

from argparse import ArgumentParser, Namespace
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

    @classmethod
    def from_args(cls, args: Namespace) -> "WebSettings":
        """Read what `add_web_arguments` declared."""
        return cls(
            listen_addresses=tuple(args.web_listen_address or [DEFAULT_LISTEN_ADDRESS]),
            config_file=args.web_config_file or None,
            page=args.web_page,
        )


def add_web_arguments(parser: ArgumentParser) -> None:
    """Declare `--web.listen-address`, `--web.config.file` and `--web.page`."""
    group = parser.add_argument_group("web")
    group.add_argument(
        "--web.listen-address",
        dest="web_listen_address",
        metavar="ADDRESS",
        action="append",
        help="where to serve, as HOST:PORT; no host means every interface, port 0 lets the system choose, "
        f"repeatable (default: {DEFAULT_LISTEN_ADDRESS})",
    )
    group.add_argument(
        "--web.config.file",
        dest="web_config_file",
        metavar="FILE",
        default=None,
        help="TLS, client certificates and logins, in the format of Prometheus' own exporters (default: none)",
    )
    group.add_argument(
        "--web.page",
        dest="web_page",
        choices=("loopback", "all"),
        default="loopback",
        help="who may see the page and /api/v1 where no login is required: clients on this machine, or "
        "all; /metrics is open to all either way (default: %(default)s)",
    )
