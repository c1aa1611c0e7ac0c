#include "edited_capture.h"

#include <fstream>
#include <iterator>
#include <stdexcept>

#include "base/big_endian.h"
#include "packet/crc32.h"
#include "packet/icrc.h"
#include "pcap/pcap_writer.h"
#include "pcap/reader.h"

namespace uroce::test {

uint32_t EditedFrame::psn() { return load_be24(bth() + 9); }
void EditedFrame::set_psn(uint32_t psn) { store_be24(bth() + 9, psn); }
void EditedFrame::set_pkey(uint16_t pkey) { store_be16(bth() + 2, pkey); }
void EditedFrame::set_dest_qp(uint32_t qpn) { store_be24(bth() + 5, qpn); }
void EditedFrame::set_msn(uint32_t msn) { store_be24(ext() + 1, msn); }

void EditedFrame::resize_payload(size_t header_bytes, size_t payload_bytes) {
  bytes.resize(ext_at() + header_bytes + payload_bytes + kIcrcBytes);
}

void EditedFrame::fix_ip_checksum() {
  if (!is_v4()) return;
  store_be16(ip() + 10, 0);
  uint32_t sum = 0;
  for (unsigned i = 0; i < 20; i += 2) sum += load_be16(ip() + i);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  store_be16(ip() + 10, static_cast<uint16_t>(~sum));
}

void EditedFrame::fix_ip() {
  const auto ip_bytes = static_cast<uint16_t>(bytes.size() - 14);
  if (is_v4()) {
    store_be16(ip() + 2, ip_bytes);
    fix_ip_checksum();
  } else {
    store_be16(ip() + 4, static_cast<uint16_t>(ip_bytes - 40));
  }
  store_be16(udp() + 4, static_cast<uint16_t>(ip_bytes - (is_v4() ? 20 : 40)));
}

void EditedFrame::fix_icrc() {
  const size_t end = bytes.size() - kIcrcBytes;
  uint32_t state = icrc_begin(ip(), !is_v4());
  state = crc32_update(state, ext(), end - ext_at());
  icrc_store(bytes.data() + end, state);
}

std::vector<uint8_t> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) throw std::runtime_error(path + " cannot be read");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

EditedCapture::EditedCapture(const std::string& name) {
  const std::vector<uint8_t> file = read_file(std::string(UROCE_PCAP_DIR "/") + name + ".pcap");
  pcap::CaptureReader reader(file);
  for (pcap::Frame frame; reader.next(frame);) {
    frames_.push_back({frame.time, {frame.bytes.begin(), frame.bytes.end()}});
  }
  if (reader.error()) throw std::runtime_error(name + ": " + reader.error()->text);
}

void EditedCapture::edit(size_t number, const std::function<void(EditedFrame&)>& change) {
  EditedFrame& frame = at(number);
  change(frame);
  frame.fix_ip();
  frame.fix_icrc();
}

void EditedCapture::repeat(size_t number, size_t after) {
  EditedFrame copy = at(number);
  copy.time = at(after).time;
  frames_.insert(frames_.begin() + static_cast<std::ptrdiff_t>(after), copy);
}

void EditedCapture::insert_after(size_t number, const std::vector<uint8_t>& frame) {
  frames_.insert(frames_.begin() + static_cast<std::ptrdiff_t>(number), {at(number).time, frame});
}

std::vector<uint8_t> EditedCapture::file() const {
  pcap::PcapWriter writer;
  for (const EditedFrame& frame : frames_) writer.add(frame.time, frame.bytes);
  return writer.bytes();
}

lint::Linter EditedCapture::lint() const {
  lint::Linter linter;
  for (size_t i = 0; i < frames_.size(); i++) {
    pcap::Frame frame;
    frame.number = i + 1;
    frame.time = frames_[i].time;
    frame.has_time = true;
    frame.bytes = frames_[i].bytes;
    frame.original_bytes = static_cast<uint32_t>(frames_[i].bytes.size());
    frame.direction = frames_[i].direction;
    linter.on_frame(frame);
  }
  linter.finish();
  return linter;
}

lint::Linter lint_file(const std::vector<uint8_t>& file, const lint::LintOptions& options) {
  lint::Linter linter(options);
  pcap::CaptureReader reader(file);
  for (pcap::Frame frame; reader.next(frame);) linter.on_frame(frame);
  linter.finish();
  return linter;
}

std::string findings_text(const lint::Linter& linter, lint::Severity least) {
  std::string text;
  for (const lint::Finding& finding : linter.findings().kept()) {
    if (finding.severity < least) continue;
    text += std::to_string(finding.frame) + " " + lint::severity_name(finding.severity) + " " +
            lint::rule_info(finding.rule).id + ": " + finding.text + "\n";
  }
  return text;
}

}  // namespace uroce::test
