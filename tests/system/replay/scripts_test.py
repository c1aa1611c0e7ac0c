#!/usr/bin/env python3
"""scripts_test.py UROCE_DRILL UROCE_REPLAY SCRIPTS DOCUMENTATION: our engine compared with itself.

The packet scripts show our engine in every corner of the protocol. Their captures replay as our engine's side, but for
those where the capture does not show why it did what it did: each is named here and in doc/replay.md, with its reason.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

DRILL, REPLAY, SCRIPTS, DOC = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), pathlib.Path(sys.argv[4])
OWN = {"10.0.0.1", "fd00::1"}
ROLE = re.compile(r"(\S+) -> (\S+) qp \S+ -> \S+ \S+ as (requester|responder): (same|DIFFERENT|not replayed)")

KNOWN = {
    "the program changes memory, keys or rights in the middle": {
        "duplicates/read_region_gone", "duplicates/read_right_taken_away", "opcodes/read_request",
        "responder/enabled_changed_later", "responder/local_fault_atomic_unaligned_memory",
        "responder/local_fault_read_inside", "responder/rkey_deregistered", "responder/rkey_deregistered_inside_write",
        "software_rdma/timer_against_reset",
    },
    "the QP is reset and used again": {"duplicates/atomic_zero_depth_after_reset", "states/reset_forgets"},
    "fewer READs or atomics at a time than the peer asks, or fewer results saved": {
        "duplicates/atomics_saved_as_many_as_negotiated", "duplicates/read_and_atomic_share_places",
        "duplicates/read_forgotten", "responder/atomic_resources", "responder/read_resources",
        "software_rdma/resources_resized_under_way",
    },
    "several requests in one burst": {
        "duplicates/answered_in_psn_order", "duplicates/before_new_answers", "responder/reordered_burst",
    },
    "repeated requests that are not like their originals": {
        "duplicates/read_of_nothing", "duplicates/unchecked",
    },
    "selective repeat, which uroce-replay does not play: its engine takes every peer for a stranger": {
        "selective/atomic_asked_again", "selective/duplicate_of_held", "selective/exactly_the_missing_packet",
        "selective/gap_closes", "selective/impossible_ranges", "selective/ipv6_signature",
        "selective/key_checked_in_its_turn", "selective/lost_again", "selective/out_of_order_held",
        "selective/pool_empty", "selective/read_held", "selective/read_part_asked_again",
        "selective/read_response_held_twice", "selective/rnr_drops_held", "selective/second_gap_stays",
        "selective/three_signed_packets", "selective/timeout_promise", "selective/unsigned_packet_drops_held",
    },
    "a refusal without an answer, which the capture does not show": {"responder/invalidate_refused_behind_others"},
    "more answers than a full port lets keep, which the capture does not show": {"acks/last_answers_are_bounded"},
    "a region that ends at the last address": {"software_rdma/ernic_range_wrap_region"},
}


def captures(directory):
    made = {}
    for script in sorted(SCRIPTS.glob("*/*.rdrill")):
        name = f"{script.parent.name}/{script.stem}"
        if script.parent.name == "long":
            continue
        path = directory / (name.replace("/", "-") + ".pcap")
        subprocess.run([DRILL, "--quiet", "--pcap", path, script], check=True, stdout=subprocess.DEVNULL)
        made[str(path)] = name
    return made


def main():
    with tempfile.TemporaryDirectory() as scratch:
        made = captures(pathlib.Path(scratch))
        result = subprocess.run([REPLAY, "--differences", "0", *made], capture_output=True, text=True, check=False)
    name, same, different = "", 0, set()
    for line in result.stdout.splitlines():
        name = made.get(line, name)
        role = ROLE.match(line)
        if role is None or role[{"requester": 1, "responder": 2}[role[3]]] not in OWN:
            continue
        same += role[4] == "same"
        if role[4] == "DIFFERENT":
            different.add(name)
    known = set().union(*KNOWN.values())
    print(f"{len(made)} captures: {same} conversations and roles the same, {len(different)} captures differ")
    wrong = [f"{name} differs, and no reason is known" for name in sorted(different - known)]
    wrong += [f"{name} does not differ any more" for name in sorted(known - different)]
    wrong += [f"{DOC.name} has no row '{row}'" for row in table() if row not in DOC.read_text(encoding="utf-8")]
    if len(made) < 400 or same < 380:
        wrong.append("too few conversations")
    for line in wrong:
        print(line)
    return 1 if wrong else 0


def table():
    """The rows of the documentation's table."""
    return [f"| {', '.join(f'`{name}`' for name in sorted(names))} | {reason} |" for reason, names in KNOWN.items()]


sys.exit(main())
