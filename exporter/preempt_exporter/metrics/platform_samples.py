"""The client library's process and Python collectors, in a registry of their own."""

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics


class PlatformSamples:
    """Renders `process_*` and `python_*` as the client library does."""

    def __init__(self) -> None:
        """Collect nothing yet; nothing is registered globally."""
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def text(self, *, openmetrics: bool) -> str:
        """The families in the format asked for, without the closing `# EOF`."""
        if openmetrics:
            text: bytes = generate_openmetrics(self._registry)  # type: ignore[no-untyped-call]
            return text.decode().removesuffix("# EOF\n")
        return generate_latest(self._registry).decode()
