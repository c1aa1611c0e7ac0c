"""Runs one row: the program at both ends, and judges what they say."""

import contextlib
import dataclasses
import itertools
import pathlib
import subprocess
import time

import lab
import late_answers
import strangers
from children import wait_for_listener
from guest import GuestTrouble, Loss, Marks
from outputs import check_latency, check_pingpong, check_sizes, rows as result_rows, trouble
from pauses import Pauses
from telemetry import Counters

LISTEN_TIMEOUT_S = 20
AFTER_FAILURE_S = 3
AFTER_FAREWELL_S = 1.5  # many times longer than a retransmission after the end would take
RETRY_EXCEEDED = "Failed status transport retry counter exceeded (12)"  # as a pingpong prints it
_tcp_ports = itertools.count(18500)  # a new one for each run, so that no run waits until an old connection is forgotten


class Failure(Exception):
    """What went wrong, in words."""


@dataclasses.dataclass
class Bench:
    """What all rows share."""

    uroce: pathlib.Path
    lint: pathlib.Path
    children: object
    guest: object
    programs: dict  # name -> path on this machine, for those that are not installed
    captures: pathlib.Path
    keep: bool  # also the captures of rows that passed
    stuck_cards: int = 0  # rows that were repeated because the guest's card had stopped sending


class Attempt:
    """The two ends of one row, their output, our counters and our capture."""

    def __init__(self, bench, name, run=(), port=lab.OUR_PORT, runtime="", logs=False, addresses=lab.OUR_ADDRESSES):
        self.bench = bench
        self.run = run
        self.logs = logs or bool(run)
        self.our_port = port
        self.our_addresses = addresses
        self.environment = {"UROCE_RUNTIME_DIR": runtime} if runtime else {}
        self.log = bench.captures / f"{name}.log"  # our side's log, when it is to be judged
        self.capture = bench.captures / f"{name}.pcapng"
        if self.capture.exists():  # from the first try, which failed
            self.capture = self.capture.with_suffix(".again.pcapng")
        self.port = next(_tcp_ports)
        self.counters = Counters()
        self.programs = []
        self.ours = None

    def start_ours(self, name, words):
        addresses = [word for address in self.our_addresses for word in ("--addr", address)]
        log = ("sh", "-c", 'exec 2>"$0"; exec "$@"', self.log) if self.logs else ()
        child = self.bench.children.start(name, [
            *log, self.bench.uroce, "run", "--port", self.our_port, *addresses, "--pcap", self.capture, *self.run, "--",
            *words], {**self.environment, **({"UROCE_LOG": "info"} if self.logs else {})})
        self.programs.append(child)
        self.ours = child
        return child

    def start_theirs(self, name, words):
        program = self.bench.guest.start_program(name, " ".join(words))
        self.programs.append(program)
        return program

    def start(self, we_are, program, options, gid):
        """Server, then client; (ours, theirs)."""
        choose_gid = ("-x" if program.startswith("ib_") else "-g", str(lab.GIDS[gid]))
        words = [*options, *choose_gid, "-p", str(self.port)]
        our_words = [self.bench.programs.get(program, program), *words]
        their_words = [program, *words, "-d", "rxe0"]
        if we_are == "client":
            theirs = self.start_theirs("server (rxe)", their_words)
            if not self.bench.guest.wait_for_listener(self.port, LISTEN_TIMEOUT_S):
                raise Failure("the server in the guest did not get as far as listening")
            return self.start_ours("client (uroce)", [*our_words, lab.GUEST_IPV4]), theirs
        ours = self.start_ours("server (uroce)", our_words)
        if not wait_for_listener(ours, self.port, LISTEN_TIMEOUT_S):
            raise Failure("our server did not get as far as listening")
        return ours, self.start_theirs("client (rxe)", [*their_words, lab.HOST_IPV4])

    def logged(self):
        """Our side's log and standard error, if they are kept."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def stop(self):
        self.counters.stop()
        for program in reversed(self.programs):
            program.stop()

    def report(self):
        lines = []
        for program in self.programs:
            lines.append(f"--- {program.name}: {' '.join(program.command)} (exit {program.exit_code})")
            lines.append(program.output().rstrip())
        lines += ["--- log of our side", self.logged().rstrip()] if self.logs else []
        counters = ", ".join(f"{name} {value}" for name, value in self.counters.last.items())
        return "\n".join([*lines, "--- our counters, last seen (those that are not 0)", counters or "(none seen)",
                          "--- the guest's kernel", self.bench.guest.messages().rstrip(),
                          f"--- capture of our side: {self.capture}"])


def wait_for_both(attempt, timeout_s, late=None):
    """When one has failed, the other gets little time: it would wait for ever. `late` is called every now and then when
    ours has ended well and theirs still runs."""
    deadline = time.monotonic() + timeout_s
    next_late = None
    while running := [program for program in attempt.programs if not program.wait(0.02)]:
        failed = [program for program in attempt.programs if program.exit_code not in (None, 0)]
        if failed:
            if running[0].wait(AFTER_FAILURE_S):
                return  # both have ended; their results are judged later
            raise Failure(f"the {failed[0].name} ended with {failed[0].exit_code}, the other still runs")
        now = time.monotonic()
        if late is not None and attempt.ours.exit_code == 0:
            next_late = next_late or now + AFTER_FAREWELL_S
            if now >= next_late:
                late()
                next_late = now + AFTER_FAREWELL_S / 3
        if now > deadline:
            raise Failure(f"the {running[0].name} still runs after {timeout_s} s")


class LateAnswers:
    """One of our pingpongs that has received and checked everything has ended, and cannot repeat the acknowledgement
    that rxe still asks for: so the wire delivers it again until it is not lost."""

    def __init__(self, attempt):
        self._attempt = attempt
        self.delivered = 0

    def __call__(self):
        frames = late_answers.last_answers(self._attempt.capture)
        late_answers.deliver(frames)
        self.delivered += len(frames)


def _judge_result(row, text):
    if row.says:
        return [] if row.says in text else [f'the client did not say "{row.says}"']
    if row.pingpong_bytes:
        return check_pingpong(text, row.pingpong_bytes)
    if row.we_are == "server":  # the client's clock is an emulated one, so its figures are meaningless
        return check_sizes([size for size, _, _ in result_rows(text)], row.sizes)
    if row.program.endswith("_lat"):
        return check_latency(text, row.sizes)
    found = result_rows(text)  # the MB/s of a few small messages are rounded to 0, messages/s are not
    return check_sizes([size for size, _, _ in found], row.sizes) + [
        f"nothing moved at {size} bytes" for size, _, numbers in found if len(numbers) < 3 or numbers[2] <= 0]


def judge_row(row, ours, theirs):
    client = ours if row.we_are == "client" else theirs
    problems = [f"{end.name}: exit code {end.exit_code}" for end in (ours, theirs) if end.exit_code != 0]
    problems += [f"{end.name}: {text}" for end in (ours, theirs) for text in trouble(end.output())]
    return problems + _judge_result(row, client.output())


def _lost_the_last_word(row, ours, theirs):
    """A pingpong ends without a closing handshake. When the last acknowledgement to us is lost, rxe's program has
    everything, says so and ends: nothing answers our retransmissions any more."""
    if not (row.pingpong_bytes and row.loss_out):
        return False
    return (theirs.exit_code == 0 and not check_pingpong(theirs.output(), row.pingpong_bytes) and
            not trouble(theirs.output()) and ours.exit_code == 1 and RETRY_EXCEEDED in ours.output())


def _judge_loss(loss):
    dropped = loss.dropped()
    return [f"no packet was lost at the guest's {hook}" for hook, count in dropped.items() if count == 0]


def _judge_extras(row, attempt):
    log = attempt.logged()
    return [f"its log: {text}" for text in trouble(log)] + strangers.judge(row, attempt.capture, log)


def lint(bench, capture, ignore=""):
    """What uroce-lint finds wrong in the capture. `ignore`: rules that this capture may break."""
    result = subprocess.run([bench.lint, *(["--ignore", ignore] if ignore else []), capture], capture_output=True, text=True, check=False, timeout=120)
    if result.returncode == 0:
        return []
    return [f"uroce-lint ends with {result.returncode}: {(result.stdout + result.stderr).strip()[-3000:]}"]


@contextlib.contextmanager
def attempt_on(bench, name, run=(), **where):
    """An attempt that prints its outputs and keeps its capture when it fails. `run`: options of uroce run. `where`: our
    side's port and directory, if not the lab's; `logs`: whether its log is kept."""
    attempt = Attempt(bench, name, run, **where)
    try:
        yield attempt
    except (Failure, GuestTrouble):
        report = attempt.report()  # before its programs are ended, to show the state they were in
        attempt.stop()
        print(report)
        raise
    except BaseException:
        attempt.stop()
        raise
    attempt.stop()
    if not bench.keep:
        attempt.capture.unlink(missing_ok=True)
        attempt.log.unlink(missing_ok=True)


def run_row(row, bench):
    lossy = row.loss_in or row.loss_out
    with attempt_on(bench, row.name, row.run) as attempt, contextlib.ExitStack() as stack:
        loss = stack.enter_context(Loss(bench.guest, row.loss_in, row.loss_out)) if lossy else None
        if row.marked:
            stack.enter_context(Marks(bench.guest, row.marked))
        if row.paused:
            stack.enter_context(Pauses())
        ours, theirs = attempt.start(row.we_are, row.program, row.options, row.gid)
        late = LateAnswers(attempt) if row.pingpong_bytes and row.loss_in else None
        wait_for_both(attempt, row.timeout_s, late)
        problems = [] if _lost_the_last_word(row, ours, theirs) else judge_row(row, ours, theirs)
        problems += _judge_loss(loss) if loss else []
        problems += lint(bench, attempt.capture)
        problems += _judge_extras(row, attempt) if row.run else []
        if problems:
            raise Failure("; ".join(problems))
        return "the last ACK delivered again" if late and late.delivered else ""
