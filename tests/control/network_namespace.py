"""A network namespace joined to this one by a cable whose link can be taken down. Needs root and iproute2."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

OURS, THEIRS = "10.213.77.1", "10.213.77.2"


class Cable:
    """The link between the two."""

    def __init__(self, namespace: str, here: str) -> None:
        self.namespace = namespace
        self._here = here

    def inside(self, *words: str) -> list[str]:
        """A command line that runs inside the namespace."""
        return ["ip", "netns", "exec", self.namespace, *words]

    def unplug(self) -> None:
        """Nothing arrives any more, and nobody is told."""
        ip("link", "set", self._here, "down")

    def plug_in(self) -> None:
        """It arrives again."""
        ip("link", "set", self._here, "up")


def ip(*words: str) -> None:
    """Run `ip`, or say why it cannot be."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"


@contextmanager
def cable_to_a_namespace() -> Iterator[Cable]:
    """A namespace at `THEIRS`, reached from here at `OURS`; both ends are gone afterwards."""
    assert shutil.which("ip"), "install Debian's package iproute2"
    assert os.geteuid() == 0, "network namespaces are root's: run this test as root"
    name, here, there = f"control-{os.getpid()}", f"ctl{os.getpid()}a", f"ctl{os.getpid()}b"
    ip("netns", "add", name)
    try:
        ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", name)
        ip("address", "add", f"{OURS}/30", "dev", here)
        ip("link", "set", here, "up")
        for words in (("address", "add", f"{THEIRS}/30", "dev", there), ("link", "set", there, "up")):
            ip("netns", "exec", name, "ip", *words)
        yield Cable(name, here)
    finally:
        subprocess.run(["ip", "link", "delete", here], capture_output=True, timeout=30, check=False)
        ip("netns", "delete", name)
