#include "datagram_qp.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "errors.h"

namespace uroce::ping {
namespace {

constexpr uint32_t kReceives = 64;
constexpr uint32_t kLongestPayload = 4096;
constexpr uint32_t kReceiveBytes = kGrhBytes + kLongestPayload;

/// An answer that is on its way is polled for; sleeping would be a part of its time.
constexpr auto kPolls = std::chrono::milliseconds(1);
/// A datagram leaves as soon as the neighbour's MAC is known, or fails when there is none.
constexpr auto kSendTimeout = std::chrono::seconds(10);

}  // namespace

std::unique_ptr<DatagramQp> DatagramQp::create(ibv_context* device, uint8_t port, std::string& error) {
  std::unique_ptr<DatagramQp> qp(new DatagramQp);
  if (!qp->open(device, port, error)) return nullptr;
  return qp;
}

bool DatagramQp::open(ibv_context* device, uint8_t port, std::string& error) {
  ibv_port_attr attributes{};
  if (ibv_query_port(device, port, &attributes) != 0) return failed("ibv_query_port", error);
  port_ = port;
  longest_ = std::min(128u << attributes.active_mtu, kLongestPayload);
  memory_.resize(kReceives * kReceiveBytes + kLongestPayload);
  pd_.reset(ibv_alloc_pd(device));
  if (!pd_) return failed("ibv_alloc_pd", error);
  region_.reset(ibv_reg_mr(pd_.get(), memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE));
  if (!region_) return failed("ibv_reg_mr", error);
  channel_.reset(ibv_create_comp_channel(device));
  if (!channel_) return failed("ibv_create_comp_channel", error);
  receive_cq_.reset(ibv_create_cq(device, kReceives, nullptr, channel_.get(), 0));
  send_cq_.reset(ibv_create_cq(device, 1, nullptr, nullptr, 0));
  if (!receive_cq_ || !send_cq_) return failed("ibv_create_cq", error);
  ibv_qp_init_attr attr{};
  attr.send_cq = send_cq_.get();
  attr.recv_cq = receive_cq_.get();
  attr.cap = {.max_send_wr = 1, .max_recv_wr = kReceives, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  attr.qp_type = IBV_QPT_UD;
  attr.sq_sig_all = 1;
  qp_.reset(ibv_create_qp(pd_.get(), &attr));
  if (!qp_) return failed("ibv_create_qp", error);
  if (!to_ready_to_send(port, error)) return false;
  for (uint64_t i = 0; i < kReceives; i++) {
    if (!post_receive(i)) return failed("ibv_post_recv", error);
  }
  if (ibv_req_notify_cq(receive_cq_.get(), 0) != 0) return failed("ibv_req_notify_cq", error);
  return true;
}

bool DatagramQp::to_ready_to_send(uint8_t port, std::string& error) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = port;
  attr.qkey = kDatagramQkey;
  if (ibv_modify_qp(qp_.get(), &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) != 0)
    return failed("ibv_modify_qp to INIT", error);
  attr.qp_state = IBV_QPS_RTR;
  if (ibv_modify_qp(qp_.get(), &attr, IBV_QP_STATE) != 0) return failed("ibv_modify_qp to RTR", error);
  attr.qp_state = IBV_QPS_RTS;
  if (ibv_modify_qp(qp_.get(), &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) != 0) return failed("ibv_modify_qp to RTS", error);
  return true;
}

bool DatagramQp::post_receive(uint64_t index) {
  ibv_sge sge{reinterpret_cast<uint64_t>(&memory_[index * kReceiveBytes]), kReceiveBytes, region_->lkey};
  ibv_recv_wr wr{};
  wr.wr_id = index;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(qp_.get(), &wr, &bad) == 0;
}

bool DatagramQp::send(const Message& message, uint32_t bytes, const Peer& to, std::string& error) {
  const std::span datagram(&memory_[kReceives * kReceiveBytes], kLongestPayload);
  encode(message, datagram);
  ibv_sge sge{reinterpret_cast<uint64_t>(datagram.data()), bytes, region_->lkey};
  ibv_send_wr wr{};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  wr.wr.ud = {to.ah, to.qpn, to.qkey};
  ibv_send_wr* bad = nullptr;
  if (const int result = ibv_post_send(qp_.get(), &wr, &bad); result != 0) {
    errno = result;
    return failed("ibv_post_send", error);
  }
  ibv_wc completion;
  const Clock::time_point deadline = Clock::now() + kSendTimeout;
  while (ibv_poll_cq(send_cq_.get(), 1, &completion) == 0) {
    if (Clock::now() > deadline) {
      error = "the device does not send";
      return false;
    }
    std::this_thread::yield();
  }
  if (completion.status == IBV_WC_SUCCESS) return true;
  error = std::string("a datagram was not sent: ") + ibv_wc_status_str(completion.status);
  return false;
}

std::optional<DatagramQp::Arrival> DatagramQp::take(ibv_wc& completion) {
  if (completion.status != IBV_WC_SUCCESS) return {};
  uint8_t* const received = &memory_[completion.wr_id * kReceiveBytes];
  std::optional<Arrival> arrival;
  if (completion.byte_len >= kGrhBytes && (completion.wc_flags & IBV_WC_GRH) != 0) {
    const std::span datagram(received + kGrhBytes, completion.byte_len - kGrhBytes);
    if (const auto message = decode(datagram)) {
      arrival.emplace();
      arrival->message = *message;
      arrival->bytes = static_cast<uint32_t>(datagram.size());
      arrival->traffic_class = traffic_class_of(std::span<const uint8_t, kGrhBytes>(received, kGrhBytes));
      arrival->sender.reset(ibv_create_ah_from_wc(pd_.get(), &completion, reinterpret_cast<ibv_grh*>(received), port_));
      arrival->sender_qpn = completion.src_qp;
    }
  }
  post_receive(completion.wr_id);
  return arrival;
}

std::optional<DatagramQp::Arrival> DatagramQp::next(Clock::time_point deadline) {
  const Clock::time_point sleeps = Clock::now() + kPolls;
  for (;;) {
    ibv_wc completion;
    while (ibv_poll_cq(receive_cq_.get(), 1, &completion) > 0) {
      if (auto arrival = take(completion)) return arrival;
    }
    const Clock::time_point now = Clock::now();
    if ((now >= sleeps || now >= deadline) && !wait(deadline)) return {};
  }
}

/// The queue was asked to tell of the next completion when it last told of one, and at first.
bool DatagramQp::wait(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  pollfd readable{.fd = channel_->fd, .events = POLLIN, .revents = 0};
  if (poll(&readable, 1, static_cast<int>(std::max<int64_t>(left.count(), 0))) <= 0) return false;
  ibv_cq* told = nullptr;
  void* context = nullptr;
  if (ibv_get_cq_event(channel_.get(), &told, &context) != 0) return false;
  ibv_ack_cq_events(told, 1);
  ibv_req_notify_cq(told, 0);
  return true;
}

}  // namespace uroce::ping
