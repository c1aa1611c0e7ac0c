#include "tests/unit/pmd/driver_rig.h"

#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>

#include <cstring>

namespace mqnic::test {

namespace {

constexpr char kDevice[] = "net_mqnic_test";
std::unique_ptr<Bus> next_bus;  // what the factory returns

Failure hand_over(const ethdev::Arguments&, ethdev::OpenedCard& out) {
  out.bus = std::move(next_bus);
  return out.bus != nullptr ? Failure{} : failure(-ENODEV, "no bus");
}

/// Fills a buffer with bytes that no test expects.
void scribble(rte_mempool* /*pool*/, void* /*argument*/, void* object, unsigned /*index*/) {
  auto* const mbuf = static_cast<rte_mbuf*>(object);
  memset(mbuf->buf_addr, 0xA5, mbuf->buf_len);
}

}  // namespace

void DriverRig::SetUp() {
  ethdev::register_card_kind("test", hand_over);
  pool = rte_pktmbuf_pool_create("rx", 4095, 64, 0, kRoom + RTE_PKTMBUF_HEADROOM, 0);
  tx_pool = rte_pktmbuf_pool_create("tx", 4095, 64, 0, kRoom + RTE_PKTMBUF_HEADROOM, 0);
  ASSERT_NE(pool, nullptr);
  ASSERT_NE(tx_pool, nullptr);
  for (rte_mempool* each : {pool, tx_pool}) rte_mempool_obj_iter(each, scribble, nullptr);
}

void DriverRig::TearDown() {
  detach();
  EXPECT_EQ(rte_mempool_in_use_count(pool), 0u);
  EXPECT_EQ(rte_mempool_in_use_count(tx_pool), held_by_card);
  rte_mempool_free(pool);
  rte_mempool_free(tx_pool);
}

int DriverRig::attach_bus(std::unique_ptr<Bus> made, const std::string& arguments) {
  next_bus = std::move(made);
  const std::string all = "card=test" + (arguments.empty() ? "" : "," + arguments);
  const int rc = rte_vdev_init(kDevice, all.c_str());
  if (rc == 0) {
    EXPECT_EQ(rte_eth_dev_get_port_by_name(kDevice, &port), 0);
  }
  return rc;
}

int DriverRig::attach(const card::CardConfig& config, const std::string& arguments) {
  auto made = std::make_unique<ModelBus>(config);
  bus = made.get();
  return attach_bus(std::move(made), arguments);
}

void DriverRig::detach() {
  if (port == RTE_MAX_ETHPORTS) return;
  if (rte_eth_dev_is_valid_port(port) != 0) {
    EXPECT_EQ(rte_eth_dev_stop(port), 0);
    EXPECT_EQ(rte_eth_dev_close(port), 0);
  }
  EXPECT_EQ(rte_vdev_uninit(kDevice), 0);
  port = RTE_MAX_ETHPORTS;
  bus = nullptr;
}

int DriverRig::configure(const PortSetup& setup) {
  rte_eth_conf conf{};
  conf.rxmode.offloads = setup.rx_offloads;
  conf.rxmode.mtu = setup.mtu;
  conf.txmode.offloads = setup.tx_offloads;
  conf.intr_conf.rxq = setup.rx_interrupts ? 1 : 0;
  if (setup.rss_types != 0) {
    conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    conf.rx_adv_conf.rss_conf.rss_hf = setup.rss_types;
  }
  int rc = rte_eth_dev_configure(port, setup.rx_queues, setup.tx_queues, &conf);
  rte_mempool* rx_pool = setup.rx_pool != nullptr ? setup.rx_pool : pool;
  for (uint16_t q = 0; rc == 0 && q < setup.rx_queues; ++q) {
    rc = rte_eth_rx_queue_setup(port, q, setup.descriptors, 0, nullptr, rx_pool);
  }
  for (uint16_t q = 0; rc == 0 && q < setup.tx_queues; ++q) {
    rc = rte_eth_tx_queue_setup(port, q, setup.descriptors, 0, nullptr);
  }
  return rc;
}

rte_mbuf* DriverRig::make_mbuf(const Bytes& bytes, rte_mempool* from) {
  rte_mbuf* m = rte_pktmbuf_alloc(from == nullptr ? tx_pool : from);
  if (m == nullptr) return nullptr;
  char* data = rte_pktmbuf_append(m, static_cast<uint16_t>(bytes.size()));
  if (data != nullptr && !bytes.empty()) memcpy(data, bytes.data(), bytes.size());
  return m;
}

rte_mbuf* DriverRig::make_chain(const Bytes& bytes, const std::vector<uint16_t>& pieces) {
  rte_mbuf* head = nullptr;
  size_t at = 0;
  for (const uint16_t piece : pieces) {
    const auto begin = bytes.begin() + static_cast<ptrdiff_t>(at);
    rte_mbuf* m = make_mbuf(Bytes(begin, begin + piece));
    if (head == nullptr) {
      head = m;
    } else {
      rte_pktmbuf_chain(head, m);
    }
    at += piece;
  }
  return head;
}

uint16_t DriverRig::send(const Bytes& bytes, uint16_t queue) {
  rte_mbuf* m = make_mbuf(bytes);
  const uint16_t sent = send(m, queue);
  if (sent == 0) rte_pktmbuf_free(m);
  return sent;
}

rte_mbuf* DriverRig::receive_mbuf(uint16_t queue) {
  for (int i = 0; i < 100; ++i) {
    rte_mbuf* m = nullptr;
    if (rte_eth_rx_burst(port, queue, &m, 1) != 0) return m;
  }
  return nullptr;
}

std::vector<Bytes> DriverRig::receive(size_t count, uint16_t queue) {
  std::vector<Bytes> frames;
  for (int idle = 0; idle < 100 && frames.size() < count;) {
    rte_mbuf* burst[32];
    const uint16_t n = rte_eth_rx_burst(port, queue, burst, 32);
    idle = n == 0 ? idle + 1 : 0;
    for (uint16_t i = 0; i < n; ++i) frames.push_back(bytes_of(burst[i]));
    for (uint16_t i = 0; i < n; ++i) rte_pktmbuf_free(burst[i]);
  }
  return frames;
}

Bytes DriverRig::bytes_of(const rte_mbuf* m) {
  EXPECT_EQ(rte_mbuf_check(m, 1, nullptr), 0);
  Bytes bytes;
  for (const rte_mbuf* segment = m; segment != nullptr; segment = segment->next) {
    const auto* data = rte_pktmbuf_mtod(segment, const uint8_t*);
    bytes.insert(bytes.end(), data, data + segment->data_len);
  }
  EXPECT_EQ(bytes.size(), m->pkt_len);
  return bytes;
}

uint64_t DriverRig::xstat(const std::string& name) {
  uint64_t id = 0, value = UINT64_MAX;
  EXPECT_EQ(rte_eth_xstats_get_id_by_name(port, name.c_str(), &id), 0) << name;
  EXPECT_EQ(rte_eth_xstats_get_by_id(port, &id, &value, 1), 1) << name;
  return value;
}

rte_eth_stats DriverRig::stats() {
  rte_eth_stats all{};
  EXPECT_EQ(rte_eth_stats_get(port, &all), 0);
  return all;
}

Bytes make_frame(size_t bytes, unsigned seed) {
  Bytes frame(bytes);
  for (size_t i = 0; i < bytes; ++i) frame[i] = static_cast<uint8_t>(i * 7 + seed * 13 + (i >> 8));
  if (bytes >= 14) {
    frame[0] = 0x02;
    frame[12] = 0x88;
    frame[13] = 0xb5;  // the ethertype for experiments
  }
  return frame;
}

namespace {

void put16(Bytes& frame, size_t at, unsigned value) {
  frame[at] = static_cast<uint8_t>(value >> 8);
  frame[at + 1] = static_cast<uint8_t>(value);
}

unsigned sum16(const Bytes& frame, size_t begin, size_t end, unsigned sum) {
  for (size_t i = begin; i < end; ++i) sum += i % 2 == begin % 2 ? unsigned{frame[i]} << 8 : frame[i];
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return sum;
}

}  // namespace

Bytes make_udp(size_t payload_bytes, uint32_t source, uint16_t source_port) {
  Bytes frame = make_frame(14 + 20 + 8 + payload_bytes);
  put16(frame, 12, 0x0800);
  const size_t ip = 14, udp = 34, udp_bytes = 8 + payload_bytes;
  frame[ip] = 0x45;
  frame[ip + 1] = 0;
  put16(frame, ip + 2, static_cast<unsigned>(20 + udp_bytes));
  put16(frame, ip + 4, 1);
  put16(frame, ip + 6, 0);
  frame[ip + 8] = 64;
  frame[ip + 9] = 17;
  put16(frame, ip + 10, 0);
  put16(frame, ip + 12, source >> 16);
  put16(frame, ip + 14, source & 0xffff);
  put16(frame, ip + 16, 0x0a00);
  put16(frame, ip + 18, 0x0002);
  put16(frame, ip + 10, ~sum16(frame, ip, ip + 20, 0) & 0xffff);
  put16(frame, udp, source_port);
  put16(frame, udp + 2, 4791);
  put16(frame, udp + 4, static_cast<unsigned>(udp_bytes));
  put16(frame, udp + 6, 0);
  const unsigned pseudo = sum16(frame, ip + 12, ip + 20, 17 + static_cast<unsigned>(udp_bytes));
  put16(frame, udp + 6, ~sum16(frame, udp, frame.size(), pseudo) & 0xffff);
  return frame;
}

}  // namespace mqnic::test
