#include "replay/player.h"

#include <algorithm>

#include "engine/address_table.h"
#include "engine/bring_up.h"
#include "engine/object_tables.h"
#include "packet/crc32.h"
#include "packet/host_frames.h"
#include "packet/icrc.h"
#include "transport/address_handle.h"
#include "transport/completion_queue.h"
#include "transport/qp_init.h"

namespace uroce::replay {

namespace {

constexpr MacAddress kOurMac{{0x02, 0, 0, 0, 0, 1}};
constexpr MacAddress kPeerMac{{0x02, 0, 0, 0, 0, 2}};

EngineConfig config_of(const PlayerSetup& setup) {
  EngineConfig config;
  config.mac = kOurMac;
  config.addresses = {{setup.own, static_cast<uint8_t>(setup.own.is_v4() ? 24 : 64), 0}};
  config.max_frame_bytes = kFrameBytes;
  config.max_qps = 4;
  config.max_regions = 4096;
  config.window_packets = 1 << 16;  // the window of the recorded sender is not judged
  config.ack_delay = {0};
  config.grant_credits = false;
  return config;
}

}  // namespace

Player::Player(const PlayerSetup& setup, PlayerPort& player_port) : player_port_(player_port) {
  engine_ =
      std::make_unique<Engine>(config_of(setup), static_cast<Port&>(*this), random_, static_cast<Observer&>(*this));
  pd_ = engine_->objects().allocate_pd();
  cq_ = engine_->objects().create_cq(8192, nullptr);
  connect(setup);
  if (!error_.empty()) return;
  turn(kNoLimit);
  resolve(setup);
  turn(kNoLimit);
  sent.clear();
}

Player::~Player() = default;

void Player::connect(const PlayerSetup& setup) {
  QpInit init;
  init.type = setup.type;
  init.pd = pd_;
  init.send_cq = init.recv_cq = cq_;
  init.cap = {setup.send_work_requests, 64, 2, 2, 0};
  init.sq_sig_all = true;
  qp_ = engine_->create_qp(init, nullptr);
  QpAttributes attributes = setup.attributes;
  attributes.av.dgid = setup.peer;
  const auto gids = engine_->addresses().gids();
  for (size_t i = 0; i < gids.size(); i++) {
    if (gids[i].ip == setup.own) attributes.av.sgid_index = static_cast<uint8_t>(i);
  }
  const ModifyResult result = bring_up(*engine_, *qp_, attributes, QpState::kRts, now_);
  if (result != ModifyResult::kOk) {
    error_ = std::string("the engine refuses the QP: ") + modify_result_text(result);
    return;
  }
  if (setup.type == QpType::kUd) ah_ = engine_->create_ah(pd_, attributes.av, now_);
}

void Player::resolve(const PlayerSetup& setup) {
  uint8_t frame[256];
  const uint32_t bytes = encode_neighbour_answer(frame, {kOurMac, kPeerMac, 0}, setup.peer, setup.own);
  deliver({frame, bytes});
}

void Player::turn(uint32_t packets) {
  allowed_ = packets;
  std::deque<Bytes> frames;
  bool active = true;
  while (active) {
    active = engine_->turn(now_) != 0;
    player_port_.collect(frames);
  }
  allowed_ = 0;
  for (Bytes& frame : frames) {
    PacketView view;
    if (parse_frame(frame, view) != ParseResult::kNotRoce) sent.push_back(std::move(frame));  // else ARP and the like
  }
  cq_->drain(UINT32_MAX, [this](const Completion& completion) { completions.push_back(completion); });
}

Bytes Player::readdressed(const Recorded& recorded, uint32_t qpn, uint32_t rkey) {
  Bytes bytes = recorded.bytes;
  if (!recorded.parsed) return bytes;  // the engine drops it before it looks for a QP
  const PacketView& view = recorded.view;
  const auto at = [&](const uint8_t* where) { return bytes.data() + (where - recorded.bytes.data()); };
  store_be32(at(view.bth_bytes) + 4, (uint32_t{view.bth.resv8a} << 24) | qpn);
  const uint32_t reth_at = view.info->has(kHasFeth) ? Feth::kBytes : 0;
  if (view.info->has(kHasReth)) store_be32(at(view.ext) + reth_at + 8, rkey);
  if (view.info->has(kHasAtomicEth)) store_be32(at(view.ext) + 8, rkey);
  if (view.info->has(kHasIeth)) store_be32(at(view.payload) - Ieth::kBytes, rkey);
  const uint8_t* const l3 = at(view.l3);
  const uint8_t* const after_bth = at(view.bth_bytes) + Bth::kBytes;
  uint8_t* const icrc = at(view.l3) + view.l3_bytes - kIcrcBytes;
  const uint32_t state = icrc_begin(l3, view.ipv6);
  icrc_store(icrc, crc32_update(state, after_bth, static_cast<size_t>(icrc - after_bth)));
  if (!recorded.icrc_right) icrc[0] ^= 0xFF;
  return bytes;
}

uint32_t Player::receive(RxFrame* frames, uint32_t max) { return player_port_.port().receive(frames, max); }

void Player::release_rx(RxFrame* frames, uint32_t count) { player_port_.port().release_rx(frames, count); }

uint32_t Player::acquire_tx(TxFrame* frames, uint32_t max) {
  const uint32_t count = std::min(max, allowed_);
  return count == 0 ? 0 : player_port_.port().acquire_tx(frames, count);
}

void Player::send(TxFrame* frames, uint32_t count) {
  for (uint32_t i = 0; i < count && allowed_ != kNoLimit; i++) {
    PacketView view;
    const bool packet =
        frames[i].bytes != 0 && parse_frame({frames[i].data, frames[i].bytes}, view) != ParseResult::kNotRoce;
    if (packet && allowed_ != 0) allowed_--;
  }
  player_port_.port().send(frames, count);
}

void Player::on_error_completion(const Qp& /*qp*/, const Completion& completion) {
  if (completion.cause != Cause::kFlushed) reasons.emplace_back(cause_text(completion.cause));
}

void Player::on_responder_error(const Qp& /*qp*/, Cause cause) { reasons.emplace_back(cause_text(cause)); }

}  // namespace uroce::replay
