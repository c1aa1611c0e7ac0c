// A small verbs program as a value: what exists, what is posted and done, and what goes wrong on the wires.
//
// Programs are drawn from a seed (generate.h), carried out on a machine (machine.h, run.h), judged (model.h), made
// short when they fail (campaign.h), and printed as C++ that builds the same value: paste it into model_test.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "congestion/config.h"
#include "uroce/qp_attributes.h"
#include "uroce/work_request.h"

namespace uroce::model {

/// What a key stands for. Every endpoint has all of them, made before the first step. `offset` in a work request counts
/// from the start of the memory that the region covers.
enum class Region : uint8_t {
  kSource,     // random bytes that nobody may change; no rights at all: may be read locally
  kTarget,     // every right
  kReadOnly,   // the target's bytes, which a peer may read and bind; neither side may write through it
  kForeign,    // the target's bytes, in another PD: nobody may use it
  kLanding,    // local writes only: each receive, READ and atomic result gets bytes of its own
  kWords,      // 64-bit words for atomics; every right
  kWindow,     // type 2 memory windows on the target
  kWindow2,    //
  kOldWindow,  // type 1
};
inline constexpr unsigned kRegions = 6;  // that are no windows
inline constexpr unsigned kWindows = 3;
constexpr bool is_window(Region region) { return static_cast<unsigned>(region) >= kRegions; }

inline constexpr uint32_t kSourceBytes = 16384;
inline constexpr uint32_t kTargetBytes = 16384;
inline constexpr uint32_t kLandingBytes = 65536;
inline constexpr uint32_t kWords = 8;        // FETCH_ADD uses the first half, COMPARE_SWAP the other
inline constexpr uint32_t kCounterWord = 3;  // each FETCH_ADD adds one here, so that one looks like another

struct Element {
  Region region = Region::kSource;
  uint32_t offset = 0;
  uint32_t length = 0;
  bool wrong_key = false;
  bool operator==(const Element&) const = default;
};

struct Endpoint {
  uint32_t cq_entries[2] = {256, 256};
  uint32_t srq_wrs = 0;  // 0: no shared receive queue
  uint32_t srq_limit = 0;
  // Of simulated hosts.
  uint32_t rx_frames = 0;  // that the port's receive queue holds; 0: all that come
  uint32_t turn_ns = 0;    // how late the host comes to its frames and timers, at most
  CongestionAlgorithm congestion = CongestionAlgorithm::kNone;
  bool obeys_pauses = false;
  bool operator==(const Endpoint&) const = default;
};

/// Queue pairs 2n and 2n + 1 are connected to each other; both may be on one endpoint.
struct QueuePair {
  uint8_t endpoint = 0;
  QpType type = QpType::kRc;
  uint8_t send_cq = 0;
  uint8_t recv_cq = 1;
  bool srq = false;
  bool signal_all = false;
  uint32_t send_wrs = 16;
  uint32_t recv_wrs = 16;
  uint32_t sges = 4;
  uint32_t inline_bytes = 64;
  uint32_t mtu = 1024;
  uint32_t access = kRemoteWrite | kRemoteRead | kRemoteAtomic;
  uint8_t retries = 7;
  uint8_t rnr_retries = 7;
  uint8_t reads = 4;  // max_rd_atomic and max_dest_rd_atomic
  LossRecovery recovery = LossRecovery::kGoBackN;
  bool ipv6 = false;
  bool operator==(const QueuePair&) const = default;
};

/// In the language of roce/fabric/impairments.h, for frames towards the endpoint.
struct Fault {
  uint8_t endpoint = 0;
  std::string text;
  /// Nothing is lost, and nothing comes twice or out of turn.
  bool harmless() const;
  /// It strikes by chance: a few times in a hundred frames.
  bool random() const;
  /// Nobody knows how many frames in a row it concerns.
  bool unlimited() const;
  bool reorders() const;
  bool operator==(const Fault&) const = default;
};

enum class Do : uint8_t {
  kPost,     // a send work request on `qp`; kFlush: with `count` 1, of all of the region
  kReceive,  // a receive on `qp`, or on its shared receive queue
  kPoll,     // up to `count` completions of completion queue `cq` of `endpoint`
  kRun,      // time goes on by `count` ns
  kSettle,   // until nothing happens any more
  kModify,   // `qp` to `state`
  kConnect,  // `qp` and its peer through RESET to RTS, with new sequence numbers; `count` 1: at once, with packets of
             // before under way
  kDestroy,  // `qp`
  kDeregister,  // `region` of `endpoint`
  kRegister,    // again, with a new key
  // What befalls simulated hosts.
  kLeap,     // the clock of `endpoint` goes on by `count` ns at once
  kTxRoom,   // the port of `endpoint` takes `count` frames at a time from now on, or none; until all comes to rest
  kBuffers,  // frame buffers of `endpoint` are used up, or (`count` 1) there again; until all comes to rest
  kCut,      // the cable to `endpoint` is cut, or (`count` 1) whole again; until all comes to rest
  kSpoof,    // somebody who is not on the path sends `count` packets to `qp`, in the name of its peer
  kVanish,   // the program behind `qp` died and was started again: another queue pair has its place, in RESET
  kRestart,  // the engine of `endpoint` goes with all that it knows; `count` 1: the next one gives the same numbers
};

inline bool is_answered_with_data(WrOpcode opcode) {
  return opcode == WrOpcode::kRdmaRead || opcode == WrOpcode::kCompareSwap || opcode == WrOpcode::kFetchAdd;
}

inline bool is_placement(WrOpcode opcode) { return opcode == WrOpcode::kFlush || opcode == WrOpcode::kAtomicWrite; }

struct Step {
  Do what = Do::kRun;
  uint8_t qp = 0;
  uint8_t endpoint = 0;
  uint8_t cq = 0;
  uint32_t count = 0;
  QpState state = QpState::kErr;
  Region region = Region::kTarget;  // remote, of kPost; kBindMw: that the window is bound to
  WrOpcode opcode = WrOpcode::kSend;
  uint8_t flags = 0;
  std::vector<Element> sges = {};
  uint32_t offset = 0;  // remote; kBindMw: of the window in the target
  bool wrong_rkey = false;
  uint32_t imm = 0;
  uint64_t compare = 0;
  uint64_t operand = 0;             // added, swapped in, or written at once
  Region window = Region::kWindow;  // of kBindMw, kLocalInv and kSendWithInv
  uint32_t length = 0;              // kBindMw; kFlush: of the range
  uint32_t access = 0;              // kBindMw
  uint8_t to = 0;                   // UD: the queue pair that is sent to
  bool operator==(const Step&) const = default;
};

struct Program {
  uint64_t seed = 1;  // of queue pair numbers, keys and host delays
  std::vector<Endpoint> endpoints = {{}, {}};
  std::vector<QueuePair> qps = {{.endpoint = 0}, {.endpoint = 1}};
  std::vector<Fault> faults = {};
  std::vector<Step> steps = {};
  bool operator==(const Program&) const = default;
};

/// C++ that makes the same program: only what differs from the defaults above.
std::string to_cpp(const Program& program);

}  // namespace uroce::model
