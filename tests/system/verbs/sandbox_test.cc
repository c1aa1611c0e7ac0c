// A service in a sandbox that has no netlink, as systemd's RestrictAddressFamilies makes it: the device is there all
// the same. libc asks for the names of interfaces through netlink, so none is known.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>

namespace {

bool deny_netlink() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{std::size(program), program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST(Sandbox, WithoutNetlinkTheDeviceIsThere) {
  ASSERT_TRUE(deny_netlink());
  ASSERT_EQ(if_nameindex(), nullptr);
  ASSERT_EQ(errno, EAFNOSUPPORT);
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  ASSERT_NE(list, nullptr);
  ASSERT_EQ(count, 1);
  ibv_context* const context = ibv_open_device(list[0]);
  ASSERT_NE(context, nullptr);
  ibv_free_device_list(list);
  // An address that the program leases, since it knows none of the machine's.
  ibv_gid gid{};
  EXPECT_EQ(ibv_query_gid(context, 1, 1, &gid), 0);
  EXPECT_EQ(gid.raw[12], 198);
  EXPECT_EQ(ibv_close_device(context), 0);
}

}  // namespace
