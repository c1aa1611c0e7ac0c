"""The wire: a bridge with the guest's TAP and one end of a veth pair, whose other end is our port.

        guest eth0 = rxe0                                         uroce run --port net_af_packet0,iface=ours0
             |                                                              |
           guest0 (TAP) ------------- bridge0 (192.168.77.1) ------------- port0 (veth) --- ours0

Programs meet over TCP first: the guest's address, and 192.168.77.1, which is the kernel's here. RDMA goes to
addresses that no kernel interface has: otherwise the kernel would answer for them. A second TAP carries commands to
the guest and its answers; it is not part of the wire. The first has a long queue: an emulated machine is slow, and what
is not reliable (UC, UD) would lose what we send at full speed.
"""

import subprocess

MTU = 9000

GUEST_IPV4 = "192.168.77.2"
GUEST_IPV6 = "fd77::2"
HOST_IPV4 = "192.168.77.1"
OUR_IPV4 = "192.168.77.50"
OUR_IPV6 = "fd77::50"
GUEST_CONTROL = "192.168.78.2"
HOST_CONTROL = "192.168.78.1"
GUEST_MAC = "52:54:00:77:00:02"
CONTROL_MAC = "52:54:00:78:00:02"

BRIDGE_PORT = "port0"
OUR_INTERFACE = "ours0"
OUR_PORT = f"net_af_packet0,iface={OUR_INTERFACE}"
# The order is that of rxe's GID table as well: 0 is the link-local one, 1 the IPv4 one, 2 the IPv6 one.
OUR_ADDRESSES = (f"{OUR_IPV4}/24", f"{OUR_IPV6}/64")
GIDS = {"link_local": 0, "ipv4": 1, "ipv6": 2}

_COMMANDS = f"""
link set lo up
link add bridge0 mtu {MTU} type bridge stp_state 0 forward_delay 0 mcast_snooping 0
tuntap add guest0 mode tap
link set guest0 txqueuelen 10000
tuntap add control0 mode tap
link add port0 mtu {MTU} type veth peer name ours0 mtu {MTU}
link set port0 addrgenmode none
link set ours0 addrgenmode none
link set guest0 mtu {MTU} addrgenmode none master bridge0 up
link set port0 master bridge0 up
link set ours0 up
link set bridge0 up
addr add {HOST_IPV4}/24 dev bridge0
link set control0 addrgenmode none up
addr add {HOST_CONTROL}/24 dev control0
neigh add {GUEST_CONTROL} lladdr {CONTROL_MAC} nud permanent dev control0
"""


# One interface of each kind that the wire consists of, made and removed.
_PROBES = {
    "bridge": ("link add probe0 type bridge", "link del probe0"),
    "veth": ("link add probe0 type veth peer name probe1", "link del probe0"),
    "TAP": ("tuntap add probe0 mode tap", "tuntap del probe0 mode tap"),
}


def missing_kinds():
    """The kinds that this kernel cannot make, and its message; "" when it can make all. To be called before
    `make_wire`, whose failures then are our faults."""
    for kind, commands in _PROBES.items():
        for command in commands:
            result = subprocess.run(["ip", *command.split()], capture_output=True, text=True, check=False)
            if result.returncode != 0:
                return f"no {kind} interfaces here: {result.stderr.strip()}"
    return ""


def make_wire():
    """In the caller's network namespace, which removes the wire when it ends."""
    result = subprocess.run(["ip", "-batch", "-"], input=_COMMANDS, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"the wire cannot be made: {result.stderr.strip()}")
