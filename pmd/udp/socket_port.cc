#include "pmd/udp/socket_port.h"

#include <rte_ether.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "pmd/udp/log.h"

namespace uroce::udp {
namespace {

constexpr uint32_t kAnswersMost = 64;
/// One of so many reads goes to another socket than the last one, so that none has to wait for long.
constexpr uint32_t kReadsOfOne = 8;
constexpr uint32_t kAddressesWatched = 8;
constexpr uint32_t kReadsAtStart = 64;
constexpr uint32_t kMtuMost = 9216;

std::span<uint8_t> bytes_of(rte_mbuf& mbuf) { return {rte_pktmbuf_mtod(&mbuf, uint8_t*), mbuf.data_len}; }

}  // namespace

SocketPort::SocketPort()
    : outbox_([this](const OutFrame& frame, int code) { complain(frame, code); }), answers_(kAnswersMost) {}

std::unique_ptr<SocketPort> SocketPort::open(const Arguments& arguments, std::string& error) {
  std::unique_ptr<SocketPort> port(new SocketPort);
  port->device_ = arguments.device;
  if (!find_interface(arguments, port->netdev_, error)) return nullptr;
  port->sockets_.set_scope(static_cast<uint32_t>(port->netdev_.index));
  port->mac_ = arguments.mac.value_or(port->netdev_.mac);
  if (port->mac_.is_zero() && !arguments.addresses.empty()) port->mac_ = mac_of(arguments.addresses.front().ip);
  if (!port->interrupt_.open(error)) return nullptr;
  for (const LocalAddress& address : arguments.addresses) {
    if (port->take_address(address.ip, error)) continue;
    error = arguments.device + ": " + error;
    // One that has just gone, or belongs to a routing domain of its own (VRF), takes the others with it no more.
    if (errno != EADDRNOTAVAIL) return nullptr;
    UDP_LOG(WARNING, "%s", error.c_str());
  }
  if (port->sockets_.all().empty() && !arguments.addresses.empty()) return nullptr;
  std::string no_matter;  // an interface may have none, or another port has it
  if (!port->netdev_.mac.is_zero()) port->take_address(link_local_of(port->netdev_.mac), no_matter);
  return port;
}

/// The kernel is asked to tell of the port's packets from now on. False, with errno and one line in `error`.
bool SocketPort::take_address(const IpAddress& ip, std::string& error) {
  if (sockets_.find(ip) != nullptr) return true;
  if (!sockets_.open(ip, error)) return false;
  look_everywhere_ = true;
  if (interrupt_.watch(sockets_.find(ip)->receiver.get(), error)) return true;
  sockets_.close_last();  // nobody would read it
  return false;
}

/// The application has an address of which the arguments did not tell, such as a link-local one. That of an interface
/// that makes its own in another way is no news.
void SocketPort::try_address(const IpAddress& ip) {
  // Until it announces its addresses anew.
  if (std::find(refused_.begin(), refused_.end(), ip) != refused_.end()) return;
  std::string error;
  if (take_address(ip, error)) return;
  const bool is_no_news = errno == EADDRNOTAVAIL && ip.is_link_local_v6();
  refused_.push_back(ip);
  if (!is_no_news) UDP_LOG(WARNING, "%s: %s", device_.c_str(), error.c_str());
}

/// Those that the machine has no more.
void SocketPort::forget_addresses() {
  sockets_.close_gone();
  active_ = nullptr;
  look_everywhere_ = true;
  refused_.clear();
}

void SocketPort::set_rx_frame_bytes(uint32_t bytes) {
  const std::lock_guard lock(mutex_);
  rx_frame_bytes_ = bytes;
}

// Receiving.

uint16_t SocketPort::receive(RxBuffers& buffers, rte_mbuf** mbufs, uint16_t max) {
  const std::lock_guard lock(mutex_);
  uint16_t count = 0;
  // Those that are dropped count, too: nobody keeps this loop running.
  for (uint32_t left = max; left != 0; left--) {
    if (!buffers.fill()) {
      counters_.rx_no_mbufs++;
      break;
    }
    if (take_answer(buffers, mbufs[count])) {
      count++;
      continue;
    }
    InDatagram datagram;
    if (!inbox_.next(datagram)) {
      // Whoever has something to do does it first, unless more is sure to be there.
      const bool enough = count != 0 && !inbox_.had_more();
      if (enough || !read_more() || !inbox_.next(datagram)) break;
    }
    if (take(datagram, buffers, mbufs[count])) count++;
  }
  return count;
}

/// Where something came last, more is to be expected: the others are looked at now and then.
bool SocketPort::read_more() {
  const bool others =
      sockets_.all().size() > 1 && (++reads_ % kReadsOfOne == 0 || std::exchange(look_everywhere_, false));
  if (active_ == nullptr || others) return read_another();
  return inbox_.read(*active_);
}

bool SocketPort::read_another() {
  std::array<int, kAddressesWatched> fds{};
  const uint32_t count = interrupt_.ready(fds.data(), kAddressesWatched);
  const auto& all = sockets_.all();
  const auto last = std::find_if(all.begin(), all.end(), [&](const auto& sockets) { return sockets.get() == active_; });
  const auto begin = static_cast<size_t>(last - all.begin()) + 1;  // the one behind has its turn
  for (size_t i = 0; count != 0 && i < all.size(); i++) {
    const AddressSockets& sockets = *all[(begin + i) % all.size()];
    if (std::find(fds.begin(), fds.begin() + count, sockets.receiver.get()) == fds.begin() + count) continue;
    active_ = &sockets;
    return inbox_.read(sockets);
  }
  return false;
}

bool SocketPort::take_answer(RxBuffers& buffers, rte_mbuf*& out) {
  if (answers_.empty()) return false;
  const Answer& answer = answers_.front();
  rte_mbuf* const mbuf = buffers.ready[--buffers.count];
  std::memcpy(rte_pktmbuf_mtod(mbuf, uint8_t*), answer.frame.data(), answer.bytes);
  mbuf->data_len = static_cast<uint16_t>(answer.bytes);
  mbuf->pkt_len = answer.bytes;
  mbuf->port = buffers.port_id;
  answers_.pop();
  out = mbuf;
  return true;
}

bool SocketPort::take(const InDatagram& datagram, RxBuffers& buffers, rte_mbuf*& out) {
  const uint32_t bytes = frame_header_bytes(datagram.dst) + datagram.payload_bytes;
  rte_mbuf* const mbuf = buffers.ready[buffers.count - 1];
  if (bytes > rx_frame_bytes_ || bytes > rte_pktmbuf_tailroom(mbuf)) {
    counters_.rx_too_long++;
    return false;
  }
  const Identified how = write_frame(rte_pktmbuf_mtod(mbuf, uint8_t*), mac_, datagram);
  if (how == Identified::kForeign) counters_.rx_foreign_ids++;
  if (how == Identified::kNone) counters_.rx_bad_icrc++;
  mbuf->data_len = static_cast<uint16_t>(bytes);
  mbuf->pkt_len = bytes;
  mbuf->port = buffers.port_id;
  buffers.count--;
  counters_.rx_packets++;
  counters_.rx_bytes += bytes;
  out = mbuf;
  return true;
}

// Sending.

uint16_t SocketPort::send(rte_mbuf** mbufs, uint16_t count) {
  uint32_t done = 0;
  {
    const std::lock_guard lock(mutex_);
    while (done < count) {
      const uint32_t burst = std::min<uint32_t>(count - done, Outbox::kFramesMost);
      const uint32_t sent = send_burst(mbufs + done, burst);
      done += sent;
      if (sent < burst) break;
    }
  }
  rte_pktmbuf_free_bulk(mbufs, done);
  return static_cast<uint16_t>(done);
}

/// Puts those that are left behind the others.
uint32_t SocketPort::send_burst(rte_mbuf** mbufs, uint32_t count) {
  outbox_.begin(sockets_.scope());
  for (uint32_t i = 0; i < count; i++) queue(*mbufs[i], i);
  outbox_.flush();
  if (sockets_.take_change()) forget_addresses();
  const uint32_t left = outbox_.left_count();
  if (left == 0) return count;
  std::array<rte_mbuf*, Outbox::kFramesMost> waiting{};
  for (uint32_t i = 0; i < left; i++) waiting[i] = std::exchange(mbufs[outbox_.left()[i]], nullptr);
  rte_mbuf** const end = std::remove(mbufs, mbufs + count, nullptr);
  std::copy_n(waiting.begin(), left, end);
  return count - left;
}

void SocketPort::queue(rte_mbuf& mbuf, uint32_t tag) {
  OutFrame frame;
  // The frame is changed in place: it has to be the sender's own, and whole.
  if (mbuf.nb_segs != 1 || rte_mbuf_refcnt_read(&mbuf) != 1 || !RTE_MBUF_DIRECT(&mbuf)) {
    counters_.tx_not_ours++;
    return;
  }
  if (!read_frame(bytes_of(mbuf), frame)) {
    if (!on_other_frame(bytes_of(mbuf))) counters_.tx_not_roce++;
    return;
  }
  const AddressSockets* const from = sockets_.find(frame.src);
  if (from == nullptr) {
    counters_.tx_no_address++;
    return;
  }
  outbox_.add(frame, tag, *from);
}

/// ARP and neighbour discovery stay here. True when it was such a frame.
bool SocketPort::on_other_frame(std::span<const uint8_t> frame) {
  const auto heard = read_neighbour_frame(frame);
  if (!heard) return false;
  if (heard->sender && !heard->wanted) sockets_.note_change();  // it announces itself
  if (heard->sender && sockets_.find(*heard->sender) == nullptr) try_address(*heard->sender);
  if (heard->sender && heard->wanted) answer(frame, *heard);
  return true;
}

void SocketPort::answer(std::span<const uint8_t> question, const NeighbourFrame& heard) {
  uint32_t mtu = 0;
  if (answers_.full() || !sockets_.reaches(*heard.sender, *heard.wanted, mtu)) return;
  Answer& answer = answers_.next_slot();
  answer.bytes = write_neighbour_answer(answer.frame, question, *heard.wanted);
  if (answer.bytes == 0) return;
  answers_.push();
  counters_.neighbour_answers++;
}

/// Once for each kind: the counters tell how often.
void SocketPort::complain(const OutFrame& frame, int code) {
  const bool too_long = code == EMSGSIZE;
  if (std::exchange(said_[too_long ? 0 : 1], true)) return;
  const std::string dst = to_string(frame.dst);
  uint32_t mtu = 0;
  if (!too_long) {
    UDP_LOG(WARNING, "%s: packets to %s cannot be sent: %s", device_.c_str(), dst.c_str(), std::strerror(code));
  } else if (sockets_.reaches(frame.src, frame.dst, mtu) && mtu != 0) {
    UDP_LOG(WARNING, "%s: the way to %s carries packets of %u bytes, and the program sends %u: start it with --mtu %u",
            device_.c_str(), dst.c_str(), mtu, frame.header_bytes() + frame.payload_bytes, mtu);
  } else {
    UDP_LOG(WARNING, "%s: packets of %u bytes are too long for the way to %s: start the program with a smaller --mtu",
            device_.c_str(), frame.header_bytes() + frame.payload_bytes, dst.c_str());
  }
}

// The rest.

void SocketPort::enable_interrupt() {
  const std::lock_guard lock(mutex_);
  look_everywhere_ = true;
  interrupt_.clear();
  int fd = -1;
  // Also for what a socket has already: who waits may hear of changes only.
  if (!answers_.empty() || !inbox_.empty() || interrupt_.ready(&fd, 1) != 0) interrupt_.raise();
}

void SocketPort::discard_received() {
  const std::lock_guard lock(mutex_);
  answers_.clear();
  inbox_.clear();
  for (const auto& sockets : sockets_.all()) {
    // Senders may go on meanwhile: no longer than what can have waited.
    for (uint32_t i = 0; i < kReadsAtStart && inbox_.read(*sockets); i++) inbox_.clear();
  }
}

void SocketPort::disable_interrupt() {
  const std::lock_guard lock(mutex_);
  interrupt_.clear();
}

uint16_t SocketPort::max_mtu() const {
  return static_cast<uint16_t>(std::clamp<uint32_t>(netdev_.mtu, RTE_ETHER_MIN_MTU, kMtuMost));
}

vdev::Link SocketPort::link() const {
  return {netdev_carrier(netdev_.name).value_or(true), static_cast<uint32_t>(netdev_.speed_mbps)};
}

}  // namespace uroce::udp
