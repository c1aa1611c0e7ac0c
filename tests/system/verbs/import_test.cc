// Importing a device by its descriptor, and objects by their handles.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "verbs_fixture.h"

namespace {

using namespace verbs_test;

class ImportTest : public PairTest {
 protected:
  void SetUp() override {
    imported_ = ibv_import_device(dup(device()->cmd_fd));
    ASSERT_NE(imported_, nullptr);
  }
  void TearDown() override { EXPECT_EQ(ibv_close_device(imported_), 0); }

  ibv_context* imported_ = nullptr;
};

/// Sends a descriptor through a socket, as one process does to another, and receives it again.
int through_a_socket(int fd) {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends), 0);
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  char byte = 0;
  iovec piece{&byte, 1};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  *header = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  EXPECT_EQ(sendmsg(ends[0], &message, 0), 1);
  EXPECT_EQ(recvmsg(ends[1], &message, 0), 1);
  std::memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
  close(ends[0]);
  close(ends[1]);
  return fd;
}

TEST_F(ImportTest, AnImportedContextIsADeviceOfItsOwn) {
  EXPECT_NE(imported_, device());
  EXPECT_EQ(imported_->device, device()->device);
  EXPECT_NE(imported_->async_fd, device()->async_fd);
  ibv_device_attr attr;
  EXPECT_EQ(ibv_query_device(imported_, &attr), 0);
  const Owned<ibv_pd> pd(ibv_alloc_pd(imported_));
  EXPECT_NE(pd, nullptr);
}

TEST_F(ImportTest, ADescriptorThatWasPassedOn) {
  ibv_context* context = ibv_import_device(through_a_socket(device()->cmd_fd));
  ASSERT_NE(context, nullptr);
  ibv_pd* pd = ibv_import_pd(context, pd_->handle);
  ASSERT_NE(pd, nullptr);
  ibv_unimport_pd(pd);
  EXPECT_EQ(ibv_close_device(context), 0);
}

TEST_F(ImportTest, WhatIsNoDescriptorOfADevice) {
  EXPECT_EQ(ibv_import_device(-1), nullptr);
  EXPECT_EQ(errno, EINVAL);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  EXPECT_EQ(ibv_import_device(null), nullptr);
  EXPECT_EQ(errno, EINVAL);
  close(null);
}

/// Another process gets the descriptor, but not the objects.
TEST_F(ImportTest, AnotherProcessIsRefused) {
  const pid_t child = fork();
  if (child == 0) {
    errno = 0;
    const bool refused = ibv_import_device(dup(device()->cmd_fd)) == nullptr && errno == EOPNOTSUPP;
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

/// Two parts of a program share a domain and its regions.
TEST_F(ImportTest, ADomainAndARegionOfTheOtherContext) {
  make_pair();
  ibv_pd* pd = ibv_import_pd(imported_, pd_->handle);
  ASSERT_NE(pd, nullptr);
  EXPECT_EQ(pd->context, imported_);
  EXPECT_EQ(pd->handle, pd_->handle);
  ibv_mr* mr = ibv_import_mr(pd, b_.mr()->handle);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(mr->addr, nullptr);
  EXPECT_EQ(mr->length, b_.mr()->length);
  EXPECT_EQ(mr->lkey, b_.lkey());
  EXPECT_EQ(mr->rkey, b_.rkey());
  Buffer mine(pd, 64);  // made with the imported domain, used by a queue pair of the original context
  mine.fill(5);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma = {b_.addr(), mr->rkey};
  ASSERT_EQ(post_send(left_.get(), wr, mine.sge(0, 64)), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
  EXPECT_TRUE(std::equal(mine.data(), mine.data() + 64, b_.data()));
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kAllAccess), IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(errno, EINVAL);
  ibv_unimport_mr(mr);
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);  // it is the domain itself
  // The region still exists, and so does `mine`.
  ASSERT_EQ(post_send(left_.get(), wr, mine.sge(0, 64)), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
  mine = Buffer(pd_.get(), 8);
  ibv_unimport_pd(pd);
}

TEST_F(ImportTest, ARegionIsImportedAsItIsNow) {
  std::vector<uint8_t> bytes(128);
  const Owned<ibv_mr> mr(ibv_reg_mr(pd_.get(), bytes.data(), 64, kAllAccess));
  ASSERT_EQ(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, bytes.data(), 128, 0), 0);
  ibv_pd* const pd = ibv_import_pd(imported_, pd_->handle);
  ibv_mr* const import = ibv_import_mr(pd, mr->handle);
  ASSERT_NE(import, nullptr);
  EXPECT_EQ(import->length, 128u);
  ibv_unimport_mr(import);
  ibv_unimport_pd(pd);
}

/// Destroying an object through any context destroys it for all.
TEST_F(ImportTest, DestroyedThroughTheImport) {
  ibv_pd* original = ibv_alloc_pd(device());
  ibv_pd* import = ibv_import_pd(imported_, original->handle);
  uint8_t bytes[64];
  ibv_mr* mr = ibv_reg_mr(original, bytes, sizeof bytes, kAllAccess);
  ibv_mr* mr_import = ibv_import_mr(import, mr->handle);
  EXPECT_EQ(ibv_dereg_mr(mr_import), 0);
  EXPECT_EQ(ibv_dereg_mr(mr), ENOENT);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kAllAccess), IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(ibv_import_mr(import, mr->handle), nullptr);
  EXPECT_EQ(errno, ENOENT);
  ibv_unimport_mr(mr);
  EXPECT_EQ(ibv_dealloc_pd(import), 0);
  EXPECT_EQ(ibv_dealloc_pd(original), ENOENT);
  EXPECT_EQ(ibv_import_pd(imported_, original->handle), nullptr);
  EXPECT_EQ(errno, ENOENT);
  ibv_unimport_pd(original);
}

TEST_F(ImportTest, DeviceMemory) {
  ibv_alloc_dm_attr attr{256, 0, 0};
  ibv_dm* dm = ibv_alloc_dm(device(), &attr);
  ibv_dm* import = ibv_import_dm(imported_, dm->handle);
  ASSERT_NE(import, nullptr);
  const uint32_t word = 0x12345678;
  uint32_t out = 0;
  ASSERT_EQ(ibv_memcpy_to_dm(dm, 100, &word, 4), 0);
  ASSERT_EQ(ibv_memcpy_from_dm(&out, import, 100, 4), 0);
  EXPECT_EQ(out, word);
  EXPECT_EQ(ibv_free_dm(dm), 0);
  EXPECT_EQ(ibv_free_dm(import), ENOENT);
  EXPECT_EQ(ibv_import_dm(imported_, import->handle), nullptr);
  ibv_unimport_dm(import);
}

TEST_F(ImportTest, HandlesBelongToTheirFileAndKind) {
  ibv_context* stranger = ibv_open_device(device()->device);
  EXPECT_EQ(ibv_import_pd(stranger, pd_->handle), nullptr);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(ibv_import_pd(imported_, a_.mr()->handle), nullptr);
  EXPECT_EQ(ibv_import_mr(pd_.get(), pd_->handle), nullptr);
  EXPECT_EQ(ibv_import_dm(imported_, UINT32_MAX), nullptr);
  EXPECT_EQ(ibv_close_device(stranger), 0);
}

}  // namespace
