// A program that works while another scribbles: an engine on a segment, connected with all the other victims. It sends
// each of them messages without end, and looks at every byte that it receives.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "board.h"
#include "engine/engine.h"
#include "engine/qpn_blocks.h"
#include "segment/segment_port.h"
#include "transport/completion_queue.h"
#include "transport/observer.h"

namespace uroce::segment::test {

class Victim final : public QpnBlocks, public Observer {
 public:
  /// Every second one sleeps when there is nothing to do; the others poll. Two share one host, the other two another.
  Victim(Board& board, uint32_t number) : board_(board), me_(board.victims[number]), number_(number) {}

  /// Works until the board ends it. Returns an error, or "".
  std::string run(const std::string& directory);

 private:
  static constexpr uint32_t kDepth = 4;
  static constexpr uint32_t kBytes = 12'000;

  struct Partner {
    Qp* qp = nullptr;
    uint32_t sent = 0;
    uint32_t received = 0;
    uint32_t key = 0;
    std::vector<uint32_t> memory;  // kDepth messages to send, and room to receive as many
  };

  std::optional<uint32_t> take() override { return port_->take_block(); }
  void on_error_completion(const Qp& qp, const Completion& completion) override;

  bool open(const std::string& directory);
  void make_partner(uint32_t other);
  void connect(uint32_t other);
  void post_send(uint32_t other);
  void post_receive(uint32_t other, uint32_t message);
  void on_completion(const Completion& completion);
  void check_message(uint32_t other);
  void turn();
  void rest();
  void complain(const std::string& what);
  void check_resources();

  Board& board_;
  Board::Victim& me_;
  const uint32_t number_;
  std::string trouble_;
  SystemRandom random_;
  std::unique_ptr<SegmentPort> port_;
  std::unique_ptr<Engine> engine_;
  CompletionQueue* cq_ = nullptr;
  PdId pd_ = 0;
  Instant now_{0};
  Instant busy_{0};  // time of its last work
  Partner partners_[Board::kVictims];
};

}  // namespace uroce::segment::test
