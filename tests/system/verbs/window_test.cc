// Memory windows whose binds are refused or never run.
#include <cerrno>

#include "verbs_fixture.h"

namespace {

using namespace verbs_test;

class WindowTest : public PairTest {
 protected:
  WindowTest() { make_pair(); }
  /// A bind of a type 1 window to `length` bytes of b_, posted to `qp`.
  int bind(ibv_qp* qp, ibv_mw* mw, uint64_t length) {
    ibv_mw_bind bind{};
    bind.send_flags = IBV_SEND_SIGNALED;
    bind.bind_info = {b_.mr(), b_.addr(), length, IBV_ACCESS_REMOTE_WRITE};
    return ibv_bind_mw(qp, mw, &bind);
  }
  int bind_type2(ibv_qp* qp, ibv_mw* mw, uint32_t rkey, uint64_t length) {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_BIND_MW;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = rkey;
    wr.bind_mw.bind_info = {b_.mr(), b_.addr(), length, IBV_ACCESS_REMOTE_WRITE};
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp, &wr, &bad);
  }
  ibv_wc_status write_through(uint32_t rkey) {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {b_.addr(), rkey};
    EXPECT_EQ(post_send(left_.get(), wr, a_.sge(0, 16)), 0);
    return poll(cq_.get(), 1)[0].status;
  }

  const uint64_t too_long_ = 1u << 20;
};

TEST_F(WindowTest, ARefusedBindLeavesTheWindowItsKey) {
  const Owned<ibv_qp> other_left = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), {});
  const Owned<ibv_qp> other = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), {});
  connect(other.get(), other_left->qp_num);
  Owned<ibv_mw> mw(ibv_alloc_mw(pd_.get(), IBV_MW_TYPE_1));
  ASSERT_EQ(bind(other.get(), mw.get(), 64), 0);
  ASSERT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
  const uint32_t good = mw->rkey;
  ASSERT_EQ(bind(other.get(), mw.get(), too_long_), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_MW_BIND_ERR);
  EXPECT_EQ(mw->rkey, good);
  EXPECT_EQ(write_through(good), IBV_WC_SUCCESS);  // still bound as before
  // The queue pair is in error: flushed at once.
  ASSERT_EQ(bind(other.get(), mw.get(), 64), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(mw->rkey, good);
  // Another queue pair can still bind it.
  ASSERT_EQ(bind(right_.get(), mw.get(), 128), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(write_through(mw->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(write_through(good), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(WindowTest, APostThatIsRefusedLeavesTheWindowItsKey) {
  const Owned<ibv_qp> fresh = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), {});  // INIT
  const Owned<ibv_mw> mw(ibv_alloc_mw(pd_.get(), IBV_MW_TYPE_1));
  const uint32_t key = mw->rkey;
  EXPECT_EQ(bind(fresh.get(), mw.get(), 64), EINVAL);
  EXPECT_EQ(mw->rkey, key);
}

TEST_F(WindowTest, OnlyTheLastOfSeveralBindsNamesTheKey) {
  const Owned<ibv_mw> mw(ibv_alloc_mw(pd_.get(), IBV_MW_TYPE_1));
  const Owned<ibv_qp> failing = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), {});
  connect(failing.get(), 0xabcdef);
  to_error(failing.get());
  const uint32_t first = mw->rkey;
  ASSERT_EQ(bind(failing.get(), mw.get(), 64), 0);  // flushed
  EXPECT_EQ(mw->rkey, first);
  ASSERT_EQ(bind(right_.get(), mw.get(), 64), 0);
  const uint32_t second = mw->rkey;
  EXPECT_EQ(second, ibv_inc_rkey(first));
  EXPECT_EQ(poll(cq_.get(), 2)[1].status, IBV_WC_SUCCESS);
  EXPECT_EQ(write_through(second), IBV_WC_SUCCESS);
}

/// Two binds are in progress when the first of them fails: the window then gets the key of the second.
TEST_F(WindowTest, ABindThatFailsDoesNotTakeBackALaterOnesKey) {
  const Owned<ibv_mw> mw(ibv_alloc_mw(pd_.get(), IBV_MW_TYPE_1));
  const Owned<ibv_qp> failing = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), {});
  connect(failing.get(), 0xabcdef);
  ibv_qp_attr state{};
  state.qp_state = IBV_QPS_SQD;  // posted requests wait in this state
  for (ibv_qp* const qp : {failing.get(), right_.get()}) ASSERT_EQ(ibv_modify_qp(qp, &state, IBV_QP_STATE), 0);
  const uint32_t first = mw->rkey;
  ASSERT_EQ(bind(failing.get(), mw.get(), 64), 0);
  const uint32_t second = mw->rkey;
  ASSERT_EQ(bind(right_.get(), mw.get(), 64), 0);
  const uint32_t third = mw->rkey;
  EXPECT_TRUE(first != second && second != third && third != first);
  to_error(failing.get());
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(mw->rkey, third);
  state.qp_state = IBV_QPS_RTS;
  ASSERT_EQ(ibv_modify_qp(right_.get(), &state, IBV_QP_STATE), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(write_through(mw->rkey), IBV_WC_SUCCESS);
}

/// Windows and their domain can be freed, whatever became of the binds: `Release` expects it of each.
TEST_F(WindowTest, WindowsOfRefusedBindsCanBeFreed) {
  for (const ibv_mw_type type : {IBV_MW_TYPE_1, IBV_MW_TYPE_2}) {
    for (const bool flushed : {false, true}) {
      const Owned<ibv_pd> pd(ibv_alloc_pd(device()));
      const Owned<ibv_qp> qp = make_qp(pd.get(), cq_.get(), recv_cq_.get(), {});
      connect(qp.get(), 0xabcdef);
      if (flushed) to_error(qp.get());
      const Owned<ibv_mw> mw(ibv_alloc_mw(pd.get(), type));
      for (uint32_t i = 1; i <= 3; i++) {
        if (type == IBV_MW_TYPE_1) {
          // The region is of another domain, which ibv_bind_mw would refuse.
          ibv_mw_bind wrong{};
          wrong.bind_info = {b_.mr(), b_.addr(), 64, IBV_ACCESS_REMOTE_WRITE};
          EXPECT_EQ(mw->context->ops.bind_mw(qp.get(), mw.get(), &wrong), 0);
        } else {
          EXPECT_EQ(bind_type2(qp.get(), mw.get(), mw->rkey + i, 64), 0);
        }
      }
      const std::vector<ibv_wc> all = poll(cq_.get(), 3);
      EXPECT_EQ(all[0].status, flushed ? IBV_WC_WR_FLUSH_ERR : IBV_WC_MW_BIND_ERR);
      EXPECT_EQ(all[2].status, IBV_WC_WR_FLUSH_ERR);
    }
  }
}

TEST_F(WindowTest, OfType2AfterARefusedBind) {
  const Owned<ibv_qp> other = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), {});
  connect(other.get(), 0xabcdef);
  const Owned<ibv_mw> mw(ibv_alloc_mw(pd_.get(), IBV_MW_TYPE_2));
  const uint32_t key = mw->rkey;
  ASSERT_EQ(bind_type2(other.get(), mw.get(), ibv_inc_rkey(key), too_long_), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_MW_BIND_ERR);
  EXPECT_EQ(mw->rkey, key);
  ASSERT_EQ(bind_type2(right_.get(), mw.get(), ibv_inc_rkey(key), 64), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(write_through(ibv_inc_rkey(key)), IBV_WC_SUCCESS);
}

TEST_F(WindowTest, OnlyTheLowestByteOfAKeyIsTheProgramsToChoose) {
  const Owned<ibv_mw> mw(ibv_alloc_mw(pd_.get(), IBV_MW_TYPE_2));
  const uint32_t wanted = 0x1234'5600 | ((mw->rkey + 7) & 0xff);
  const uint32_t key = (mw->rkey & ~0xffu) | (wanted & 0xff);
  ASSERT_EQ(bind_type2(right_.get(), mw.get(), wanted, 64), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(mw->rkey, key);
  EXPECT_EQ(write_through(key), IBV_WC_SUCCESS);
}

/// As with mlx5 and rxe a bind of type 2 does not touch the structure's key: some programs increment it themselves when
/// the bind has completed.
TEST_F(WindowTest, OfType2TheProgramKeepsTheKey) {
  const Owned<ibv_mw> mw(ibv_alloc_mw(pd_.get(), IBV_MW_TYPE_2));
  for (int i = 0; i < 3; i++) {
    const uint32_t key = mw->rkey;
    ASSERT_EQ(bind_type2(right_.get(), mw.get(), ibv_inc_rkey(key), 64), 0);
    EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
    EXPECT_EQ(mw->rkey, key);
    mw->rkey = ibv_inc_rkey(key);
    EXPECT_EQ(write_through(mw->rkey), IBV_WC_SUCCESS);
    ibv_send_wr invalidate{};
    invalidate.opcode = IBV_WR_LOCAL_INV;
    invalidate.send_flags = IBV_SEND_SIGNALED;
    invalidate.invalidate_rkey = mw->rkey;
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(right_.get(), &invalidate, &bad), 0);
    EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
  }
}

/// A window of type 2 belongs to the queue pair that bound it, and no other can take its key away.
TEST_F(WindowTest, OfType2AnotherQueuePairCannotInvalidateIt) {
  const Owned<ibv_mw> mw(ibv_alloc_mw(pd_.get(), IBV_MW_TYPE_2));
  const uint32_t key = ibv_inc_rkey(mw->rkey);
  ASSERT_EQ(bind_type2(right_.get(), mw.get(), key, 64), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_SUCCESS);
  ibv_send_wr invalidate{};
  invalidate.opcode = IBV_WR_LOCAL_INV;
  invalidate.invalidate_rkey = key;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(left_.get(), &invalidate, &bad), 0);
  EXPECT_EQ(poll(cq_.get(), 1)[0].status, IBV_WC_MW_BIND_ERR);
}

TEST_F(WindowTest, OfNoKnownTypeIsRefused) {
  EXPECT_EQ(ibv_alloc_mw(pd_.get(), static_cast<ibv_mw_type>(3)), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(WindowTest, BindsOnDemandAreRefused) {
  const Owned<ibv_mw> mw(ibv_alloc_mw(pd_.get(), IBV_MW_TYPE_1));
  ibv_mw_bind bind{};
  bind.bind_info = {b_.mr(), b_.addr(), 64, IBV_ACCESS_ON_DEMAND};
  EXPECT_EQ(ibv_bind_mw(right_.get(), mw.get(), &bind), EINVAL);
}

}  // namespace
