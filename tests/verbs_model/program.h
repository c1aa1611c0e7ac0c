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

/// What a key stands for. Every endpoint has one of each, made before the first step. `offset` in a work request counts
/// from the start of the region's memory.
enum class Region : uint8_t {
  kSource,     // random bytes that must not change; no rights: local reads only
  kTarget,     // every right
  kReadOnly,   // the target's bytes; a peer may read and bind them, and neither side may write
  kForeign,    // the target's bytes in another PD: must not be used
  kLanding,    // local writes only: each receive, READ and atomic result has bytes of its own
  kWords,      // 64-bit words for atomics; every right
  kWindow,     // type 2 memory windows on the target
  kWindow2,    //
  kOldWindow,  // type 1
};
inline constexpr unsigned kRegions = 6;  // without windows
inline constexpr unsigned kWindows = 3;
constexpr bool is_window(Region region) { return static_cast<unsigned>(region) >= kRegions; }

inline constexpr uint32_t kSourceBytes = 16384;
inline constexpr uint32_t kTargetBytes = 16384;
inline constexpr uint32_t kLandingBytes = 65536;
inline constexpr uint32_t kWords = 8;        // FETCH_ADD uses the first half, COMPARE_SWAP the second
inline constexpr uint32_t kCounterWord = 3;  // every FETCH_ADD here adds 1, so that all are alike

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
  // For simulated hosts.
  uint32_t rx_frames = 0;  // in the port's receive queue; 0: no limit
  uint32_t turn_ns = 0;    // the most by which the host is late for frames and timers
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

/// In the language of roce/fabric/impairments.h, for frames to the endpoint.
struct Fault {
  uint8_t endpoint = 0;
  std::string text;
  /// Nothing is lost, repeated or reordered.
  bool harmless() const;
  /// It strikes at random: a few times in a hundred frames.
  bool random() const;
  /// It may strike any number of frames in a row.
  bool unlimited() const;
  bool reorders() const;
  bool operator==(const Fault&) const = default;
};

enum class Do : uint8_t {
  kPost,        // a send on `qp`; kFlush with `count` 1: of the whole region
  kReceive,     // a receive on `qp`, or on its shared receive queue
  kPoll,        // up to `count` completions of completion queue `cq` of `endpoint`
  kRun,         // lets `count` ns pass
  kSettle,      // until nothing more happens
  kModify,      // `qp` to `state`
  kConnect,     // `qp` and its peer through RESET to RTS, with new PSNs; `count` 1: at once, with earlier
                // packets in flight
  kDestroy,     // `qp`
  kDeregister,  // `region` of `endpoint`
  kRegister,    // again, under a new key
  // Troubles of simulated hosts.
  kLeap,     // the clock of `endpoint` leaps ahead by `count` ns
  kTxRoom,   // the port of `endpoint` takes `count` frames at a time from now on, or none, until all comes to rest
  kBuffers,  // `endpoint` runs out of frame buffers, or (`count` 1) has them again; until all comes to rest
  kCut,      // the cable to `endpoint` is cut, or (`count` 1) mended; until all comes to rest
  kSpoof,    // an off-path attacker sends `count` packets to `qp` in the name of its peer
  kVanish,   // the program of `qp` died and was restarted: another queue pair has its place, in RESET
  kRestart,  // the engine of `endpoint` loses its state; `count` 1: the next one uses the same numbers
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
  Region region = Region::kTarget;  // remote, for kPost; kBindMw: the one to bind to
  WrOpcode opcode = WrOpcode::kSend;
  uint8_t flags = 0;
  std::vector<Element> sges = {};
  uint32_t offset = 0;  // remote; kBindMw: of the window in the target
  bool wrong_rkey = false;
  uint32_t imm = 0;
  uint64_t compare = 0;
  uint64_t operand = 0;             // added, swapped in, or stored by ATOMIC_WRITE
  Region window = Region::kWindow;  // of kBindMw, kLocalInv and kSendWithInv
  uint32_t length = 0;              // kBindMw; kFlush: of the range
  uint32_t access = 0;              // for kBindMw
  uint8_t to = 0;                   // UD: the destination queue pair
  bool operator==(const Step&) const = default;
};

struct Program {
  uint64_t seed = 1;  // for queue pair numbers, keys and host delays
  std::vector<Endpoint> endpoints = {{}, {}};
  std::vector<QueuePair> qps = {{.endpoint = 0}, {.endpoint = 1}};
  std::vector<Fault> faults = {};
  std::vector<Step> steps = {};
  bool operator==(const Program&) const = default;
};

/// C++ that builds the same program: only what differs from the defaults above.
std::string to_cpp(const Program& program);

}  // namespace uroce::model
