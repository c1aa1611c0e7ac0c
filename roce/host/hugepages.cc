#include "host/hugepages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/files.h"

namespace uroce {
namespace {

namespace fs = std::filesystem;

uint64_t free_hugepage_bytes(unsigned& page_shift) {
  uint64_t best = 0;
  const fs::path all = "/sys/kernel/mm/hugepages";
  for (const std::string& name : names_in(all)) {
    uint64_t page_kb = 0;
    uint64_t pages = 0;
    if (std::sscanf(name.c_str(), "hugepages-%lukB", &page_kb) != 1) continue;
    std::ifstream(all / name / "free_hugepages") >> pages;
    if (pages * page_kb * 1024 > best) {
      best = pages * page_kb * 1024;
      page_shift = static_cast<unsigned>(__builtin_ctzll(page_kb * 1024));
    }
  }
  return best;
}

}  // namespace

bool hugepages_usable(uint64_t bytes) {
  unsigned page_shift = 21;
  if (free_hugepage_bytes(page_shift) < bytes) return false;
  // Pages may be free but not available to this user or within its cgroup, so it is tried.
  const int fd = memfd_create("uroce-hugepage-probe", MFD_CLOEXEC | MFD_HUGETLB | (page_shift << MAP_HUGE_SHIFT));
  if (fd < 0) return false;
  const size_t page = size_t{1} << page_shift;
  void* memory = ftruncate(fd, static_cast<off_t>(page)) == 0
                     ? mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                     : MAP_FAILED;
  close(fd);
  if (memory == MAP_FAILED) return false;
  munmap(memory, page);
  return true;
}

}  // namespace uroce
