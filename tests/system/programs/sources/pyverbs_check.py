"""What pyverbs (python3-pyverbs) reaches: every part is checked here, and says in a line that it was. Exits 0 if all is right."""

import os

import pyverbs.enums as e
from pyverbs import cm_enums
from pyverbs.addr import AH, AHAttr, GlobalRoute
from pyverbs.cmid import CMID, AddrInfo
from pyverbs.cq import CQ, CqInitAttrEx, CQEX
from pyverbs.device import Context, get_device_list
from pyverbs.mr import MR, MW, MWBindInfo, MWBind
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import RecvWR, SendWR, SGE

BYTES, GRH, GID, QKEY = 1000, 40, 1, 0x1234
PORT = "7499"


def check(is_right, what):
    if not is_right:
        raise SystemExit(f"wrong: {what}")


def completions(cq, count):
    found = []
    while len(found) < count:
        found += cq.poll(count - len(found))[1]
    for wc in found:
        check(wc.status == e.IBV_WC_SUCCESS, f"a completion's status {wc.status}")
    return found


def route(context):
    return AHAttr(gr=GlobalRoute(dgid=context.query_gid(1, GID), sgid_index=GID), is_global=1, port_num=1)


def make_pair(context, pd, kind, cq, srq=None):
    """Two queue pairs connected with each other."""
    init = QPInitAttr(qp_type=kind, scq=cq, rcq=cq, srq=srq, cap=QPCap(max_send_wr=16, max_recv_wr=16), sq_sig_all=1)
    pair = [QP(pd, init, None) for _ in range(2)]
    for qp, peer in zip(pair, reversed(pair)):
        attr = QPAttr(port_num=1)
        if kind == e.IBV_QPT_UD:
            attr.qkey = QKEY
            qp.to_rts(attr)
            continue
        attr.qp_access_flags = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE
        attr.dest_qp_num, attr.path_mtu, attr.ah_attr = peer.qp_num, e.IBV_MTU_1024, route(context)
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
        attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 14, 7, 7
        qp.to_rts(attr)
    return pair


def send_and_receive(kind, context, pd, cq):
    here, there = make_pair(context, pd, kind, cq)
    source, target = (MR(pd, BYTES + GRH, e.IBV_ACCESS_LOCAL_WRITE) for _ in range(2))
    offset = GRH if kind == e.IBV_QPT_UD else 0
    for i in range(100):
        text = f"message {i} ".ljust(BYTES, chr(65 + i % 26))
        source.write(text, BYTES)
        there.post_recv(RecvWR(sg=[SGE(target.buf, BYTES + offset, target.lkey)], num_sge=1))
        wr = SendWR(opcode=e.IBV_WR_SEND_WITH_IMM, imm_data=i, sg=[SGE(source.buf, BYTES, source.lkey)], num_sge=1)
        if kind == e.IBV_QPT_UD:
            wr.set_wr_ud(AH(pd, attr=route(context)), there.qp_num, QKEY)
        here.post_send(wr)
        received = [wc for wc in completions(cq, 2) if wc.opcode & e.IBV_WC_RECV]
        check(len(received) == 1 and received[0].byte_len == BYTES + offset, "the received length")
        check(target.read(BYTES, offset).decode() == text, f"message {i}")


def window(context, pd, cq):
    """A window of type 1 gives access to a part of a region; a WRITE uses it."""
    here, there = make_pair(context, pd, e.IBV_QPT_RC, cq)
    source = MR(pd, BYTES, e.IBV_ACCESS_LOCAL_WRITE)
    target = MR(pd, BYTES, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_MW_BIND)
    opened = MW(pd, e.IBV_MW_TYPE_1)
    there.bind_mw(opened, MWBind(MWBindInfo(target, target.buf + 100, 200, e.IBV_ACCESS_REMOTE_WRITE), e.IBV_SEND_SIGNALED))
    completions(cq, 1)
    source.write("w" * 200, 200)
    wr = SendWR(opcode=e.IBV_WR_RDMA_WRITE, sg=[SGE(source.buf, 200, source.lkey)], num_sge=1)
    wr.set_wr_rdma(opened.rkey, target.buf + 100)
    here.post_send(wr)
    completions(cq, 1)
    check(target.read(202, 99) == b"\0" + b"w" * 200 + b"\0", "what was written through the window")
    opened.close()  # before the region, which the window keeps in use


def shared_queue(context, pd, cq):
    srq = SRQ(pd, SrqInitAttr(SrqAttr(max_wr=8, max_sge=1)))
    here, _ = make_pair(context, pd, e.IBV_QPT_RC, cq, srq)
    region = MR(pd, BYTES, e.IBV_ACCESS_LOCAL_WRITE)
    srq.post_recv(RecvWR(wr_id=7, sg=[SGE(region.buf, 100, region.lkey)], num_sge=1))
    region.write("shared", 6, 500)
    here.post_send(SendWR(sg=[SGE(region.buf + 500, 6, region.lkey)], num_sge=1))
    check(7 in [wc.wr_id for wc in completions(cq, 2)], "the receive's number")
    check(region.read(6, 0) == b"shared", "what the shared queue received")


def extended_queue(context, pd):
    cq = CQEX(context, CqInitAttrEx(cqe=16, wc_flags=e.IBV_WC_EX_WITH_BYTE_LEN))
    here, there = make_pair(context, pd, e.IBV_QPT_RC, cq)
    region = MR(pd, BYTES, e.IBV_ACCESS_LOCAL_WRITE)
    there.post_recv(RecvWR(wr_id=8, sg=[SGE(region.buf, 100, region.lkey)], num_sge=1))
    here.post_send(SendWR(wr_id=9, sg=[SGE(region.buf + 500, 33, region.lkey)], num_sge=1))
    seen = {}
    while len(seen) < 2:
        if cq.start_poll(None) == 0:
            check(cq.status == e.IBV_WC_SUCCESS, "the status of an extended completion")
            seen[cq.wr_id] = cq.read_byte_len()
            cq.end_poll()
    check(set(seen) == {8, 9} and seen[8] == 33, f"the extended completions {seen}")


def endpoint(passive):
    info = AddrInfo(src="127.0.0.1" if passive else None, dst=None if passive else "127.0.0.1",
                    src_service=PORT if passive else None, dst_service=None if passive else PORT,
                    port_space=cm_enums.RDMA_PS_TCP, flags=cm_enums.RAI_PASSIVE if passive else 0)
    return CMID(creator=info, qp_init_attr=QPInitAttr(qp_type=e.IBV_QPT_RC, cap=QPCap(max_send_wr=4, max_recv_wr=4)))


def echo(passive, told):
    """One side each, in processes of their own."""
    cmid = endpoint(passive)
    if passive:
        cmid.listen()
        os.write(told[1], b"!")
        cmid, listener = cmid.get_request(), cmid
    else:
        os.read(told[0], 1)
    region = cmid.reg_msgs(BYTES)
    cmid.post_recv(region, BYTES) if passive else None
    cmid.accept() if passive else cmid.connect()
    if passive:
        check(cmid.get_recv_comp().status == e.IBV_WC_SUCCESS, "the request")
        region.write(region.read(5, 0).decode().upper(), 5)
    else:
        region.write("hello", 5)
        cmid.post_recv(region, BYTES)
    cmid.post_send(region, e.IBV_SEND_SIGNALED, 5)
    check(cmid.get_send_comp().status == e.IBV_WC_SUCCESS, "the sending")
    if not passive:
        check(cmid.get_recv_comp().status == e.IBV_WC_SUCCESS, "the answer")
        check(region.read(5, 0) == b"HELLO", "the answer's text")
        cmid.disconnect()


def main():
    told = os.pipe()
    child = os.fork()  # before the device is opened
    echo(child == 0, told)
    if child == 0:
        return
    check(os.waitpid(child, 0)[1] == 0, "the server's exit")
    print("rdmacm: echoed", flush=True)

    check([device.name for device in get_device_list()] == [b"uroce0"], "the list of devices")
    with Context(name="uroce0") as context, PD(context) as pd, CQ(context, 64) as cq:
        send_and_receive(e.IBV_QPT_RC, context, pd, cq)
        print("rc: 100 messages")
        send_and_receive(e.IBV_QPT_UD, context, pd, cq)
        print("ud: 100 datagrams")
        window(context, pd, cq)
        print("window: written")
        shared_queue(context, pd, cq)
        print("shared queue: received")
        extended_queue(context, pd)
        print("extended queue: polled")


main()
