"""Sends frames to the target and compares what happens with what was expected, to the last counter.

A bystander (a reliable connection of its own) is written to all the while, and sends something after each batch: its
PSNs, its acknowledgements and its completions have to go on as if nothing else were there.
"""

import collections
import dataclasses
import time

import expectations
from rig import OUR_PSN, RTS, THEIR_PSN, Trouble
from rocev2 import RC, Answer, aeth, bth, by_name, reth

BYSTANDER_EVERY = 64  # frames
BYSTANDER_OFFSET = 4096  # in the region, apart from the shots' bytes
REPORTS_MAX = 10

WRITE_ONLY = by_name(RC, "RDMA_WRITE_ONLY").value
ACKNOWLEDGE = by_name(RC, "ACKNOWLEDGE").value


@dataclasses.dataclass
class Shot:
    """A frame, its target queue pair, and the expected outcome."""

    what: str
    frame: bytes
    outcome: expectations.Outcome
    qp: object = None


class Bystander:
    """A connection that the shots must not affect."""

    def __init__(self, rig):
        self._rig = rig
        self.qp = rig.make("rc", 1)[0]
        self._path = rig.path()
        self._psn, self._our_psn, self._msn, self._sends = THEIR_PSN, OUR_PSN, 0, 0

    def write(self):
        frame = self._path.frame(bth(WRITE_ONLY, self.qp.qpn, self._psn) +
                                 reth(self._rig.va + BYSTANDER_OFFSET, self._rig.rkey, 8) + b"bystands")
        self._psn += 1
        self._msn += 1
        return frame

    def _ack(self):
        frame = self._path.frame(bth(ACKNOWLEDGE, self.qp.qpn, self._our_psn) + aeth(0x1F, self._sends + 1))
        self._our_psn += 1
        self._sends += 1
        return frame

    def _await_completion(self):
        deadline = time.monotonic() + 5
        while True:
            found = self._rig.completions()
            if found.get(self.qp.qpn) == [(0, 0, found[self.qp.qpn][0][2])]:
                return
            if found.get(self.qp.qpn) or time.monotonic() > deadline:
                raise Trouble(f"the bystander's own request: {dict(found)}")

    def go_on(self):
        """Sends something and has it acknowledged; returns what is wrong with that."""
        self._rig.begin()
        self._rig.target.ask("post", self.qp.group, "send", 8)
        deadline = time.monotonic() + 5
        while not self._rig.answers and time.monotonic() < deadline:
            self._rig.hear()
        wanted = [Answer(self.qp.peer_qpn, self._our_psn, "SEND_ONLY")]
        if self._rig.answers != wanted:
            return [f"the bystander should have sent {wanted}, not {self._rig.answers}"]
        self._rig.send([self._ack()])
        self._await_completion()
        return []

    def judge(self, answers):
        """What is wrong with the acknowledgements that it got."""
        last = 0
        for answer in answers:
            if answer.name != "ACK" or answer.psn < last:
                return [f"the bystander was answered {answer}"]
            last = answer.psn
        if answers and (answers[-1].psn, answers[-1].detail[1]) != (self._psn - 1, self._msn):
            return [f"the bystander's last answer is {answers[-1]}, not for PSN {self._psn - 1:#x}"]
        return []

    @property
    def last_psn(self):
        return self._psn - 1


class Trial:
    def __init__(self, rig):
        self.rig = rig
        rig.introduce()
        self.bystander = Bystander(rig)
        self.live = {self.bystander.qp.qpn}  # numbers of existing queue pairs
        self._members = {}  # group -> its queue pairs, in their order
        self.frames = 0
        self.labels = collections.Counter()
        self.problems = []

    @property
    def hopeless(self):
        return len(self.problems) >= REPORTS_MAX

    def run(self, aim, specs, batch=2000):
        """`aim(specs)` makes queue pairs and returns shots; when a batch differs, it is called again for each half."""
        for at in range(0, len(specs), batch):
            if self.hopeless:
                return
            self._run_batch(aim, specs[at:at + batch])

    def _run_batch(self, aim, specs):
        if self.hopeless:
            return
        shots = aim(specs)
        problems = self._shoot(shots)
        self._forget(shots)
        if not problems:
            self.frames += len(shots)
            self.labels.update(shot.outcome.label for shot in shots)
        elif len(specs) > 1:
            before = len(self.problems)
            half = len(specs) // 2
            self._run_batch(aim, specs[:half])
            self._run_batch(aim, specs[half:])
            if len(self.problems) == before:
                self.problems.append(f"{shots[0].what} ... {shots[-1].what}, together: " + "; ".join(problems))
        else:
            self.problems.append(f"{shots[0].what}: {'; '.join(problems)}\n    {shots[0].frame.hex()}")

    def _forget(self, shots):
        for qp in {shot.qp.group: shot.qp for shot in shots if shot.qp is not None}.values():
            self.live -= {member.qpn for member in self._members.pop(qp.group)}
            self.rig.drop([qp])

    def _shoot(self, shots):
        """What differs from what was expected."""
        rig, bystander = self.rig, self.bystander
        frames, writes = [], 0
        for i, shot in enumerate(shots):
            frames.append(shot.frame)
            if i % BYSTANDER_EVERY == 0:
                frames.append(bystander.write())
                writes += 1
        rig.completions()
        rig.begin()
        rig.send(frames)
        rig.wait_received(len(frames))
        self._await_last_ack()  # the last ACK may be held back for some microseconds
        now = rig.wait_received(len(frames))
        mine, theirs = [], []
        for answer in rig.answers:
            (theirs if answer.qpn == bystander.qp.peer_qpn else mine).append(answer)
        expected = collections.Counter({"rx_write_requests": writes, "sent_acks": len(theirs)})
        for shot in shots:
            expected.update(shot.outcome.counters)
        problems = _differences(rig.growth(now), {name: value for name, value in expected.items() if value})
        received = now["rx_packets"] - rig.before["rx_packets"]
        if received != len(frames):
            problems.append(f"{len(frames)} frames were sent, {received} received")
        problems += bystander.judge(theirs) + self._judge_answers(shots, mine) + self._judge_qps(shots)
        if not rig.target.ask("untouched")["untouched"]:
            problems.append("memory outside the region was written")
        return problems + bystander.go_on()

    def _await_last_ack(self):
        deadline = time.monotonic() + 2
        wanted = (self.bystander.qp.peer_qpn, self.bystander.last_psn)
        while not any((a.qpn, a.psn) == wanted for a in reversed(self.rig.answers)) and time.monotonic() < deadline:
            self.rig.hear()

    def _judge_answers(self, shots, answers):
        wanted = collections.defaultdict(list)
        for shot in shots:
            if shot.outcome.answer:
                name, psn, detail = shot.outcome.answer
                wanted[shot.qp.peer_qpn].append(Answer(shot.qp.peer_qpn, psn, name, detail))
        found = collections.defaultdict(list)
        for answer in answers:
            found[answer.qpn].append(answer)
        wrong = [qpn for qpn in {*wanted, *found} if wanted[qpn] != found[qpn]]
        return [f"answers: expected {wanted[qpn]}, got {found[qpn]}" for qpn in wrong[:1]]

    def _judge_qps(self, shots):
        """What is wrong with states and completions of the queue pairs that the shots were aimed at."""
        by_qp = {}
        for shot in shots:
            if shot.qp is not None:
                by_qp.setdefault(shot.qp.qpn, (shot, []))[1].append(shot.outcome)
        problems = []
        groups = {shot.qp.group: shot.qp for shot in shots if shot.qp is not None}
        states = {}
        for group, qp in groups.items():
            members = self._members[group]
            states.update(zip((member.qpn for member in members), self.rig.states([qp])))
        found = self.rig.completions()
        for qpn, (_, outcomes) in by_qp.items():
            state = next((o.state for o in outcomes if o.state != RTS), RTS)
            wanted = [completion for outcome in outcomes for completion in outcome.completions]
            if states[qpn] != state:
                problems.append(f"state {states[qpn]}, not {state}")
            if not _same_completions(wanted, found.pop(qpn, [])):
                problems.append(f"completions are not {wanted}")
        found.pop(self.bystander.qp.qpn, None)
        if found:
            problems.append(f"completions of others: {dict(found)}")
        return problems[:2]

    def fresh(self, kind, count, family=4, state="rts"):
        """Queue pairs that exist until the batch that is aimed at them is judged."""
        qps = self.rig.make(kind, count, family, state)
        self._members[qps[0].group] = qps
        self.live |= {qp.qpn for qp in qps}
        return qps


def _differences(found, wanted):
    return [f"{name}: expected {wanted.get(name, 0)}, counted {found.get(name, 0)}"
            for name in sorted({*found, *wanted}) if found.get(name, 0) != wanted.get(name, 0)]


def _same_completions(wanted, found):
    if len(wanted) != len(found):
        return False
    for (opcode, status, length), (got_opcode, got_status, got_length) in zip(wanted, found):
        if status == expectations.FAILED:
            if got_status in (expectations.SUCCESS, expectations.FLUSHED):
                return False
        elif got_status != status:
            return False
        if status == expectations.SUCCESS and (opcode != got_opcode or opcode != 0 and length != got_length):
            return False
    return True
