#include "net_pcap.h"

#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "host/port_spec.h"
#include "pcap/pcap_writer.h"
#include "pcap/reader.h"

namespace uroce::replay_app {
namespace {

constexpr const char* kDriver = "net_pcap";
constexpr const char* kDevice = "net_pcap_uroce_replay";
constexpr size_t kFileHeaderBytes = 24;

[[noreturn]] void fail(const std::string& text) { throw std::runtime_error(text); }
[[noreturn]] void fail_file(const std::string& path) { fail(path + ": " + std::strerror(errno)); }

std::string make_directory() {
  std::string pattern = (std::filesystem::temp_directory_path() / "uroce-replay-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) fail_file(pattern);
  return pattern;
}

}  // namespace

Eal::Eal(int argc, char** argv) : used_(rte_eal_init(argc, argv)) {
  if (used_ >= 0) return;
  std::fprintf(stderr,
               "uroce-replay: EAL did not start (%s); its arguments come first, then --, then those of uroce-replay\n",
               rte_strerror(rte_errno));
}

Eal::~Eal() {
  if (used_ >= 0) rte_eal_cleanup();
}

NetPcap::NetPcap() {
  const std::string directory = make_directory();
  std::error_code ignored;
  try {
    rx_path_ = directory + "/received.pcap";
    tx_path_ = directory + "/sent.pcap";
    take_over_port();
    plug_in();
  } catch (...) {
    std::filesystem::remove_all(directory, ignored);
    throw;
  }
  // All files are open. Without names nothing is left behind, however this program ends.
  std::filesystem::remove_all(directory, ignored);
}

/// Our engine has QP numbers and keys of its own, so the port cannot receive the capture as it is. Another port, with
/// the same files to read and to write, takes its place.
void NetPcap::take_over_port() {
  for (uint16_t id = 0; id < RTE_MAX_ETHPORTS; id++) {
    if (rte_eth_dev_is_valid_port(id) == 0) continue;
    rte_eth_dev_info info{};
    if (rte_eth_dev_info_get(id, &info) != 0 || std::strcmp(info.driver_name, kDriver) != 0) {
      fail("DPDK has a port of another kind: this is for net_pcap, which EAL need not be given");
    }
    const rte_devargs* const given = rte_dev_devargs(info.device);
    PortSpec spec;
    spec.args = given == nullptr || given->args == nullptr ? "" : given->args;
    if (!spec.arg("rx_pcap") || !spec.arg("tx_pcap")) fail("the net_pcap port needs rx_pcap=CAPTURE and tx_pcap=FILE");
    capture_ = *spec.arg("rx_pcap");
    tx_path_ = *spec.arg("tx_pcap");
    if (rte_dev_remove(info.device) != 0) fail("DPDK does not let go of its net_pcap port");
    return;
  }
}

void NetPcap::plug_in() {
  rx_.reset(std::fopen(rx_path_.c_str(), "wb"));
  const replay::Bytes header = pcap::PcapWriter().bytes();
  const bool written = rx_ != nullptr && std::fwrite(header.data(), header.size(), 1, rx_.get()) == 1;
  if (!written || std::fflush(rx_.get()) != 0) fail_file(rx_path_);
  const std::string arguments = "rx_pcap=" + rx_path_ + ",tx_pcap=" + tx_path_;
  const int rc = rte_eal_hotplug_add("vdev", kDevice, arguments.c_str());
  if (rc != 0) fail(std::string("DPDK has no net_pcap port: ") + rte_strerror(-rc));
  DpdkPortOptions options;
  options.frame_bytes = replay::kFrameBytes;
  if (const int found = rte_eth_dev_get_port_by_name(kDevice, &options.port_id); found != 0) {
    fail(std::string("DPDK does not find its net_pcap port: ") + rte_strerror(-found));
  }
  std::string error;
  port_ = DpdkPort::start(options, error);
  if (port_ == nullptr) fail(error);
  tx_.reset(std::fopen(tx_path_.c_str(), "rb"));
  if (tx_ == nullptr) fail_file(tx_path_);
}

void NetPcap::deliver(std::span<const uint8_t> frame) {
  pcap::PcapWriter record;
  record.add(Instant{0}, frame);
  const replay::Bytes& bytes = record.bytes();
  const bool written = std::fwrite(bytes.data() + kFileHeaderBytes, bytes.size() - kFileHeaderBytes, 1, rx_.get()) == 1;
  if (!written || std::fflush(rx_.get()) != 0) fail_file(rx_path_);
  waiting_++;
}

/// Never asks for more frames than there are, because at the end of its file the driver would stop reading for good.
uint32_t NetPcap::receive(RxFrame* frames, uint32_t max) {
  const uint32_t wanted = std::min(max, waiting_);
  if (wanted == 0) return 0;
  if (port_->receive(frames, wanted) != wanted) fail("the net_pcap port does not give all frames of " + rx_path_);
  waiting_ -= wanted;
  return wanted;
}

void NetPcap::send(TxFrame* frames, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) sent_ += frames[i].bytes != 0;
  port_->send(frames, count);
}

void NetPcap::collect(std::deque<replay::Bytes>& sent) {
  if (sent_ == 0) return;
  std::clearerr(tx_.get());
  uint8_t block[65536];
  for (size_t n = 0; (n = std::fread(block, 1, sizeof block, tx_.get())) != 0;) {
    read_.insert(read_.end(), block, block + n);
  }
  pcap::CaptureReader reader(read_);
  for (pcap::Frame frame; reader.next(frame); sent_--) sent.emplace_back(frame.bytes.begin(), frame.bytes.end());
  if (sent_ != 0 || reader.error()) fail(tx_path_ + " does not have what the net_pcap port was given to send");
  read_.resize(kFileHeaderBytes);
}

}  // namespace uroce::replay_app
