"""Tag matching through pyverbs (python3-pyverbs): tags, unexpected messages and a rendezvous, between two contexts.

Says a line for each part. Exits 0 if all is right.
"""

import time

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CqInitAttrEx, CQEX, PollCqAttr
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.srq import SRQ, OpsWr, SrqInitAttrEx
from pyverbs.wr import RecvWR, SendWR, SGE

BYTES, GID, TAGS = 4096, 1, 9
ACCESS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_REMOTE_WRITE
EAGER, RENDEZVOUS, NOTICE = e.IBV_TMH_EAGER, e.IBV_TMH_RNDV, e.IBV_TMH_FIN


def check(is_right, what):
    if not is_right:
        raise SystemExit(f"wrong: {what}")


class Side:
    """A context with a queue pair. The receiver has a queue that matches tags, and no send queue of its own."""

    def __init__(self, receives):
        self.context = Context(name="uroce0")
        caps = self.context.query_device_ex().tm_caps
        check(caps.flags & e.IBV_TM_CAP_RC and caps.max_num_tags >= TAGS, "what the device says of tag matching")
        self.pd = PD(self.context)
        self.mr = MR(self.pd, BYTES, ACCESS)
        self.cq = CQEX(self.context, CqInitAttrEx(wc_flags=e.IBV_WC_EX_WITH_TM_INFO | e.IBV_WC_STANDARD_FLAGS))
        self.srq = self._queue(TAGS) if receives else None
        cap = QPCap(max_send_wr=0, max_recv_wr=0) if receives else QPCap(max_send_wr=4, max_recv_wr=4)
        self.qp = QP(self.pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, srq=self.srq, cap=cap, sq_sig_all=1), None)

    def _queue(self, tags):
        attr = SrqInitAttrEx()
        attr.comp_mask = e.IBV_SRQ_INIT_ATTR_TYPE | e.IBV_SRQ_INIT_ATTR_PD | e.IBV_SRQ_INIT_ATTR_CQ | e.IBV_SRQ_INIT_ATTR_TM
        attr.srq_type, attr.pd, attr.cq, attr.max_num_tags, attr.max_ops = e.IBV_SRQT_TM, self.pd, self.cq, tags, 10
        return SRQ(self.context, attr)

    def connect(self, peer):
        attr = QPAttr(port_num=1)
        attr.qp_access_flags, attr.dest_qp_num, attr.path_mtu = ACCESS, peer.qp.qp_num, e.IBV_MTU_1024
        attr.ah_attr = AHAttr(gr=GlobalRoute(dgid=self.context.query_gid(1, GID), sgid_index=GID), is_global=1, port_num=1)
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
        attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 14, 7, 7
        self.qp.to_rts(attr)

    def sge(self, length=BYTES):
        return SGE(self.mr.buf, length, self.mr.lkey)

    def completion(self):
        """(wr_id, opcode, flags, tag) of the next completion."""
        end = time.monotonic() + 10
        while self.cq.start_poll(PollCqAttr()) != 0:
            check(time.monotonic() < end, "no completion came")
        check(self.cq.status == e.IBV_WC_SUCCESS, f"a completion's status {self.cq.status}")
        found = self.cq.wr_id, self.cq.read_opcode(), self.cq.read_wc_flags(), self.cq.read_tm_info().tag
        self.cq.end_poll()
        return found

    def expect(self, *what):
        found = self.completion()
        check(found == what, f"{found} instead of {what}")

    def add(self, tag, count=0):
        self.srq.post_srq_ops(OpsWr(wr_id=tag, unexpected_cnt=count, recv_wr_id=tag, num_sge=1, tag=tag, mask=0xFFFF,
                                    sg_list=[self.sge()]))
        self.expect(tag, e.IBV_WC_TM_ADD, 0, 0)

    def send(self, header, length):
        self.mr.write(header, len(header))
        self.qp.post_send(SendWR(wr_id=7, opcode=e.IBV_WR_SEND, num_sge=1, sg=[self.sge(length)]))


def header(operation, tag):
    return bytes([operation, 0, 0, 0]) + (0x55).to_bytes(4, "big") + tag.to_bytes(8, "big")


def main():
    client, server = Side(receives=False), Side(receives=True)
    client.connect(server)
    server.connect(client)
    client.mr.write("c" * BYTES, BYTES)

    for tag in range(1, TAGS + 1):
        server.add(tag)
    for tag in range(TAGS, 0, -1):
        client.send(header(EAGER, tag), 1000)
        client.completion()
        server.expect(tag, e.IBV_WC_TM_RECV, e.IBV_WC_TM_MATCH | e.IBV_WC_TM_DATA_VALID, tag)
        check(server.mr.read(984, 0) == b"c" * 984, "the bytes of a message")
    print(f"eager: {TAGS} messages", flush=True)

    server.srq.post_recv(RecvWR(wr_id=40, num_sge=1, sg=[server.sge()]))
    client.send(header(EAGER, 0x1234), 1000)
    client.completion()
    server.expect(40, e.IBV_WC_TM_RECV, 0, 0)
    check(server.mr.read(16, 0) == header(EAGER, 0x1234), "the header of an unexpected message")
    server.srq.post_srq_ops(OpsWr(wr_id=27, opcode=e.IBV_WR_TAG_SYNC, unexpected_cnt=1, recv_wr_id=27,
                                  flags=e.IBV_OPS_SIGNALED | e.IBV_OPS_TM_SYNC))
    server.expect(27, e.IBV_WC_TM_SYNC, 0, 0)
    print("unexpected: counted", flush=True)

    server.add(5, count=1)
    client.qp.post_recv(RecvWR(wr_id=50, num_sge=1, sg=[client.sge(64)]))
    address = client.mr.buf.to_bytes(8, "big") + client.mr.rkey.to_bytes(4, "big") + BYTES.to_bytes(4, "big")
    client.send(header(RENDEZVOUS, 5) + address, 64)
    server.expect(5, e.IBV_WC_TM_RECV, e.IBV_WC_TM_MATCH, 5)
    server.expect(5, e.IBV_WC_TM_RECV, e.IBV_WC_TM_DATA_VALID, 0)
    check(server.mr.read(BYTES - 32, 32) == b"c" * (BYTES - 32), "the bytes of a rendezvous")
    check({client.completion()[0] for _ in range(2)} == {7, 50}, "the sender's completions")
    check(client.mr.read(16, 0) == header(NOTICE, 5), "the notice to the sender")
    print("rendezvous: fetched", flush=True)


if __name__ == "__main__":
    main()
