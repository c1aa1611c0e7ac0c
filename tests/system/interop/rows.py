"""What is run between us and rxe. One row is one program with one set of options, with us at one end."""

import dataclasses

PINGPONG_ITERATIONS = 200
PERFTEST_ITERATIONS = 100
DEFAULT_SIZE = {"write_bw": 65536, "read_bw": 65536, "send_bw": 65536, "atomic_bw": 8,
                "write_lat": 2, "read_lat": 2, "send_lat": 2, "atomic_lat": 8}
ALL_SIZES = tuple(2**power for power in range(1, 24))


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    program: str
    options: tuple             # for both ends
    we_are: str                # "client" or "server"
    gid: str = "ipv4"          # key of lab.GIDS
    sizes: tuple = ()          # result lines of perftest that are required
    pingpong_bytes: int = 0    # what a pingpong must say it exchanged
    says: str = ""             # what another program's client says on success
    loss_in: str = ""          # which packets to rxe are lost, in nftables' words; "": none
    loss_out: str = ""         # and which of the packets from rxe
    run: tuple = ()            # more options of `uroce run`, which rxe must not notice: strangers.py judges
    marked: int = 0            # percent of rxe's packets that arrive marked (ECN), as behind a congested switch
    paused: bool = False       # our port is paused (PFC), again and again
    timeout_s: int = 30
    short: bool = False        # in the set that every ./check runs


def _pingpong(kind, title, *options, size=4096, iterations=PINGPONG_ITERATIONS, **more):
    words = ("-s", str(size), "-n", str(iterations), *options)
    return {"name": f"{kind}_pingpong{title}", "program": f"ibv_{kind}_pingpong", "options": words,
            "pingpong_bytes": 2 * size * iterations, **more}


def _perftest(what, title, *options, iterations=PERFTEST_ITERATIONS, **more):
    words = ("-F", "-n", str(iterations), *options)
    return {"name": f"{what}{title}", "program": f"ib_{what}", "options": words,
            "sizes": (DEFAULT_SIZE[what],), **more}


def _pingpongs():
    for kind in ("rc", "uc", "ud", "srq"):
        size = 1024 if kind == "ud" else 4096
        yield _pingpong(kind, "", "-c", size=size, short=kind in ("rc", "ud"))
        yield _pingpong(kind, "_events", "-c", "-e", size=size, short=kind == "srq")
        yield _pingpong(kind, "_ipv6", "-c", size=size, gid="ipv6", short=kind == "rc")
        yield _pingpong(kind, "_link_local", "-c", size=size, gid="link_local")
        yield _pingpong(kind, "_one_byte", "-c", size=1)
        if kind != "ud":
            for mtu in (256, 512, 1024, 2048, 4096) if kind == "rc" else (256, 4096):
                yield _pingpong(kind, f"_mtu{mtu}", "-c", "-m", str(mtu))
            yield _pingpong(kind, "_odd_size", "-c", "-m", "1024", size=5003, gid="ipv6")
    yield _pingpong("ud", "_2048", "-c", size=2048)
    yield _pingpong("rc", "_large", "-c", size=1 << 20, iterations=10)
    yield _pingpong("uc", "_large", "-c", size=1 << 18, iterations=10)
    yield _pingpong("rc", "_new_send", "-c", "-N")


def _data(title, mtu, rounds, **more):
    return {"name": f"data{title}", "program": "verbs_data", "options": ("-m", str(mtu), "-n", str(rounds)),
            "says": "verified ", "timeout_s": 60, **more}


def _datas():
    """Our own program, which checks every byte of WRITE, READ, SEND and atomics."""
    for mtu in (256, 512, 1024, 2048, 4096):
        yield _data(f"_mtu{mtu}", mtu, 2, short=mtu == 1024)
    yield _data("_ipv6", 4096, 2, gid="ipv6")
    for title, percents in _LOSSES.items():
        loss = {way: _some(percent) for way, percent in zip(("loss_in", "loss_out"), percents) if percent}
        yield _data(f"_{title}", 1024, 1 if title == "loss_heavy" else 2, short=title == "loss_both", **loss)


def _perftests():
    for operation in ("write", "read", "send", "atomic"):
        for measure in ("bw", "lat"):
            what = f"{operation}_{measure}"
            yield _perftest(what, "", short=what in ("write_bw", "read_bw", "send_lat", "atomic_bw"))
            yield _perftest(what, "_ipv6", gid="ipv6")
            if operation in ("write", "read"):
                yield _perftest(what, "_link_local", gid="link_local")
            for mtu in (256, 1024, 4096) if operation != "atomic" and measure == "bw" else ():
                yield _perftest(what, f"_mtu{mtu}", "-m", str(mtu), iterations=20)
        yield _perftest(f"{operation}_bw", "_both_ways", "-b", iterations=50)
        yield _perftest(f"{operation}_bw", "_qp4", "-q", "4", iterations=20)
    yield from _datagrams_and_unreliable()
    for measure in ("write_bw", "read_bw", "send_bw"):
        yield {**_perftest(measure, "_all_sizes", "-a", iterations=5), "sizes": ALL_SIZES, "timeout_s": 150}
    yield {**_perftest("read_lat", "_64k", "-s", "65536", iterations=20), "sizes": (65536,)}
    yield {**_perftest("write_lat", "_odd", "-s", "4099", iterations=20), "sizes": (4099,)}
    for operation in ("CMP_AND_SWAP", "FETCH_AND_ADD"):
        yield _perftest("atomic_lat", f"_{operation.lower()}", "-A", operation)
    yield _perftest("send_bw", "_srq", "--use-srq")
    yield _perftest("send_lat", "_inline", "-I", "64")
    yield _perftest("send_lat", "_events", "-e")
    yield _perftest("send_bw", "_old_post_send", "--use_old_post_send")


def _datagrams_and_unreliable():
    for measure in ("send_bw", "send_lat", "write_bw", "write_lat"):
        yield _perftest(measure, "_uc", "-c", "UC", iterations=50)
    for title, gid in (("_ud", "ipv4"), ("_ud_ipv6", "ipv6")):
        yield {**_perftest("send_bw", title, "-c", "UD", gid=gid), "sizes": (4096,)}
        yield _perftest("send_lat", title, "-c", "UD", gid=gid)


ACK_UDP_BYTES = 8 + 12 + 4 + 4  # UDP, BTH, AETH, iCRC


def _some(percent):
    """At random; every row has enough packets that some are certainly lost."""
    return f"numgen random mod 1000 < {10 * percent}"


# Lost packets must be sent again: reliable connections only. The programs ask for seven retries of 67 ms.
# In and out, percent of the data packets.
_LOSSES = {"loss_in": (2, 0), "loss_out": (0, 2), "loss_both": (2, 2), "loss_heavy": (6, 6)}


def _lossy_pingpongs(title, percents):
    loss = {way: _some(percent) for way, percent in zip(("loss_in", "loss_out"), percents) if percent}
    few = {"size": 16384, "iterations": 40, "timeout_s": 60, **loss}
    yield _pingpong("rc", f"_{title}", "-c", "-m", "1024", **few)
    yield _pingpong("srq", f"_{title}", "-c", "-m", "1024", gid="ipv6", **few)


def _pingpongs_without_acks():
    """Most of our acknowledgements are lost, and nothing else: nearly always the last one too."""
    loss = {"loss_in": f"udp length {ACK_UDP_BYTES} {_some(75)}"}
    for kind in ("rc", "srq"):
        yield _pingpong(kind, "_loss_of_acks", "-c", "-m", "1024", iterations=8, timeout_s=60, **loss)


def _lossy_perftests(title, percents, we_are):
    """Data goes one way, and acknowledgements or READ requests, which are few, the other: of those, more are lost."""
    for operation in ("write", "read", "send", "atomic"):
        data_way = "loss_in" if (we_are == "client") == (operation != "read") else "loss_out"
        loss = {}
        for way, percent in zip(("loss_in", "loss_out"), percents):
            if percent:
                loss[way] = _some(6 if operation == "atomic" else percent if way == data_way else 15)
        size = () if operation == "atomic" else ("-s", "16384")
        row = _perftest(f"{operation}_bw", f"_{title}", "-m", "1024", *size, timeout_s=60,
                        iterations=200 if operation == "atomic" else 60, short=title == "loss_both" and operation in ("write", "read"), **loss)
        yield {**row, "sizes": (16384,) if size else row["sizes"]}


# Pingpongs over IPv6, where the signature is the flow label; the others over IPv4, where it is the identification.
_AUTO = ("--loss-recovery", "auto")
_DCQCN = ("--cc", "dcqcn", *_AUTO)
_SWIFT = ("--cc", "swift", "--cc-param", "swift_target=20000", *_AUTO)  # for our side: an emulated machine is slow
_LOSSLESS = ("--pfc", "3", "--tclass", "96")


def _our_extras(we_are):
    """Features that only our own peers, switches and neighbours understand, or that a foreign peer must not notice."""
    yield _pingpong("rc", "_auto", "-c", "-m", "1024", gid="ipv6", run=_AUTO)
    yield _perftest("write_bw", "_auto", "-m", "1024", run=_AUTO)
    for kind, run in (("write", _AUTO), ("read", _AUTO), ("send", _SWIFT)):
        (row,) = (row for row in _lossy_perftests("loss_both", _LOSSES["loss_both"], we_are)
                  if row["name"].startswith(kind))
        title = "_auto" if run == _AUTO else "_swift"
        yield {**row, "name": f"{kind}_bw{title}_loss", "run": run, "short": False}
    # Marks matter at the receiver of data, which answers them with CNPs. Few READs are outstanding: one that is lost on
    # a busy machine is asked for again with everything behind it, and rxe answers all of it.
    what, few = ("read_bw", ("-o", "16")) if we_are == "client" else ("write_bw", ())
    yield {**_perftest(what, "_dcqcn_marked", "-m", "1024", "-s", "16384", *few, iterations=200, run=_DCQCN, marked=20),
           "sizes": (16384,)}
    # Pauses matter at the sender of data.
    yield _perftest("write_bw" if we_are == "client" else "read_bw", "_paused", "-m", "1024", iterations=300,
                    run=_LOSSLESS, paused=True)


def all_rows():
    """Each row with us as client and as server."""
    for we_are in ("client", "server"):
        rows = [*_pingpongs(), *_datas(), *_perftests(), *_pingpongs_without_acks()]
        for title, percents in _LOSSES.items():
            rows += [*_lossy_pingpongs(title, percents), *_lossy_perftests(title, percents, we_are)]
        rows += _our_extras(we_are)
        for row in rows:
            yield Row(**{**row, "name": f"{row['name']}.{we_are}", "we_are": we_are})
