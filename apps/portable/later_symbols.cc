// What the compiler's own libraries and DPDK's archives call and glibc 2.31 does not have yet.
//
// Each is hidden, so the newer library of the machine that this runs on has no part in it. A name that is missing here
// is an error of the linker: the stand-ins (old_libc.py) lack it as well.
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#define HIDDEN extern "C" __attribute__((visibility("hidden")))

// False: shared pointers count with atomic instructions from the beginning.
HIDDEN char __libc_single_threaded;  // NOLINT: glibc's name
char __libc_single_threaded = 0;     // NOLINT: glibc's name

HIDDEN uint32_t arc4random() {
  uint32_t number = 0;
  while (getrandom(&number, sizeof number, 0) != sizeof number) {
  }
  return number;
}

HIDDEN int mknod(const char* path, mode_t mode, dev_t device) noexcept {
  return static_cast<int>(syscall(SYS_mknodat, AT_FDCWD, path, mode, static_cast<unsigned>(device)));
}

#if __GLIBC_PREREQ(2, 35)
namespace {

struct Search {
  uintptr_t address;
  dl_find_object* found;
};

int look_into(dl_phdr_info* object, size_t, void* context) {
  auto* const search = static_cast<Search*>(context);
  bool inside = false;
  uintptr_t begin = UINTPTR_MAX;
  uintptr_t end = 0;
  uintptr_t frames = 0;
  for (const ElfW(Phdr)* part = object->dlpi_phdr; part != object->dlpi_phdr + object->dlpi_phnum; part++) {
    const uintptr_t start = object->dlpi_addr + part->p_vaddr;
    if (part->p_type == PT_GNU_EH_FRAME) frames = start;
    if (part->p_type != PT_LOAD) continue;
    inside = inside || (search->address >= start && search->address - start < part->p_memsz);
    begin = start < begin ? start : begin;
    end = start + part->p_memsz > end ? start + part->p_memsz : end;
  }
  if (!inside || frames == 0) return 0;
  *search->found = dl_find_object{};
  search->found->dlfo_map_start = reinterpret_cast<void*>(begin);
  search->found->dlfo_map_end = reinterpret_cast<void*>(end);
  search->found->dlfo_eh_frame = reinterpret_cast<void*>(frames);
  return 1;
}

}  // namespace

// The way of an exception: in which object is this address, and where are that one's tables?
HIDDEN int _dl_find_object(void* address, dl_find_object* found) noexcept {  // NOLINT: glibc's name
  Search search{reinterpret_cast<uintptr_t>(address), found};
  return dl_iterate_phdr(look_into, &search) == 1 ? 0 : -1;
}
#endif
