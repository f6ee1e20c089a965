"""IPv6 addresses that embed an IPv4 address."""

from ipaddress import IPv6Address, ip_address, ip_network

FAR_USER = "203.0.113.77"


def embedded(prefix: str, address: str = FAR_USER) -> str:
    """Embed an IPv4 address in an IPv6 prefix (RFC 6052, 2.2), written out here bit by bit."""
    network = ip_network(prefix)
    bits = f"{int(network.network_address):0128b}"[: network.prefixlen]
    for bit in f"{int(ip_address(address)):032b}":
        bits += bit
        if len(bits) == 64:
            bits += "0" * 8
    if network.prefixlen == 64:
        bits = f"{bits[:64]}{'0' * 8}{int(ip_address(address)):032b}"
    if network.prefixlen == 96:
        bits = f"{bits[:96]}{int(ip_address(address)):032b}"
    return str(IPv6Address(int(bits.ljust(128, "0"), 2)))


def teredo(client: str, server: str = "192.0.2.1") -> str:
    number = 0x20010000 << 96 | int(ip_address(server)) << 64 | 0x8000_63BF << 32
    return str(IPv6Address(number | int(ip_address(client)) ^ 0xFFFFFFFF))
