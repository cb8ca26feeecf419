"""A process of its own that serves in its main thread: `python serve_in_main_thread.py DESCRIPTORS`."""

import resource
import sys
import threading

from running_server import FakeExposition

from preempt_exporter.web.serve import serve
from preempt_exporter.web.settings import WebSettings

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
