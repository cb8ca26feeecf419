"""Host names and addresses as requests carry them."""

import ipaddress


def is_loopback(address: str) -> bool:
    """Whether an IP address, IPv4-mapped or not, is this machine's own; names are not."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return bool((mapped or found).is_loopback)


def host_name(host_header: str) -> str:
    """The host of a Host header in lower case, without port and brackets."""
    host = host_header.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if ":" in host else host
