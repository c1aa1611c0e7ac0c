// Copies of every length, and faults at every place of them.
#include "base/guarded_memory.h"

#include <gtest/gtest.h>
#include <ucontext.h>

#include <algorithm>
#include <vector>

#include "fault_recovery.h"
#include "mapped.h"

extern "C" {
// The linker's names for the ends of the guarded code, as in the tested file.
extern const char __start_uroce_guarded[] __attribute__((visibility("hidden")));
extern const char __stop_uroce_guarded[] __attribute__((visibility("hidden")));
}

namespace uroce {
namespace {

using test::FaultRecovery;
using test::kPage;
using test::Mapped;

using Copy = void (*)(void*, const void*, size_t);
struct Kernel {
  Copy copy;
  size_t least;  // the fewest bytes that it copies
};

std::vector<Kernel> kernels() {
  std::vector<Kernel> all{{guarded_copy, 0}, {guarded_copy_string, 33}};
  if (__builtin_cpu_supports("avx2")) all.push_back({guarded_copy_avx2, 33});
  return all;
}

uint8_t pattern(size_t i) { return static_cast<uint8_t>(i * 31 + i / 256 + 1); }

TEST(GuardedMemory, CopiesEveryLength) {
  std::vector<uint8_t> src(5000);
  for (size_t i = 0; i < src.size(); i++) src[i] = pattern(i);
  for (const Kernel& kernel : kernels()) {
    for (size_t bytes = kernel.least; bytes < 4200; bytes += bytes < 600 ? 1 : 37) {
      const size_t at = bytes * 7 % 64;
      std::vector<uint8_t> dst(5000, 0xEE);
      kernel.copy(dst.data() + at, src.data() + bytes % 48, bytes);
      ASSERT_TRUE(std::equal(dst.begin() + at, dst.begin() + at + bytes, src.begin() + bytes % 48)) << bytes;
      ASSERT_EQ(std::count(dst.begin(), dst.end(), 0xEE),
                std::count(src.begin() + bytes % 48, src.begin() + bytes % 48 + bytes, 0xEE) +
                    static_cast<long>(5000 - bytes))
          << bytes;
    }
  }
}

/// `kBefore` bytes that are mapped, and behind them a page that is not.
class GuardedMemoryHole : public testing::Test {
 protected:
  static constexpr size_t kBefore = 2 * kPage;
  GuardedMemoryHole() {
    there_.protect(PROT_NONE, kBefore);
    for (size_t i = 0; i < kBefore; i++) there_.data()[i] = pattern(i);
  }
  uint8_t* hole() { return there_.data() + kBefore; }

  FaultRecovery recovery_;
  Mapped there_{kBefore + kPage};
  std::vector<uint8_t> other_ = std::vector<uint8_t>(kBefore + kPage);
};

/// Nothing outside the range is touched: a region may end where a mapping ends.
TEST_F(GuardedMemoryHole, ReachesUpToTheHole) {
  for (const Kernel& kernel : kernels()) {
    for (size_t bytes = kernel.least; bytes < 700; bytes++) {
      kernel.copy(other_.data(), hole() - bytes, bytes);
      kernel.copy(hole() - bytes, other_.data(), bytes);
    }
  }
}

TEST_F(GuardedMemoryHole, FaultsAreThrown) {
  for (const Kernel& kernel : kernels()) {
    for (size_t bytes = std::max<size_t>(kernel.least, 1); bytes < 700; bytes++) {
      for (const size_t missing : {size_t{1}, bytes / 2 + 1, bytes}) {
        uint8_t* const gone = hole() - (bytes - missing);
        const uint64_t canary = 0x0123456789ABCDEF * bytes;
        int faults = 0;
        for (const bool read : {true, false}) {
          try {
            read ? kernel.copy(other_.data(), gone, bytes) : kernel.copy(gone, other_.data(), bytes);
          } catch (const MemoryFault& fault) {
            faults++;
            ASSERT_GE(fault.address, reinterpret_cast<uint64_t>(hole()));
            ASSERT_LT(fault.address, reinterpret_cast<uint64_t>(hole()) + missing);
          }
        }
        ASSERT_EQ(faults, 2) << bytes << " bytes, " << missing << " missing";
        ASSERT_EQ(canary, 0x0123456789ABCDEF * bytes);  // registers keep their values across a fault
      }
    }
  }
}

TEST_F(GuardedMemoryHole, WhatComesBeforeIsCopied) {
  for (const Kernel& kernel : kernels()) {
    std::fill(other_.begin(), other_.end(), uint8_t{0x5A});
    EXPECT_THROW(kernel.copy(there_.data() + kPage, other_.data(), kPage + 1), MemoryFault);
    // All but what the last steps of the copy would have written has been copied.
    EXPECT_EQ(std::count(there_.data() + kPage, hole() - 160, 0x5A), static_cast<long>(kPage - 160));
    for (size_t i = 0; i < kBefore; i++) there_.data()[i] = pattern(i);
  }
}

TEST_F(GuardedMemoryHole, TryCopy) {
  EXPECT_TRUE(try_copy(other_.data(), there_.data(), kBefore));
  EXPECT_FALSE(try_copy(other_.data(), there_.data() + 1, kBefore));
  EXPECT_FALSE(try_copy(there_.data() + 1, other_.data(), kBefore));
  EXPECT_FALSE(try_copy(other_.data(), hole(), 1));
}

TEST_F(GuardedMemoryHole, Atomics) {
  auto* word = reinterpret_cast<uint64_t*>(there_.data());
  *word = 5;
  EXPECT_EQ(guarded_fetch_add(word, 3), 5u);
  EXPECT_EQ(guarded_compare_swap(word, 7, 1), 8u);
  EXPECT_EQ(guarded_compare_swap(word, 8, 1), 8u);
  EXPECT_EQ(*word, 1u);
  guarded_store(word, 4);
  EXPECT_EQ(*word, 4u);
  auto* gone = reinterpret_cast<uint64_t*>(hole());
  EXPECT_THROW(guarded_fetch_add(gone, 3), MemoryFault);
  EXPECT_THROW(guarded_compare_swap(gone, 7, 1), MemoryFault);
  EXPECT_THROW(guarded_store(gone, 4), MemoryFault);
}

TEST_F(GuardedMemoryHole, FileThatWasCut) {
  Mapped file(4 * kPage, Mapped::Of::kFile);
  file.cut(kPage);
  EXPECT_TRUE(try_copy(other_.data(), file.data(), kPage));
  EXPECT_FALSE(try_copy(other_.data(), file.data(), kPage + 1));
}

/// What another core may see of a copy: the memory as it is after each of its instructions.
class Stepped {
 public:
  template <class Function, class Look>
  static void run(const Function& function, const Look& look) {
    static const Look* each;
    each = &look;
    struct sigaction action {
    }, before{};
    action.sa_handler = [](int) { (*each)(); };
    sigaction(SIGTRAP, &action, &before);
    trap(0x100, ~uint64_t{0});
    function();
    trap(0, ~uint64_t{0x100});
    sigaction(SIGTRAP, &before, nullptr);
  }

 private:
  /// Sets or clears the processor's trap flag, below the red zone.
  static void trap(uint64_t set, uint64_t keep) {
    asm volatile("lea -128(%%rsp), %%rsp; pushfq; or %0, (%%rsp); and %1, (%%rsp); popfq; lea 128(%%rsp), %%rsp"
                 :
                 : "r"(set), "r"(keep)
                 : "memory", "cc");
  }
};

/// Programs wait for the last byte of a message, and for aligned words of four and eight bytes, with loads alone.
TEST(GuardedMemory, TheLastByteComesLastAndWordsAreWhole) {
  alignas(64) uint8_t dst[512];
  uint8_t src[512];
  std::fill(std::begin(src), std::end(src), uint8_t{0x5A});
  for (const Kernel& kernel : kernels()) {
    for (size_t bytes = std::max<size_t>(kernel.least, 1); bytes < 400; bytes += bytes < 80 ? 1 : 33) {
      for (const size_t at : {size_t{0}, size_t{5}}) {
        std::fill(std::begin(dst), std::end(dst), uint8_t{0});
        size_t steps = 0, early = 0, torn = 0;
        const auto look = [&] {
          steps++;
          const auto* const here = static_cast<const volatile uint8_t*>(dst) + at;
          size_t there = 0;
          for (size_t i = 0; i < bytes; i++) there += here[i] == 0x5A ? 1 : 0;
          if (here[bytes - 1] == 0x5A && there != bytes) early++;
          if (at == 0 && (bytes == 4 || bytes == 8) && there != 0 && there != bytes) torn++;
        };
        Stepped::run([&] { kernel.copy(dst + at, src, bytes); }, look);
        ASSERT_GT(steps, 2u);
        EXPECT_EQ(early, 0u) << bytes << " bytes: the last was there before others";
        EXPECT_EQ(torn, 0u) << bytes << " bytes came in parts";
      }
    }
  }
}

/// Only memory faults are recovered from, and only where they are expected.
TEST(GuardedMemory, OtherFaultsAreNotOurs) {
  Mapped page(kPage, Mapped::Of::kNothing, PROT_NONE);
  const auto touch = [&] {
    const FaultRecovery recovery;
    *static_cast<volatile uint8_t*>(page.data()) = 1;
  };
  EXPECT_EXIT(touch(), testing::KilledBySignal(SIGSEGV), "");
  const auto send = [] {
    const FaultRecovery recovery;
    raise(SIGSEGV);
    raise(SIGSEGV);
  };
  EXPECT_EXIT(send(), testing::KilledBySignal(SIGSEGV), "");
}

/// The instruction that faulted decides whose the fault is: the first and the last byte of the guarded code are inside,
/// what is before and behind them is not.
TEST(GuardedMemory, GuardedCodeEndsWhereItEnds) {
  siginfo_t info{};
  info.si_code = SEGV_MAPERR;
  const auto recovers_at = [&](const char* instruction) {
    ucontext_t context{};
    const auto at = reinterpret_cast<greg_t>(instruction);
    context.uc_mcontext.gregs[REG_RIP] = at;
    const bool recovered = recover_from_fault(info, &context);
    EXPECT_EQ(context.uc_mcontext.gregs[REG_RIP] == at, !recovered);
    return recovered;
  };
  EXPECT_FALSE(recovers_at(nullptr));
  EXPECT_FALSE(recovers_at(__start_uroce_guarded - 1));
  EXPECT_TRUE(recovers_at(__start_uroce_guarded));
  EXPECT_TRUE(recovers_at(__stop_uroce_guarded - 1));
  EXPECT_FALSE(recovers_at(__stop_uroce_guarded));
  info.si_code = SI_USER;
  EXPECT_FALSE(recovers_at(__start_uroce_guarded));
}

}  // namespace
}  // namespace uroce
