// A capture whose frames a test may change, with the lengths, checksums and iCRC put right again afterwards: only the
// planted fault is wrong.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lint/linter.h"
#include "pcap/reader.h"
#include "uroce/time.h"

namespace uroce::test {

struct EditedFrame {
  Instant time{};
  std::vector<uint8_t> bytes;
  pcap::FrameDirection direction = pcap::FrameDirection::kUnknown;  // not in `file`

  uint8_t* ip() { return bytes.data() + 14; }
  bool is_v4() { return ip()[0] >> 4 == 4; }
  uint8_t* udp() { return ip() + (is_v4() ? 20 : 40); }
  uint8_t* bth() { return udp() + 8; }
  uint8_t* ext() { return bth() + 12; }
  size_t ext_at() { return static_cast<size_t>(ext() - bytes.data()); }

  void set_opcode(uint8_t opcode) { bth()[0] = opcode; }
  uint32_t psn();
  void set_psn(uint32_t psn);
  void set_pkey(uint16_t pkey);
  void set_dest_qp(uint32_t qpn);
  /// AETH right behind the BTH.
  void set_syndrome(uint8_t syndrome) { ext()[0] = syndrome; }
  void set_msn(uint32_t msn);
  /// The bytes between the extension headers of `header_bytes` and the iCRC.
  void resize_payload(size_t header_bytes, size_t payload_bytes);

  /// Sets lengths and checksum from the frame's size.
  void fix_ip();
  void fix_ip_checksum();
  void fix_icrc();
};

class EditedCapture {
 public:
  /// Reads tests/conformance/pcap/NAME.pcap.
  explicit EditedCapture(const std::string& name);
  explicit EditedCapture(std::vector<EditedFrame> frames) : frames_(std::move(frames)) {}

  size_t size() const { return frames_.size(); }
  /// `number` counts from 1, as in other tools, in the capture as it is now.
  EditedFrame& at(size_t number) { return frames_.at(number - 1); }
  /// Changes a frame, then corrects IP, UDP and iCRC.
  void edit(size_t number, const std::function<void(EditedFrame&)>& change);
  /// Changes a frame and corrects nothing.
  void spoil(size_t number, const std::function<void(EditedFrame&)>& change) { change(at(number)); }
  void remove(size_t number) { frames_.erase(frames_.begin() + static_cast<std::ptrdiff_t>(number - 1)); }
  /// Inserts a copy of frame `number` right behind frame `after`.
  void repeat(size_t number, size_t after);
  void insert_after(size_t number, const std::vector<uint8_t>& frame);

  std::vector<uint8_t> file() const;
  /// Runs the linter over the capture as it is, with the directions.
  lint::Linter lint() const;

 private:
  std::vector<EditedFrame> frames_;
};

/// Rules whose faults are planted in captures of our own, since no other stack has selective repeat:
/// selective_faults_test.cc.
inline constexpr const char* kSelectiveRules[] = {"sack-form",   "sack-range",    "sack-order",    "sack-unsent",
                                                  "sack-unseen", "sack-unsigned", "sack-stranger", "retransmit-held"};

/// Runs the linter over a whole capture file.
lint::Linter lint_file(const std::vector<uint8_t>& file, const lint::LintOptions& options = {});
/// The findings, a line each: "12 error psn-gap: text".
std::string findings_text(const lint::Linter& linter, lint::Severity least = lint::Severity::kNote);
std::vector<uint8_t> read_file(const std::string& path);

}  // namespace uroce::test
