"""rdma-core's own tests of libibverbs and librdmacm: as Debian's python3-pyverbs brings them along, and of a later release from a
checkout, with the pyverbs of that release (build_checkouts.sh). All of them, with known exceptions."""

import gzip
import pathlib
import re
import shutil
import subprocess
import tempfile

from checkouts import built
from client_programs import PYTHON
from cm_programs import LOUD
from session import Failure, Scenario
from wires import Skip

TESTS = pathlib.Path("/usr/share/doc/rdma-core/tests")
# Tests of features that we do not have; one that passes is reported, too.
DIFFERENT = {
    "test_device.DMTest.test_multi_process_alloc_dm": "a child that uses its parent's device",
}
PASSED_MIN = 148
PASSED_MIN_LATER = 205


def unpack(folder):
    for file in TESTS.iterdir():
        if file.suffix == ".gz":
            (folder / file.stem).write_bytes(gzip.decompress(file.read_bytes()))
        elif file.is_file():
            shutil.copy(file, folder)


def judge(child, passed_min):
    text = child.output()
    failed = set(re.findall(r"^(?:FAIL|ERROR): \w+ \(tests\.([\w.]+)\)", text, re.MULTILINE))
    total = re.search(r"^Ran (\d+) tests in .*?^(?:FAILED|OK) \((.*?)skipped=(\d+)\)", text, re.MULTILINE | re.DOTALL)
    if child.crashed() or not total:
        raise Failure(f"the suite did not get to its end (exit {child.exit_code})")
    if sum(map(int, re.findall(r"(?:failures|errors)=(\d+)", total[2]))) != len(failed):
        raise Failure(f"more failed than {sorted(failed)}")
    if failed != DIFFERENT.keys():
        raise Failure(f"failed: {sorted(failed - DIFFERENT.keys())}; passed unexpectedly: {sorted(DIFFERENT.keys() - failed)}")
    passed = int(total[1]) - int(total[3]) - len(failed)
    if passed < passed_min:
        raise Failure(f"only {passed} passed")


OPTIONS = ("--dev", "uroce0", "--gid", "1", "-v")


def suite(session):
    if not (TESTS / "run_tests.py").exists() and not (TESTS / "run_tests.py.gz").exists():
        raise Skip("python3-pyverbs is not installed, or without its documents")
    if subprocess.run([PYTHON, "-c", "import pyverbs.cmid"], capture_output=True, check=False).returncode != 0:
        raise Skip("python3-pyverbs is not installed")
    with tempfile.TemporaryDirectory(prefix="uroce-suite-") as root:
        folder = pathlib.Path(root) / "tests"
        folder.mkdir()
        unpack(folder)
        child = session.start("suite", 0, [PYTHON, "-B", str(folder / "run_tests.py"), *OPTIONS], LOUD)
        session.wait_for_end(child, 400)
    judge(child, PASSED_MIN)


def later_suite(session):
    checkout = built("rdma-core", "build/python/pyverbs/__init__.py")
    environment = {**LOUD, "PYTHONPATH": str(checkout / "build/python")}
    child = session.start("suite", 0, [PYTHON, "-B", str(checkout / "tests/run_tests.py"), *OPTIONS], environment)
    session.wait_for_end(child, 400)
    judge(child, PASSED_MIN_LATER)


SCENARIOS = [Scenario("rdma_core_suite", suite, suite="long", timeout_s=420),
             Scenario("rdma_core_later_suite", later_suite, suite="long", timeout_s=420)]
