"""A process of its own that serves in its main thread: `python -m tests.web.serve_in_main_thread DESCRIPTORS`."""

import resource
import sys
import threading

from preempt_exporter.web.serve import serve
from preempt_exporter.web.settings import WebSettings
from tests.web.running_server import FakeExposition

if __name__ == "__main__":
    descriptors = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
    serve(
        FakeExposition(),
        WebSettings(listen_addresses=("127.0.0.1:0",)),
        stop=threading.Event(),
        on_listening=lambda urls: print(urls[0], flush=True),
    )
    print("stopped", flush=True)
