// Memory that a test can take away.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

namespace uroce::test {

inline constexpr size_t kPage = 4096;

/// Pages of its own: anonymous, or of a file.
class Mapped {
 public:
  enum class Of : uint8_t { kNothing, kFile };

  explicit Mapped(size_t bytes, Of of = Of::kNothing, int rights = PROT_READ | PROT_WRITE) : bytes_(bytes) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    if (of == Of::kFile) {
      file_ = memfd_create("mapped", MFD_CLOEXEC);
      EXPECT_EQ(ftruncate(file_, static_cast<off_t>(bytes)), 0);
      flags = MAP_SHARED;
    }
    void* memory = mmap(nullptr, bytes, rights, flags, file_, 0);
    EXPECT_NE(memory, MAP_FAILED);
    data_ = static_cast<uint8_t*>(memory);
  }
  ~Mapped() {
    munmap(data_, bytes_);
    if (file_ >= 0) close(file_);
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  uint8_t* data() { return data_; }
  uint64_t addr() const { return reinterpret_cast<uint64_t>(data_); }
  size_t bytes() const { return bytes_; }

  /// Removes the pages from `offset` on; each function in its way.
  void unmap(size_t offset) {
    ASSERT_EQ(munmap(data_ + offset, bytes_ - offset), 0);
    bytes_ = offset;
  }
  void protect(int rights, size_t offset = 0) { ASSERT_EQ(mprotect(data_ + offset, bytes_ - offset, rights), 0); }
  void cut(size_t offset) { ASSERT_EQ(ftruncate(file_, static_cast<off_t>(offset)), 0); }

 private:
  size_t bytes_;
  int file_ = -1;
  uint8_t* data_ = nullptr;
};

}  // namespace uroce::test
