// A verbs program whose thread does not come out of the engine: the page that it is to send is on its way for ever, as
// from a file system that hangs. When its standard input ends the page comes, and the program ends well.
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <thread>

namespace {

constexpr int kNotHere = 77;
constexpr size_t kPage = 4096;

/// What `work` uses is missing from now on: a thread that reads it waits for `bring`.
class MissingPage {
 public:
  bool take_away(void* page) {
    fd_ = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC));
    uffdio_api api{UFFD_API, 0, 0};
    range_ = {reinterpret_cast<uint64_t>(page), kPage};
    uffdio_register wanted{range_, UFFDIO_REGISTER_MODE_MISSING, 0};
    return fd_ >= 0 && ioctl(fd_, UFFDIO_API, &api) == 0 && madvise(page, kPage, MADV_DONTNEED) == 0 &&
           ioctl(fd_, UFFDIO_REGISTER, &wanted) == 0;
  }
  bool bring() {
    uffdio_zeropage zero{range_, 0, 0};
    return ioctl(fd_, UFFDIO_ZEROPAGE, &zero) == 0;
  }

 private:
  int fd_ = -1;
  uffdio_range range_{};
};

/// A queue pair that is connected to itself.
struct Loop {
  ibv_context* context;
  ibv_pd* pd;
  ibv_cq* cq;
  ibv_qp* qp;

  explicit Loop(ibv_device* device)
      : context(ibv_open_device(device)),
        pd(ibv_alloc_pd(context)),
        cq(ibv_create_cq(context, 4, nullptr, nullptr, 0)) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.cap = {4, 4, 1, 1, 0};
    init.qp_type = IBV_QPT_RC;
    qp = ibv_create_qp(pd, &init);
  }
  bool connect() {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0)
      return false;
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = qp->qp_num;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.hop_limit = 64;
    attr.min_rnr_timer = 12;
    if (ibv_query_gid(context, 1, 0, &attr.ah_attr.grh.dgid) != 0) return false;
    if (ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0) {
      return false;
    }
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = 7;
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                             IBV_QP_MAX_QP_RD_ATOMIC) == 0;
  }
  /// Writes the region's first half to its second. True when that worked.
  bool write(const ibv_mr& region) {
    ibv_sge sge{reinterpret_cast<uint64_t>(region.addr), kPage, region.lkey};
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = sge.addr + kPage;
    wr.wr.rdma.rkey = region.rkey;
    ibv_send_wr* bad = nullptr;
    ibv_wc wc{};
    if (ibv_post_send(qp, &wr, &bad) != 0) return false;
    int found = 0;
    while (found == 0) found = ibv_poll_cq(cq, 1, &wc);
    return found == 1 && wc.status == IBV_WC_SUCCESS;
  }
};

}  // namespace

int main() {
  ibv_device** list = ibv_get_device_list(nullptr);
  if (list == nullptr || list[0] == nullptr) return 1;
  Loop loop(list[0]);
  void* memory = mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ibv_mr* region = ibv_reg_mr(loop.pd, memory, 2 * kPage, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  if (region == nullptr || !loop.connect()) return 2;
  MissingPage page;
  if (!page.take_away(memory)) {
    std::perror("userfaultfd");
    return kNotHere;
  }
  bool written = false;
  std::thread stuck([&] { written = loop.write(*region); });
  std::puts("posting");
  std::fflush(stdout);
  char end;
  while (read(STDIN_FILENO, &end, 1) > 0) {
  }
  if (!page.bring()) return 3;
  stuck.join();
  std::puts(written ? "done" : "failed");
  return written ? 0 : 4;
}
