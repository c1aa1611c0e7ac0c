// XRC: domains, by number and by file, and what is made in them.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "xrc_fixture.h"

namespace verbs_test {
namespace {

/// A file of its own.
class File {
 public:
  File() {
    char path[] = "/tmp/xrc_test_XXXXXX";
    fd_ = mkstemp(path);
    path_ = path;
  }
  ~File() {
    close(fd_);
    unlink(path_.c_str());
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }
  const std::string& path() const { return path_; }

 private:
  int fd_ = -1;
  std::string path_;
};

// Domains.

TEST_F(XrcTest, TheDeviceSaysSo) {
  ibv_device_attr attr;
  ASSERT_EQ(ibv_query_device(device(), &attr), 0);
  EXPECT_NE(attr.device_cap_flags & IBV_DEVICE_XRC, 0u);
}

TEST_F(XrcTest, OpeningADomainTakesAllItsAttributes) {
  ASSERT_NE(xrcd_, nullptr);
  EXPECT_EQ(xrcd_->context, device());
  ibv_xrcd_init_attr attr{};
  attr.fd = -1;
  attr.oflags = O_CREAT;
  for (const unsigned mask : {0u, 1u, 2u}) {
    attr.comp_mask = mask;
    expect_refused(ibv_open_xrcd(device(), &attr), EINVAL);
  }
  attr.comp_mask = 7;
  expect_refused(ibv_open_xrcd(device(), &attr), EOPNOTSUPP);
  expect_refused(open_xrcd(-1, O_CREAT | O_APPEND), EINVAL);
  expect_refused(open_xrcd(1000), EBADF);
}

TEST_F(XrcTest, ADomainByFile) {
  const File file;
  expect_refused(open_xrcd(file.fd(), 0), EAGAIN);  // there is none yet
  OwnedXrcd first(open_xrcd(file.fd(), O_CREAT | O_EXCL));
  ASSERT_NE(first, nullptr);
  expect_refused(open_xrcd(file.fd(), O_CREAT | O_EXCL), EINVAL);
  const int again = open(file.path().c_str(), O_RDONLY);
  OwnedXrcd second(open_xrcd(again, 0));  // another descriptor for the same inode
  close(again);
  ASSERT_NE(second, nullptr);
  // An object made with one handle belongs to the other, too.
  Owned<ibv_srq> queue = make_queue(pd_.get(), first.get(), recv_cq_.get());
  post_to(queue, 4, b_.sge(0, 64));
  QpOptions options;
  options.type = IBV_QPT_XRC_SEND;
  left_ = make_qp(pd_.get(), cq_.get(), nullptr, options);
  right_.reset(create_target(second.get()));
  to_init(right_.get());
  connect(left_.get(), right_->qp_num);
  connect(right_.get(), left_->qp_num);
  EXPECT_EQ(status_of_send(number_of(queue)), IBV_WC_SUCCESS);
  EXPECT_EQ(poll(recv_cq_.get(), 1)[0].wr_id, 4u);
  right_.reset();
  queue.reset();
  first.reset();
  second.reset();
  expect_refused(open_xrcd(file.fd(), 0), EAGAIN);  // gone with its last handle
}

/// The child opens the device and the file itself; each process has a domain of its own.
TEST_F(XrcTest, AFileInTwoProcesses) {
  const File file;
  OwnedXrcd here(open_xrcd(file.fd()));
  ASSERT_NE(here, nullptr);
  const pid_t child = fork();
  if (child == 0) {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    ibv_context* const context = list != nullptr && count == 1 ? ibv_open_device(list[0]) : nullptr;
    if (context == nullptr) _exit(2);
    ibv_xrcd_init_attr attr{};
    attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    attr.fd = file.fd();
    attr.oflags = O_CREAT | O_EXCL;
    if (ibv_open_xrcd(context, &attr) != nullptr || errno != EINVAL) _exit(3);
    attr.oflags = 0;  // the parent made it
    ibv_xrcd* const xrcd = ibv_open_xrcd(context, &attr);
    if (xrcd == nullptr) _exit(4);
    _exit(ibv_close_xrcd(xrcd) == 0 ? 0 : 5);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

/// A process that only asked for a domain has claimed nothing: another process may make it.
TEST_F(XrcTest, AFileThatWasOnlyAskedForIsNobodys) {
  const File file;
  expect_refused(open_xrcd(file.fd(), 0), EAGAIN);
  const pid_t child = fork();
  if (child == 0) {
    ibv_device** list = ibv_get_device_list(nullptr);
    ibv_context* const context = list != nullptr ? ibv_open_device(list[0]) : nullptr;
    if (context == nullptr) _exit(2);
    ibv_xrcd_init_attr attr{IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, file.fd(), O_CREAT | O_EXCL};
    ibv_xrcd* const xrcd = ibv_open_xrcd(context, &attr);
    if (xrcd == nullptr) _exit(3);
    _exit(ibv_close_xrcd(xrcd) == 0 ? 0 : 4);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  // The child's domain was removed with it.
  expect_refused(open_xrcd(file.fd(), 0), EAGAIN);
  const OwnedXrcd here(open_xrcd(file.fd(), O_CREAT | O_EXCL));
  EXPECT_NE(here, nullptr);
}

/// The claim ends with the last handle, not with the process: another one may make the domain then, and not before.
TEST_F(XrcTest, AFileIsNobodysAfterTheLastHandle) {
  const File file;
  const auto made_elsewhere = [&] {
    const pid_t child = fork();
    if (child == 0) {
      ibv_device** list = ibv_get_device_list(nullptr);
      ibv_context* const context = list != nullptr ? ibv_open_device(list[0]) : nullptr;
      if (context == nullptr) _exit(2);
      ibv_xrcd_init_attr attr{IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, file.fd(), O_CREAT | O_EXCL};
      ibv_xrcd* const xrcd = ibv_open_xrcd(context, &attr);
      if (xrcd == nullptr) _exit(errno == EINVAL ? 1 : 3);
      _exit(ibv_close_xrcd(xrcd) == 0 ? 0 : 4);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  OwnedXrcd first(open_xrcd(file.fd()));
  OwnedXrcd second(open_xrcd(file.fd()));
  EXPECT_EQ(made_elsewhere(), 1);
  first.reset();
  EXPECT_EQ(made_elsewhere(), 1);
  second.reset();
  EXPECT_EQ(made_elsewhere(), 0);
}

/// A file for which no domain is left is not held open, and not claimed.
TEST_F(XrcTest, ThereAreOnlySoManyDomains) {
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  const File file;
  std::vector<OwnedXrcd> all;
  while (ibv_xrcd* const one = open_xrcd()) all.emplace_back(one);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_GT(all.size(), 100u);
  const auto before = descriptors();
  for (int i = 0; i < 3; i++) expect_refused(open_xrcd(file.fd(), O_CREAT | O_EXCL), ENOMEM);
  EXPECT_EQ(descriptors(), before);
  all.pop_back();
  expect_refused(open_xrcd(file.fd(), 0), EAGAIN);
  const OwnedXrcd last(open_xrcd(file.fd(), O_CREAT | O_EXCL));
  EXPECT_NE(last, nullptr);
}

TEST_F(XrcTest, WhatIsInUseStays) {
  Owned<ibv_srq> queue = make_queue();
  EXPECT_EQ(ibv_close_xrcd(xrcd_.get()), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(recv_cq_.get()), EBUSY);
  queue.reset();
  Owned<ibv_qp> target(create_target(xrcd_.get()));
  EXPECT_EQ(ibv_close_xrcd(xrcd_.get()), EBUSY);
}

// Objects.

TEST_F(XrcTest, AQueueTakesADomainAndACompletionQueue) {
  for (const uint32_t missing : {IBV_SRQ_INIT_ATTR_PD, IBV_SRQ_INIT_ATTR_XRCD, IBV_SRQ_INIT_ATTR_CQ}) {
    ibv_srq_init_attr_ex attr = queue_attributes(pd_.get(), xrcd_.get(), recv_cq_.get());
    attr.comp_mask &= ~missing;
    expect_refused(ibv_create_srq_ex(device(), &attr), EINVAL);
  }
  for (int null = 0; null < 3; null++) {
    ibv_srq_init_attr_ex attr = queue_attributes(null == 0 ? nullptr : pd_.get(), null == 1 ? nullptr : xrcd_.get(),
                                                 null == 2 ? nullptr : recv_cq_.get());
    expect_refused(ibv_create_srq_ex(device(), &attr), EINVAL);
  }
  ibv_srq_init_attr_ex attr = queue_attributes(pd_.get(), xrcd_.get(), recv_cq_.get());
  attr.srq_type = IBV_SRQT_BASIC;
  expect_refused(ibv_create_srq_ex(device(), &attr), EOPNOTSUPP);
}

TEST_F(XrcTest, OnlyQueuesOfXrcHaveNumbers) {
  Owned<ibv_srq> first = make_queue();
  Owned<ibv_srq> second = make_queue();
  EXPECT_NE(number_of(first), number_of(second));
  ibv_srq_init_attr attr{};
  attr.attr = {8, 1, 0};
  Owned<ibv_srq> plain(ibv_create_srq(pd_.get(), &attr));
  uint32_t number = 0;
  EXPECT_EQ(ibv_get_srq_num(plain.get(), &number), EINVAL);
  // An ordinary queue pair may not use an XRC one, either.
  ibv_qp_init_attr init{};
  init.qp_type = IBV_QPT_RC;
  init.send_cq = init.recv_cq = cq_.get();
  init.srq = first.get();
  init.cap = {1, 0, 1, 0, 0};
  expect_refused(ibv_create_qp(pd_.get(), &init), EINVAL);
}

TEST_F(XrcTest, ATargetTakesADomain) {
  ibv_qp_init_attr_ex attr{};
  attr.qp_type = IBV_QPT_XRC_RECV;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
  attr.pd = pd_.get();
  expect_refused(ibv_create_qp_ex(device(), &attr), EINVAL);
  attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  expect_refused(ibv_create_qp_ex(device(), &attr), EINVAL);
  ibv_qp_init_attr plain{};
  plain.qp_type = IBV_QPT_XRC_RECV;
  plain.send_cq = plain.recv_cq = cq_.get();
  expect_refused(ibv_create_qp(pd_.get(), &plain), EINVAL);
}

TEST_F(XrcTest, AnInitiatorHasNoReceives) {
  QpOptions options;
  options.type = IBV_QPT_XRC_SEND;
  Owned<ibv_qp> qp = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), options);
  EXPECT_EQ(post_recv(qp.get(), 1, a_.sge(0, 4)), EINVAL);
  ibv_qp_attr attr;
  ibv_qp_init_attr init;
  ASSERT_EQ(ibv_query_qp(qp.get(), &attr, IBV_QP_CAP, &init), 0);
  EXPECT_EQ(init.qp_type, IBV_QPT_XRC_SEND);
  EXPECT_EQ(init.cap.max_recv_wr, 0u);
  EXPECT_EQ(init.recv_cq, nullptr);
  EXPECT_GE(init.cap.max_send_wr, options.max_wr);
}

TEST_F(XrcTest, AnInitiatorHasNoOperationsOfPlacement) {
  ibv_qp_init_attr_ex attr{};
  attr.qp_type = IBV_QPT_XRC_SEND;
  attr.send_cq = cq_.get();
  attr.pd = pd_.get();
  attr.cap = {4, 0, 1, 0, 0};
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attr.send_ops_flags = IBV_QP_EX_WITH_ATOMIC_WRITE;
  expect_refused(ibv_create_qp_ex(device(), &attr), EOPNOTSUPP);
  attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
  Owned<ibv_qp> qp(ibv_create_qp_ex(device(), &attr));
  EXPECT_NE(qp, nullptr);
}

TEST_F(XrcTest, ATargetHasNoQueuesAtAll) {
  Owned<ibv_qp> qp(create_target(xrcd_.get()));
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(qp->qp_context, this);
  to_init(qp.get());
  connect(qp.get(), 0x123);
  EXPECT_EQ(post_recv(qp.get(), 1, a_.sge(0, 4)), EINVAL);
  EXPECT_EQ(post_send(qp.get(), to_queue(IBV_WR_SEND, 1), a_.sge(0, 4)), EINVAL);
  ibv_qp_attr attr;
  ibv_qp_init_attr init;
  ASSERT_EQ(ibv_query_qp(qp.get(), &attr, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(attr.dest_qp_num, 0x123u);
  EXPECT_EQ(init.qp_type, IBV_QPT_XRC_RECV);
  EXPECT_EQ(init.cap.max_send_wr, 0u);
}

}  // namespace
}  // namespace verbs_test
