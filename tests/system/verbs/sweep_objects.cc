#include "sweep_objects.h"

#include <fcntl.h>
#include <rdma/rdma_cma.h>

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace verbs_test {
namespace {

ibv_wq_init_attr receive_queue_of(ibv_pd* pd, ibv_cq* cq) {
  ibv_wq_init_attr attr{};
  attr.wq_type = IBV_WQT_RQ;
  attr.max_wr = 8;
  attr.max_sge = 1;
  attr.pd = pd;
  attr.cq = cq;
  return attr;
}

ibv_ah_attr own_address(ibv_context* context) {
  ibv_ah_attr attr{};
  attr.is_global = 1;
  ibv_query_gid(context, 1, 1, &attr.grh.dgid);
  attr.grh.sgid_index = 1;
  attr.port_num = 1;
  return attr;
}

void sweep_memory(Sweep& sweep, ibv_context* context, ibv_pd* pd) {
  ibv_device_attr limits{};
  ibv_query_device(context, &limits);
  static uint8_t buffer[8192];
  constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND;
  sweep.of(maker(
      "ibv_alloc_pd", [=] { return ibv_alloc_pd(context); }, ibv_dealloc_pd));
  sweep.of(maker(
      "ibv_reg_mr", [=] { return ibv_reg_mr(pd, buffer, sizeof buffer, kAccess); }, ibv_dereg_mr));
  sweep.of(maker(
      "ibv_reg_mr, on demand", [=] { return ibv_reg_mr(pd, buffer, 4096, IBV_ACCESS_ON_DEMAND); }, ibv_dereg_mr));
  sweep.of(maker(
      "ibv_alloc_null_mr", [=] { return ibv_alloc_null_mr(pd); }, ibv_dereg_mr));
  sweep.of(maker(
      "ibv_alloc_mw", [=] { return ibv_alloc_mw(pd, IBV_MW_TYPE_2); }, ibv_dealloc_mw));
  ibv_alloc_dm_attr dm_attr{4096, 0, 0};
  sweep.of(maker(
      "ibv_alloc_dm", [&] { return ibv_alloc_dm(context, &dm_attr); }, ibv_free_dm));
  ibv_dm* const dm = ibv_alloc_dm(context, &dm_attr);
  sweep.of(maker(
      "ibv_reg_dm_mr", [=] { return ibv_reg_dm_mr(pd, dm, 0, 64, IBV_ACCESS_ZERO_BASED); }, ibv_dereg_mr));
  ibv_ah_attr address = own_address(context);
  sweep.of(maker(
      "ibv_create_ah", [&] { return ibv_create_ah(pd, &address); }, ibv_destroy_ah));
  // This call makes an address handle, and a domain for it.
  sweep.of(maker(
      "ibv_resolve_eth_l2_from_gid",
      [&] {
        static uint8_t mac[6];
        const int error = ibv_resolve_eth_l2_from_gid(context, &address, mac, nullptr);
        if (error != 0) errno = error;
        return error == 0 ? mac : nullptr;
      },
      +[](uint8_t* /*mac*/) { return 0; }));
  sweep.expect_room(maker(
                        "ibv_alloc_pd", [=] { return ibv_alloc_pd(context); }, ibv_dealloc_pd),
                    limits.max_pd, 1);
  sweep.expect_room(maker(
                        "ibv_reg_mr", [=] { return ibv_reg_mr(pd, buffer, 1, kAccess); }, ibv_dereg_mr),
                    limits.max_mr, 0);
  if (ibv_free_dm(dm) != 0) sweep.complain("ibv_free_dm", 0, {}, "busy");
  ibv_td_init_attr td_attr{};
  sweep.of(maker(
      "ibv_alloc_td", [&] { return ibv_alloc_td(context, &td_attr); }, ibv_dealloc_td));
  ibv_parent_domain_init_attr parent{};
  parent.pd = pd;
  sweep.of(maker(
      "ibv_alloc_parent_domain", [&] { return ibv_alloc_parent_domain(context, &parent); }, ibv_dealloc_pd));
}

void sweep_queues(Sweep& sweep, ibv_context* context, ibv_pd* pd) {
  sweep.of(maker(
      "ibv_create_comp_channel", [=] { return ibv_create_comp_channel(context); }, ibv_destroy_comp_channel));
  ibv_comp_channel* const channel = ibv_create_comp_channel(context);
  sweep.of(maker(
      "ibv_create_cq", [=] { return ibv_create_cq(context, 64, nullptr, channel, 0); }, ibv_destroy_cq));
  ibv_cq_init_attr_ex extended{};
  extended.cqe = 16;
  sweep.of(maker(
      "ibv_create_cq_ex", [&] { return ibv_cq_ex_to_cq(ibv_create_cq_ex(context, &extended)); }, ibv_destroy_cq));
  ibv_cq* const cq = ibv_create_cq(context, 64, nullptr, channel, 0);
  ibv_srq_init_attr srq_attr{nullptr, {8, 1, 0}};
  sweep.of(maker(
      "ibv_create_srq", [&] { return ibv_create_srq(pd, &srq_attr); }, ibv_destroy_srq));
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_RAW_PACKET}) {
    ibv_qp_init_attr_ex attr{};
    attr.send_cq = attr.recv_cq = cq;
    attr.cap = {16, 16, 2, 2, 64};
    attr.qp_type = type;
    attr.pd = pd;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
    sweep.of(maker(
        "ibv_create_qp_ex",
        [=] {
          ibv_qp_init_attr_ex own = attr;
          return ibv_create_qp_ex(context, &own);
        },
        ibv_destroy_qp));
  }
  ibv_wq_init_attr wq_attr = receive_queue_of(pd, cq);
  sweep.of(maker(
      "ibv_create_wq", [&] { return ibv_create_wq(context, &wq_attr); }, ibv_destroy_wq));
  ibv_xrcd_init_attr xrcd_attr{IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, -1, O_CREAT};
  sweep.of(maker(
      "ibv_open_xrcd", [&] { return ibv_open_xrcd(context, &xrcd_attr); }, ibv_close_xrcd));
  xrcd_attr.fd = memfd_create("a domain's file", MFD_CLOEXEC);
  sweep.of(maker(
      "ibv_open_xrcd, of a file", [&] { return ibv_open_xrcd(context, &xrcd_attr); }, ibv_close_xrcd));
  close(xrcd_attr.fd);
  if (ibv_destroy_cq(cq) != 0 || ibv_destroy_comp_channel(channel) != 0) sweep.complain("the rest", 0, {}, "busy");
}

int reset(ibv_qp* qp) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RESET;
  return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

/// Connects the queue pair to itself.
int connect(ibv_qp* qp, const ibv_ah_attr& address) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  int error = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = qp->qp_num;
  attr.ah_attr = address;
  attr.max_dest_rd_atomic = attr.max_rd_atomic = 4;
  attr.timeout = 14;
  if (error == 0)
    error = ibv_modify_qp(qp, &attr,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  attr.qp_state = IBV_QPS_RTS;
  if (error == 0)
    error = ibv_modify_qp(
        qp, &attr,
        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  if (error != 0) reset(qp);
  return error;
}

void sweep_changes(Sweep& sweep, ibv_context* context, ibv_pd* pd) {
  ibv_cq* const cq = ibv_create_cq(context, 64, nullptr, nullptr, 0);
  ibv_srq_init_attr srq_attr{nullptr, {8, 1, 0}};
  ibv_srq* const srq = ibv_create_srq(pd, &srq_attr);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.cap = {16, 16, 2, 2, 64};
  init.qp_type = IBV_QPT_RC;
  ibv_qp* const connected = ibv_create_qp(pd, &init);
  init.qp_type = IBV_QPT_UD;
  ibv_qp* const datagrams = ibv_create_qp(pd, &init);
  static uint8_t buffer[4096];
  ibv_mr* const mr = ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE);
  const ibv_ah_attr address = own_address(context);
  sweep.of(change(
      "ibv_modify_qp", [=] { return connect(connected, address); }, [=] { return reset(connected); }));
  ibv_gid group{};
  group.raw[0] = 0xff;
  group.raw[1] = 0x0e;
  group.raw[15] = 9;
  sweep.of(change(
      "ibv_attach_mcast", [&] { return ibv_attach_mcast(datagrams, &group, 0); },
      [&] { return ibv_detach_mcast(datagrams, &group, 0); }));
  sweep.of(change(
      "ibv_resize_cq", [=] { return ibv_resize_cq(cq, 1000); }, [=] { return ibv_resize_cq(cq, 64); }));
  const auto resize_srq = [=](uint32_t entries) {
    ibv_srq_attr attr{entries, 0, 0};
    return ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR);
  };
  sweep.of(change(
      "ibv_modify_srq", [=] { return resize_srq(1000); }, [=] { return resize_srq(8); }));
  const auto rereg = [=](int access) {
    return ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, access) == 0 ? 0 : errno;
  };
  sweep.of(change(
      "ibv_rereg_mr", [=] { return rereg(0); }, [=] { return rereg(IBV_ACCESS_LOCAL_WRITE); }));
  if (ibv_dereg_mr(mr) != 0 || ibv_destroy_qp(connected) != 0 || ibv_destroy_qp(datagrams) != 0 ||
      ibv_destroy_srq(srq) != 0 || ibv_destroy_cq(cq) != 0)
    sweep.complain("what was changed", 0, {}, "busy");
}

/// Receive queues, their table, the queue pair that spreads over them, and a flow to it.
void sweep_flows(Sweep& sweep, ibv_pd* pd) {
  ibv_context* const context = pd->context;
  ibv_cq* const cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
  ibv_wq_init_attr wq_attr = receive_queue_of(pd, cq);
  ibv_wq* wq = ibv_create_wq(context, &wq_attr);
  ibv_rwq_ind_table_init_attr table_attr{0, &wq, 0};
  sweep.of(maker(
      "ibv_create_rwq_ind_table", [&] { return ibv_create_rwq_ind_table(context, &table_attr); },
      ibv_destroy_rwq_ind_table));
  ibv_rwq_ind_table* const table = ibv_create_rwq_ind_table(context, &table_attr);
  uint8_t key[40] = {1};
  ibv_qp_init_attr_ex attr{};
  attr.qp_type = IBV_QPT_RAW_PACKET;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
  attr.pd = pd;
  attr.rwq_ind_tbl = table;
  attr.rx_hash_conf = {IBV_RX_HASH_FUNC_TOEPLITZ, sizeof key, key, IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4};
  const auto make_group = [=] {
    ibv_qp_init_attr_ex own = attr;
    return ibv_create_qp_ex(context, &own);
  };
  sweep.of(maker("ibv_create_qp_ex, RSS", make_group, ibv_destroy_qp));
  ibv_qp* const qp = make_group();
  struct {
    ibv_flow_attr attr;
    ibv_flow_spec_eth eth;
  } flow{{0, IBV_FLOW_ATTR_NORMAL, sizeof flow, 0, 1, 1, 0}, {IBV_FLOW_SPEC_ETH, sizeof flow.eth, {}, {}}};
  flow.eth.val.dst_mac[0] = 0x02;
  std::memset(flow.eth.mask.dst_mac, 0xff, sizeof flow.eth.mask.dst_mac);
  if (qp != nullptr)
    sweep.of(maker(
        "ibv_create_flow", [&] { return ibv_create_flow(qp, &flow.attr); }, ibv_destroy_flow));
  if (qp == nullptr || ibv_destroy_qp(qp) != 0 || ibv_destroy_rwq_ind_table(table) != 0 || ibv_destroy_wq(wq) != 0 ||
      ibv_destroy_cq(cq) != 0)
    sweep.complain("the way of a flow", 0, {}, "busy");
}

int destroy_channel(rdma_event_channel* channel) {
  rdma_destroy_event_channel(channel);
  return 0;
}

void sweep_connections(Sweep& sweep) {
  rdma_event_channel* const channel = rdma_create_event_channel();
  sweep.of(maker(
      "rdma_create_event_channel", [] { return rdma_create_event_channel(); }, destroy_channel));
  sweep.of(maker(
      "rdma_create_id",
      [=] {
        rdma_cm_id* id = nullptr;
        return rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) == 0 ? id : nullptr;
      },
      rdma_destroy_id));
  rdma_destroy_event_channel(channel);
}

}  // namespace

void sweep_objects(Sweep& sweep, ibv_context* context, ibv_pd* pd) {
  sweep.of(maker(
      "ibv_open_device, once more", [] { return ibv_open_device(the_device()); }, ibv_close_device));
  sweep_memory(sweep, context, pd);
  sweep_queues(sweep, context, pd);
  sweep_changes(sweep, context, pd);
  sweep_flows(sweep, pd);
  sweep_connections(sweep);
}

}  // namespace verbs_test
