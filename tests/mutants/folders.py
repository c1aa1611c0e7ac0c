"""Which tests can see a mistake in which folder: Meson's names of them (with * and ?), in the order of cheapness."""

import dataclasses
import pathlib

VERBS = ["verbs_post", "verbs_memory", "verbs_qp", "verbs_completion", "verbs_context", "verbs_event", "verbs_*"]
ON_PORTS = ["ibv_rc_pingpong", "ibv_rc_pingpong_card", "ibv_rc_pingpong_veth", "ib_write_bw_tap", "port_traffic", "wire_peer_exits", "wire_peer_reopens",
            "observe_counters_move", "observe_capture_is_readable", "meet_third_program", "uroce_perf"]
ON_SEGMENT = ["ibv_rc_pingpong", "ib_write_bw", "meet_third_program", "meet_many_programs", "meet_vanished_directory", "uroce_perf_shmlan"]
ON_SWITCH = ["switch*"]
# These need more memory than a mutant may have: one case of a program, and whole programs.
TOO_LARGE = "RegistrationTest.TerabytesWithoutMemoryBehind"
TOO_LARGE_PROGRAMS = tuple(f"verbs_fixed_addresses_{order}_{port}" for order in ("beforethedevice", "afterthedevice") for port in ("shmlan", "card"))
SCRIPTS = ["conformance *"]
ALONE = ("verbs_faulthandler",)  # starts before the device is opened, so it needs a process of its own
NOT_SCRIPTS = ("conformance mutants", "conformance page", "conformance alterations")
SIMULATED = ["reference-hash", "verbs-model", "sim", "sim-each-packet-?", "network"]


def foreign_code():
    """Files with instructions that this processor does not have: nothing runs them here."""
    flags = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
    return tuple(name for name, flag in (("crc32_pclmul.cc", "pclmulqdq"), ("crc32_vpclmul.cc", "vpclmulqdq"),
                                         ("crc32_vpclmul512.cc", "avx512bw")) if flag not in flags)


@dataclasses.dataclass
class Folder:
    name: str
    path: str
    tests: list
    not_these: tuple = NOT_SCRIPTS + TOO_LARGE_PROGRAMS
    leave_out: tuple = ()  # names of folders or files


FOLDERS = {folder.name: folder for folder in [
    Folder("packet", "roce/packet", ["unit-packet", "unit-transport", "unit-engine", *SCRIPTS, "encode", "decode", "unit-any-bytes"], leave_out=foreign_code()),
    Folder("congestion", "roce/congestion", ["unit-congestion", "unit-transport", *SCRIPTS, *SIMULATED]),
    Folder("transport", "roce/transport", ["unit-transport", "unit-engine-objects", "unit-engine-allocations", *SCRIPTS, "unit-any-bytes", *SIMULATED, *VERBS]),
    Folder("engine", "roce/engine", ["unit-engine", "unit-engine-parts", "unit-engine-objects", "unit-engine-allocations", "unit-transport", *SCRIPTS, "unit-any-bytes", *SIMULATED, *VERBS]),
    Folder("cm", "roce/cm", ["unit-cm", "unit-cm-memory", "conformance connections", "connections", "replay captures", "verbs_rdma*", "unit-lint"]),
    Folder("host", "roce/host", ["unit-host", "unit-dpdk", "unit-dpdk-port", *VERBS, "unit-switch-ports", "twin", *ON_PORTS]),
    Folder("dpdk", "roce/dpdk", ["unit-dpdk", "unit-dpdk-port", *VERBS, "unit-switch-ports", "twin", *ON_PORTS]),
    Folder("segment", "roce/segment", ["unit-segment", "shmlan-driver", "unit-dpdk-connections", "unit-switch-ports", "segment_scribbles", "verbs_fork_segment", *ON_SEGMENT]),
    Folder("shmlan", "pmd/shmlan", ["shmlan-driver", "unit-dpdk-several", "unit-switch-ports", "verbs_context", "shmlan_*", *ON_SEGMENT]),
    Folder("vdev", "pmd/vdev", ["shmlan-driver", "udp-driver"]),
    Folder("udp", "pmd/udp", ["unit-udp-frames", "udp-driver"]),
    Folder("base", "roce/base", ["unit-base", "unit-packet", "unit-transport", "unit-engine", "unit-host", "unit-segment", "unit-dpdk", *SCRIPTS, *SIMULATED]),
    Folder("capture", "roce/capture", ["unit-packet", "unit-lint", "unit-launcher", "unit-replay", "replay captures", "observe_capture*"]),
    Folder("fabric", "roce/fabric", ["unit-fabric", "simulate", "network", "event_queue_order"]),
    Folder("lint", "roce/tools/lint", ["unit-lint", "lint-simulated", "lint-program", "lint-tshark"]),
    Folder("replay", "roce/tools/replay", ["unit-replay", "replay captures", "replay scripts", "replay through net_pcap"]),
    Folder("script", "roce/tools/script", [*SCRIPTS, "script language", "replay scripts"]),
    Folder("sim", "roce/tools/sim", [*SIMULATED, "simulate", "connections", "event_queue_order", "unit-fabric"]),
    Folder("switch", "apps/uroce_switch", ["unit-switch-options", "unit-switch-ports", "command_lines", *ON_SWITCH]),
    Folder("uroced", "apps/uroced", ["unit-uroced", "uroced_service", "command_lines", "uroced_ends", "uplink_refused"]),
    Folder("verbs_shim", "verbs_shim", VERBS),
    Folder("pmd", "pmd", ["pmd-hw", "card-model", "card-fuzz", "vfio_user", "card_wires", "pmd-driver", "mqnic_card"], leave_out=("vdev", "shmlan", "udp")),
]}

# Mutants written by hand, by_hand/FOLDER.txt, for these folders. They run against fewer of the expensive tests than the
# drawn ones.
BY_HAND = {folder.name: folder for folder in [
    Folder("segment", "roce/segment", ["unit-segment", "shmlan-driver"]),
    Folder("shmlan", "pmd/shmlan", ["shmlan-driver"]),
    Folder("cm", "roce/cm", ["unit-cm", "unit-cm-memory", "conformance connections", "connections", "unit-lint"]),
    Folder("dpdk", "roce/dpdk", ["unit-dpdk", "unit-dpdk-port", "unit-dpdk-port-limits", "unit-dpdk-several", "unit-dpdk-connections"]),
    Folder("host", "roce/host", ["unit-host", "unit-dpdk", "unit-dpdk-port"]),
    Folder("verbs_shim", "verbs_shim", [*VERBS[:-1], "verbs_xrc", "verbs_rss", "verbs_srq", "verbs_channel", "verbs_import", "verbs_reregistration", "verbs_window", "verbs_rdma_cm",
                                        "verbs_descriptors", "verbs_event_descriptors", "verbs_memory_failures", "verbs_refusals", "verbs_cm_command_fuzz",
                                        "verbs_domain", "verbs_datagram", "verbs_completion_inline"]),
    Folder("transport", "roce/transport", ["unit-transport", "unit-transport-scribbled", "unit-engine-objects", *SCRIPTS]),
    Folder("engine", "roce/engine", ["unit-engine", "unit-engine-parts", "unit-engine-objects", "unit-engine-objects-scribbled", "unit-engine-allocations", *SCRIPTS]),
    Folder("pmd", "pmd", ["pmd-hw", "card-model", "vfio_user", "pmd-driver"]),
    Folder("switch", "apps/uroce_switch", ["unit-switch-options", "unit-switch-ports"]),
    Folder("lint", "roce/tools/lint", ["unit-lint", "lint-simulated"]),
    Folder("replay", "roce/tools/replay", ["unit-replay", "replay captures", "replay scripts"]),
    Folder("packet", "roce/packet", ["unit-packet", "unit-engine", "unit-cm"]),
    Folder("uroced", "apps/uroced", ["unit-uroced", "uroced_service", "command_lines", "uroced_ends"]),
]}
