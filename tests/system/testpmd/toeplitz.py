"""The receive-side-scaling hash, from its definition: the key is shifted along the input, one bit for each bit."""

import ipaddress

KEY = bytes.fromhex("6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa")


def toeplitz(data, key=KEY):
    bits = int.from_bytes(key, "big")
    width = 8 * len(key)
    result = 0
    for position in range(8 * len(data)):
        if data[position // 8] & 0x80 >> position % 8:
            result ^= bits >> (width - 32 - position) & 0xffffffff
    return result


def hash_ipv4(source, destination, source_port=None, destination_port=None):
    data = ipaddress.IPv4Address(source).packed + ipaddress.IPv4Address(destination).packed
    if source_port is not None:
        data += source_port.to_bytes(2, "big") + destination_port.to_bytes(2, "big")
    return toeplitz(data)


# From Microsoft's "Verifying the RSS Hash Calculation".
assert hash_ipv4("66.9.149.187", "161.142.100.80") == 0x323e8fc2
assert hash_ipv4("66.9.149.187", "161.142.100.80", 2794, 1766) == 0x51ccc178
