#include "dpdk/endpoint_captures.h"

#include <ctime>
#include <utility>

#include "dpdk/log.h"

namespace uroce {

/// The time of day minus the engine's time.
int64_t EndpointCaptures::wall_offset_ns() const {
  timespec ts{};
  clock_gettime(CLOCK_REALTIME, &ts);
  return int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec - endpoint_.now().ns;
}

bool EndpointCaptures::start(const std::string& pcap_file, std::string& error) {
  if (!pcap_file.empty()) {
    file_ = PcapngWriter::create(pcap_file, endpoint_.port_name(), wall_offset_ns(), error);
    if (!file_) return false;
  }
  std::unique_ptr<LiveCapture> live;
  for (const std::string& name : open_captures()) {
    std::string why;
    if (!live) live = LiveCapture::create(name, endpoint_.port_name(), why);
    if (!live) log_message(LogLevel::kDebug, "`uroce capture` does not hear of this program: %s", why.c_str());
  }
  const EngineLock owner(endpoint_);
  live_ = std::move(live);
  listen();
  return true;
}

bool EndpointCaptures::is_live(const std::string& name) const {
  return live_ && (name.empty() || live_->name() == name) && !live_->ended();
}

std::unique_ptr<LiveCapture> EndpointCaptures::attach(std::unique_ptr<LiveCapture> live) {
  std::swap(live_, live);
  listen();
  return live;
}

/// The engine knows of captures only while there are any, so that it costs nothing otherwise.
void EndpointCaptures::listen() {
  const bool anybody = file_ || live_;
  anybody_.store(anybody, std::memory_order_relaxed);
  endpoint_.engine().set_capture(anybody ? this : nullptr);
}

void EndpointCaptures::on_frame(Direction direction, Instant now, std::span<const uint8_t> frame) {
  if (file_) file_->on_frame(direction, now, frame);
  if (live_) live_->on_frame(direction, now, frame);
}

void EndpointCaptures::on_sent(uint32_t qpn, Instant now, std::span<const uint8_t> frame) {
  if (file_) file_->on_sent(qpn, now, frame);
  if (live_) live_->on_sent(qpn, now, frame);
}

void EndpointCaptures::look_after(Instant now) {
  if (now < next_look_ || !anybody_.load(std::memory_order_relaxed)) return;
  next_look_ = now + kLook;
  std::unique_ptr<LiveCapture> ended;  // destroyed without the lock
  {
    const EngineLock owner(endpoint_);
    if (live_ && live_->ended()) ended = attach(nullptr);
    if (file_) file_->begin_flush();
  }
  if (file_) file_->finish_flush();
  if (ended) ended->clean_up();
}

void EndpointCaptures::finish() {
  {
    const EngineLock owner(endpoint_);
    endpoint_.engine().set_capture(nullptr);
    if (file_) file_->begin_flush();
  }
  if (file_) file_->finish_flush();
}

void EndpointCaptures::abandon() {
  // Not destroyed: one of the parent's threads, which do not exist here, may have held their locks.
  if (PcapngWriter* const file = file_.release(); file != nullptr) file->abandon();
  if (LiveCapture* const live = live_.release(); live != nullptr) live->abandon();
}

}  // namespace uroce
