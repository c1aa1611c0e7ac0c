"""A program of pyverbs with two queue pairs, connected with those of another such program.

Prints a line about itself, reads that of the other, and says "connected". What it reads then is done: "wrong key" writes with
a key that the other does not have, "peer killed" writes properly. It ends with its standard input, and polls nothing.
"""

import sys

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

BYTES, GID = 64, 1


def connect(context, qp, peer_qpn):
    attr = QPAttr(port_num=1)
    attr.qp_access_flags = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE
    attr.ah_attr = AHAttr(gr=GlobalRoute(dgid=context.query_gid(1, GID), sgid_index=GID), is_global=1, port_num=1)
    attr.dest_qp_num, attr.path_mtu = peer_qpn, e.IBV_MTU_1024
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
    attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 12, 7, 7
    qp.to_rts(attr)


def write(qp, region, key, address):
    wr = SendWR(opcode=e.IBV_WR_RDMA_WRITE, sg=[SGE(region.buf, BYTES, region.lkey)], num_sge=1)
    wr.set_wr_rdma(key, address)
    qp.post_send(wr)


def main():
    with Context(name="uroce0") as context, PD(context) as pd, CQ(context, 64) as cq:
        region = MR(pd, BYTES, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE)
        init = QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(max_send_wr=16, max_recv_wr=16), sq_sig_all=1)
        qps = [QP(pd, init, None) for _ in range(2)]
        print(*(qp.qp_num for qp in qps), region.rkey, region.buf, flush=True)
        *peers, key, address = map(int, sys.stdin.readline().split())
        for qp, peer_qpn in zip(qps, peers):
            connect(context, qp, peer_qpn)
        print("connected", flush=True)
        for line in sys.stdin:
            if line == "wrong key\n":
                write(qps[0], region, key ^ 0x5A5A5A, address)
            elif line == "peer killed\n":
                write(qps[1], region, key, address)
        for qp in qps:
            qp.close()
        region.close()


main()
