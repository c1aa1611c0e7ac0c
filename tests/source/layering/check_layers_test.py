#!/usr/bin/env python3
"""The layering check finds what it must find: each planted violation is refused, each allowed include is not."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

CHECK = pathlib.Path(__file__).with_name("check_layers.py")

HOUSE = {
    "roce/base/psn.h": "#pragma once\n#include <cstdint>\n",
    "roce/packet/packet.h": '#pragma once\n#include "base/psn.h"\n',
    "roce/transport/qp.h": '#pragma once\n#include "base/psn.h"\n#include "packet/packet.h"\n',
    "roce/transport/qp_context.h": '#pragma once\n#include "transport/qp.h"\n',
    "roce/transport/requester.h": '#pragma once\n#include "transport/qp_context.h"\n',
    "roce/transport/qp.cc": '#include "transport/requester.h"\n',
    "roce/engine/engine.h": '#pragma once\n#include "transport/qp.h"\n',
    "roce/tools/sim/link.cc": '#include "engine/engine.h"\n',
    "roce/tools/sim/world.h": '#pragma once\n#include "engine/engine.h"\n',
    "roce/tools/script/bench.h": '#pragma once\n#include "engine/engine.h"\n',
    "roce/dpdk/endpoint.h": '#pragma once\n#include <rte_ethdev.h>\n#include "engine/engine.h"\n',
    "verbs_shim/shim.h": '#pragma once\n#include <infiniband/verbs.h>\n#include "dpdk/endpoint.h"\n',
    "verbs_shim/shim.cc": '#include "shim.h"\n#include <mutex>\n',
    "apps/common/words.h": '#pragma once\n#include "base/psn.h"\n',
    "apps/uroce_drill/main.cc": '#include "common/words.h"\n#include "script/bench.h"\n',
    "apps/uroce_lint/main.cc": '#include "lint/linter.h"\n',
    "apps/uroce_replay/main.cc": '#include <rte_eal.h>\n#include "replay/replay.h"\n',
    "apps/uroce_sim/main.cc": '#include "sim/world.h"\n',
    "apps/uroce_drill/note.h": "#pragma once\n",
    "roce/tools/lint/linter.h": '#pragma once\n#include "packet/packet.h"\n',
    "roce/tools/replay/replay.h": '#pragma once\n#include "lint/linter.h"\n',
    "apps/perf.cc": '#include <rte_eal.h>\n#include "dpdk/endpoint.h"\n',
    "roce/include/uroce/device.h": "#pragma once\n",
    "apps/examples/verbs.cc": "#include <infiniband/verbs.h>\n",
    "apps/uroce_ping/ask.cc": "#include <rdma/rdma_cma.h>\n",
    "apps/examples/library/need.h": "#pragma once\n#include <uroce/device.h>\n",
    "apps/examples/library/dpdk.cc": '#include <rte_eal.h>\n#include "need.h"\n',
    "pmd/hw/regs.h": "#pragma once\n",
    "pmd/ethdev/driver.cc": '#include <rte_ethdev.h>\n#include "pmd/hw/regs.h"\n',
    "roce/segment/port.h": '#pragma once\n#include "packet/packet.h"\n',
    "pmd/vdev/port.h": '#pragma once\n#include <rte_mbuf.h>\n#include "base/psn.h"\n',
    "pmd/shmlan/station.cc": '#include <rte_mbuf.h>\n#include "segment/port.h"\n#include "pmd/vdev/port.h"\n',
    "pmd/udp/outbox.cc": '#include <rte_mbuf.h>\n#include "packet/packet.h"\n',
    "tests/unit/packet/x_test.cc": '#include "dpdk/endpoint.h"\n',
}

# file, line, what the message must contain
PLANTED = [
    ("roce/base/psn.h", '#include "packet/packet.h"', "base must not include packet"),
    ("roce/packet/packet.h", '#include "transport/qp.h"', "packet must not include transport"),
    ("roce/packet/packet.h", '#include "../transport/qp.h"', "packet must not include transport"),
    ("roce/congestion/pacer.h", '#include "transport/qp.h"', "congestion must not include transport"),
    ("roce/transport/qp.h", '  #  include "engine/engine.h"', "transport must not include engine"),
    ("roce/engine/engine.h", '#include "dpdk/endpoint.h"', "engine must not include dpdk"),
    ("roce/engine/engine.h", "#include <rte_mbuf.h>", "engine must not include DPDK"),
    ("roce/tools/sim/link.cc", '#include "dpdk/endpoint.h"', "sim must not include dpdk"),
    ("roce/tools/sim/link.cc", "#include <rte_cycles.h>", "sim must not include DPDK"),
    ("roce/tools/sim/world.h", '#include "script/bench.h"', "sim must not include script"),
    ("roce/engine/engine.h", '#include "script/bench.h"', "engine must not include script"),
    ("roce/tools/script/bench.h", '#include "dpdk/endpoint.h"', "script must not include dpdk"),
    ("roce/tools/script/bench.h", "#include <thread>", "pure logic"),
    ("verbs_shim/shim.cc", '#include "script/bench.h"', "verbs_shim must not include script"),
    ("roce/dpdk/endpoint.h", '#include "sim/world.h"', "dpdk must not include sim"),
    ("roce/engine/engine.h", '#include "tools/sim/world.h"', "by the name of their floor"),
    ("apps/uroce_sim/main.cc", '#include "tools/sim/world.h"', "by the name of their floor"),
    ("apps/uroce_sim/main.cc", '#include "../../roce/tools/sim/world.h"', "by the name of their floor"),
    ("apps/perf.cc", '#include "sim/world.h"', "apps must not include sim"),
    ("apps/common/words.h", '#include "script/bench.h"', "apps must not include script"),
    ("apps/uroce_switch/ports.cc", '#include "replay/replay.h"', "apps must not include replay"),
    ("apps/uroced/main.cc", '#include "lint/linter.h"', "apps must not include lint"),
    ("apps/perf.cc", '#include "apps/uroce_drill/note.h"', "apps must not include apps/uroce_drill"),
    ("roce/tools/attic/new.h", "#pragma once", "not a known floor"),
    ("roce/tools/new.h", "#pragma once", "not a known floor"),
    ("roce/dpdk/endpoint.h", '#include "verbs_shim/shim.h"', "dpdk must not include verbs_shim"),
    ("roce/dpdk/endpoint.h", "#include <infiniband/verbs.h>", "must not include the verbs header"),
    ("apps/perf.cc", '#include "verbs_shim/shim.h"', "apps must not include verbs_shim"),
    ("apps/uroce_ping/ask.cc", '#include "dpdk/endpoint.h"', "apps/uroce_ping must not include dpdk"),
    ("apps/uroce_ping/ask.cc", "#include <rte_eal.h>", "apps/uroce_ping must not include DPDK"),
    ("apps/perf.cc", "#include <rdma/rdma_cma.h>", "must not include the verbs header"),
    ("apps/examples/verbs.cc", '#include "dpdk/endpoint.h"', "apps/examples must not include dpdk"),
    ("apps/examples/verbs.cc", '#include "uroce/device.h"', "apps/examples must not include include"),
    ("apps/examples/verbs.cc", "#include <rte_eal.h>", "apps/examples must not include DPDK"),
    ("apps/examples/library/dpdk.cc", '#include "dpdk/endpoint.h"', "apps/examples/library must not include dpdk"),
    ("apps/examples/library/dpdk.cc", "#include <infiniband/verbs.h>", "must not include the verbs header"),
    ("roce/engine/engine.h", '#include "pmd/hw/regs.h"', "engine must not include pmd/hw"),
    ("pmd/hw/regs.h", "#include <rte_io.h>", "pmd/hw must not include DPDK"),
    ("pmd/ethdev/driver.cc", '#include "engine/engine.h"', "pmd/ethdev must not include engine"),
    ("pmd/ethdev/driver.cc", '#include "segment/port.h"', "pmd/ethdev must not include segment"),
    ("pmd/vdev/port.h", '#include "packet/packet.h"', "pmd/vdev must not include packet"),
    ("pmd/vdev/port.h", '#include "pmd/hw/regs.h"', "pmd/vdev must not include pmd/hw"),
    ("pmd/ethdev/driver.cc", '#include "pmd/vdev/port.h"', "pmd/ethdev must not include pmd/vdev"),
    ("pmd/shmlan/station.cc", '#include "engine/engine.h"', "pmd/shmlan must not include engine"),
    ("pmd/shmlan/station.cc", '#include "dpdk/endpoint.h"', "pmd/shmlan must not include dpdk"),
    ("pmd/udp/outbox.cc", '#include "transport/qp.h"', "pmd/udp must not include transport"),
    ("pmd/udp/outbox.cc", '#include "segment/port.h"', "pmd/udp must not include segment"),
    ("roce/transport/qp.h", "#include <sys/socket.h>", "pure logic"),
    ("roce/engine/engine.h", "#include <thread>", "pure logic"),
    ("roce/packet/packet.h", "#include <base/psn.h>", "with quotes"),
    ("roce/transport/qp.h", '#include "transport/requester.h"', "shim.h: is compiled with roce/transport/qp_context.h"),
    ("roce/engine/engine.h", '#include "transport/requester.h"', "perf.cc: is compiled with roce/transport/qp_context.h"),
    ("verbs_shim/shim.cc", '#include "transport/qp_context.h"', "users of a queue pair must not be"),
    ("roce/attic/new.h", "#pragma once", "not a known floor"),
]


class CheckLayers(unittest.TestCase):
    def run_check(self, extra_file=None, extra_line=None):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in HOUSE.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            if extra_file:
                path = root / extra_file
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("a") as out:
                    out.write(extra_line + "\n")
            done = subprocess.run(
                [sys.executable, str(CHECK), folder, "--stamp", str(root / "stamp"), "--depfile", str(root / "d")],
                capture_output=True, text=True, check=False)
            return done, (root / "stamp").exists()

    def test_clean_house_passes(self):
        done, stamped = self.run_check()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(stamped)

    def test_every_planted_violation_is_refused(self):
        for file, line, message in PLANTED:
            with self.subTest(file=file, line=line):
                done, stamped = self.run_check(file, line)
                self.assertEqual(done.returncode, 1)
                self.assertIn(message, done.stderr)
                self.assertIn(file + ":", done.stderr)
                self.assertFalse(stamped)

    def test_empty_tree_is_an_error(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, str(CHECK), folder], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2)


if __name__ == "__main__":
    unittest.main()
