// A service in a sandbox that has no netlink, as systemd's RestrictAddressFamilies makes it: the device is there all
// the same. libc asks for the names of interfaces through netlink, so none is known.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <net/if.h>

#include <cerrno>

#include "deny_netlink.h"

namespace {

TEST(Sandbox, WithoutNetlinkTheDeviceIsThere) {
  ASSERT_TRUE(uroce::test::deny_netlink());
  ASSERT_EQ(if_nameindex(), nullptr);
  ASSERT_EQ(errno, EAFNOSUPPORT);
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  ASSERT_NE(list, nullptr);
  ASSERT_EQ(count, 1);
  ibv_context* const context = ibv_open_device(list[0]);
  ASSERT_NE(context, nullptr);
  ibv_free_device_list(list);
  // The program leases an address, since it finds none of the machine's.
  ibv_gid gid{};
  EXPECT_EQ(ibv_query_gid(context, 1, 1, &gid), 0);
  EXPECT_EQ(gid.raw[12], 198);
  EXPECT_EQ(ibv_close_device(context), 0);
}

}  // namespace
