// What a parent has made with the device before it forks, and a child that tries to use all of it.
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <string>

template <typename F>
F verbs(const char* name, const char* version = "IBVERBS_1.1") {
  return reinterpret_cast<F>(dlvsym(RTLD_DEFAULT, name, version));
}

inline const auto get_list = verbs<decltype(&ibv_get_device_list)>("ibv_get_device_list");
inline const auto get_guid = verbs<decltype(&ibv_get_device_guid)>("ibv_get_device_guid");
inline const auto open_device = verbs<decltype(&ibv_open_device)>("ibv_open_device");
inline const auto close_device = verbs<decltype(&ibv_close_device)>("ibv_close_device");
inline const auto alloc_pd = verbs<decltype(&ibv_alloc_pd)>("ibv_alloc_pd");
inline const auto dealloc_pd = verbs<decltype(&ibv_dealloc_pd)>("ibv_dealloc_pd");

inline int exit_status(pid_t child) {
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + status;
}

/// All that a parent may have made before it forks.
struct Inherited {
  ibv_device** list = get_list(nullptr);
  ibv_context* context = open_device(list[0]);
  ibv_pd* pd = alloc_pd(context);
  ibv_comp_channel* channel =
      verbs<decltype(&ibv_create_comp_channel)>("ibv_create_comp_channel", "IBVERBS_1.0")(context);
  ibv_cq* cq = verbs<decltype(&ibv_create_cq)>("ibv_create_cq")(context, 8, nullptr, channel, 0);
  ibv_cq_ex* cq_ex;
  ibv_srq* srq;
  ibv_qp* qp;
  ibv_qp* qp_ex;
  ibv_mw* mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
  ibv_mr* mr = verbs<ibv_mr* (*)(ibv_pd*, void*, size_t, int)>("ibv_reg_mr")(pd, this, 1, 0);
  ibv_ah_attr address{};
  ibv_ah* ah;
  ibv_dm* dm;
  ibv_td* td;
  ibv_pd* parent_domain;
  ibv_xrcd* xrcd;

  Inherited() {
    ibv_cq_init_attr_ex cq_attr{};
    cq_attr.cqe = 8;
    cq_ex = ibv_create_cq_ex(context, &cq_attr);
    ibv_srq_init_attr srq_attr{};
    srq_attr.attr = {8, 1, 0};
    srq = verbs<decltype(&ibv_create_srq)>("ibv_create_srq")(pd, &srq_attr);
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = cq;
    attr.cap = {8, 8, 1, 1, 0};
    attr.qp_type = IBV_QPT_UD;
    qp = verbs<decltype(&ibv_create_qp)>("ibv_create_qp")(pd, &attr);
    ibv_qp_init_attr_ex extended{};
    extended.send_cq = extended.recv_cq = cq;
    extended.cap = {8, 8, 1, 1, 0};
    extended.qp_type = IBV_QPT_UD;
    extended.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    extended.pd = pd;
    extended.send_ops_flags = IBV_QP_EX_WITH_SEND;
    qp_ex = ibv_create_qp_ex(context, &extended);
    make_the_rest();
  }
  bool whole() const {
    return cq != nullptr && cq_ex != nullptr && srq != nullptr && qp != nullptr && qp_ex != nullptr && mw != nullptr &&
           mr != nullptr && ah != nullptr && dm != nullptr && td != nullptr && parent_domain != nullptr &&
           xrcd != nullptr;
  }

 private:
  void make_the_rest() {
    verbs<decltype(&ibv_query_gid)>("ibv_query_gid")(context, 1, 1, &address.grh.dgid);
    address.is_global = 1;
    address.grh.sgid_index = 1;
    address.port_num = 1;
    ah = verbs<decltype(&ibv_create_ah)>("ibv_create_ah")(pd, &address);
    ibv_alloc_dm_attr dm_attr{64, 0, 0};
    dm = ibv_alloc_dm(context, &dm_attr);
    ibv_td_init_attr td_attr{};
    td = ibv_alloc_td(context, &td_attr);
    ibv_parent_domain_init_attr domain{};
    domain.pd = pd;
    parent_domain = ibv_alloc_parent_domain(context, &domain);
    ibv_xrcd_init_attr xrcd_attr{};
    xrcd_attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    xrcd_attr.fd = -1;
    xrcd_attr.oflags = O_CREAT;
    xrcd = ibv_open_xrcd(context, &xrcd_attr);
  }
};

/// Runs `f` in a child. Returns what it printed on stderr, and sets its exit status.
inline std::string said_by_child(const std::function<int()>& f, int& status) {
  int err[2];
  EXPECT_EQ(pipe(err), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(err[1], STDERR_FILENO);
    close(err[0]);
    close(err[1]);
    std::exit(f());
  }
  close(err[1]);
  std::string text;
  char part[512];
  for (ssize_t n; (n = read(err[0], part, sizeof part)) > 0;) text.append(part, static_cast<size_t>(n));
  close(err[0]);
  status = exit_status(child);
  return text;
}

/// As below, from 50 on.
inline int use_the_rest_in_child(Inherited& i) {
  int step = 50;
  const auto refused = [&step](int result) {
    step++;
    return result == ENODEV;
  };
  uint8_t mac[6];
  char bytes[8];
  ibv_wc wc{};
  ibv_grh grh{};
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  ibv_srq_attr srq{};
  ibv_gid group{};
  if (!refused(verbs<decltype(&ibv_resolve_eth_l2_from_gid)>("ibv_resolve_eth_l2_from_gid")(i.context, &i.address, mac,
                                                                                            nullptr)))
    return step;
  wc.wc_flags = IBV_WC_GRH;
  errno = 0;
  const int from_wc = verbs<decltype(&ibv_init_ah_from_wc)>("ibv_init_ah_from_wc")(i.context, 1, &wc, &grh, &i.address);
  if (!refused(from_wc == -1 ? errno : 0)) return step;
  if (!refused(verbs<decltype(&ibv_query_qp)>("ibv_query_qp")(i.qp, &attr, 0, &init))) return step;
  if (!refused(verbs<decltype(&ibv_query_srq)>("ibv_query_srq")(i.srq, &srq))) return step;
  if (!refused(verbs<decltype(&ibv_modify_srq)>("ibv_modify_srq")(i.srq, &srq, 0))) return step;
  if (!refused(verbs<decltype(&ibv_attach_mcast)>("ibv_attach_mcast")(i.qp, &group, 0))) return step;
  if (!refused(verbs<decltype(&ibv_detach_mcast)>("ibv_detach_mcast")(i.qp, &group, 0))) return step;
  if (!refused(ibv_memcpy_from_dm(bytes, i.dm, 0, sizeof bytes))) return step;
  if (!refused(ibv_memcpy_to_dm(i.dm, 0, bytes, sizeof bytes))) return step;
  return 0;
}

/// Uses inherited objects in every way. Returns the number of the first use that was not refused, or 0.
inline int use_all_in_child(Inherited& i) {
  int step = 0;
  const auto refused = [&step](int result) {
    step++;
    return result == ENODEV;
  };
  const auto none = [&step](const void* result) {
    step++;
    const bool good = result == nullptr && errno == ENODEV;
    errno = 0;
    return good;
  };
  ibv_send_wr send{};
  send.opcode = IBV_WR_SEND;
  ibv_send_wr* bad_send = nullptr;
  ibv_recv_wr receive{};
  ibv_recv_wr* bad_receive = nullptr;
  ibv_wc wc;
  ibv_poll_cq_attr poll{};
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  ibv_cq* event_cq;
  void* event_context;
  ibv_async_event event;
  ibv_qp_ex* const extended = verbs<decltype(&ibv_qp_to_qp_ex)>("ibv_qp_to_qp_ex", "IBVERBS_1.6")(i.qp_ex);
  ibv_wr_start(extended);
  ibv_mw_bind bind{};
  char byte;
  if (!refused(ibv_post_send(i.qp, &send, &bad_send)) || bad_send != &send) return step;
  if (!refused(ibv_post_recv(i.qp, &receive, &bad_receive)) || bad_receive != &receive) return step;
  if (!refused(ibv_post_srq_recv(i.srq, &receive, &bad_receive))) return step;
  if (!refused(ibv_wr_complete(extended))) return step;
  if (!refused(-ibv_poll_cq(i.cq, 1, &wc))) return step;
  if (!refused(ibv_start_poll(i.cq_ex, &poll))) return step;
  if (!refused(ibv_req_notify_cq(i.cq, 0))) return step;
  if (!refused(ibv_bind_mw(i.qp, i.mw, &bind))) return step;
  if (!refused(verbs<decltype(&ibv_modify_qp)>("ibv_modify_qp")(i.qp, &attr, IBV_QP_STATE))) return step;
  if (!refused(verbs<decltype(&ibv_resize_cq)>("ibv_resize_cq")(i.cq, 16))) return step;
  if (!refused(verbs<decltype(&ibv_get_cq_event)>("ibv_get_cq_event")(i.channel, &event_cq, &event_context) == -1
                   ? errno
                   : 0))
    return step;
  if (!refused(verbs<decltype(&ibv_get_async_event)>("ibv_get_async_event")(i.context, &event) == -1 ? errno : 0))
    return step;
  errno = 0;
  if (!none(alloc_pd(i.context))) return step;
  if (!none(verbs<ibv_mr* (*)(ibv_pd*, void*, size_t, int)>("ibv_reg_mr")(i.pd, &byte, 1, 0))) return step;
  if (!none(ibv_alloc_mw(i.pd, IBV_MW_TYPE_1))) return step;
  if (!none(verbs<decltype(&ibv_create_cq)>("ibv_create_cq")(i.context, 8, nullptr, nullptr, 0))) return step;
  ibv_srq_init_attr srq_attr{};
  srq_attr.attr = {8, 1, 0};
  if (!none(verbs<decltype(&ibv_create_srq)>("ibv_create_srq")(i.pd, &srq_attr))) return step;
  ibv_ah_attr ah{};
  if (!none(verbs<decltype(&ibv_create_ah)>("ibv_create_ah")(i.pd, &ah))) return step;
  return use_the_rest_in_child(i);
}
