// /dev/infiniband/rdma_cm as a file, and its commands one by one: what is refused, and with which errno.
#include <dlfcn.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "rdma_cm_rig.h"

namespace {

using namespace verbs_test;

TEST(RdmaCmDeviceTest, IsACharacterDeviceByPathAndByDescriptor) {
  struct stat by_path;
  ASSERT_EQ(stat(kRdmaCm, &by_path), 0);
  EXPECT_TRUE(S_ISCHR(by_path.st_mode));
  EXPECT_EQ(access(kRdmaCm, R_OK | W_OK), 0);
  const Channel channel;
  struct stat by_descriptor;
  ASSERT_EQ(fstat(channel.fd(), &by_descriptor), 0);
  EXPECT_TRUE(S_ISCHR(by_descriptor.st_mode));
  ASSERT_EQ(fstatat(channel.fd(), "", &by_descriptor, AT_EMPTY_PATH), 0);
  EXPECT_TRUE(S_ISCHR(by_descriptor.st_mode));
  struct statx extended;
  ASSERT_EQ(statx(channel.fd(), "", AT_EMPTY_PATH, STATX_TYPE, &extended), 0);
  EXPECT_TRUE(S_ISCHR(extended.stx_mode));
}

TEST(RdmaCmDeviceTest, SaysItsAbi) {
  std::FILE* file = std::fopen("/sys/class/misc/rdma_cm/abi_version", "r");
  ASSERT_NE(file, nullptr);
  int version = 0;
  EXPECT_EQ(std::fscanf(file, "%d", &version), 1);
  EXPECT_EQ(version, 4);
  std::fclose(file);
}

TEST(RdmaCmDeviceTest, OpenHonoursItsFlags) {
  const Channel plain(O_RDWR);
  EXPECT_EQ(fcntl(plain.fd(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(fcntl(plain.fd(), F_GETFL) & O_NONBLOCK, 0);
  const Channel other(O_RDWR | O_CLOEXEC | O_NONBLOCK);
  EXPECT_EQ(fcntl(other.fd(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  EXPECT_EQ(fcntl(other.fd(), F_GETFL) & O_NONBLOCK, O_NONBLOCK);
}

TEST(RdmaCmDeviceTest, OtherDescriptorsAreLeftAlone) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(write(ends[1], "abc", 3), 3);
  char first[] = "de";
  char second[] = "f";
  const iovec pieces[] = {{first, 2}, {second, 1}};
  EXPECT_EQ(writev(ends[1], pieces, 2), 3);
  char text[8] = "";
  EXPECT_EQ(read(ends[0], text, sizeof text), 6);
  EXPECT_STREQ(text, "abcdef");
  struct stat info;
  ASSERT_EQ(fstat(ends[0], &info), 0);
  EXPECT_TRUE(S_ISFIFO(info.st_mode));
  close(ends[0]);
  close(ends[1]);
  errno = 0;
  EXPECT_EQ(write(ends[1], "abc", 3), -1);
  EXPECT_EQ(errno, EBADF);
  EXPECT_EQ(close(-1), -1);
  EXPECT_EQ(errno, EBADF);
}

/// A number that was a device's descriptor is used again for another file.
TEST(RdmaCmDeviceTest, AClosedDescriptorIsForgotten) {
  for (const int how : {0, 1, 2}) {
    const int fd = open(kRdmaCm, O_RDWR);
    ASSERT_GE(fd, 0);
    if (how == 0) {
      EXPECT_EQ(close(fd), 0);
    } else if (how == 1) {
      EXPECT_EQ(close_range(static_cast<unsigned>(fd), static_cast<unsigned>(fd), 0), 0);
    }
    const int counter = eventfd(0, EFD_NONBLOCK);
    if (how == 2) {
      EXPECT_EQ(dup2(counter, fd), fd);
    }
    const int now = how == 2 ? fd : counter;
    EXPECT_EQ(now, fd);
    const uint64_t five = 5;
    EXPECT_EQ(write(now, &five, sizeof five), ssize_t{sizeof five});
    uint64_t back = 0;
    EXPECT_EQ(read(now, &back, sizeof back), ssize_t{sizeof back});
    EXPECT_EQ(back, five);
    if (how == 2) close(counter);
    close(now);
  }
}

/// The channel lives as long as any of its descriptors.
TEST(RdmaCmDeviceTest, Duplicates) {
  Channel channel;
  const uint32_t id = channel.create_id(1);
  const int copies[] = {dup(channel.fd()), fcntl(channel.fd(), F_DUPFD_CLOEXEC, 100), dup2(channel.fd(), 200)};
  channel.shut();
  for (const int copy : copies) {
    rdma_ucm_query_addr_resp reply;
    struct {
      rdma_ucm_cmd_hdr header;
      rdma_ucm_query body;
    } query{{RDMA_USER_CM_CMD_QUERY, sizeof query.body, sizeof reply},
            {reinterpret_cast<uint64_t>(&reply), id, RDMA_USER_CM_QUERY_ADDR}};
    EXPECT_EQ(write(copy, &query, sizeof query), ssize_t{sizeof query}) << copy;
    close(copy);
    EXPECT_EQ(write(copy, &query, sizeof query), -1);
    EXPECT_EQ(errno, EBADF);
  }
}

TEST(RdmaCmCommandTest, FormsOfCommands) {
  const Channel channel;
  uint64_t body[64] = {};
  EXPECT_EQ(write(channel.fd(), body, 7), -1);
  EXPECT_EQ(errno, EINVAL);
  const void* volatile nowhere = reinterpret_cast<const void*>(uintptr_t{64});  // the compiler would warn
  EXPECT_EQ(write(channel.fd(), nowhere, 32), -1);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(channel.raw(25, body, 64, 64), EINVAL);
  EXPECT_EQ(channel.raw(0xffffffff, body, 64, 64), EINVAL);
  EXPECT_EQ(channel.raw(RDMA_USER_CM_CMD_GET_OPTION, body, 64, 64), ENOSYS);
  // The header announces more bytes than were written.
  const rdma_ucm_cmd_hdr header{RDMA_USER_CM_CMD_CREATE_ID, sizeof(rdma_ucm_create_id), 4};
  EXPECT_EQ(write(channel.fd(), &header, sizeof header), -1);
  EXPECT_EQ(errno, EINVAL);
  // Every command, truncated and empty.
  for (uint32_t command = 0; command <= kWriteCmEvent; command++) {
    if (command == RDMA_USER_CM_CMD_GET_OPTION) continue;
    EXPECT_EQ(channel.raw(command, body, 0, 512), EINVAL) << command;
    EXPECT_EQ(channel.raw(command, body, 3, 512), EINVAL) << command;
  }
}

/// Whatever its bytes, a command is refused or executed, and the process survives.
TEST(RdmaCmCommandTest, AnyBytes) {
  const Channel channel(O_RDWR | O_NONBLOCK);
  const uint32_t id = channel.create_id(1);
  uint32_t random = 1;
  for (int round = 0; round < 20000; round++) {
    uint8_t body[384];
    for (uint8_t& byte : body) {
      random = random * 1664525 + 1013904223;
      byte = static_cast<uint8_t>(random >> 24);
    }
    // Some of them name an id. No response points anywhere.
    std::memset(body, 0, 8);
    if (round % 2 == 0) std::memcpy(body + (round % 8 == 0 ? 0 : 8), &id, sizeof id);
    const uint32_t command = random % (kWriteCmEvent + 1);
    const int error = channel.raw(command, body, (random >> 8) % sizeof body, (random >> 16) % 600);
    EXPECT_TRUE(error == 0 || error == EINVAL || error == ENOENT || error == ENOSYS || error == ENOSPC ||
                error == EFAULT || error == EAGAIN || error == EADDRNOTAVAIL || error == EAFNOSUPPORT ||
                error == ENODEV || error == ENETUNREACH || error == EADDRINUSE)
        << command << ": " << std::strerror(error);
  }
}

TEST(RdmaCmCommandTest, CreateAndDestroy) {
  const Channel channel;
  const Channel other;
  const uint32_t id = channel.create_id(7);
  EXPECT_NE(channel.create_id(8), id);
  rdma_ucm_create_id_resp reply;
  rdma_ucm_create_id body{7, 0, RDMA_PS_TCP, 2, {}};
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_CREATE_ID, body, 4), EFAULT);  // no response
  body.response = 4096 - 8;
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_CREATE_ID, body, 4), EFAULT);  // a bad one
  body.response = reinterpret_cast<uint64_t>(&reply);
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_CREATE_ID, body, 3), ENOSPC);
  body.ps = 0x0107;
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_CREATE_ID, body, 4), EINVAL);

  rdma_ucm_destroy_id_resp destroyed{};
  rdma_ucm_destroy_id end{reinterpret_cast<uint64_t>(&destroyed), id, 0};
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_DESTROY_ID, end, 3), ENOSPC);
  EXPECT_EQ(other.command(RDMA_USER_CM_CMD_DESTROY_ID, end, 4), EINVAL);  // another channel's
  EXPECT_EQ(channel.destroy(id), 0u);
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_DESTROY_ID, end, 4), ENOENT);
}

/// An id whose number the program was not told does not exist: a program that guesses the number finds nothing.
TEST(RdmaCmCommandTest, AnIdOfWhichTheProgramIsNotToldIsNone) {
  const Channel channel;
  const uint32_t before = channel.create_id(7);
  const rdma_ucm_create_id untold{7, 4096 - 8, RDMA_PS_TCP, 2, {}};
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_CREATE_ID, untold, 4), EFAULT);
  const uint32_t after = channel.create_id(8);
  ASSERT_GE(after, before + 2) << "numbers are not met again soon, those of failures neither";
  for (uint32_t number = before + 1; number < after; number++) EXPECT_EQ(channel.destroy(number), ~0u) << number;
}

TEST(RdmaCmCommandTest, Binding) {
  const Channel channel;
  const uint32_t id = channel.create_id(1);
  rdma_ucm_bind body{};
  body.id = id;
  const sockaddr_in any = ipv4(INADDR_ANY, 0);
  std::memcpy(&body.addr, &any, sizeof any);
  body.addr_size = sizeof(sockaddr_in6);  // another family's
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_BIND, body), EINVAL);
  body.addr_size = 0;
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_BIND, body), EINVAL);
  body.addr_size = sizeof any;
  body.reserved = 1;
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_BIND, body), EINVAL);
  body.reserved = 0;
  body.id = id + 1000;
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_BIND, body), ENOENT);
  body.id = id;
  body.addr.ss_family = AF_UNIX;
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_BIND, body), EINVAL);
  rdma_ucm_bind_ip old{};
  old.id = id;
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_BIND_IP, old), EINVAL);  // no family
  EXPECT_EQ(channel.bind(id, ipv4(0xc6336401, 0)), EADDRNOTAVAIL);    // 198.51.100.1 is no address of this host
  EXPECT_EQ(channel.bind(id, any), 0);
  EXPECT_EQ(channel.bind(id, any), EINVAL);  // a second time
  const rdma_ucm_query_addr_resp bound = channel.query_addr(id);
  ASSERT_EQ(bound.src_size, sizeof(sockaddr_in));
  sockaddr_in local;
  std::memcpy(&local, &bound.src_addr, sizeof local);
  EXPECT_EQ(local.sin_family, AF_INET);
  EXPECT_NE(local.sin_port, 0);    // a port was assigned
  EXPECT_EQ(bound.node_guid, 0u);  // any address is on no device
}

/// As librdmacm asks whether there are addresses of family AF_IB.
TEST(RdmaCmCommandTest, FamilyIb) {
  const Channel channel;
  const uint32_t id = channel.create_id(1, RDMA_PS_IB);
  sockaddr_ib address{};
  address.sib_family = AF_IB;
  address.sib_sid = htobe64(0x0000000001060000);
  address.sib_sid_mask = htobe64(0xffffffffffff0000);
  rdma_ucm_bind body{};
  body.id = id;
  body.addr_size = sizeof address;
  std::memcpy(&body.addr, &address, sizeof address);
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_BIND, body), 0);
  EXPECT_EQ(channel.query_addr(id).src_size, sizeof address);
  EXPECT_EQ(channel.destroy(id), 0u);
}

TEST(RdmaCmCommandTest, WhatNeedsADeviceIsRefusedWithout) {
  const Channel channel;
  const uint32_t id = channel.create_id(1);
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_RESOLVE_ROUTE, rdma_ucm_resolve_route{id, 1000}), EINVAL);
  rdma_ucm_connect connect{};
  connect.id = id;
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_CONNECT, connect), EINVAL);  // no parameters
  connect.conn_param.valid = 1;
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_CONNECT, connect), EINVAL);
  rdma_ucm_accept accept{};
  accept.id = id;
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_ACCEPT, accept), EINVAL);
  rdma_ucm_reject reject{};
  reject.id = id;
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_REJECT, reject), EINVAL);
  reject.reason = 3;  // not for programs
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_REJECT, reject), EINVAL);
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_DISCONNECT, rdma_ucm_disconnect{id}), EINVAL);
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_NOTIFY, rdma_ucm_notify{id, 4}), EINVAL);
  ib_uverbs_qp_attr attributes;
  const rdma_ucm_init_qp_attr init{reinterpret_cast<uint64_t>(&attributes), id, 1};
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_INIT_QP_ATTR, init, sizeof attributes), EINVAL);
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_INIT_QP_ATTR, init, sizeof attributes - 1), ENOSPC);
  rdma_ucm_join_mcast join{};
  join.id = id;
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_JOIN_MCAST, join, 4), EINVAL);
  rdma_ucm_destroy_id_resp left;
  EXPECT_EQ(channel.ask(RDMA_USER_CM_CMD_LEAVE_MCAST, rdma_ucm_destroy_id{0, 99, 0}, left), ENOENT);
}

/// As the kernel answers for a RoCE port: there is no subnet administrator to ask.
TEST(RdmaCmCommandTest, ServicesAreNotResolved) {
  const Channel channel;
  ResolveIbService body{channel.create_id(1), 0, 0x1060000, "", 1, 0};
  EXPECT_EQ(channel.command(kResolveIbService, body), EINVAL);  // on no device
  ASSERT_EQ(channel.bind(body.id, ipv4(kLoopback, 0)), 0);
  EXPECT_EQ(channel.command(kResolveIbService, body), EOPNOTSUPP);
  ASSERT_EQ(channel.listen(body.id, 1), 0);
  EXPECT_EQ(channel.command(kResolveIbService, body), EINVAL);
  body.id += 1000;
  EXPECT_EQ(channel.command(kResolveIbService, body), ENOENT);
}

/// Threads of a program may communicate through a channel, as librdmacm itself does.
TEST(RdmaCmCommandTest, AnEventThatTheProgramWrites) {
  const Channel channel;
  const uint32_t id = channel.create_id(77);
  WriteCmEvent body{id, 0, kEventUser, 5, 0x1122334455667788, {}};
  EXPECT_FALSE(channel.readable(0));
  EXPECT_EQ(channel.raw(kWriteCmEvent, &body, 23, 0), EINVAL);  // cut short
  EXPECT_EQ(channel.raw(kWriteCmEvent, &body, 24, 0), 0);
  body.event = kEventInternal;
  body.argument = 16;
  body.status = static_cast<uint32_t>(-1);
  EXPECT_EQ(channel.command(kWriteCmEvent, body), 0);
  for (const uint32_t wrong : {0u, 9u, 17u, 20u, ~0u}) {
    body.event = wrong;
    EXPECT_EQ(channel.command(kWriteCmEvent, body), EINVAL) << wrong;
  }
  body.event = kEventUser;
  body.id = id + 1000;
  EXPECT_EQ(channel.command(kWriteCmEvent, body), ENOENT);
  body.id = id;
  const Channel other;
  EXPECT_EQ(other.command(kWriteCmEvent, body), EINVAL);
  uint64_t argument = 0;
  rdma_ucm_event_resp event = channel.event();
  std::memcpy(&argument, &event.param, sizeof argument);
  EXPECT_EQ(event.event, kEventUser);
  EXPECT_EQ(event.uid, 77u);
  EXPECT_EQ(event.id, id);
  EXPECT_EQ(event.status, 5u);
  EXPECT_EQ(argument, 0x1122334455667788u);
  event = channel.event();
  std::memcpy(&argument, &event.param, sizeof argument);
  EXPECT_EQ(event.event, kEventInternal);
  EXPECT_EQ(event.status, static_cast<uint32_t>(-1));
  EXPECT_EQ(argument, 16u);
  EXPECT_FALSE(channel.readable(0));
  EXPECT_EQ(channel.command(kWriteCmEvent, body), 0);  // it is never taken
  EXPECT_EQ(channel.destroy(id), 2u);
  EXPECT_FALSE(channel.readable(0));
}

TEST(RdmaCmCommandTest, Queries) {
  const Channel channel;
  const uint32_t id = channel.create_id(1);
  uint8_t room[1024];
  const rdma_ucm_query addr{reinterpret_cast<uint64_t>(room), id, RDMA_USER_CM_QUERY_ADDR};
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_QUERY, addr, offsetof(rdma_ucm_query_addr_resp, ibdev_index) - 1), ENOSPC);
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_QUERY, addr, offsetof(rdma_ucm_query_addr_resp, ibdev_index)), 0);
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_QUERY_ROUTE, addr, offsetof(rdma_ucm_query_route_resp, ibdev_index) - 1),
            ENOSPC);
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_QUERY_ROUTE, addr, sizeof(rdma_ucm_query_route_resp)), 0);
  rdma_ucm_query path = addr;
  path.option = RDMA_USER_CM_QUERY_PATH;
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_QUERY, path, 7), ENOSPC);
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_QUERY, path, 8), 0);
  EXPECT_EQ(reinterpret_cast<const rdma_ucm_query_path_resp*>(room)->num_paths, 0u);
  rdma_ucm_query other = addr;
  other.option = kQueryIbService;  // none was resolved
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_QUERY, other, 7), ENOSPC);
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_QUERY, other, sizeof room), ENODATA);
  other.option = 4;
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_QUERY, other, sizeof room), ENOSYS);
  other = addr;
  other.response = 0;
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_QUERY, other, sizeof room), EFAULT);
}

TEST(RdmaCmCommandTest, Options) {
  const Channel channel;
  const uint32_t id = channel.create_id(1);
  const uint8_t tos = 0x20;
  const int on = 1;
  const auto set = [&](uint32_t level, uint32_t name, const void* value, uint32_t bytes) {
    return channel.command(RDMA_USER_CM_CMD_SET_OPTION,
                           rdma_ucm_set_option{reinterpret_cast<uint64_t>(value), id, level, name, bytes});
  };
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1), 0);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &on, 4), EINVAL);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, nullptr, 1), EFAULT);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, 4), 0);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, 1), EINVAL);
  EXPECT_EQ(set(RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, 4), 0);
  EXPECT_EQ(set(RDMA_OPTION_ID, 9, &on, 4), ENOSYS);
  EXPECT_EQ(set(RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, nullptr, 0), EINVAL);
  EXPECT_EQ(set(RDMA_OPTION_IB, 2, &on, 4), ENOSYS);
  EXPECT_EQ(set(2, 0, &on, 4), ENOSYS);
}

TEST(RdmaCmCommandTest, WaitingAsTheDescriptorSays) {
  const Channel channel(O_RDWR | O_NONBLOCK);
  rdma_ucm_event_resp reply;
  EXPECT_EQ(channel.ask(RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{}, reply), EAGAIN);
  EXPECT_FALSE(channel.readable(0));
  rdma_ucm_get_event body{reinterpret_cast<uint64_t>(&reply)};
  EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_GET_EVENT, body, offsetof(rdma_ucm_event_resp, reserved) - 1), ENOSPC);
}

TEST(RdmaCmCommandTest, MigrationNeedsAChannel) {
  const Channel from;
  const Channel to;
  const uint32_t id = from.create_id(1);
  rdma_ucm_migrate_resp reply{~0u};
  const auto migrate = [&](uint32_t fd) {
    return to.ask(RDMA_USER_CM_CMD_MIGRATE_ID, rdma_ucm_migrate_id{0, id, fd}, reply);
  };
  EXPECT_EQ(migrate(10000), ENOENT);                           // no descriptor
  EXPECT_EQ(migrate(STDIN_FILENO), EINVAL);                    // another file
  EXPECT_EQ(migrate(static_cast<uint32_t>(to.fd())), EINVAL);  // it is not there
  EXPECT_EQ(migrate(static_cast<uint32_t>(from.fd())), 0);
  EXPECT_EQ(reply.events_reported, 0u);
  EXPECT_EQ(from.destroy(id), ~0u);
  EXPECT_EQ(to.destroy(id), 0u);
}

/// Closing a descriptor ends its channel although an id was moved from it: the ids left on it are destroyed, and their
/// ports are free.
TEST(RdmaCmCommandTest, AChannelThatAnIdLeftCanBeClosed) {
  Channel from;
  const Channel to;
  const uint32_t leaves = from.create_id(1), stays = from.create_id(2);
  ASSERT_EQ(from.bind(stays, ipv4(INADDR_ANY, 0)), 0);
  sockaddr_in bound;
  const rdma_ucm_query_addr_resp address = from.query_addr(stays);
  std::memcpy(&bound, &address.src_addr, sizeof bound);
  rdma_ucm_migrate_resp reply{};
  for (int round = 0; round < 3; round++) {  // there, back, and there for good
    const Channel& source = round % 2 == 0 ? from : to;
    const Channel& target = round % 2 == 0 ? to : from;
    ASSERT_EQ(target.ask(RDMA_USER_CM_CMD_MIGRATE_ID,
                         rdma_ucm_migrate_id{0, leaves, static_cast<uint32_t>(source.fd())}, reply),
              0);
  }
  const uint32_t next = to.create_id(3);
  EXPECT_NE(to.bind(next, bound), 0) << "the other has that port";
  from.shut();
  EXPECT_EQ(to.bind(next, bound), 0);
  EXPECT_EQ(to.destroy(leaves), 0u);
}

/// A group is gone when it is left, when its id is destroyed, or when the program could not be told of it.
TEST(RdmaCmCommandTest, GroupsThatAreNotThereAnyMore) {
  const Channel channel;
  const auto join = [&](uint32_t id, uint32_t address, uint32_t& number) {
    rdma_ucm_join_mcast body{};
    body.uid = 5;
    body.id = id;
    body.addr_size = sizeof(sockaddr_in);
    body.join_flags = RDMA_MC_JOIN_FLAG_FULLMEMBER;
    const sockaddr_in group = ipv4(address, 0);
    std::memcpy(&body.addr, &group, sizeof group);
    rdma_ucm_create_id_resp reply{~0u};
    const int error = channel.ask(RDMA_USER_CM_CMD_JOIN_MCAST, body, reply);
    number = reply.id;
    if (error != 0) return error;
    body.response = 4096 - 8;
    EXPECT_EQ(channel.command(RDMA_USER_CM_CMD_JOIN_MCAST, body, sizeof reply), EFAULT);
    return 0;
  };
  const auto leave = [&](uint32_t number) {
    rdma_ucm_destroy_id_resp reply;
    return channel.ask(RDMA_USER_CM_CMD_LEAVE_MCAST, rdma_ucm_destroy_id{0, number, 0}, reply);
  };
  const uint32_t id = channel.create_id(1, RDMA_PS_UDP);
  ASSERT_EQ(channel.bind(id, ipv4(kLoopback, 0)), 0);
  uint32_t first = 0, refused = 0, second = 0;
  ASSERT_EQ(join(id, 0xef010203, first), 0);
  EXPECT_EQ(join(id, 0x0a000009, refused), EINVAL) << "no group";
  ASSERT_EQ(join(id, 0xef010204, second), 0);
  EXPECT_EQ(leave(first), 0);
  for (uint32_t number = first; number < second + 10; number++) {
    if (number != second) {
      EXPECT_EQ(leave(number), ENOENT) << number - first;
    }
  }
  channel.destroy(id);
  EXPECT_EQ(leave(second), ENOENT) << "it went with its id";
}

TEST(RdmaCmCommandTest, AChildLeavesTheChannelToItsParent) {
  const Channel channel;
  const uint32_t id = channel.create_id(1);
  const pid_t child = fork();
  if (child == 0) {
    rdma_ucm_query_addr_resp reply;
    const int inherited = channel.ask(RDMA_USER_CM_CMD_QUERY, rdma_ucm_query{0, id, RDMA_USER_CM_QUERY_ADDR}, reply);
    const Channel own;
    const bool works = own.destroy(own.create_id(2)) == 0;
    const_cast<Channel&>(channel).shut();
    _exit(inherited == ENODEV && works ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(channel.query_addr(id).src_size, 0);  // the id still exists
}

}  // namespace
