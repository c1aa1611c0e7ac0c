// Draws the operations of one end of a reliable connection, writes down what each must do, and posts them.
//
// The oracle is program order. A WRITE or an atomic changes the model of the peer's memory when it is posted; a READ
// notes then what it must return. What the transport may do out of that order (a READ's memory is looked at late, and
// again on a retry) is excluded by a fence where a later operation would change what an earlier READ returns.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "oracle/rc_context.h"

namespace uroce::oracle {

class OperationDrawer {
 public:
  explicit OperationDrawer(RcContext& context) : c_(context) {}

  /// Some, as far as there is room.
  void post_some();

 private:
  bool post_one();
  WrOpcode draw_opcode();
  uint32_t draw_length();
  std::vector<Span> draw_source(uint32_t bytes);
  bool draw_landing(PostedOp& op);
  void overlap_fence(SendWr& wr, uint32_t offset, uint32_t bytes);
  uint32_t choose_remote(SendWr& wr, uint32_t bytes);

  // What an operation brings with it. False: not now.
  bool prepare(SendWr& wr, PostedOp& op);
  bool prepare_send(SendWr& wr, PostedOp& op);
  bool prepare_write(SendWr& wr, PostedOp& op);
  bool prepare_read(SendWr& wr, PostedOp& op);
  bool prepare_atomic(SendWr& wr, PostedOp& op);
  bool prepare_placement(SendWr& wr, PostedOp& op);
  bool prepare_bind(SendWr& wr, PostedOp& op);

  void note_before(PostedOp& op, uint32_t offset, uint32_t bytes);
  void note_after(PostedOp& op);
  void add_source(SendWr& wr, uint32_t bytes);
  bool submit(SendWr& wr, PostedOp&& op);

  RcContext& c_;
  // Of the operation being posted.
  std::vector<Span> source_;
  std::vector<uint8_t> inline_bytes_;  // scribbled over as soon as it is posted
  std::vector<Sge> sges_;
};

}  // namespace uroce::oracle
