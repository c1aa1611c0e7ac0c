#include "segment/record_file.h"

#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>

#include "base/files.h"

namespace uroce::segment {
namespace {

constexpr std::string_view kLastLine = "\nend\n";
/// "written <count> <sum>", behind the record.
constexpr std::string_view kSeal = "written ";
constexpr size_t kDigits = 16;
constexpr size_t kSealBytes = kSeal.size() + kDigits + 1 + kDigits + 1;
constexpr size_t kCopyBytesMax = kRecordBytesMax;  // with its seal: where the second copy begins
constexpr size_t kFirstLook = 4096;                // most records are shorter

struct Copy {
  uint64_t count = 0;
  std::string text;
};

uint64_t sum_of(std::string_view text, uint64_t count) {
  uint64_t value = 0xcbf29ce484222325u ^ count;  // FNV-1a
  for (const char c : text) value = (value ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return value;
}

std::string seal_of(std::string_view text, uint64_t count) {
  char line[kSealBytes + 1];
  snprintf(line, sizeof line, "written %016llx %016llx\n", static_cast<unsigned long long>(count),
           static_cast<unsigned long long>(sum_of(text, count)));
  return line;
}

/// What the file has at `at`, up to `most` bytes.
std::string read_some(int fd, off_t at, size_t most) {
  std::string bytes(most, '\0');
  const ssize_t got = pread(fd, bytes.data(), most, at);
  bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return bytes;
}

std::optional<Copy> read_copy(int fd, off_t at) {
  std::string bytes = read_some(fd, at, kFirstLook);
  size_t end = bytes.find(kLastLine);
  if (bytes.size() == kFirstLook && (end == std::string::npos || end + kLastLine.size() + kSealBytes > kFirstLook)) {
    bytes = read_some(fd, at, kCopyBytesMax);
    end = bytes.find(kLastLine);
  }
  if (end == std::string::npos) return std::nullopt;
  Copy copy;
  copy.text = bytes.substr(0, end + kLastLine.size());
  const std::string_view rest = std::string_view(bytes).substr(copy.text.size());
  if (rest.empty()) return copy;
  if (rest.size() < kSealBytes || !rest.starts_with(kSeal)) return std::nullopt;
  const char* const digits = rest.data() + kSeal.size();
  if (std::from_chars(digits, digits + kDigits, copy.count, 16).ptr != digits + kDigits) return std::nullopt;
  return rest.starts_with(seal_of(copy.text, copy.count)) ? std::optional(copy) : std::nullopt;
}

}  // namespace

int write_record(int fd, const MemberRecord& record, uint64_t count) {
  std::string text = to_text(record);
  text += seal_of(text, count);
  if (text.size() > kCopyBytesMax) return EMSGSIZE;
  const off_t at = count % 2 != 0 ? 0 : static_cast<off_t>(kCopyBytesMax);
  const int code = write_all(fd, text, at);
  // The part that was not written may equal what was there before: then the whole new record is there to read.
  return code != 0 && read_some(fd, at, text.size()) == text ? 0 : code;
}

std::optional<MemberRecord> read_record(int fd) {
  const auto first = read_copy(fd, 0);
  const auto second = read_copy(fd, static_cast<off_t>(kCopyBytesMax));
  if (!first && !second) return std::nullopt;
  return parse_record((!second || (first && first->count > second->count) ? first : second)->text);
}

}  // namespace uroce::segment
