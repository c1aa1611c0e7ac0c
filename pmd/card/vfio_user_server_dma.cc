#include "pmd/card/vfio_user_server_dma.h"

#include <poll.h>
#include <time.h>

#include <algorithm>
#include <cstring>

namespace mqnic::card {
namespace vu = vfio_user;
namespace {

constexpr int kSliceMs = 10;

uint64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

/// The specification's text has 4 bytes for the count in the reply to a write, and its structure 8.
bool acknowledges(const std::vector<uint8_t>& body, const vu::DmaAccess& access) {
  constexpr size_t kShort = sizeof access.address + sizeof(uint32_t);
  return (body.size() == sizeof access || body.size() == kShort) && std::memcmp(body.data(), &access, body.size()) == 0;
}

}  // namespace

void DmaMessages::begin_client(vu::Channel& channel) {
  channel_ = &channel;
  trouble_ = Trouble::kNone;
  bytes_max_ = 0;
  next_id_ = 1;
}

void DmaMessages::end_client() {
  channel_ = nullptr;
  trouble_ = Trouble::kNone;
  deferred_.clear();
  deferred_fds_ = 0;
  reply_ = {};
}

void DmaMessages::set_bytes_max(uint64_t bytes) { bytes_max_ = std::min<uint64_t>(bytes, vu::kDataBytesMax); }

bool DmaMessages::fail(Trouble trouble) {
  trouble_ = trouble;
  return false;
}

bool DmaMessages::read(uint64_t address, std::span<uint8_t> to) {
  if (bytes_max_ == 0) return false;
  for (size_t done = 0; done < to.size();) {
    const vu::DmaAccess access{address + done, std::min(to.size() - done, bytes_max_)};
    request_.resize(sizeof access);
    std::memcpy(request_.data(), &access, sizeof access);
    if (!exchange(vu::Command::kDmaRead, request_)) return false;
    if (reply_.body.size() != sizeof access + access.count ||
        std::memcmp(reply_.body.data(), &access, sizeof access) != 0) {
      return fail(Trouble::kGone);
    }
    std::memcpy(to.data() + done, reply_.body.data() + sizeof access, access.count);
    done += access.count;
  }
  return true;
}

bool DmaMessages::write(uint64_t address, std::span<const uint8_t> from) {
  if (bytes_max_ == 0) return false;
  for (size_t done = 0; done < from.size();) {
    const vu::DmaAccess access{address + done, std::min(from.size() - done, bytes_max_)};
    request_.resize(sizeof access + access.count);
    std::memcpy(request_.data(), &access, sizeof access);
    std::memcpy(request_.data() + sizeof access, from.data() + done, access.count);
    if (!exchange(vu::Command::kDmaWrite, request_)) return false;
    if (!acknowledges(reply_.body, access)) return fail(Trouble::kGone);
    done += access.count;
  }
  return true;
}

/// Sends a command and waits for its answer. False when that is an error, or does not come.
bool DmaMessages::exchange(vu::Command command, std::span<const uint8_t> body) {
  if (channel_ == nullptr || trouble_ != Trouble::kNone) return false;
  const vu::Header header{next_id_++, static_cast<uint16_t>(command),
                          static_cast<uint32_t>(sizeof header + body.size()), vu::kTypeCommand, 0};
  const uint64_t begun_ns = monotonic_ns();
  bool sent = false, answered = false;
  while (!answered) {
    if (!channel_->flush()) return fail(Trouble::kGone);
    if (!sent && !channel_->sending()) {  // behind what the client has not read yet
      if (!channel_->begin_send(header, body)) return fail(Trouble::kGone);
      sent = true;
    }
    if (!receive(header, answered)) return false;
    if (!answered && !wait(begun_ns)) return false;
  }
  reply_.fds.clear();  // no answer has any
  waited_ns_ += monotonic_ns() - begun_ns;
  if (!sent) return fail(Trouble::kGone);
  return (reply_.header.flags & vu::kFlagError) == 0;
}

/// Takes the messages that have come, up to the answer. False: the client is in trouble.
bool DmaMessages::receive(const vu::Header& request, bool& answered) {
  for (;;) {
    switch (channel_->receive(reply_, 0)) {
      case vu::Channel::Received::kNothing:
        return true;
      case vu::Channel::Received::kClosed:
        return fail(Trouble::kGone);
      case vu::Channel::Received::kMessage:
        break;
    }
    if ((reply_.header.flags & vu::kTypeMask) == vu::kTypeCommand) {
      if (!defer()) return false;
      continue;
    }
    answered = reply_.header.message_id == request.message_id && reply_.header.command == request.command;
    return answered || fail(Trouble::kGone);
  }
}

bool DmaMessages::defer() {
  deferred_fds_ += reply_.fds.size();
  if (deferred_.size() >= kDeferredMax || deferred_fds_ > kDeferredFdsMax) return fail(Trouble::kGone);
  deferred_.push_back(std::move(reply_));
  reply_ = {};
  return true;
}

bool DmaMessages::take_deferred(vu::Message& command) {
  if (deferred_.empty()) return false;
  command = std::move(deferred_.front());
  deferred_.pop_front();
  deferred_fds_ -= command.fds.size();
  return true;
}

/// Waits a moment for something to happen. False: the client is in trouble.
bool DmaMessages::wait(uint64_t begun_ns) {
  if (stop_()) return fail(Trouble::kGone);
  if (waited_ns_ + (monotonic_ns() - begun_ns) >= patience_ns_) return fail(Trouble::kSlow);
  const short events = channel_->sending() ? POLLIN | POLLOUT : POLLIN;
  pollfd entry{channel_->fd(), events, 0};
  poll(&entry, 1, kSliceMs);
  return true;
}

}  // namespace mqnic::card
