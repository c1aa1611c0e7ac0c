// What uroce-lint prints.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lint/linter.h"
#include "pcap/reader.h"

namespace uroce::lint_app {

/// Everything about one capture.
struct Report {
  std::string path;
  const lint::Linter& linter;
  const std::optional<pcap::CaptureError>& error;  // set when the file is damaged or cut
  uint64_t lost_frames = 0;                        // according to the file
};

/// "192.168.77.3 -> 192.168.77.2 QP 0x51"
std::string flow_text(const lint::Linter& linter, uint32_t flow);

/// Every flow that has packets, once, with the flow in the other direction or kNoFlow.
std::vector<std::pair<uint32_t, uint32_t>> connections_of(const lint::Linter& linter);

void print_findings(const Report& report);
void print_summary(const Report& report);
void print_totals(const Report& report);
/// One JSON object on one line.
void print_json(const Report& report);
/// One decoded packet as JSON, on one line.
void print_packet(const lint::Packet& packet);
void print_rules();

}  // namespace uroce::lint_app
