// The three descriptors on which a verbs program waits, each with a way to make an event and to take it.
#pragma once

#include <poll.h>
#include <rdma/rdma_cma.h>

#include <vector>

#include "verbs_fixture.h"

namespace verbs_test {

inline constexpr int kPatienceMs = 10000;

/// Whether the descriptor is readable, and reports nothing else.
inline bool readable(int fd, int timeout_ms) {
  pollfd p{fd, POLLIN, 0};
  return ::poll(&p, 1, timeout_ms) == 1 && p.revents == POLLIN;
}

class EventSource {
 public:
  virtual ~EventSource() = default;
  virtual int fd() const = 0;
  /// Raises one more event, which may come a moment later.
  virtual void raise() = 0;
  /// Takes one as a program does, and blocks unless the descriptor is non-blocking. Returns 0 or the errno. A
  /// cancellation point.
  virtual int take() = 0;
};

/// Of a completion channel: each is a receive that is flushed.
class CompletionEvents final : public EventSource {
 public:
  CompletionEvents() { to_error(qp_.get()); }
  int fd() const override { return channel_->fd; }
  void raise() override;
  int take() override;

 private:
  Owned<ibv_pd> pd_{ibv_alloc_pd(device())};
  Owned<ibv_comp_channel> channel_{ibv_create_comp_channel(device())};
  Owned<ibv_cq> cq_{ibv_create_cq(device(), 16, nullptr, channel_.get(), 0)};
  Owned<ibv_qp> qp_{make_qp(pd_.get(), cq_.get(), cq_.get(), {})};
};

/// Of the async descriptor of a context of its own: each is a send queue that is drained.
class AsyncEvents final : public EventSource {
 public:
  AsyncEvents();
  ~AsyncEvents() override;
  int fd() const override { return context_->async_fd; }
  void raise() override;
  int take() override;

 private:
  ibv_context* context_;
  Owned<ibv_pd> pd_;
  Owned<ibv_cq> cq_;
  Owned<ibv_qp> qp_;
};

/// Of a channel of rdma_cm: each is an address that is resolved.
class ConnectionEvents final : public EventSource {
 public:
  ~ConnectionEvents() override;
  int fd() const override { return channel_->fd; }
  void raise() override;
  int take() override;

 private:
  rdma_event_channel* channel_ = rdma_create_event_channel();
  std::vector<rdma_cm_id*> ids_;
};

}  // namespace verbs_test
