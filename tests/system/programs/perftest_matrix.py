#!/usr/bin/env python3
"""perftest's programs with every option that their --help names, and every type of queue pair: two ends on a segment.

    perftest_matrix.py --uroce build/apps/uroce                      all
    perftest_matrix.py --uroce build/apps/uroce --part 3/8           every eighth, from the third on
    perftest_matrix.py --uroce build/apps/uroce --like ib_send_bw    those whose name contains this text
    perftest_matrix.py --list

Both ends move their messages and end well; or perftest refuses the options itself, in one of the lines below, before anything is
asked of the device. An option that --help names and that is not below is an error: somebody has to say which value it takes.

Exit status: 0 passed, 1 failed, 77 skipped because perftest is not installed.
"""

import argparse
import collections
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from children import Children, free_tcp_port, wait_for_listener  # noqa: E402
from outputs import rows, trouble  # noqa: E402

SKIP = 77
PROGRAMS = ("ib_send_bw", "ib_send_lat", "ib_write_bw", "ib_write_lat", "ib_read_bw", "ib_read_lat", "ib_atomic_bw", "ib_atomic_lat")
ITERATIONS = 40
TIMEOUT_S = 60
OPTION = re.compile(r"^\s+(?:-(\w), )?--([a-zA-Z][\w-]*)", re.MULTILINE)
TYPES = re.compile(r"--connection=<([^>]*)>")

# Arguments of each option. "": it takes none. A tuple: more words, such as other options that it needs.
VALUES = {
    "all": "", "bidirectional": "", "CPU-freq": "", "events": "", "noPeak": "", "rdma_cm": "", "com_rdma_cm": "", "mcg": ("-x", "0"), "out_json": "",
    "dont_xchg_versions": "", "use-srq": "", "ipv6": "", "mr_per_qp": "", "odp": "", "use_old_post_send": "", "perform_warm_up": "",
    "report_gbits": "", "reversed": "", "disable_pcie_relaxed": "", "report-cycles": "", "report-histogram": "", "report-unsorted": "",
    "report-both": ("-b",), "report-per-port": ("-O", "-D", "1"), "dualport": "", "cpu_util": ("-D", "1"), "use_hugepages": "",
    "aes_xts": "", "encrypt_on_tx": "", "sig_before": "",
    "atomic_type": "CMP_AND_SWAP", "ib-dev": "uroce0", "duration": "1", "vector": ("0", "-e"), "margin": ("0", "-D", "1"), "ib-port": "1", "inline_size": "64",
    "post_list": "4", "recv_post_list": "4", "hop_limit": "7", "mtu": "512", "MGID": "", "iters": "100", "outs": "4", "qp": "3",
    "cq-mod": "4", "rx-depth": "64", "size": "300", "sl": "3", "tx-depth": "16", "tos": ("32", "-R"), "qp-timeout": "12", "limit_bw": "0.001",
    "report-counters": "counters/port_xmit_data", "gid-index": "1", "limit_msgrate": "0.000001", "out_json_file": ("report.json", "--out_json"),
    "dlid": "1", "force-link": "Ethernet", "inline_recv": "32", "source_ip": "127.0.0.1", "output": "", "pkey_index": "0", "retry_count": ("3", "-R"),
    "tclass": "32", "wait_destroy": "1", "burst_size": ("8", "--rate_limit=1"), "typical_pkt_size": ("1024", "--rate_limit=1", "--rate_limit_type=PP"),
    "rate_limit": "1", "rate_units": ("M", "--rate_limit=100"), "rate_limit_type": ("SW", "--rate_limit=1"), "latency_gap": "10",
    "log_dci_streams": "1", "log_active_dci_streams": "1", "aes_block_size": "512", "data_enc_keys_number": "1", "kek_path": "none",
    "credentials_path": "none", "data_enc_key_app_path": "none", "mmap": "map", "mmap-offset": ("4096", "--mmap=map"),
    # Since release 4.5.
    "disable_dynamic_polling": "", "data_validation": "", "data_validation_debug": ("--data_validation",), "comm_rdma_cm": "", "cqe_poll": "4",
    "pin_cores": "0", "numa_node": "0", "disable_numa": "", "no_lock": "", "ipv6-addr": "", "bind_source_ip": "127.0.0.1",
    "payload_file_path": "payload", "flow_label": "1,2,3", "use_cuda": "0", "cuda_mem_type": ("1", "--use_cuda=0"), "use_cuda_bus_id": "0000:00:00.0",
    "use_cuda_dmabuf": ("--use_cuda=0",), "use_cuda_pcie_mapping": ("--use_cuda=0",), "gpu_touch": "once", "send_with_imm": "",
    "write_with_imm": "",
}
# What is left out, and why.
LEFT_OUT = {
    "help": "tells the options", "version": "tells the version", "connection": "every row has its type", "port": "every row has its own",
    "run_infinitely": "has no end", "connectionless": "is for a server that its clients do not talk to",
    "use-null-mr": "hands the lkey of a null region to the peer, and such a region has no key for peers (ibv_alloc_null_mr(3))",
}
VARIANTS = {"output": ("bandwidth", "message_rate", "latency")}
MULTICAST = "0:0:0:0:0:0:0:0:0:0:255:255:239:1:2:3"

OF_ONE_VENDOR = ("DC", "SRD")  # types that the device refuses; SRD needs calls of that vendor's library
NO_SUCH_TYPE = re.compile(r"queue pairs of type 255 .* are not supported \(EOPNOTSUPP\)|^ ?Unable to create QP\.$")

# perftest's own refusals, by its own rules; of the device, a second port and a rate in hardware, which it lacks.
REFUSALS = (
    "Events feature not available on", "Hop limit only valid for RawEth QP", "supported only on DC", "supported only when enc/dec traffic",
    "supported only with enc/dec traffic", "Please provide key encryption key file path", "Events must be enabled to select a completion vector",
    "Unable to query port 2 attributes",  # it has one port
    "unrecognized option",  # that --help lists nevertheless
    "not compatible with versions older than", "Output verbosity level for", "Please configure hugepages",
    "UC is not supported in librdmacm", "XRC does not support RDMA_CM", "supported only on RC", "ODP does not support UC",
    "The input value for hw rate limit is not supported", "Packet Pacing is only supported for Raw Ethernet",
    "CUDA DMA-BUF cannot be used without CUDA", "CUDA PCIe mapping requires DMA-BUF", "Failed to load CUDA library dynamically", "GPU touch is not supported for this MEMORY_TYPE",
    "Perftest doesn't support device memory latency test with write",  # asked for by a CUDA device
    "--data_validation is only supported", "--data_validation requires RC connection type",
)
# Its own mistakes: type, option, and what comes of it. It makes queue pairs of the type, and treats them as datagrams.
MISTAKES = {("XRC", "--mcg"): "Failed to modify QP to INIT, ret=22"}

# Warnings after which the program continues.
HARMLESS = re.compile(r".*The QP failed to accept HW rate limit, providing SW rate limit.*")

Row = collections.namedtuple("Row", "name program words")


def options_of(text):
    """Long names, as --help lists them."""
    return [match[2] for match in OPTION.finditer(text)]


def types_of(text):
    found = TYPES.search(text)
    return found[1].split("/") if found else []


def rows_of(program, text):
    unknown = [option for option in options_of(text) if option not in VALUES and option not in LEFT_OUT]
    if unknown:
        raise SystemExit(f"FAILED: {program} has options that nobody has said the values of: {', '.join(unknown)}")
    for kind in types_of(text):
        yield Row(f"{program} {kind}", program, ("-c", kind))
        if kind in OF_ONE_VENDOR:
            continue
        for option in options_of(text):
            if option in LEFT_OUT:
                continue
            for value in VARIANTS.get(option, (VALUES[option],)):
                first, *more = value if isinstance(value, tuple) else (value,)
                takes_value = first and not first.startswith("-")
                words = [f"--{option}={first}" if takes_value else f"--{option}", *([] if takes_value or not first else [first]), *more]
                if option == "MGID":
                    words = ["--mcg", f"--MGID={MULTICAST}"]
                yield Row(f"{program} {kind} {' '.join(words)}", program, ("-c", kind, *words))


def help_of(program):
    done = subprocess.run([program, "--help"], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def all_rows():
    for program in PROGRAMS:
        yield from rows_of(program, help_of(program))


def command(row, port):
    sizes = any(word.startswith(("--iters", "--duration", "-D")) for word in row.words)
    few = [] if sizes else ["-n", str(ITERATIONS)]
    fast = [] if "--CPU-freq" in row.words else ["-F"]
    return [row.program, *fast, *few, "-p", str(port), *row.words]


def mistake_in(words, text):
    found = (line for (kind, option), line in MISTAKES.items() if kind == words[1] and option in words and line in text)
    return next(found, None)


def refusal_in(text):
    return next((line.strip() for line in text.splitlines() if any(words.lower() in line.lower() for words in REFUSALS)), None)


def run_row(row, uroce, folder):
    """(verdict, text): passed, refused or FAILED."""
    with Children() as children:
        port = free_tcp_port()
        program = ["sh", uroce, "run", "--", *command(row, port)]
        server = children.start("server", ["sh", "-c", f'cd "{folder}/server" && exec "$@"', *program])
        by_address = {"--rdma_cm", "--com_rdma_cm", "-R"} & set(row.words)
        ready = server.wait(0.3) is False if by_address else wait_for_listener(server, port, TIMEOUT_S)
        words = ["sh", "-c", f'cd "{folder}/client" && exec "$@"', *program]
        client = children.start("client", [*words, "::1" if "--ipv6-addr" in row.words else "127.0.0.1"]) if ready or server.exit_code == 0 else None
        ends = [end for end in (server, client) if end is not None]
        patience = TIMEOUT_S * 4 if "--all" in row.words else TIMEOUT_S
        for end in ends:
            if not end.wait(patience if end is server or server.exit_code == 0 else 3) and not any(
                    other.exit_code for other in ends):
                return "FAILED", f"the {end.name} still runs\n{children.report()}"
        text = "\n".join(end.output() for end in ends)
        if any(end.crashed() for end in ends):
            return "FAILED", f"crashed\n{children.report()}"
        if client is not None and server.exit_code == 0 and client.exit_code == 0:
            moved = rows(client.output()) or "--output" in " ".join(row.words)
            return ("passed", "") if moved and not trouble(HARMLESS.sub("", text)) else ("FAILED", f"moved nothing\n{children.report()}")
        if row.words[1] in OF_ONE_VENDOR and len(row.words) == 2:
            line = next((line for line in text.splitlines() if NO_SUCH_TYPE.search(line)), None)
            return ("refused", line) if line else ("FAILED", children.report())
        line = refusal_in(text) or mistake_in(row.words, text)
        return ("refused", line) if line else ("FAILED", children.report())


def fraction(text):
    part, _, parts = text.partition("/")
    return int(part), int(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--uroce", default="build/apps/uroce")
    parser.add_argument("--part", type=fraction, default=(1, 1), metavar="K/N")
    parser.add_argument("--like", default="")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    if missing := [program for program in PROGRAMS if shutil.which(program) is None]:
        print(f"skipped: not installed: {', '.join(missing)}")
        return SKIP
    part, parts = arguments.part
    chosen = [row for row in all_rows() if arguments.like in row.name][part - 1::parts]
    counts = collections.Counter()
    with tempfile.TemporaryDirectory(prefix="uroce-matrix-") as folder:
        for end in ("server", "client"):  # files of their own: what both map is one memory
            place = pathlib.Path(folder) / end
            place.mkdir()
            (place / "map").write_bytes(bytes(1 << 24))
            (place / "payload").write_text("0xaaaaaaaa,0xbbbbbbbb", encoding="ascii")
        for row in chosen:
            if arguments.list:
                print(row.name)
                continue
            verdict, text = run_row(row, str(pathlib.Path(arguments.uroce).resolve()), folder)
            counts[verdict] += 1
            print(f"{verdict:8} {row.name}{': ' + text if text else ''}", flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return 0 if arguments.list or (counts["passed"] and not counts["FAILED"]) else 1


if __name__ == "__main__":
    sys.exit(main())
