// Stands in for Abseil's own, which is younger than Debian 12's Abseil: what rdma-unit-test uses of it. A line of ERROR
// goes to the error stream, as with Abseil. Abseil shows lesser lines only if it is asked to, so here they are not even
// formed: the programs in traffic/ have several of them for each operation. A line of FATAL ends the program.
#pragma once

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <sstream>

namespace rdma_unit_test_adapters {

class Line {
 public:
  Line(char severity, const char* file, int line) { text_ << severity << ' ' << file << ':' << line << "] "; }
  ~Line() { std::cerr << (text_.str() + '\n') << std::flush; }

  std::ostream& stream() { return text_; }

 private:
  std::ostringstream text_;
};

class FatalLine {
 public:
  FatalLine(const char* file, int line) { text_ << "F " << file << ':' << line << "] "; }
  [[noreturn]] ~FatalLine() {
    std::cerr << (text_.str() + '\n') << std::flush;
    std::abort();
  }

  std::ostream& stream() { return text_; }

 private:
  std::ostringstream text_;
};

// Binds less tightly than `<<` and more than `?:`.
struct Voidify {
  void operator&(std::ostream& /*stream*/) const {}
};

inline bool is_due(std::chrono::steady_clock::time_point& next, double seconds) {
  const auto now = std::chrono::steady_clock::now();
  if (now < next) {
    return false;
  }
  next = now + std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
  return true;
}

}  // namespace rdma_unit_test_adapters

#define RUT_LOG_INFO ::rdma_unit_test_adapters::Line('I', __FILE__, __LINE__).stream()
#define RUT_LOG_WARNING ::rdma_unit_test_adapters::Line('W', __FILE__, __LINE__).stream()
#define RUT_LOG_ERROR ::rdma_unit_test_adapters::Line('E', __FILE__, __LINE__).stream()
#define RUT_LOG_FATAL ::rdma_unit_test_adapters::FatalLine(__FILE__, __LINE__).stream()

#define RUT_SAYS_INFO false
#define RUT_SAYS_WARNING false
#define RUT_SAYS_ERROR true
#define RUT_SAYS_FATAL true

#define LOG_IF(severity, condition) \
  !(RUT_SAYS_##severity && (condition)) ? (void)0 : ::rdma_unit_test_adapters::Voidify() & RUT_LOG_##severity
#define LOG(severity) LOG_IF(severity, true)
#define LOG_EVERY_N(severity, n) \
  if (static int lines = 0; lines++ % (n) == 0) LOG(severity)
#define LOG_EVERY_N_SEC(severity, seconds)                                   \
  if (static std::chrono::steady_clock::time_point next{};                   \
      ::rdma_unit_test_adapters::is_due(next, static_cast<double>(seconds))) \
  LOG(severity)
