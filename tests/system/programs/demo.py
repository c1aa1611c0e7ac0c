"""`./demo`, the second command of the README, with what was built here: its last page, and what it is made of."""

import pathlib
import re
import shutil
import tempfile

import wires
from outputs import clock_was_lost, trouble
from session import Failure, Scenario
from wires import Skip

DEMO = pathlib.Path(__file__).resolve().parents[3] / "demo"
PROGRAMS = ("ibv_devinfo", "ibv_rc_pingpong", "ib_write_bw", "ib_read_lat", "ib_send_bw")

# The table at the end; a group is a figure that is not 0.
ROWS = (r"ibv_devinfo +uroce0, PORT_ACTIVE, MTU 4096", r"ibv_rc_pingpong, 4 KiB +(\S+) us a round trip", r"ib_write_bw, 64 KiB +(\S+) Gbit/s",
        r"ib_read_lat, 2 B +(\S+) us", r"ib_write_bw, pair 1 of 2 at once +(\S+) Gbit/s", r"ib_send_bw, pair 2 of 2 at once +(\S+) Gbit/s")
CAPTURED = r"demo\.pcapng +(\S+) RoCEv2 packets, read by tshark"
FILES = {"ibv_devinfo.txt", "ibv_rc_pingpong.txt", "ib_write_bw.txt", "ib_read_lat.txt", "both-0.txt", "both-1.txt", "ls.txt", "demo.pcapng"}


def _figure(text):
    try:
        return float(text)
    except ValueError:
        return 0.0


def _left_in_the_tree():
    """When the folder that the demo uses without --output was last changed."""
    folder = DEMO.parent / "demo-output"
    return folder.stat().st_mtime_ns if folder.exists() else None


def run_demo(session, root):
    """The demo's output. In a runtime directory of its own: otherwise it would list other running programs as well."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=root))
    runtime, output = folder / "run", folder / "output"
    for each in (runtime, output):
        each.mkdir(mode=0o700)
    command = ["bash", DEMO, "--built", wires.build_directory, "--output", output]
    child = session.start_plain("demo", command, {"UROCE_RUNTIME_DIR": str(runtime)})
    session.expect_exit(child, 80)
    return child, output


def demo(session):
    for program in PROGRAMS:
        if shutil.which(program) is None:
            raise Skip(f"{program} is not installed")
    before = _left_in_the_tree()
    with tempfile.TemporaryDirectory(prefix="uroce-demo-") as root:
        child, output = run_demo(session, root)
        printed = "".join(file.read_text(errors="replace") for file in output.glob("*.txt"))
        if clock_was_lost(printed):
            print("repeated: perftest could not measure the CPU's clock", flush=True)
            child, output = run_demo(session, root)
        files = {file.name for file in output.iterdir() if file.stat().st_size > 0}
    text = child.output()
    problems = trouble(text) + ([f"exit code {child.exit_code}"] if child.exit_code != 0 else [])
    problems += [f'it printed "{word}"' for word in ("FAILED", "failed", "demo: ", "error") if word in text]
    for row in (*ROWS, CAPTURED) if shutil.which("tshark") else ROWS:
        found = re.search(rf"^  {row}$", text, re.MULTILINE)
        if not found:
            problems.append(f"no line like '{row}'")
        elif not all(_figure(group) > 0 for group in found.groups()):
            problems.append(f"no figure in '{found[0].strip()}'")
    listed = re.findall(r"^ +\d+  (ib_\w+) +shmlan .* running$", text, re.MULTILINE)
    if sorted(listed) != ["ib_send_bw"] * 2 + ["ib_write_bw"] * 2:
        problems.append(f"`uroce ls` shows {listed} while two pairs run")
    if not FILES <= files:
        problems.append(f"it did not leave {sorted(FILES - files)}")
    if _left_in_the_tree() != before:
        problems.append("it wrote beside the sources, although it has --output")
    if problems:
        raise Failure("; ".join(problems))


SCENARIOS = [Scenario("demo", demo, timeout_s=100)]
