"""Every unmodified program and option that must run over uroce. One row, one test."""

import dataclasses

from outputs import ALL_SIZES, check_bandwidth, check_latency, check_pingpong


@dataclasses.dataclass(frozen=True)
class Case:
    """A server and a client of the same program with the same options."""

    name: str
    program: str
    options: tuple = ()
    wire: str = "segment"
    suite: str = "programs"
    timeout_s: int = 40
    sizes: tuple = ()          # result lines that are required; (): the program's default
    pingpong_bytes: int = 0    # what a pingpong must say it exchanged
    environment: tuple = ()    # (name, value) for both sides
    address: str = ""          # of the endpoint, {host} is 1 or 2; "": the wire's own
    refused: str = ""          # the program itself must refuse, with this text
    needs: str = ""            # "hugepages"

    @property
    def hogs(self):
        """Needs both cores: the program polls its memory without calling us meanwhile; without a second core, messages
        for which its receiver has no time are lost, as datagrams are."""
        return self.program == "ib_write_lat" or (self.program == "ib_send_bw" and "UD" in self.options)


DEFAULT_SIZE = {"ib_write_bw": 65536, "ib_read_bw": 65536, "ib_send_bw": 65536, "ib_atomic_bw": 8,
                "ib_write_lat": 2, "ib_read_lat": 2, "ib_send_lat": 2, "ib_atomic_lat": 8}


def check_result(case, text):
    """What is wrong with the client's output; an empty list if nothing."""
    if case.program.startswith("ibv_"):
        return check_pingpong(text, case.pingpong_bytes)
    sizes = case.sizes or (DEFAULT_SIZE[case.program],)
    check = check_latency if case.program.endswith("_lat") else check_bandwidth
    return check(text, sizes)


def pingpong(kind, name, *options, size=None, iters=1000, **more):
    total = 2 * (size or (1024 if kind == "ud" else 4096)) * iters
    return Case(f"ibv_{kind}_pingpong{name}", f"ibv_{kind}_pingpong", options, pingpong_bytes=total, **more)


def _pingpongs():
    for kind in ("rc", "uc", "ud", "srq"):
        yield pingpong(kind, "")
        yield pingpong(kind, "_events", "-e")
        yield pingpong(kind, "_gid0", "-g", "0")
        yield pingpong(kind, "_gid1", "-g", "1")
        yield pingpong(kind, "_validate", "-g", "1", "-c")
        yield pingpong(kind, "_veth", "-g", "1", wire="veth", suite="veth")
        yield pingpong(kind, "_veth_events", "-g", "1", "-e", wire="veth", suite="veth")
        if kind != "ud":
            for mtu in (256, 512, 2048, 4096):
                suite = "programs" if mtu in (256, 4096) else "long"
                yield pingpong(kind, f"_mtu{mtu}", "-g", "1", "-m", str(mtu), suite=suite)
    yield pingpong("rc", "_timestamps", "-t")
    yield pingpong("rc", "_timestamps_events", "-t", "-e")
    yield pingpong("rc", "_new_send", "-N")
    yield pingpong("rc", "_new_send_events", "-N", "-e")
    yield pingpong("rc", "_large", "-s", "1048576", "-n", "200", "-c", size=1048576, iters=200)
    yield pingpong("uc", "_large", "-s", "1048576", "-n", "200", "-c", size=1048576, iters=200)
    yield pingpong("rc", "_one_byte", "-s", "1", "-g", "1", size=1)
    yield pingpong("srq", "_one_qp", "-q", "1", "-g", "1")
    for kind in ("rc", "srq"):
        yield pingpong(kind, "_on_demand", "-g", "1", "-c", "-o")
    yield pingpong("rc", "_on_demand_prefetched", "-g", "1", "-c", "-o", "-P")
    yield pingpong("rc", "_on_demand_implicit", "-g", "1", "-c", "-O")
    yield pingpong("rc", "_device_memory", "-g", "1", "-c", "-j")
    yield pingpong("rc", "_no_hugepages", environment=(("UROCE_HUGEPAGES", "no"),), wire="card")
    yield pingpong("rc", "_hugepages", environment=(("UROCE_HUGEPAGES", "yes"),), needs="hugepages", wire="card")


def perftest(program, name="", *options, **more):
    return Case(program + name, program, options, **more)


def _perftests():
    for operation in ("write", "read", "send", "atomic"):
        for measure in ("bw", "lat"):
            program = f"ib_{operation}_{measure}"
            yield perftest(program)
            yield perftest(program, "_veth", wire="veth", suite="veth")
            suite = "programs" if measure == "bw" else "long"
            yield perftest(program, "_gid0", "-x", "0", suite=suite)
            yield perftest(program, "_gid1", "-x", "1")
            yield perftest(program, "_old_post_send", "--use_old_post_send", suite=suite)
        program = f"ib_{operation}_bw"
        few = ("-n", "1000") if operation != "atomic" else ()
        yield perftest(program, "_qp16", "-q", "16", *few, timeout_s=60)
        yield perftest(program, "_both_ways", "-b", *few)
        yield perftest(program, "_mtu1024", "-m", "1024", *few)
        yield perftest(program, "_mtu256", "-m", "256", *few)
        yield perftest(program, "_post_list", "-l", "8", *few)
        if operation != "atomic":
            for kind in ("bw", "lat"):
                count = "40" if kind == "bw" else "25"
                suite = "programs" if kind == "bw" and operation != "read" else "long"
                yield perftest(f"ib_{operation}_{kind}", "_all_sizes_short", "-a", "-n", count, sizes=tuple(ALL_SIZES),
                               suite=suite, timeout_s=150)
            yield perftest(program, "_all_sizes", "-a", "-n", "1000", sizes=tuple(ALL_SIZES), suite="long", timeout_s=400)
            yield perftest(program, "_all_sizes_veth", "-a", "-n", "50", sizes=tuple(ALL_SIZES), wire="veth",
                           suite="long", timeout_s=200)
    yield from _special_perftests()


def _special_perftests():
    yield perftest("ib_send_bw", "_ud", "-c", "UD", sizes=(4096,))
    yield perftest("ib_send_lat", "_ud", "-c", "UD")
    yield from _multicast_perftests()
    yield perftest("ib_send_bw", "_uc", "-c", "UC")
    yield perftest("ib_send_lat", "_uc", "-c", "UC")
    yield perftest("ib_write_bw", "_uc", "-c", "UC")
    yield perftest("ib_write_lat", "_uc", "-c", "UC")
    yield perftest("ib_send_bw", "_ud_veth", "-c", "UD", "-n", "1000", sizes=(4096,), wire="veth", suite="veth")
    yield perftest("ib_write_bw", "_uc_veth", "-c", "UC", "-n", "1000", wire="veth", suite="veth")
    yield perftest("ib_send_bw", "_srq", "--use-srq")
    yield perftest("ib_send_bw", "_srq_qp16", "--use-srq", "-q", "16", "-n", "500")
    yield perftest("ib_send_bw", "_events", "-e")
    yield perftest("ib_send_lat", "_events", "-e")
    yield perftest("ib_read_bw", "_events", "-e")
    yield perftest("ib_send_lat", "_inline200", "-I", "200")
    yield perftest("ib_write_lat", "_inline200", "-I", "200", "-s", "200", sizes=(200,))
    yield perftest("ib_send_bw", "_inline64", "-I", "64", "-s", "64", "-n", "50000", sizes=(64,))
    yield perftest("ib_read_lat", "_64k", "-s", "65536", sizes=(65536,))
    yield perftest("ib_read_bw", "_one_outstanding", "-o", "1")
    yield perftest("ib_send_bw", "_64", "-s", "64", "-n", "50000", sizes=(64,))
    yield perftest("ib_send_bw", "_every_completion", "-Q", "1")
    yield perftest("ib_write_bw", "_duration", "-D", "3")
    yield perftest("ib_write_bw", "_region_per_qp", "-q", "4", "--mr_per_qp", "-n", "1000")
    yield perftest("ib_write_bw", "_one_byte", "-s", "1", sizes=(1,))
    yield perftest("ib_write_bw", "_odd", "-s", "65537", sizes=(65537,))
    for kind in ("CMP_AND_SWAP", "FETCH_AND_ADD"):
        for measure in ("bw", "lat"):
            yield perftest(f"ib_atomic_{measure}", "_" + kind.lower(), "-A", kind)
    yield perftest("ib_write_bw", "_hugepages", needs="hugepages", environment=(("UROCE_HUGEPAGES", "yes"),), wire="card")
    yield perftest("ib_write_bw", "_veth_mtu1024", "-m", "1024", wire="veth", suite="veth")
    yield perftest("ib_write_bw", "_veth_both_ways", "-b", "-n", "1000", wire="veth", suite="veth")
    yield perftest("ib_send_bw", "_long", "-D", "20", suite="long", timeout_s=60)


def _multicast_perftests():
    """perftest's default group is an IPv6 one, and it requires a GID of the same family; -M names another group."""
    group_v4 = "0:0:0:0:0:0:0:0:0:0:255:255:239:1:2:3"
    yield perftest("ib_send_bw", "_ud_multicast", "-c", "UD", "-g", "-x", "0", sizes=(4096,))
    yield perftest("ib_send_bw", "_ud_multicast_ipv4", "-c", "UD", "-g", "-M", group_v4, sizes=(4096,), suite="long")
    yield perftest("ib_send_lat", "_ud_multicast", "-c", "UD", "-g", "-x", "0", suite="long")
    yield perftest("ib_send_lat", "_ud_multicast_ipv4", "-c", "UD", "-g", "-M", group_v4, suite="long")
    yield perftest("ib_send_lat", "_ud_multicast_veth", "-c", "UD", "-g", "-M", group_v4, wire="veth", suite="veth")
    yield perftest("ib_send_bw", "_ud_multicast_card", "-c", "UD", "-g", "-n", "500", "-M", group_v4, sizes=(4096,),
                   wire="card", suite="long")


ADDRESSES = {"ipv6": "fd77::{host}/64", "vlan": "10.78.0.{host}/24@100", "vlan_ipv6": "fd78::{host}/64@100"}


def _addressed():
    """GIDs that a user sets: IPv6, and addresses in a VLAN. GID 0 is the link-local one, the user's is GID 1."""
    for kind, address in ADDRESSES.items():
        yield pingpong("rc", f"_{kind}", "-g", "1", "-c", address=address)
        yield pingpong("ud", f"_{kind}", "-g", "1", "-c", address=address)
        yield perftest("ib_write_bw", f"_{kind}", "-x", "1", "-n", "1000", address=address)
        yield perftest("ib_send_lat", f"_{kind}", "-x", "1", address=address)
        yield pingpong("rc", f"_{kind}_veth", "-g", "1", "-c", address=address, wire="veth", suite="veth")
        yield perftest("ib_read_bw", f"_{kind}_veth", "-x", "1", "-n", "200", address=address, wire="veth", suite="veth")


def _other_ports():
    for wire in ("tap", "xdp"):
        yield pingpong("rc", f"_{wire}", "-g", "1", "-c", wire=wire, suite="veth")
        yield perftest("ib_write_bw", f"_{wire}", "-n", "500", wire=wire, suite="veth")
        yield perftest("ib_send_lat", f"_{wire}", wire=wire, suite="veth")


# Over two cards joined by a cable: every opcode, transport and kind of event, addresses of every kind, long and short,
# many queue pairs, both ways. Everything else belongs to the program or to the engine, which are the same. everyday.py
# lists those that every check runs.
OTHER_PORTS = {"ibv_rc_pingpong", "ibv_rc_pingpong_events", "ibv_rc_pingpong_large", "ibv_rc_pingpong_mtu256",
         "ibv_rc_pingpong_timestamps_events", "ibv_rc_pingpong_ipv6", "ibv_rc_pingpong_vlan", "ibv_uc_pingpong",
         "ibv_uc_pingpong_events", "ibv_ud_pingpong", "ibv_ud_pingpong_events", "ibv_ud_pingpong_vlan_ipv6",
         "ibv_srq_pingpong", "ibv_srq_pingpong_events", "ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_atomic_bw",
         "ib_write_lat", "ib_read_lat", "ib_send_lat", "ib_atomic_lat", "ib_write_bw_gid0", "ib_write_bw_qp16",
         "ib_write_bw_both_ways", "ib_read_bw_both_ways", "ib_write_bw_uc", "ib_send_bw_uc", "ib_send_bw_ud",
         "ib_send_bw_srq", "ib_send_bw_events", "ib_send_lat_events", "ib_read_bw_events", "ib_send_lat_inline200",
         "ib_atomic_bw_cmp_and_swap", "ib_send_bw_all_sizes_short"}
ON_CARDS = OTHER_PORTS | {"ib_write_bw_mtu256", "ib_send_bw_mtu1024", "ib_write_bw_odd",
                          "ib_write_bw_all_sizes_short", "ib_read_lat_64k", "ib_write_bw_region_per_qp"}


def _named(cases, names):
    named = [case for case in cases if case.name in names]
    assert len(named) == len(names), names - {case.name for case in named}
    return named


def _on_cards(cases):
    for case in _named(cases, ON_CARDS):
        yield dataclasses.replace(case, name=case.name + "_card", wire="card", suite="card")


def _on_other_cards():
    more = {"wire": "card_server", "suite": "card", "timeout_s": 60}
    # The addresses follow from the cards' MAC addresses: GID 0. Each process connects with a card in another process.
    yield pingpong("rc", "_card_server", "-g", "0", "-c", **more)
    yield pingpong("ud", "_card_server", "-g", "0", **more)
    yield perftest("ib_write_bw", "_card_server", "-x", "0", "-n", "1000", **more)
    yield perftest("ib_send_lat", "_card_server", "-x", "0", "-n", "200", **more)
    yield pingpong("rc", "_card_tap", "-g", "1", "-c", wire="card_tap", suite="card")
    yield perftest("ib_write_bw", "_card_tap", "-n", "500", wire="card_tap", suite="card")


def all_cases():
    cases = [*_pingpongs(), *_perftests(), *_addressed(), *_other_ports()]
    return [*cases, *_on_cards(cases), *_on_other_cards()]
