// The device and its context, by symbol and by offset.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>

#include <cstddef>
#include <cstring>

#include "verbs_fixture.h"

namespace {

using verbs_test::device;

TEST(ContextTest, ThereIsOneDevice) {
  int count = -1;
  ibv_device** list = ibv_get_device_list(&count);
  ASSERT_EQ(count, 1);
  EXPECT_EQ(list[1], nullptr);
  EXPECT_STREQ(list[0]->name, "uroce0");
  EXPECT_STREQ(list[0]->dev_name, "uverbs0");
  EXPECT_STREQ(list[0]->ibdev_path, "/sys/class/infiniband/uroce0");
  EXPECT_EQ(list[0]->node_type, IBV_NODE_CA);
  EXPECT_EQ(list[0]->transport_type, IBV_TRANSPORT_IB);
  EXPECT_NE(ibv_get_device_guid(list[0]), 0u);
  ibv_free_device_list(list);
}

TEST(ContextTest, NothingLiesBehindTheDeviceForProvidersToFind) {
  const auto* end = reinterpret_cast<const uint8_t*>(device()->device) + sizeof(ibv_device);
  for (size_t i = 0; i < 512; i++) ASSERT_EQ(end[i], 0) << i;
}

// Offsets that have been the same in every release of rdma-core.
TEST(ContextTest, FieldsLieWhereEveryReleaseLooksForThem) {
  const auto* base = reinterpret_cast<const uint8_t*>(device());
  size_t size;
  std::memcpy(&size, base - 8, sizeof size);
  EXPECT_EQ(size, 696u);
  uintptr_t abi_compat;
  std::memcpy(&abi_compat, base + 320, sizeof abi_compat);
  EXPECT_EQ(abi_compat, UINTPTR_MAX);
  for (const size_t distance :
       {32u, 40u, 56u, 64u, 80u, 96u, 104u, 112u, 120u, 128u, 136u, 192u, 208u, 256u, 304u, 320u}) {
    void* operation;
    std::memcpy(&operation, base - distance, sizeof operation);
    EXPECT_NE(operation, nullptr) << distance << " bytes before ibv_context";
  }
  // Members that later releases added at the head exist, and are empty.
  for (size_t distance = 328; distance <= size - sizeof(ibv_context); distance += 8) {
    void* operation;
    std::memcpy(&operation, base - distance, sizeof operation);
    EXPECT_EQ(operation, nullptr) << distance << " bytes before ibv_context";
  }
}

TEST(ContextTest, NoOperationIsNull) {
  const auto* ops = reinterpret_cast<void* const*>(&device()->ops);
  for (size_t i = 0; i < sizeof(ibv_context_ops) / sizeof(void*); i++) EXPECT_NE(ops[i], nullptr) << i;
}

TEST(ContextTest, DescriptorsAreReal) {
  EXPECT_GE(fcntl(device()->cmd_fd, F_GETFD), 0);
  const int flags = fcntl(device()->async_fd, F_GETFL);
  ASSERT_GE(flags, 0);
  ASSERT_EQ(fcntl(device()->async_fd, F_SETFL, flags | O_NONBLOCK), 0);
  ibv_async_event event;
  EXPECT_EQ(ibv_get_async_event(device(), &event), -1);
  EXPECT_EQ(errno, EAGAIN);
  fcntl(device()->async_fd, F_SETFL, flags);
  pollfd p{device()->async_fd, POLLIN, 0};
  EXPECT_EQ(::poll(&p, 1, 0), 0);
}

TEST(ContextTest, DeviceCanBeOpenedAgain) {
  ibv_context* second = ibv_open_device(device()->device);
  ASSERT_NE(second, nullptr);
  EXPECT_NE(second->async_fd, device()->async_fd);
  ibv_pd* pd = ibv_alloc_pd(second);
  ASSERT_NE(pd, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  EXPECT_EQ(ibv_close_device(second), 0);
}

TEST(ContextTest, QueryDevice) {
  ibv_device_attr attr;
  std::memset(&attr, 0xff, sizeof attr);
  ASSERT_EQ(ibv_query_device(device(), &attr), 0);
  EXPECT_EQ(attr.node_guid, ibv_get_device_guid(device()->device));
  EXPECT_EQ(attr.phys_port_cnt, 1);
  EXPECT_GT(attr.max_qp, 0);
  EXPECT_EQ(attr.atomic_cap, IBV_ATOMIC_HCA);

  ibv_device_attr_ex extended;
  ASSERT_EQ(ibv_query_device_ex(device(), nullptr, &extended), 0);
  EXPECT_EQ(extended.orig_attr.max_qp, attr.max_qp);
  EXPECT_NE(extended.completion_timestamp_mask, 0u);
  EXPECT_EQ(extended.raw_packet_caps, 0u);
  EXPECT_EQ(extended.tso_caps.max_tso, 0u);
  EXPECT_EQ(extended.tm_caps.flags, unsigned{IBV_TM_CAP_RC});
  EXPECT_NE(extended.xrc_odp_caps, 0u);
}

TEST(ContextTest, QueriesWriteNoMoreThanTheCallersStructure) {
  verbs_context* verbs = verbs_get_ctx(device());
  std::vector<uint8_t> room(1024, 0xa5);
  ASSERT_EQ(verbs->query_device_ex(device(), nullptr, reinterpret_cast<ibv_device_attr_ex*>(room.data()), 344), 0);
  EXPECT_EQ(room[344], 0xa5);
  std::fill(room.begin(), room.end(), 0xa5);
  ASSERT_EQ(verbs->query_port(device(), 1, reinterpret_cast<ibv_port_attr*>(room.data()), 48), 0);
  EXPECT_EQ(room[48], 0xa5);
  std::fill(room.begin(), room.end(), 0xa5);
  ASSERT_EQ((ibv_query_port)(device(), 1, reinterpret_cast<_compat_ibv_port_attr*>(room.data())), 0);
  EXPECT_EQ(room[48], 0xa5);
  // A caller built with later headers gets zeros for members that we do not know.
  ASSERT_EQ(verbs->query_device_ex(device(), nullptr, reinterpret_cast<ibv_device_attr_ex*>(room.data()), 512), 0);
  EXPECT_EQ(room[511], 0);
  EXPECT_EQ(room[512], 0xa5);
}

TEST(ContextTest, QueryPort) {
  ibv_port_attr port;
  ASSERT_EQ(ibv_query_port(device(), 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(port.active_mtu, IBV_MTU_4096);
  EXPECT_EQ(port.max_mtu, IBV_MTU_4096);
  EXPECT_EQ(port.phys_state, 5);  // link up
  EXPECT_EQ(port.pkey_tbl_len, 1);
  EXPECT_EQ(port.port_cap_flags, unsigned{IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS});
  EXPECT_EQ(port.max_vl_num, 1);
  EXPECT_NE(port.lid, 0);  // programs without GIDs can connect
  EXPECT_GE(port.gid_tbl_len, 2);
  EXPECT_EQ(port.max_msg_sz, 1u << 31);
  EXPECT_EQ(ibv_query_port(device(), 2, &port), EINVAL);
}

TEST(ContextTest, GidTable) {
  ibv_gid gid;
  ASSERT_EQ(ibv_query_gid(device(), 1, 0, &gid), 0);
  EXPECT_EQ(gid.raw[0], 0xfe);
  EXPECT_EQ(gid.raw[1], 0x80);
  EXPECT_EQ(ibv_query_gid(device(), 1, 1, &gid), 0);
  EXPECT_EQ(gid.raw[10], 0xff);  // an IPv4 address
  EXPECT_EQ(ibv_query_gid(device(), 1, 1000, &gid), -1);
  EXPECT_EQ(ibv_query_gid(device(), 1, -1, &gid), -1);
  EXPECT_EQ(ibv_query_gid(device(), 2, 0, &gid), -1);

  ibv_gid_entry entries[16];
  const ssize_t count = ibv_query_gid_table(device(), entries, 16, 0);
  ibv_port_attr port;
  ASSERT_EQ(ibv_query_port(device(), 1, &port), 0);
  // The table has room for later addresses; unused entries are not in the list.
  ASSERT_GE(count, 2);
  EXPECT_EQ(port.gid_tbl_len, 32);
  for (int i = 0; i < port.gid_tbl_len; i++) {
    ASSERT_EQ(ibv_query_gid(device(), 1, i, &gid), 0);
    EXPECT_EQ(gid.global.interface_id != 0, i < count) << i;
  }
  for (ssize_t i = 0; i < count; i++) {
    EXPECT_EQ(entries[i].gid_index, static_cast<uint32_t>(i));
    EXPECT_EQ(entries[i].gid_type, IBV_GID_TYPE_ROCE_V2);
    ibv_gid_entry one;
    ASSERT_EQ(ibv_query_gid_ex(device(), 1, static_cast<uint32_t>(i), &one, 0), 0);
    EXPECT_EQ(std::memcmp(&one, &entries[i], sizeof one), 0);
  }
  EXPECT_EQ(ibv_query_gid_table(device(), entries, static_cast<size_t>(count), 0), count);
  EXPECT_EQ(ibv_query_gid_table(device(), entries, static_cast<size_t>(count) - 1, 0), -EINVAL);
  EXPECT_EQ(ibv_query_gid_ex(device(), 1, 1000, entries, 0), EINVAL);
  EXPECT_EQ(ibv_query_gid_ex(device(), 2, 0, entries, 0), EINVAL);
}

TEST(ContextTest, HolesOfTheGidTable) {
  ibv_port_attr port;
  ASSERT_EQ(ibv_query_port(device(), 1, &port), 0);
  const auto last = static_cast<uint32_t>(port.gid_tbl_len) - 1;
  ibv_gid_entry entry;
  ibv_gid_entry entries[16];
  const ssize_t count = ibv_query_gid_table(device(), entries, 16, 0);
  ASSERT_GE(count, 2);
  EXPECT_EQ(ibv_query_gid_ex(device(), 1, static_cast<uint32_t>(count), &entry, 0), ENODATA);
  EXPECT_EQ(ibv_query_gid_ex(device(), 1, last, &entry, 0), ENODATA);
  EXPECT_EQ(ibv_query_gid_ex(device(), 1, last + 1, &entry, 0), EINVAL);
  // The older functions return zeros.
  ibv_gid gid;
  std::memset(&gid, 0xff, sizeof gid);
  EXPECT_EQ(ibv_query_gid(device(), 1, static_cast<int>(last), &gid), 0);
  EXPECT_EQ(gid.global.subnet_prefix, 0u);
  EXPECT_EQ(gid.global.interface_id, 0u);
  EXPECT_EQ(ibv_query_gid(device(), 1, static_cast<int>(last) + 1, &gid), -1);
  EXPECT_EQ(errno, EINVAL);
  // As rdma-core's tools call it.
  using QueryType = int (*)(ibv_context*, uint8_t, unsigned, int*);
  const auto find = [](const char* node) {
    return reinterpret_cast<QueryType>(dlvsym(RTLD_DEFAULT, "ibv_query_gid_type", node));
  };
  const auto query_type = find("IBVERBS_PRIVATE_34");
  ASSERT_NE(query_type, nullptr);
  for (const char* node : {"IBVERBS_PRIVATE_25", "IBVERBS_PRIVATE_33"}) {
    ASSERT_NE(find(node), nullptr) << node;
    int older = -1;
    EXPECT_EQ(find(node)(device(), 1, 0, &older), 0) << node;
    EXPECT_EQ(older, 1) << node;
  }
  int type = -1;
  EXPECT_EQ(query_type(device(), 1, 0, &type), 0);
  EXPECT_EQ(type, 1);
  EXPECT_EQ(query_type(device(), 1, last, &type), 0);
  EXPECT_EQ(type, 0);
  EXPECT_EQ(query_type(device(), 1, last + 1, &type), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(query_type(device(), 2, 0, &type), -1);
}

TEST(ContextTest, SpeedOfThePort) {
  using QuerySpeed = int (*)(ibv_context*, uint32_t, uint64_t*);
  const auto query_speed = reinterpret_cast<QuerySpeed>(dlvsym(RTLD_DEFAULT, "ibv_query_port_speed", "IBVERBS_1.16"));
  ASSERT_NE(query_speed, nullptr);
  uint64_t speed = 0;
  EXPECT_EQ(query_speed(device(), 1, &speed), 0);
  EXPECT_GE(speed, 1u);
  EXPECT_LE(speed, 10000u);  // in units of 100 Mb/s
  EXPECT_EQ(query_speed(device(), 2, &speed), EINVAL);
}

TEST(ContextTest, PkeyTable) {
  __be16 pkey = 0;
  ASSERT_EQ(ibv_query_pkey(device(), 1, 0, &pkey), 0);
  EXPECT_EQ(pkey, 0xffff);
  EXPECT_EQ(ibv_query_pkey(device(), 1, 1, &pkey), -1);
  EXPECT_EQ(ibv_get_pkey_index(device(), 1, htons(0xffff)), 0);
  EXPECT_EQ(ibv_get_pkey_index(device(), 1, htons(0x7fff)), 0);
  EXPECT_EQ(ibv_get_pkey_index(device(), 1, htons(0x8001)), -1);
}

TEST(ContextTest, ClockOfTheDeviceRuns) {
  ibv_values_ex before{};
  before.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  ASSERT_EQ(ibv_query_rt_values_ex(device(), &before), 0);
  ibv_values_ex after = before;
  ASSERT_EQ(ibv_query_rt_values_ex(device(), &after), 0);
  EXPECT_GT(after.raw_clock.tv_nsec, before.raw_clock.tv_nsec);
}

TEST(ContextTest, Words) {
  EXPECT_STREQ(ibv_wc_status_str(IBV_WC_SUCCESS), "success");
  EXPECT_STREQ(ibv_wc_status_str(static_cast<ibv_wc_status>(31)), "unknown");
  EXPECT_STREQ(ibv_port_state_str(IBV_PORT_ACTIVE), "active");
  EXPECT_STRNE(ibv_event_type_str(IBV_EVENT_QP_FATAL), "unknown");
  EXPECT_STRNE(ibv_node_type_str(IBV_NODE_CA), "unknown");
  EXPECT_STREQ(ibv_node_type_str(IBV_NODE_UNKNOWN), "unknown");
  EXPECT_EQ(ibv_rate_to_mult(IBV_RATE_10_GBPS), 4);
  EXPECT_EQ(mult_to_ibv_rate(4), IBV_RATE_10_GBPS);
  EXPECT_EQ(ibv_rate_to_mbps(IBV_RATE_100_GBPS), 103125);
  EXPECT_EQ(mbps_to_ibv_rate(103125), IBV_RATE_100_GBPS);
  EXPECT_EQ(ibv_rate_to_mbps(IBV_RATE_MAX), -1);
  EXPECT_EQ(ibv_fork_init(), 0);
  EXPECT_EQ(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
}

}  // namespace
