// Programs that fork: before the device is opened, and after.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <string>

namespace {

template <typename F>
F verbs(const char* name, const char* version = "IBVERBS_1.1") {
  return reinterpret_cast<F>(dlvsym(RTLD_DEFAULT, name, version));
}

const auto get_list = verbs<decltype(&ibv_get_device_list)>("ibv_get_device_list");
const auto get_guid = verbs<decltype(&ibv_get_device_guid)>("ibv_get_device_guid");
const auto open_device = verbs<decltype(&ibv_open_device)>("ibv_open_device");
const auto close_device = verbs<decltype(&ibv_close_device)>("ibv_close_device");
const auto alloc_pd = verbs<decltype(&ibv_alloc_pd)>("ibv_alloc_pd");
const auto dealloc_pd = verbs<decltype(&ibv_dealloc_pd)>("ibv_dealloc_pd");

int exit_status(pid_t child) {
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + status;
}

/// A child that opens the device, says who it is then, and keeps it until `end`.
class Opener {
 public:
  Opener() {
    int down[2];
    int up[2];
    EXPECT_EQ(pipe(down) | pipe(up), 0);
    pid_ = fork();
    if (pid_ == 0) {
      close(down[1]);
      ibv_device** list = get_list(nullptr);
      __be64 guid = 0;
      if (list != nullptr && open_device(list[0]) != nullptr) guid = get_guid(list[0]);
      char end;
      if (write(up[1], &guid, sizeof guid) != sizeof guid || read(down[0], &end, 1) != 0) _exit(1);
      std::exit(0);
    }
    close(down[0]);
    close(up[1]);
    keep_ = down[1];
    EXPECT_EQ(read(up[0], &guid_, sizeof guid_), ssize_t{sizeof guid_});
    close(up[0]);
  }
  ~Opener() { end(); }
  void end() {
    if (keep_ < 0) return;
    close(keep_);
    keep_ = -1;
    EXPECT_EQ(exit_status(pid_), 0);
  }
  __be64 guid() const { return guid_; }  // 0: it could not open the device

 private:
  pid_t pid_ = 0;
  int keep_ = -1;
  __be64 guid_ = 0;
};

// As a daemon does that lists devices first and goes to the background then, or a launcher of programs.
TEST(ForkTest, AProgramThatOnlyListsTakesNoPlaceFromTheOthers) {
  ibv_device** list = get_list(nullptr);
  ASSERT_NE(list, nullptr);
  Opener one;
  Opener two;
  EXPECT_NE(one.guid(), 0u);
  EXPECT_NE(two.guid(), 0u) << "the two ends of the wire are for the two that open the device";
  EXPECT_NE(one.guid(), two.guid());
  ibv_device** again = get_list(nullptr);
  ASSERT_NE(again, nullptr) << "the wire is full, its device can be listed";

  errno = 0;
  EXPECT_EQ(open_device(list[0]), nullptr);
  EXPECT_EQ(errno, ENODEV);
  two.end();
  ibv_context* context = open_device(list[0]);
  ASSERT_NE(context, nullptr);
  EXPECT_EQ(get_guid(list[0]), two.guid()) << "who has opened it has the end, and its names";
  EXPECT_EQ(close_device(context), 0);
}

/// Everything that a parent may have made before it forks.
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
  }
  bool whole() const {
    return cq != nullptr && cq_ex != nullptr && srq != nullptr && qp != nullptr && qp_ex != nullptr && mw != nullptr;
  }
};

/// Runs `f` in a child; what it printed on stderr, and its exit status.
std::string said_by_child(const std::function<int()>& f, int& status) {
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

/// Every use of what was inherited. Returns the number of the first that was not refused, or 0.
int use_all_in_child(Inherited& i) {
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
  return 0;
}

TEST(ForkTest, AChildIsRefusedWhatItInheritedAndToldOnce) {
  Inherited inherited;
  ASSERT_TRUE(inherited.whole());
  int status = -1;
  const std::string text = said_by_child([&] { return use_all_in_child(inherited); }, status);
  EXPECT_EQ(status, 0) << "use " << status << " was not refused";
  EXPECT_NE(text.find("belongs to the parent"), std::string::npos) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;

  // The child sees the device under its parent's name, and cannot open it.
  const __be64 guid = get_guid(inherited.list[0]);
  const std::string why = said_by_child(
      [&] {
        ibv_device** list = get_list(nullptr);
        if (list == nullptr || get_guid(list[0]) != guid) return 1;
        return open_device(list[0]) == nullptr && errno == EBUSY ? 0 : 2;
      },
      status);
  EXPECT_EQ(status, 0);
  EXPECT_NE(why.find("opened before fork()"), std::string::npos) << why;

  // The parent notices nothing.
  EXPECT_EQ(std::system("true"), 0);  // a child that execs
  ibv_wc wc;
  EXPECT_EQ(ibv_poll_cq(inherited.cq, 1, &wc), 0);
  ibv_pd* pd = alloc_pd(inherited.context);
  ASSERT_NE(pd, nullptr);
  EXPECT_EQ(dealloc_pd(pd), 0);
}

}  // namespace
