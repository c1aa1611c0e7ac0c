// On a segment, the child of a process that has opened the device can open it, too. With many processes, and their
// data: tests/system/programs/segments.py.
#include <algorithm>

#include "inherited.h"

namespace {

/// Destroys what it inherited, as destructors do unexpectedly. Returns the number of the first call that failed.
int destroy_all_in_child(const Inherited& i) {
  if (verbs<decltype(&ibv_destroy_qp)>("ibv_destroy_qp")(i.qp) != 0) return 1;
  if (verbs<decltype(&ibv_destroy_qp)>("ibv_destroy_qp")(i.qp_ex) != 0) return 2;
  if (verbs<decltype(&ibv_destroy_srq)>("ibv_destroy_srq")(i.srq) != 0) return 3;
  if (ibv_dealloc_mw(i.mw) != 0) return 4;
  if (verbs<decltype(&ibv_destroy_ah)>("ibv_destroy_ah")(i.ah) != 0) return 9;
  if (verbs<decltype(&ibv_dereg_mr)>("ibv_dereg_mr")(i.mr) != 0) return 10;
  if (ibv_free_dm(i.dm) != 0) return 11;
  if (ibv_dealloc_td(i.td) != 0 || dealloc_pd(i.parent_domain) != 0 || ibv_close_xrcd(i.xrcd) != 0) return 12;
  const auto destroy_cq = verbs<decltype(&ibv_destroy_cq)>("ibv_destroy_cq");
  if (destroy_cq(ibv_cq_ex_to_cq(i.cq_ex)) != 0 || destroy_cq(i.cq) != 0) return 5;
  if (verbs<decltype(&ibv_destroy_comp_channel)>("ibv_destroy_comp_channel", "IBVERBS_1.0")(i.channel) != 0) return 6;
  if (dealloc_pd(i.pd) != 0) return 7;
  return close_device(i.context) == 0 ? 0 : 8;
}

TEST(ForkOnASegmentTest, AChildOpensWhatItsParentHasOpen) {
  Inherited inherited;
  ASSERT_TRUE(inherited.whole());
  const __be64 guid = get_guid(inherited.list[0]);
  int status = -1;
  const std::string text = said_by_child(
      [&] {
        if (const int step = use_all_in_child(inherited); step != 0) return 100 + step;
        Inherited own;
        if (!own.whole() || get_guid(own.list[0]) != guid) return 1;
        if (own.qp->qp_num == inherited.qp->qp_num) return 2;
        // With a device of its own, it still cannot use what it inherited.
        if (const int step = use_all_in_child(inherited); step != 0) return 200 + step;
        if (const int step = destroy_all_in_child(inherited); step != 0) return 10 + step;
        ibv_wc wc;
        if (ibv_poll_cq(own.cq, 1, &wc) != 0) return 3;
        return destroy_all_in_child(own) == 0 ? 0 : 4;
      },
      status);
  EXPECT_EQ(status, 0) << text;
  const auto lines = [&text](const char* what) {
    size_t found = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) found++;
    return found;
  };
  EXPECT_EQ(lines("belongs to the parent"), 1u) << text;
  ibv_wc wc;
  EXPECT_EQ(ibv_poll_cq(inherited.cq, 1, &wc), 0) << "the parent notices nothing";
  EXPECT_EQ(destroy_all_in_child(inherited), 0);
}

TEST(ForkOnASegmentTest, ObjectsOfParentAndChildDoNotMix) {
  Inherited inherited;
  ASSERT_TRUE(inherited.whole());
  int status = -1;
  const std::string text = said_by_child(
      [&] {
        Inherited own;
        if (!own.whole()) return 1;
        const auto create_qp = verbs<decltype(&ibv_create_qp)>("ibv_create_qp");
        ibv_qp_init_attr attr{};
        attr.cap = {8, 8, 1, 1, 0};
        attr.qp_type = IBV_QPT_RC;
        attr.send_cq = own.cq;
        attr.recv_cq = inherited.cq;
        errno = 0;
        if (create_qp(own.pd, &attr) != nullptr || errno != ENODEV) return 2;
        attr.recv_cq = own.cq;
        attr.srq = inherited.srq;
        errno = 0;
        if (create_qp(own.pd, &attr) != nullptr || errno != ENODEV) return 3;
        errno = 0;
        const auto create_cq = verbs<decltype(&ibv_create_cq)>("ibv_create_cq");
        if (create_cq(own.context, 8, nullptr, inherited.channel, 0) != nullptr || errno != ENODEV) return 4;
        ibv_mw_bind bind{};
        return ibv_bind_mw(own.qp, inherited.mw, &bind) == ENODEV ? 0 : 5;
      },
      status);
  EXPECT_EQ(status, 0) << text;
}

TEST(ForkOnASegmentTest, AChildOfAChildToo) {
  Inherited inherited;
  ASSERT_TRUE(inherited.whole());
  int status = -1;
  const std::string text = said_by_child(
      [&] {
        Inherited own;
        if (!own.whole()) return 1;
        const pid_t child = fork();
        if (child == 0) {
          ibv_wc wc;
          if (ibv_poll_cq(own.cq, 1, &wc) != -ENODEV || ibv_poll_cq(inherited.cq, 1, &wc) != -ENODEV) std::exit(11);
          Inherited again;
          std::exit(again.whole() && ibv_poll_cq(again.cq, 1, &wc) == 0 ? 0 : 12);
        }
        return exit_status(child);
      },
      status);
  EXPECT_EQ(status, 0) << text;
}

}  // namespace
