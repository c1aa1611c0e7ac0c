// Each request for memory fails in turn while a program opens the device, creates, and registers: what it asked for is
// refused with ENOMEM, or made all the same; nothing is lost, and the next try succeeds.
#include <dirent.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "failing_memory.h"

namespace {

using namespace verbs_test;

int failures = 0;

void complain(const char* what, long n, FailingMemory::Mode mode, const char* why) {
  std::fprintf(stderr, "%s, request %ld %s: %s\n", what, n,
               mode == FailingMemory::kOnce ? "fails" : "and all others fail", why);
  failures++;
}

long descriptors() {
  long count = 0;
  DIR* const directory = opendir("/proc/self/fd");
  while (readdir(directory) != nullptr) count++;
  closedir(directory);
  return count;
}

/// What is made, and how it is destroyed again. `make` returns null, with errno, when it cannot.
struct Maker {
  const char* name;
  std::function<void*()> make;
  std::function<int(void*)> destroy;
};

/// How the n-th failure ended.
enum class End { kNotReached, kRefused, kMade };

End try_once(const Maker& maker, long n, FailingMemory::Mode mode) {
  FailingMemory failing(n, mode);
  errno = 0;
  void* const made = maker.make();
  const int error = errno;
  failing.end();
  if (made == nullptr && !failing.failed()) complain(maker.name, n, mode, "refused with nothing missing");
  if (made == nullptr && error != ENOMEM) complain(maker.name, n, mode, std::strerror(error));
  if (made != nullptr && maker.destroy(made) != 0) complain(maker.name, n, mode, "cannot be destroyed");
  return !failing.failed() ? End::kNotReached : made != nullptr ? End::kMade : End::kRefused;
}

/// What stays behind for good stays behind once; what is lost with each try is a leak.
void expect_nothing_is_lost(const Maker& maker, long n, FailingMemory::Mode mode) {
  constexpr int kTries = 6;
  for (int i = 0; i < kTries; i++) {
    const int64_t pieces = pieces_in_use();
    const long fds = descriptors();
    const End end = try_once(maker, n, mode);
    if (failures != 0 || end == End::kNotReached) return;
    if (pieces_in_use() <= pieces && descriptors() <= fds) return;
  }
  complain(maker.name, n, mode, "something is lost each time");
}

/// Nor does what is made and destroyed cost anything, however often.
void expect_nothing_is_kept(const Maker& maker) {
  constexpr int kRounds = 100, kTries = 6;
  for (int i = 0; i < kTries && failures == 0; i++) {
    const int64_t pieces = pieces_in_use();
    const long fds = descriptors();
    for (int round = 0; round < kRounds; round++) try_once(maker, 0, FailingMemory::kOnce);
    if (pieces_in_use() < pieces + kRounds && descriptors() < fds + kRounds) return;
  }
  if (failures == 0) complain(maker.name, 0, {}, "is never given back");
}

void sweep(const Maker& maker) {
  for (const auto mode : {FailingMemory::kOnce, FailingMemory::kFromThenOn}) {
    for (long n = 1; failures == 0; n++) {
      if (try_once(maker, n, mode) == End::kNotReached) break;
      expect_nothing_is_lost(maker, n, mode);
    }
  }
  if (failures == 0 && try_once(maker, 0, FailingMemory::kOnce) != End::kNotReached)
    complain(maker.name, 0, {}, "broken");
  expect_nothing_is_kept(maker);
}

/// Where members were, others look at what they left. So that each try meets the same, it has a directory of its own.
void change_directory(int number) {
  static const std::string parent = std::getenv("UROCE_RUNTIME_DIR");
  const std::string own = parent + "/" + std::to_string(number);
  if (mkdir(own.c_str(), 0700) != 0 && errno != EEXIST) std::abort();
  setenv("UROCE_RUNTIME_DIR", own.c_str(), 1);
}

ibv_device* the_device() {
  static ibv_device* const device = [] {
    ibv_device** const list = ibv_get_device_list(nullptr);
    ibv_device* const first = list != nullptr ? list[0] : nullptr;
    ibv_free_device_list(list);
    return first;
  }();
  return device;
}

/// Opens with failures from number `n` on, until it opens. A process can do that once, so each `n` at which it opens
/// although something failed is the end of one. Exits with 1: go on behind `n`; 0: there is nothing more; 2: wrong.
void open_in_a_process(long n, FailingMemory::Mode mode, int result) {
  const Maker maker{"ibv_open_device", [] { return static_cast<void*>(ibv_open_device(the_device())); },
                    [](void* context) { return ibv_close_device(static_cast<ibv_context*>(context)); }};
  long lost = 0;  // tries in a row after which more was there than before
  for (;; n++) {
    change_directory(static_cast<int>(n));
    const int64_t pieces = pieces_in_use();
    const long fds = descriptors();
    const End end = try_once(maker, n, mode);
    if (failures != 0) _exit(2);
    if (end == End::kRefused) {
      lost = pieces_in_use() > pieces || descriptors() > fds ? lost + 1 : 0;
      if (lost > 20) complain(maker.name, n, mode, "something is lost each time");
      continue;
    }
    // It is as good as any other.
    ibv_context* const again = ibv_open_device(the_device());
    ibv_pd* const pd = again != nullptr ? ibv_alloc_pd(again) : nullptr;
    if (pd == nullptr || ibv_dealloc_pd(pd) != 0 || ibv_close_device(again) != 0)
      complain(maker.name, n, mode, "broken");
    if (write(result, &n, sizeof n) != sizeof n) failures++;
    _exit(failures != 0 ? 2 : end == End::kMade ? 1 : 0);
  }
}

void sweep_opening(FailingMemory::Mode mode) {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  int processes = 0;
  long n = 1;
  for (bool more = true; more; n++) {
    const pid_t child = fork();
    if (child == 0) open_in_a_process(n, mode, ends[1]);
    int status = -1;
    waitpid(child, &status, 0);
    processes++;
    if (!WIFEXITED(status) || WEXITSTATUS(status) > 1) {
      std::fprintf(stderr, "opening from request %ld on ended with %x\n", n, static_cast<unsigned>(status));
      failures++;
      break;
    }
    more = WEXITSTATUS(status) == 1;
    if (read(ends[0], &n, sizeof n) != sizeof n) std::abort();
  }
  std::printf("opening: %ld requests, %d processes\n", n - 1, processes);
}

template <typename T, typename Make>
Maker maker(const char* name, Make make, int (*destroy)(T*)) {
  return {name, [make] { return static_cast<void*>(make()); },
          [destroy](void* made) { return destroy(static_cast<T*>(made)); }};
}

/// What is done to something, with 0 or an errno, and undone again.
template <typename Do, typename Undo>
Maker change(const char* name, Do act, Undo undo) {
  return {name,
          [act]() -> void* {
            static char done;
            const int error = act();
            if (error != 0) errno = error;
            return error == 0 ? &done : nullptr;
          },
          [undo](void* /*done*/) { return undo(); }};
}

/// What the engine lends it has back: there is room for as many as the device says, beside those that are there.
void expect_room(const Maker& maker, int limit, int there) {
  std::vector<void*> all;
  while (void* const made = maker.make()) all.push_back(made);
  if (static_cast<int>(all.size()) + there != limit)
    complain(maker.name, static_cast<long>(all.size()), {}, "is all there is room for");
  for (void* const made : all) maker.destroy(made);
}

ibv_ah_attr own_address(ibv_context* context) {
  ibv_ah_attr attr{};
  attr.is_global = 1;
  ibv_query_gid(context, 1, 1, &attr.grh.dgid);
  attr.grh.sgid_index = 1;
  attr.port_num = 1;
  return attr;
}

void sweep_memory(ibv_context* context, ibv_pd* pd) {
  ibv_device_attr limits{};
  ibv_query_device(context, &limits);
  static uint8_t buffer[8192];
  constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND;
  sweep(maker(
      "ibv_alloc_pd", [=] { return ibv_alloc_pd(context); }, ibv_dealloc_pd));
  sweep(maker(
      "ibv_reg_mr", [=] { return ibv_reg_mr(pd, buffer, sizeof buffer, kAccess); }, ibv_dereg_mr));
  sweep(maker(
      "ibv_reg_mr, on demand", [=] { return ibv_reg_mr(pd, buffer, 4096, IBV_ACCESS_ON_DEMAND); }, ibv_dereg_mr));
  sweep(maker(
      "ibv_alloc_null_mr", [=] { return ibv_alloc_null_mr(pd); }, ibv_dereg_mr));
  sweep(maker(
      "ibv_alloc_mw", [=] { return ibv_alloc_mw(pd, IBV_MW_TYPE_2); }, ibv_dealloc_mw));
  ibv_alloc_dm_attr dm_attr{4096, 0, 0};
  sweep(maker(
      "ibv_alloc_dm", [&] { return ibv_alloc_dm(context, &dm_attr); }, ibv_free_dm));
  ibv_dm* const dm = ibv_alloc_dm(context, &dm_attr);
  sweep(maker(
      "ibv_reg_dm_mr", [=] { return ibv_reg_dm_mr(pd, dm, 0, 64, IBV_ACCESS_ZERO_BASED); }, ibv_dereg_mr));
  ibv_ah_attr address = own_address(context);
  sweep(maker(
      "ibv_create_ah", [&] { return ibv_create_ah(pd, &address); }, ibv_destroy_ah));
  // For this question an address handle is made, and a domain for it.
  sweep(maker(
      "ibv_resolve_eth_l2_from_gid",
      [&] {
        static uint8_t mac[6];
        const int error = ibv_resolve_eth_l2_from_gid(context, &address, mac, nullptr);
        if (error != 0) errno = error;
        return error == 0 ? mac : nullptr;
      },
      +[](uint8_t* /*mac*/) { return 0; }));
  expect_room(maker(
                  "ibv_alloc_pd", [=] { return ibv_alloc_pd(context); }, ibv_dealloc_pd),
              limits.max_pd, 1);
  expect_room(maker(
                  "ibv_reg_mr", [=] { return ibv_reg_mr(pd, buffer, 1, kAccess); }, ibv_dereg_mr),
              limits.max_mr, 0);
  if (ibv_free_dm(dm) != 0) complain("ibv_free_dm", 0, {}, "busy");
  ibv_td_init_attr td_attr{};
  sweep(maker(
      "ibv_alloc_td", [&] { return ibv_alloc_td(context, &td_attr); }, ibv_dealloc_td));
  ibv_parent_domain_init_attr parent{};
  parent.pd = pd;
  sweep(maker(
      "ibv_alloc_parent_domain", [&] { return ibv_alloc_parent_domain(context, &parent); }, ibv_dealloc_pd));
}

void sweep_queues(ibv_context* context, ibv_pd* pd) {
  sweep(maker(
      "ibv_create_comp_channel", [=] { return ibv_create_comp_channel(context); }, ibv_destroy_comp_channel));
  ibv_comp_channel* const channel = ibv_create_comp_channel(context);
  sweep(maker(
      "ibv_create_cq", [=] { return ibv_create_cq(context, 64, nullptr, channel, 0); }, ibv_destroy_cq));
  ibv_cq_init_attr_ex extended{};
  extended.cqe = 16;
  sweep(maker(
      "ibv_create_cq_ex", [&] { return ibv_cq_ex_to_cq(ibv_create_cq_ex(context, &extended)); }, ibv_destroy_cq));
  ibv_cq* const cq = ibv_create_cq(context, 64, nullptr, channel, 0);
  ibv_srq_init_attr srq_attr{nullptr, {8, 1, 0}};
  sweep(maker(
      "ibv_create_srq", [&] { return ibv_create_srq(pd, &srq_attr); }, ibv_destroy_srq));
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_RAW_PACKET}) {
    ibv_qp_init_attr_ex attr{};
    attr.send_cq = attr.recv_cq = cq;
    attr.cap = {16, 16, 2, 2, 64};
    attr.qp_type = type;
    attr.pd = pd;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
    sweep(maker(
        "ibv_create_qp_ex",
        [=] {
          ibv_qp_init_attr_ex own = attr;
          return ibv_create_qp_ex(context, &own);
        },
        ibv_destroy_qp));
  }
  ibv_wq_init_attr wq_attr{};
  wq_attr.wq_type = IBV_WQT_RQ;
  wq_attr.max_wr = 8;
  wq_attr.max_sge = 1;
  wq_attr.pd = pd;
  wq_attr.cq = cq;
  sweep(maker(
      "ibv_create_wq", [&] { return ibv_create_wq(context, &wq_attr); }, ibv_destroy_wq));
  ibv_xrcd_init_attr xrcd_attr{IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, -1, O_CREAT};
  sweep(maker(
      "ibv_open_xrcd", [&] { return ibv_open_xrcd(context, &xrcd_attr); }, ibv_close_xrcd));
  xrcd_attr.fd = memfd_create("a domain's file", MFD_CLOEXEC);
  sweep(maker(
      "ibv_open_xrcd, of a file", [&] { return ibv_open_xrcd(context, &xrcd_attr); }, ibv_close_xrcd));
  close(xrcd_attr.fd);
  if (ibv_destroy_cq(cq) != 0 || ibv_destroy_comp_channel(channel) != 0) complain("the rest", 0, {}, "busy");
}

int reset(ibv_qp* qp) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RESET;
  return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

/// To itself.
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

void sweep_changes(ibv_context* context, ibv_pd* pd) {
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
  sweep(change(
      "ibv_modify_qp", [=] { return connect(connected, address); }, [=] { return reset(connected); }));
  ibv_gid group{};
  group.raw[0] = 0xff;
  group.raw[1] = 0x0e;
  group.raw[15] = 9;
  sweep(change(
      "ibv_attach_mcast", [&] { return ibv_attach_mcast(datagrams, &group, 0); },
      [&] { return ibv_detach_mcast(datagrams, &group, 0); }));
  sweep(change(
      "ibv_resize_cq", [=] { return ibv_resize_cq(cq, 1000); }, [=] { return ibv_resize_cq(cq, 64); }));
  const auto resize_srq = [=](uint32_t entries) {
    ibv_srq_attr attr{entries, 0, 0};
    return ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR);
  };
  sweep(change(
      "ibv_modify_srq", [=] { return resize_srq(1000); }, [=] { return resize_srq(8); }));
  const auto rereg = [=](int access) {
    return ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, access) == 0 ? 0 : errno;
  };
  sweep(change(
      "ibv_rereg_mr", [=] { return rereg(0); }, [=] { return rereg(IBV_ACCESS_LOCAL_WRITE); }));
  if (ibv_dereg_mr(mr) != 0 || ibv_destroy_qp(connected) != 0 || ibv_destroy_qp(datagrams) != 0 ||
      ibv_destroy_srq(srq) != 0 || ibv_destroy_cq(cq) != 0)
    complain("what was changed", 0, {}, "busy");
}

int destroy_channel(rdma_event_channel* channel) {
  rdma_destroy_event_channel(channel);
  return 0;
}

void sweep_connections() {
  rdma_event_channel* const channel = rdma_create_event_channel();
  sweep(maker(
      "rdma_create_event_channel", [] { return rdma_create_event_channel(); }, destroy_channel));
  sweep(maker(
      "rdma_create_id",
      [=] {
        rdma_cm_id* id = nullptr;
        return rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) == 0 ? id : nullptr;
      },
      rdma_destroy_id));
  rdma_destroy_event_channel(channel);
}

}  // namespace

/// `short`: without what takes a process for each request. `NUMBER once` or `NUMBER all`: only opens, from this request
/// on.
int main(int argc, char** argv) {
  if (the_device() == nullptr) return 1;
  if (argc == 3) {
    const bool once = std::strcmp(argv[2], "once") == 0;
    open_in_a_process(std::atol(argv[1]), once ? FailingMemory::kOnce : FailingMemory::kFromThenOn, STDOUT_FILENO);
  }
  if (argc == 1) sweep_opening(FailingMemory::kOnce);
  sweep_opening(FailingMemory::kFromThenOn);
  ibv_context* const context = ibv_open_device(the_device());
  ibv_pd* const pd = ibv_alloc_pd(context);
  sweep(maker(
      "ibv_open_device, once more", [] { return ibv_open_device(the_device()); }, ibv_close_device));
  sweep_memory(context, pd);
  sweep_queues(context, pd);
  sweep_changes(context, pd);
  sweep_connections();
  if (ibv_dealloc_pd(pd) != 0 || ibv_close_device(context) != 0) complain("the rest", 0, {}, "busy");
  return failures == 0 ? 0 : 1;
}
