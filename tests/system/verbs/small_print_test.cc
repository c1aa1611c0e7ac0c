// What programs hardly ever look at, field by field: mutants survived here.
#include <endian.h>
#include <fcntl.h>
#include <infiniband/sa.h>
#include <rdma/ib_user_sa.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "verbs_fixture.h"

// marshall.h, which some distributions do not install.
extern "C" {
void ibv_copy_path_rec_from_kern(ibv_sa_path_rec* to, ib_user_path_rec* from);
void ibv_copy_path_rec_to_kern(ib_user_path_rec* to, ibv_sa_path_rec* from);
}

namespace {

using namespace verbs_test;

class SmallPrintTest : public PairTest {};

/// Every member has a value of its own and is converted to and fro: none is left out or mixed up.
TEST_F(SmallPrintTest, PathRecordsKeepEveryMember) {
  ib_user_path_rec from{};
  std::memset(from.dgid, 0x11, sizeof from.dgid);
  std::memset(from.sgid, 0x22, sizeof from.sgid);
  from.dlid = 0x301;
  from.slid = 0x402;
  from.raw_traffic = 1;
  from.flow_label = 0x50003;
  from.reversible = 1;
  from.mtu = 4;
  from.pkey = 0x6004;
  from.hop_limit = 7;
  from.traffic_class = 8;
  from.numb_path = 9;
  from.sl = 10;
  from.mtu_selector = 2;
  from.rate_selector = 3;
  from.rate = 12;
  from.packet_life_time_selector = 1;
  from.packet_life_time = 14;
  from.preference = 15;
  ibv_sa_path_rec path{};
  ibv_copy_path_rec_from_kern(&path, &from);
  EXPECT_EQ(path.dgid.raw[0], 0x11);
  EXPECT_EQ(path.dgid.raw[15], 0x11);
  EXPECT_EQ(path.sgid.raw[0], 0x22);
  EXPECT_EQ(path.dlid, 0x301);
  EXPECT_EQ(path.slid, 0x402);
  EXPECT_EQ(path.raw_traffic, 1);
  EXPECT_EQ(path.flow_label, 0x50003u);
  EXPECT_EQ(path.reversible, 1);
  EXPECT_EQ(path.mtu, 4);
  EXPECT_EQ(path.pkey, 0x6004);
  EXPECT_EQ(path.hop_limit, 7);
  EXPECT_EQ(path.traffic_class, 8);
  EXPECT_EQ(path.numb_path, 9);
  EXPECT_EQ(path.sl, 10);
  EXPECT_EQ(path.mtu_selector, 2);
  EXPECT_EQ(path.rate_selector, 3);
  EXPECT_EQ(path.rate, 12);
  EXPECT_EQ(path.packet_life_time_selector, 1);
  EXPECT_EQ(path.packet_life_time, 14);
  EXPECT_EQ(path.preference, 15);
  ib_user_path_rec back{};
  ibv_copy_path_rec_to_kern(&back, &path);
  EXPECT_EQ(std::memcmp(&back, &from, sizeof from), 0);
}

TEST_F(SmallPrintTest, OnePkeyAndTwoGids) {
  __be16 pkey = 0;
  EXPECT_EQ(ibv_query_pkey(device(), 1, 0, &pkey), 0);
  EXPECT_EQ(pkey, 0xffff);
  EXPECT_EQ(ibv_query_pkey(device(), 1, 1, &pkey), -1);
  EXPECT_EQ(ibv_query_pkey(device(), 2, 0, &pkey), -1);
  ibv_gid gid;
  EXPECT_EQ(ibv_query_gid(device(), 1, 1, &gid), 0);
  EXPECT_NE(ibv_query_gid(device(), 1, 32, &gid), 0);
  EXPECT_NE(ibv_query_gid(device(), 2, 0, &gid), 0);
}

TEST_F(SmallPrintTest, AGrhThatIsNotForUsIsNobodys) {
  ibv_wc wc{};
  wc.wc_flags = IBV_WC_GRH;
  ibv_grh grh{};
  grh.version_tclass_flow = htobe32(6u << 28);
  grh.dgid.raw[0] = 0xfe;
  grh.dgid.raw[15] = 0x77;
  ibv_ah_attr attr;
  EXPECT_EQ(ibv_init_ah_from_wc(device(), 1, &wc, &grh, &attr), -1);
  EXPECT_EQ(errno, EINVAL);
  ASSERT_EQ(ibv_query_gid(device(), 1, 0, &grh.dgid), 0);
  EXPECT_EQ(ibv_init_ah_from_wc(device(), 1, &wc, &grh, &attr), 0);
  EXPECT_EQ(ibv_init_ah_from_wc(device(), 2, &wc, &grh, &attr), -1);
  EXPECT_EQ(ibv_init_ah_from_wc(device(), 1, &wc, nullptr, &attr), -1);
  grh.version_tclass_flow = htobe32(5u << 28);
  EXPECT_EQ(ibv_init_ah_from_wc(device(), 1, &wc, &grh, &attr), -1);
}

TEST_F(SmallPrintTest, WhatIsNotAnMtu) {
  make_pair();
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.ah_attr = own_address(1);
  attr.dest_qp_num = right_->qp_num;
  const Owned<ibv_qp> qp = make_qp(pd_.get(), cq_.get(), recv_cq_.get(), {});
  ibv_qp_attr init{};
  init.qp_state = IBV_QPS_INIT;
  init.port_num = 1;
  ASSERT_EQ(ibv_modify_qp(qp.get(), &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), 0);
  const int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  for (const int mtu : {0, 6}) {
    attr.path_mtu = static_cast<ibv_mtu>(mtu);
    EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, mask), EINVAL) << mtu;
  }
  attr.path_mtu = IBV_MTU_256;
  EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, mask), 0);
  ibv_qp_attr now;
  ibv_qp_init_attr made;
  ASSERT_EQ(ibv_query_qp(qp.get(), &now, mask, &made), 0);
  EXPECT_EQ(now.path_mtu, IBV_MTU_256);
  EXPECT_EQ(now.ah_attr.is_global, 1);
  EXPECT_EQ(now.ah_attr.port_num, 1);
}

TEST_F(SmallPrintTest, RefusalsSetErrno) {
  ibv_srq_init_attr srq{};
  errno = 0;
  EXPECT_EQ(ibv_create_srq(pd_.get(), &srq), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_srq_init_attr_ex extended{};
  extended.attr = {8, 1, 0};
  errno = 0;
  EXPECT_EQ(ibv_create_srq_ex(device(), &extended), nullptr);
  EXPECT_NE(errno, 0);
  ibv_cq_init_attr_ex cq{};
  cq.cqe = 8;
  cq.wc_flags = uint64_t{1} << 63;
  errno = 0;
  EXPECT_EQ(ibv_create_cq_ex(device(), &cq), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

/// The wrappers of open and similar functions are called for every file that the program opens.
TEST_F(SmallPrintTest, OtherFilesAreOpenedAsEver) {
  const char* volatile nowhere = nullptr;
  errno = 0;
  EXPECT_EQ(access(nowhere, F_OK), -1);
  EXPECT_EQ(errno, EFAULT);
  const std::string path = "/tmp/uroce-small-print-" + std::to_string(getpid());
  const mode_t before = umask(0);
  const int fd = open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0640);
  umask(before);
  ASSERT_GE(fd, 0);
  struct stat info;
  EXPECT_EQ(fstat(fd, &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
  close(fd);
  unlink(path.c_str());
}

}  // namespace
