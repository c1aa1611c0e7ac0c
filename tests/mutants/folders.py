"""Which tests can see a mistake in which folder: Meson's names of them (with * and ?), in the order of cheapness."""

import dataclasses
import pathlib

VERBS = ["verbs_post", "verbs_memory", "verbs_qp", "verbs_completion", "verbs_context", "verbs_event", "verbs_datagram",
         "verbs_channel", "verbs_wrbuilder", "verbs_smallprint", "verbs_notsupported", "verbs_paths", "verbs_dlopen", "verbs_fork", "verbs_symbols", "verbs_thread"]
SCRIPTS = ["conformance *"]
NOT_SCRIPTS = ("conformance mutants", "conformance page", "conformance alterations")
SIMULATED = ["reference-hash", "mixed", "sim", "network"]


def foreign_code():
    """Files whose instructions this processor does not have: nothing runs them here."""
    flags = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
    return tuple(name for name, flag in (("crc32_pclmul.cc", "pclmulqdq"), ("crc32_vpclmul.cc", "vpclmulqdq"),
                                         ("crc32_vpclmul512.cc", "avx512bw")) if flag not in flags)


@dataclasses.dataclass
class Folder:
    name: str
    path: str
    tests: list
    not_these: tuple = NOT_SCRIPTS
    leave_out: tuple = ()  # names of folders or files


FOLDERS = {folder.name: folder for folder in [
    Folder("wire", "roce/wire", ["unit-wire", "unit-transport", "unit-engine", *SCRIPTS, "encode", "decode", "unit-any-bytes"], leave_out=foreign_code()),
    Folder("congestion", "roce/congestion", ["unit-congestion", "unit-transport", *SCRIPTS, *SIMULATED]),
    Folder("transport", "roce/transport", ["unit-transport", "unit-engine-objects", "unit-engine-allocations", *SCRIPTS, "unit-any-bytes", *SIMULATED, *VERBS]),
    Folder("engine", "roce/engine", ["unit-engine", "unit-engine-objects", "unit-engine-allocations", "unit-transport", *SCRIPTS, "unit-any-bytes", *SIMULATED, *VERBS]),
    Folder("dpdk", "roce/dpdk", ["unit-dpdk", *VERBS]),
    Folder("verbs_shim", "verbs_shim", VERBS),
    Folder("pmd", "pmd", ["pmd-hw", "card-model", "card-fuzz", "vfio_user", "card_wires", "pmd-driver", "mqnic_card"]),
]}
