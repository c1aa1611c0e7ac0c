#!/usr/bin/env python3
"""Can these scripts fail? Each line that says what must be seen is left out, then changed, word by word, one at a time,
and told something of which it says nothing: every such script has to fail.

    alter_scripts.py UROCE_DRILL SCRIPT...                 everything
    alter_scripts.py --of-each 8 UROCE_DRILL SCRIPT...     eight changes of each kind of word, in scripts far apart, and
                                                           each kind of word that scripts know is among them
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SEEN = re.compile(r"^(?:[+@&]\S*\s+)?(>mad|>|completion|cm_event|state|event|counter|memory)\s")
KINDS = "send write read cas fadd bind local_inv flush atomic_write recv recv_imm".split()
# By statement: sets of names; a name is replaced by another one of its set.
NAMES = {
    "completion": [
        KINDS,
        "success flushed retry_exceeded rnr_retry_exceeded remote_invalid_request remote_access_error bad_response "
        "remote_operation_error local_length_error local_protection_error local_access_error bind_error".split(),
        "local_key local_range receive_too_short timeout sequence_retries peer_unresolved rnr_retries".split(),
    ],
    "state": ["reset init rtr rts sqd sqe error".split()],
    "event": ["cq_error fatal request_error access_error established drained srq_limit last_receive".split()],
    "cm_event": ["address_error request response connect_error unreachable rejected established disconnected".split()],
    ">": ["sequence invalid access operational".split(), "SEND_ONLY WRITE_ONLY ACK READ_RESPONSE_ONLY".split()],
    ">mad": ["REQ REP RTU MRA REJ DREQ DREP".split()],
}
FLAGS = {">": "ack_req solicited mig fecn becn".split(), "completion": ["grh"]}
# Expectations added to a line that does not state them, by the statement or its first words.
UNSAID = {
    "> SEND_ONLY": ["pad 2"],
    "> ACK": ["syndrome 0x19", "msn 0x777777", "psn 77", "becn", "src_port 1"],
    "> READ_REQUEST": ["len 7777", "at 0x7777", "rkey 0x77", "src_ip 10.9.9.9", "dst_ip 10.9.9.9"],
    ">": "ack_req,solicited,mig,fecn,becn,resv7 1,tver 1,pkey 0x1234,ttl 1,dscp 3,ecn 2,vlan 5,dest_qp 0x777,"
    "src_port 1,src_ip 10.9.9.9,dst_ip 10.9.9.9".split(","),
    # For a failure, verbs guarantee only wr_id, status and the queue pair.
    "completion": ["grh", "imm 0x55", "src_qp 0x77", "cause key_budget", "inv 0x77"],
    ">mad REQ": ["service 0x77", "transport 3", "psn 77", "qpn 0x77", "guid 0x77", "data 77"],
    ">mad REP": ["failover 1", "psn 77", "guid 0x77", "data 77"],
    ">mad REJ": ["reason 77", "answers 3", "data 77"],
    ">mad": ["id 0x7777", "peer 0x7777"],
}
# Each of these must be among the changes.
WANTED = {
    ">": "psn msn credits timer syndrome at len feth rkey add compare swap original imm inv qkey payload pattern "
    "offset data held code name ack_req solicited resv7 tver pad pkey ttl dscp ecn vlan dest_qp mig fecn becn "
    "src_port dst_ip src_ip",
    "completion": "kind status wrid bytes imm inv src_qp grh cause",
    "state": "name",
    "event": "name",
    "counter": "number",
    "memory": "pattern u64 bytes untouched",
    "cm_event": "name status of qpn resources depth data",
    ">mad": "name id peer qpn psn resources depth reason answers data status service transport failover",
}


def swapped(line, start, end, text):
    return line[:start] + text + line[end:]


def words_changed(line, statement):
    """The kind of the word, and the line with another word in its place."""
    for names in NAMES.get(statement, []):
        for word in re.finditer(r"\w+", line):
            if word[0] not in names:
                continue
            kind = {"completion": "kind" if names is KINDS else "cause" if "timeout" in names else "status"}
            label = "code" if names[0] == "sequence" else kind.get(statement, "name")
            yield label, swapped(line, word.start(), word.end(), names[(names.index(word[0]) + 1) % len(names)])
            break
    for flag in FLAGS.get(statement, []):
        if re.search(rf"\s{flag}\b", line):
            yield flag, re.sub(rf"\s{flag}\b", "", line)


def numbers_changed(line, statement):
    begin = SEEN.match(line).end()
    for place in re.finditer(r"(\w+) (mr\d\+|mw\d\+)?(0x[0-9a-f]+|-?\d+)(?![\w.:])", line[begin:]):
        label, number = place[1], place[3]
        other = hex(int(number, 16) ^ 1) if number.startswith("0x") else str(int(number) + 1)
        at = begin + place.start(3)
        if statement in ("completion", "state", "event") and at <= begin + 1:
            continue
        yield "number" if statement == "counter" else label, swapped(line, at, at + len(number), other)
    for place in re.finditer(r"\b(dst_ip|src_ip) (\d+\.\d+\.\d+\.)(\d+)", line):
        yield place[1], swapped(line, place.start(3), place.end(3), str(int(place[3]) ^ 1))
    for place in re.finditer(r"\b(data|bytes) ([0-9a-f]{2})(?=[0-9a-f ]*$)", line):
        if statement in ("memory", ">mad", "cm_event"):
            yield place[1], swapped(line, place.start(2), place.end(2), f"{int(place[2], 16) ^ 1:02x}")
    for place in re.finditer(r"\b(held) ([\d.,]+)", line):
        yield place[1], swapped(line, place.start(2), place.end(2), f"{place[2]},99")


def line_changed(line, statement, at):
    if statement == "memory" and "untouched" in line:  # "untouched" with more bytes would also hold
        yield "untouched", line.replace("untouched", "pattern 77")
        return
    yield from words_changed(line, statement)
    yield from numbers_changed(line, statement)
    packet = f"{statement} {line[SEEN.match(line).end() :].split()[0]}"
    unsaid = UNSAID.get(packet, []) + UNSAID.get(statement, [])
    for extra in (unsaid[at % len(unsaid) :] + unsaid)[:3] if unsaid else []:
        name = extra.split()[0]
        is_failure = statement == "completion" and not re.search(r"\bsuccess\b", line) and name != "cause"
        payload = re.search(r"\bpayload (\d+)$|\bpayload (\d+)\s", line)
        is_padding = name == "pad" and (not payload or int(payload[1] or payload[2]) % 4 == 2)
        if not is_failure and not is_padding and not re.search(rf"\b{name}\b", line.split("#")[0]):
            yield name, f"{line.split('#')[0].rstrip()} {extra}"


def without(line):
    """What replaces the line: the time in which the line was expected still passes."""
    delay = re.match(r"([+@])(?:\S*\.\.)?(\S+)\s", line)
    return [f"{delay[1]}{delay[2]} nothing"] if delay and delay[2] != "0" else []


def alterations(lines):
    """(statement, kind of word), a name for the change, and the changed script."""
    for at, line in enumerate(lines):
        seen = SEEN.match(line)
        if not seen:
            continue
        statement = seen[1]
        if statement not in ("memory", "state", "event", "counter"):  # a script need not check these
            yield (statement, "left out"), f"line {at + 1} left out", lines[:at] + without(line) + lines[at + 1 :]
        for label, other in line_changed(line, statement, at):
            if other != line:
                yield (statement, label), f"line {at + 1}: {other.strip()}", lines[:at] + [other] + lines[at + 1 :]


HANGS_S = 300  # with sanitizers, 16 million messages (long/msn_wraps) take more than a minute


def fails(drill, name, text):
    with tempfile.NamedTemporaryFile("w", suffix=".rdrill", encoding="utf-8") as file:
        file.write("\n".join(text) + "\n")
        file.flush()
        result = subprocess.run([drill, "--quiet", file.name], capture_output=True, text=True, timeout=HANGS_S, check=False)
    return name, result.returncode


def chosen(found, of_each):
    """Some changes of each kind, spread over all of them."""
    for kind, changes in sorted(found.items()):
        step = max(1, len(changes) // of_each) if of_each else 1
        for name, text in changes[::step][: of_each or None]:
            yield kind, name, text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--of-each", type=int, default=0)
    parser.add_argument("drill")
    parser.add_argument("scripts", nargs="+", type=pathlib.Path)
    args = parser.parse_args()
    found = collections.defaultdict(list)
    for path in args.scripts:
        for kind, what, text in alterations(path.read_text(encoding="utf-8").splitlines()):
            found[kind].append((f"{path.name}: {what}", text))
    missing = [f"{statement} {word}" for statement, words in WANTED.items() for word in words.split()
               if args.of_each and (statement, word) not in found]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        jobs = [(kind, pool.submit(fails, args.drill, name, text)) for kind, name, text in chosen(found, args.of_each)]
    noticed = collections.Counter(kind for kind, job in jobs if job.result()[1] == 1)
    passed = [job.result()[0] for _, job in jobs if job.result()[1] == 0]
    ended = [job.result()[0] for _, job in jobs if job.result()[1] not in (0, 1, 2)]
    missing += [" ".join(kind) + " (each change made a script that says something impossible)"
                for kind in {kind for kind, _ in jobs} if not noticed[kind] and kind[1] in WANTED[kind[0]].split()]
    for text, names in (("passes all the same", passed), ("ended by a signal", ended), ("never changed", missing)):
        for name in names:
            print(f"{text}: {name}")
    print(f"{len(args.scripts)} scripts, {len(jobs)} alterations of {len(found)} kinds, {len(passed)} unnoticed, "
          f"{len(jobs) - len(passed) - sum(noticed.values())} of them no script")
    return 1 if passed or ended or missing or not jobs else 0


if __name__ == "__main__":
    sys.exit(main())
