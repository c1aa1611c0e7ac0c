// Lists of objects by RDMA netlink, as `rdma resource show` asks for them.
#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "netlink_asker.h"
#include "verbs_fixture.h"

using namespace verbs_test;

namespace {

/// Attributes by type; of several, the last one.
using Attributes = std::map<int, Bytes>;

Attributes attributes_of(const uint8_t* at, size_t left) {
  Attributes found;
  while (left >= sizeof(nlattr)) {
    nlattr header;
    std::memcpy(&header, at, sizeof header);
    if (header.nla_len < sizeof header || header.nla_len > left) break;
    found[header.nla_type & NLA_TYPE_MASK] = Bytes(at + sizeof header, at + header.nla_len);
    const size_t step = std::min<size_t>(NLA_ALIGN(header.nla_len), left);
    at += step;
    left -= step;
  }
  return found;
}

Attributes attributes_of(const Bytes& bytes) { return attributes_of(bytes.data(), bytes.size()); }

uint64_t number_in(const Attributes& attributes, int type) {
  const auto found = attributes.find(type);
  uint64_t value = 0;
  if (found == attributes.end()) return ~uint64_t{0};
  std::memcpy(&value, found->second.data(), std::min(sizeof value, found->second.size()));
  return value;
}

Bytes request_of(int op, int flags, std::optional<uint32_t> port = {}, std::pair<int, uint32_t> number = {}) {
  Bytes request(sizeof(nlmsghdr));
  const auto put = [&](int type, uint32_t value) {
    const nlattr header{sizeof(nlattr) + sizeof value, static_cast<uint16_t>(type)};
    const auto* const bytes = reinterpret_cast<const uint8_t*>(&header);
    request.insert(request.end(), bytes, bytes + sizeof header);
    const auto* const words = reinterpret_cast<const uint8_t*>(&value);
    request.insert(request.end(), words, words + sizeof value);
  };
  put(RDMA_NLDEV_ATTR_DEV_INDEX, 0);
  if (port) put(RDMA_NLDEV_ATTR_PORT_INDEX, *port);
  if (number.first != 0) put(number.first, number.second);
  nlmsghdr header{};
  header.nlmsg_len = static_cast<uint32_t>(request.size());
  header.nlmsg_type = static_cast<uint16_t>(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, op));
  header.nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags);
  header.nlmsg_seq = 7;
  std::memcpy(request.data(), &header, sizeof header);
  return request;
}

/// The entries of the list, up to its end.
std::vector<Attributes> entries(const Asker& asker, int table) {
  std::vector<Attributes> all;
  for (;;) {
    const Bytes message = asker.receive();
    const nlmsghdr header = header_of(message);
    EXPECT_EQ(header.nlmsg_len, message.size());
    EXPECT_LE(message.size(), 4096u) << "programs have room for a page";
    if (header.nlmsg_type == NLMSG_DONE || message.empty()) {
      EXPECT_EQ(header.nlmsg_type, NLMSG_DONE);
      EXPECT_EQ(error_of(message), 0);
      return all;
    }
    const Attributes top = attributes_of(message.data() + sizeof header, message.size() - sizeof header);
    EXPECT_TRUE(top.contains(table));
    if (!top.contains(table)) return all;
    const Bytes& list = top.at(table);
    for (size_t at = 0; at + sizeof(nlattr) <= list.size();) {
      nlattr one;
      std::memcpy(&one, &list[at], sizeof one);
      all.push_back(attributes_of(&list[at + sizeof one], one.nla_len - sizeof one));
      at += NLA_ALIGN(one.nla_len);
    }
  }
}

std::vector<Attributes> listed(int op, int table) {
  const Asker asker;
  asker.ask(request_of(op, NLM_F_DUMP));
  std::vector<Attributes> all = entries(asker, table);
  // Other programs on the machine may have objects, too.
  std::erase_if(all, [](const Attributes& a) { return number_in(a, RDMA_NLDEV_ATTR_RES_PID) != uint64_t(getpid()); });
  return all;
}

class NldevObjectsTest : public PairTest {
 protected:
  void write_five_times() {
    ibv_send_wr wr{};
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.wr.rdma = {b_.addr(), b_.rkey()};
    for (int i = 0; i < 5; i++) ASSERT_EQ(post_send(left_.get(), wr, a_.sge(0, 8)), 0);
    poll(cq_.get(), 5);
  }
};

TEST_F(NldevObjectsTest, AQueuePairWithWhatItUses) {
  make_pair();
  const auto qps = listed(RDMA_NLDEV_CMD_RES_QP_GET, RDMA_NLDEV_ATTR_RES_QP);
  const auto left = std::find_if(qps.begin(), qps.end(), [&](const Attributes& a) {
    return number_in(a, RDMA_NLDEV_ATTR_RES_LQPN) == left_->qp_num;
  });
  ASSERT_NE(left, qps.end());
  EXPECT_EQ(qps.size(), 2u);
  EXPECT_EQ(number_in(*left, RDMA_NLDEV_ATTR_RES_RQPN), right_->qp_num);
  EXPECT_EQ(number_in(*left, RDMA_NLDEV_ATTR_RES_TYPE), uint64_t(IBV_QPT_RC));
  EXPECT_EQ(number_in(*left, RDMA_NLDEV_ATTR_RES_STATE), uint64_t(IBV_QPS_RTS));
  EXPECT_EQ(number_in(*left, RDMA_NLDEV_ATTR_PORT_INDEX), 1u);
  const uint64_t pd = number_in(*left, RDMA_NLDEV_ATTR_RES_PDN);
  const auto pds = listed(RDMA_NLDEV_CMD_RES_PD_GET, RDMA_NLDEV_ATTR_RES_PD);
  ASSERT_EQ(pds.size(), 1u);
  EXPECT_EQ(number_in(pds[0], RDMA_NLDEV_ATTR_RES_PDN), pd);
  EXPECT_EQ(number_in(pds[0], RDMA_NLDEV_ATTR_RES_USECNT), 4u);  // two queue pairs, two regions
  const auto contexts = listed(RDMA_NLDEV_CMD_RES_CTX_GET, RDMA_NLDEV_ATTR_RES_CTX);
  ASSERT_EQ(contexts.size(), 1u);
  EXPECT_EQ(number_in(contexts[0], RDMA_NLDEV_ATTR_RES_CTXN), number_in(pds[0], RDMA_NLDEV_ATTR_RES_CTXN));
}

TEST_F(NldevObjectsTest, RegionsHaveNoKeys) {
  const auto regions = listed(RDMA_NLDEV_CMD_RES_MR_GET, RDMA_NLDEV_ATTR_RES_MR);
  ASSERT_EQ(regions.size(), 2u);
  std::set<uint64_t> numbers;
  for (const Attributes& region : regions) {
    EXPECT_EQ(number_in(region, RDMA_NLDEV_ATTR_RES_MRLEN), 65536u);
    EXPECT_FALSE(region.contains(RDMA_NLDEV_ATTR_RES_RKEY) || region.contains(RDMA_NLDEV_ATTR_RES_LKEY));
    numbers.insert(number_in(region, RDMA_NLDEV_ATTR_RES_MRN));
  }
  EXPECT_EQ(numbers.size(), 2u);
}

TEST_F(NldevObjectsTest, QueuesKeepTheirNumbers) {
  std::vector<Owned<ibv_cq>> more;
  for (int size : {10, 20, 30}) more.emplace_back(ibv_create_cq(device(), size, nullptr, nullptr, 0));
  const auto number_of = [&](int at_least) {
    const auto cqs = listed(RDMA_NLDEV_CMD_RES_CQ_GET, RDMA_NLDEV_ATTR_RES_CQ);
    const auto found = std::find_if(cqs.begin(), cqs.end(), [&](const Attributes& cq) {
      return number_in(cq, RDMA_NLDEV_ATTR_RES_CQE) == uint64_t(at_least);
    });
    return found != cqs.end() ? number_in(*found, RDMA_NLDEV_ATTR_RES_CQN) : 0;
  };
  const int kept = more[2]->cqe;
  const uint64_t before = number_of(kept);
  ASSERT_NE(before, 0u);
  more.erase(more.begin());  // replaced by the last one
  EXPECT_EQ(number_of(kept), before);
}

TEST_F(NldevObjectsTest, ASharedQueueAndWhoReceivesFromIt) {
  ibv_srq_init_attr init{};
  init.attr = {8, 1, 0};
  const Owned<ibv_srq> srq(ibv_create_srq(pd_.get(), &init));
  ASSERT_TRUE(srq);
  const auto qp = make_qp(pd_.get(), cq_.get(), cq_.get(), {.srq = srq.get()});
  const auto srqs = listed(RDMA_NLDEV_CMD_RES_SRQ_GET, RDMA_NLDEV_ATTR_RES_SRQ);
  ASSERT_EQ(srqs.size(), 1u);
  EXPECT_EQ(number_in(srqs[0], RDMA_NLDEV_ATTR_RES_TYPE), uint64_t(IBV_SRQT_BASIC));
  const Attributes entry =
      attributes_of(attributes_of(srqs[0].at(RDMA_NLDEV_ATTR_RES_QP)).at(RDMA_NLDEV_ATTR_RES_QP_ENTRY));
  EXPECT_EQ(number_in(entry, RDMA_NLDEV_ATTR_RES_LQPN), qp->qp_num);
}

TEST_F(NldevObjectsTest, OneByItsNumber) {
  make_pair();
  const Asker asker;
  asker.ask(request_of(RDMA_NLDEV_CMD_RES_QP_GET, 0, 1, {RDMA_NLDEV_ATTR_RES_LQPN, left_->qp_num}));
  const Bytes one = asker.receive();
  const Attributes qp = attributes_of(one.data() + sizeof(nlmsghdr), one.size() - sizeof(nlmsghdr));
  EXPECT_EQ(number_in(qp, RDMA_NLDEV_ATTR_RES_LQPN), left_->qp_num);
  EXPECT_EQ(number_in(qp, RDMA_NLDEV_ATTR_RES_PID), uint64_t(getpid()));
  asker.ask(request_of(RDMA_NLDEV_CMD_RES_QP_GET, 0, 1, {RDMA_NLDEV_ATTR_RES_LQPN, 0}));
  EXPECT_EQ(error_of(asker.receive()), -ENOENT);
  // A query for a queue pair names a port, one for other objects does not.
  asker.ask(request_of(RDMA_NLDEV_CMD_RES_QP_GET, 0, {}, {RDMA_NLDEV_ATTR_RES_LQPN, left_->qp_num}));
  EXPECT_EQ(error_of(asker.receive()), -EINVAL);
  asker.ask(request_of(RDMA_NLDEV_CMD_RES_PD_GET, 0, 1, {RDMA_NLDEV_ATTR_RES_PDN, 1}));
  EXPECT_EQ(error_of(asker.receive()), -EINVAL);
  asker.ask(request_of(RDMA_NLDEV_CMD_RES_PD_GET, 0));
  EXPECT_EQ(error_of(asker.receive()), -EINVAL);
}

// A socket with the smallest buffer that the kernel allows: the list comes as the program reads, and a second one only
// then.
TEST_F(NldevObjectsTest, MoreThanTheSocketHasRoomFor) {
  std::vector<Owned<ibv_qp>> many;
  for (int i = 0; i < 300; i++) many.push_back(make_qp(pd_.get(), cq_.get(), cq_.get(), {.max_wr = 1, .max_sge = 1}));
  const Asker asker;
  const int least = 1;
  setsockopt(asker.fd(), SOL_SOCKET, SO_RCVBUF, &least, sizeof least);
  const Bytes request = request_of(RDMA_NLDEV_CMD_RES_QP_GET, NLM_F_DUMP);
  ASSERT_EQ(asker.ask(request), ssize_t(request.size()));
  EXPECT_EQ(asker.ask(request), -1);
  EXPECT_EQ(errno, EBUSY);
  std::set<uint64_t> numbers;
  for (const Attributes& qp : entries(asker, RDMA_NLDEV_ATTR_RES_QP)) {
    numbers.insert(number_in(qp, RDMA_NLDEV_ATTR_RES_LQPN));
  }
  for (const auto& qp : many) EXPECT_TRUE(numbers.contains(qp->qp_num));
}

// A socket closed in the middle of a list leaves nothing behind.
TEST_F(NldevObjectsTest, AListThatNobodyReads) {
  std::vector<Owned<ibv_qp>> many;
  for (int i = 0; i < 300; i++) many.push_back(make_qp(pd_.get(), cq_.get(), cq_.get(), {.max_wr = 1, .max_sge = 1}));
  const Bytes request = request_of(RDMA_NLDEV_CMD_RES_QP_GET, NLM_F_DUMP);
  for (int round = 0; round < 100; round++) {
    const Asker asker;
    const int least = 1;
    setsockopt(asker.fd(), SOL_SOCKET, SO_RCVBUF, &least, sizeof least);
    ASSERT_EQ(asker.ask(request), ssize_t(request.size()));
  }
  EXPECT_EQ(listed(RDMA_NLDEV_CMD_RES_QP_GET, RDMA_NLDEV_ATTR_RES_QP).size(), many.size());
}

// Commands about objects of every kind, with bytes changed at random: answers are whole messages of at most a page, and
// the next valid request is answered.
TEST_F(NldevObjectsTest, RandomRequests) {
  make_pair();
  std::mt19937 random(2207);
  for (int round = 0; round < 3000; round++) {
    static const Asker asker;
    constexpr int kCommands[] = {RDMA_NLDEV_CMD_RES_GET,     RDMA_NLDEV_CMD_RES_QP_GET, RDMA_NLDEV_CMD_RES_CM_ID_GET,
                                 RDMA_NLDEV_CMD_RES_CQ_GET,  RDMA_NLDEV_CMD_RES_MR_GET, RDMA_NLDEV_CMD_RES_PD_GET,
                                 RDMA_NLDEV_CMD_RES_CTX_GET, RDMA_NLDEV_CMD_RES_SRQ_GET};
    const int flags = random() % 2 == 0 ? NLM_F_DUMP : 0;
    Bytes request = request_of(kCommands[random() % std::size(kCommands)], flags, uint32_t(random() % 2),
                               {RDMA_NLDEV_ATTR_RES_LQPN, random() % 3 == 0 ? left_->qp_num : uint32_t(random())});
    for (auto i = random() % 3; i != 0; i--) {
      request[sizeof(nlmsghdr) + random() % (request.size() - sizeof(nlmsghdr))] = static_cast<uint8_t>(random());
    }
    request.resize(random() % 8 == 0 ? random() % (request.size() + 1) : request.size());
    asker.ask(request);
    for (Bytes answer = asker.receive(MSG_DONTWAIT); !answer.empty(); answer = asker.receive(MSG_DONTWAIT)) {
      ASSERT_EQ((header_of(answer).nlmsg_len + 3) / 4 * 4, answer.size()) << "round " << round;
      ASSERT_LE(answer.size(), 4096u);
    }
  }
  EXPECT_EQ(listed(RDMA_NLDEV_CMD_RES_QP_GET, RDMA_NLDEV_ATTR_RES_QP).size(), 2u);
}

/// What `rdma statistic` shows of a counter.
uint64_t counted(const std::string& name) {
  const Asker asker;
  asker.ask(request_of(RDMA_NLDEV_CMD_STAT_GET, 0, 1));
  const Bytes message = asker.receive();
  const Attributes top = attributes_of(message.data() + sizeof(nlmsghdr), message.size() - sizeof(nlmsghdr));
  const auto all = top.find(RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
  for (size_t at = 0; all != top.end() && at + sizeof(nlattr) <= all->second.size();) {
    nlattr one;
    std::memcpy(&one, &all->second[at], sizeof one);
    const Attributes entry = attributes_of(&all->second[at + sizeof one], one.nla_len - sizeof one);
    const Bytes& its_name = entry.at(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME);
    if (reinterpret_cast<const char*>(its_name.data()) == name) {
      return number_in(entry, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE);
    }
    at += NLA_ALIGN(one.nla_len);
  }
  return ~uint64_t{0};
}

/// What another program reads there, which has sent nothing. `opens`: it has the device open, too.
uint64_t counted_by_another(const std::string& name, bool opens) {
  int result[2];
  EXPECT_EQ(pipe(result), 0);
  const pid_t other = fork();
  if (other == 0) {
    int count = 0;
    if (opens) ibv_open_device(ibv_get_device_list(&count)[0]);
    const uint64_t number = counted(name);
    _exit(write(result[1], &number, sizeof number) == sizeof number ? 0 : 1);
  }
  uint64_t number = 0;
  EXPECT_EQ(read(result[0], &number, sizeof number), ssize_t(sizeof number));
  waitpid(other, nullptr, 0);
  close(result[0]);
  close(result[1]);
  return number;
}

TEST_F(NldevObjectsTest, CountersAreThoseOfAllPrograms) {
  make_pair();
  const uint64_t before = counted("rx_write_requests");
  write_five_times();
  EXPECT_EQ(counted("rx_write_requests"), before + 5);
  EXPECT_EQ(counted_by_another("rx_write_requests", false), before + 5);
  EXPECT_EQ(counted_by_another("rx_write_requests", true), before + 5);
}

/// Work requests that a program's thread cannot read: it stays in the middle of `ibv_post_send`, as the owner of its
/// engine, until they are let go. One in a process.
class Unreadable {
 public:
  Unreadable() {
    EXPECT_EQ(pipe(stays_), 0);
    EXPECT_EQ(pipe(goes_), 0);
    page_ = mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(page_, MAP_FAILED);
    EXPECT_EQ(mprotect(page_, kPageBytes, PROT_NONE), 0);
    struct sigaction action {};
    action.sa_handler = on_fault;
    EXPECT_EQ(sigaction(SIGSEGV, &action, &before_), 0);
  }
  ~Unreadable() {
    sigaction(SIGSEGV, &before_, nullptr);
    munmap(page_, kPageBytes);
    for (const int fd : {stays_[0], stays_[1], goes_[0], goes_[1]}) close(fd);
  }
  Unreadable(const Unreadable&) = delete;
  Unreadable& operator=(const Unreadable&) = delete;

  /// A write of no bytes, when it can be read.
  ibv_send_wr* wr() { return static_cast<ibv_send_wr*>(page_); }
  /// Returns once a thread stays there.
  void wait() {
    char byte;
    EXPECT_EQ(read(stays_[0], &byte, 1), 1);
  }
  void let_go() {
    EXPECT_EQ(mprotect(page_, kPageBytes, PROT_READ | PROT_WRITE), 0);
    EXPECT_EQ(write(goes_[1], "x", 1), 1);
  }

 private:
  static constexpr size_t kPageBytes = 4096;

  static void on_fault(int) {
    char byte = 'x';
    if (write(stays_[1], &byte, 1) != 1 || read(goes_[0], &byte, 1) != 1) _exit(1);
  }

  static inline int stays_[2];
  static inline int goes_[2];
  void* page_ = nullptr;
  struct sigaction before_ {};
};

/// A thread of a program that stays in its engine, as one of a library program's does that drives under one Ownership.
TEST_F(NldevObjectsTest, CountersOfAProgramThatIsInside) {
  make_pair();
  write_five_times();
  const uint64_t all = counted("rx_write_requests");
  Unreadable unreadable;
  std::thread inside([&] {
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_send(left_.get(), unreadable.wr(), &bad), 0);
  });
  unreadable.wait();
  EXPECT_EQ(counted_by_another("rx_write_requests", false), all);
  EXPECT_EQ(counted_by_another("rx_write_requests", true), all);
  unreadable.let_go();
  inside.join();
}

/// A program that has a protection domain and waits to be killed; `inside`: in its engine. Tells `ready` when it does.
pid_t another_program(int ready, bool inside) {
  const pid_t other = fork();
  if (other != 0) return other;
  int count = 0;
  ibv_context* const context = ibv_open_device(ibv_get_device_list(&count)[0]);
  ibv_pd* const pd = ibv_alloc_pd(context);
  if (inside) {
    ibv_cq* const cq = ibv_create_cq(context, 1, nullptr, nullptr, 0);
    ibv_qp_init_attr init{nullptr, cq, cq, nullptr, {1, 1, 1, 1, 0}, IBV_QPT_RC, 0};
    ibv_qp* const qp = ibv_create_qp(pd, &init);
    Unreadable unreadable;
    std::thread([&] {
      ibv_send_wr* bad = nullptr;
      ibv_post_send(qp, unreadable.wr(), &bad);
    }).detach();
    unreadable.wait();
    if (write(ready, "x", 1) == 1) pause();
    _exit(0);
  }
  if (write(ready, "x", 1) == 1) pause();
  _exit(0);
}

// More of them than could be waited for one after the other. The last one is found last.
TEST_F(NldevObjectsTest, ProgramsThatAreInsideCostTheOthersNoTime) {
  constexpr int kInside = 20;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  std::vector<pid_t> others;
  char byte;
  for (int i = 0; i < kInside; i++) others.push_back(another_program(ready[1], true));
  for (int i = 0; i < kInside; i++) ASSERT_EQ(read(ready[0], &byte, 1), 1);
  others.push_back(another_program(ready[1], false));
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  const Asker asker;
  asker.ask(request_of(RDMA_NLDEV_CMD_RES_PD_GET, NLM_F_DUMP));
  std::set<uint64_t> found;
  for (const Attributes& pd : entries(asker, RDMA_NLDEV_ATTR_RES_PD)) {
    found.insert(number_in(pd, RDMA_NLDEV_ATTR_RES_PID));
  }
  EXPECT_TRUE(found.contains(uint64_t(getpid())));
  EXPECT_TRUE(found.contains(uint64_t(others.back())));
  for (const pid_t other : others) {
    kill(other, SIGKILL);
    waitpid(other, nullptr, 0);
  }
  close(ready[0]);
  close(ready[1]);
}

// Another program's objects are in the list; when it is stopped, those of the others still are.
TEST_F(NldevObjectsTest, AnotherProgramAndOneThatIsStopped) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t other = fork();
  if (other == 0) {
    int count = 0;
    ibv_device** const list = ibv_get_device_list(&count);
    ibv_context* const context = ibv_open_device(list[0]);
    ibv_alloc_pd(context);
    write(ready[1], "x", 1);
    pause();
    _exit(0);
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  const auto pids = [] {
    const Asker asker;
    asker.ask(request_of(RDMA_NLDEV_CMD_RES_PD_GET, NLM_F_DUMP));
    std::set<uint64_t> found;
    for (const Attributes& pd : entries(asker, RDMA_NLDEV_ATTR_RES_PD)) {
      found.insert(number_in(pd, RDMA_NLDEV_ATTR_RES_PID));
    }
    return found;
  };
  const std::set<uint64_t> both = pids();
  EXPECT_TRUE(both.contains(uint64_t(other)) && both.contains(uint64_t(getpid())));
  kill(other, SIGSTOP);
  int status = 0;
  waitpid(other, &status, WUNTRACED);
  const std::set<uint64_t> rest = pids();
  EXPECT_FALSE(rest.contains(uint64_t(other)));
  EXPECT_TRUE(rest.contains(uint64_t(getpid())));
  kill(other, SIGKILL);
  waitpid(other, &status, 0);
  close(ready[0]);
  close(ready[1]);
}

}  // namespace
