"""A real Prometheus that scrapes a page of ours, on loopback ports that the system chose."""

import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PATIENCE_S = 60


@contextmanager
def page_of(text: str) -> Iterator[str]:
    """Serve `text` as a scrape; yields host:port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def prometheus(folder: Path, target: str, rule_globs: list[str], job: str = "preempt-exporter") -> Iterator[str]:
    """Run Prometheus with these rules and one target; yields its address once it has scraped and evaluated."""
    program = shutil.which("prometheus")
    assert program, "install Debian's package prometheus, or put prometheus on PATH"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
        f"rule_files: {rule_globs}\n"
        f"scrape_configs: [{{job_name: {job}, static_configs: [{{targets: ['{target}']}}]}}]\n",
        encoding="utf-8",
    )
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        port = chosen.getsockname()[1]
    log = folder / "prometheus.log"
    with log.open("wb") as written:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=written,
            stderr=written,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + PATIENCE_S
        pause = threading.Event()
        while process.poll() is None and time.monotonic() < deadline and not _has_scraped_and_evaluated(url):
            pause.wait(0.2)
        assert process.poll() is None, log.read_text(encoding="utf-8")[-2000:]
        assert _has_scraped_and_evaluated(url), "Prometheus neither scraped nor evaluated in time"
        yield url
    finally:
        process.terminate()
        process.wait(timeout=30)


def _has_scraped_and_evaluated(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/api/v1/query?query=count(up)", timeout=5) as answer:
            scraped = b'"value"' in answer.read()
        with urllib.request.urlopen(f"{url}/api/v1/rules?type=alert", timeout=5) as answer:
            return scraped and b'"health":"unknown"' not in answer.read()
    except (urllib.error.URLError, ConnectionError):
        return False
