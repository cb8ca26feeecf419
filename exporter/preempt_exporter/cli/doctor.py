"""`doctor --prometheus URL`: can the rules pack do its work in this Prometheus and Alertmanager?"""

import json
import urllib.error
import urllib.request
from argparse import ArgumentParser, Namespace
from typing import Any

import msgspec

from preempt_exporter.errors import UnreadableInput, UsageError
from preempt_exporter.rules_pack.doctor import Ask, examine

PATIENCE_S = 10
MAX_ANSWER_BYTES = 64 << 20


def add_arguments(parser: ArgumentParser) -> None:
    """Declare where the two are."""
    parser.epilog = "Exit 1 if anything is not as it should be. Without --alertmanager its routes are not looked at."
    parser.add_argument("--prometheus", metavar="URL", required=True, help="address of Prometheus, http://host:9090")
    parser.add_argument(
        "--alertmanager", metavar="URL", help="address of Alertmanager, http://host:9093 (default: none)"
    )
    parser.add_argument("--job", default="preempt-exporter", help="name of the scrape job (default: preempt-exporter)")
    parser.add_argument("--json", action="store_true", help="a list of objects: check, ok, says")


def run(args: Namespace) -> int:
    """0 if every finding is good, 1 if not."""
    findings = examine(_asking(args.prometheus), _asking(args.alertmanager) if args.alertmanager else None, args.job)
    if args.json:
        print(msgspec.json.encode(findings).decode())
    else:
        for finding in findings:
            print(f"{'ok  ' if finding.ok else 'FAIL'}  {finding.check}: {finding.says}")
    return 0 if all(finding.ok for finding in findings) else 1


def _asking(base: str) -> Ask:
    if not base.startswith(("http://", "https://")):
        raise UsageError(f"{base}: not an address; write it as http://host:port")

    def ask(path: str) -> Any:
        url = base.rstrip("/") + path
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
                return json.loads(answer.read(MAX_ANSWER_BYTES))
        except urllib.error.HTTPError as error:
            raise UnreadableInput(url, f"answers {error.code} {error.reason}; check the address") from error
        except (OSError, ValueError) as error:
            raise UnreadableInput(
                base, f"does not answer as it should: {getattr(error, 'reason', error)}; check the address"
            ) from error

    return ask
