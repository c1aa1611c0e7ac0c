#include "library_needs.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "dpdk/log.h"

namespace uroce::verbs {
namespace {

using Folders = std::vector<std::string>;

/// A file in memory, read only; every number in it is checked against its size before it is used.
class ElfFile {
 public:
  explicit ElfFile(const std::string& path) {
    const auto fd = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path.c_str(), O_RDONLY | O_CLOEXEC));
    if (fd < 0) return;
    const off_t bytes = lseek(fd, 0, SEEK_END);
    struct stat st {};
    if (bytes > 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
      void* const at = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ, MAP_PRIVATE, fd, 0);
      if (at != MAP_FAILED) data_ = {static_cast<const char*>(at), static_cast<size_t>(bytes)};
    }
    syscall(SYS_close, fd);
  }
  ~ElfFile() {
    if (!data_.empty()) munmap(const_cast<char*>(data_.data()), data_.size());
  }
  ElfFile(const ElfFile&) = delete;
  ElfFile& operator=(const ElfFile&) = delete;

  bool good() const {
    const auto* const header = at<ElfW(Ehdr)>(0);
    return header != nullptr && std::memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
           header->e_ident[EI_CLASS] == (sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32) &&
           header->e_phentsize == sizeof(ElfW(Phdr));
  }
  /// Calls `f(tag, text)` for each entry of the dynamic section that is a string.
  template <typename F>
  void for_each_text(F&& f) const {
    const ElfW(Phdr)* const dynamic = segment([](const ElfW(Phdr) & s) { return s.p_type == PT_DYNAMIC; });
    if (dynamic == nullptr) return;
    const auto entry_at = [&](size_t i) -> const ElfW(Dyn) * {
      const bool inside = (i + 1) * sizeof(ElfW(Dyn)) <= dynamic->p_filesz;
      const auto* const entry = inside ? at<ElfW(Dyn)>(dynamic->p_offset + i * sizeof(ElfW(Dyn))) : nullptr;
      return entry != nullptr && entry->d_tag != DT_NULL ? entry : nullptr;
    };
    size_t texts = 0;
    for (size_t i = 0; const ElfW(Dyn)* const entry = entry_at(i); i++) {
      if (entry->d_tag == DT_STRTAB) texts = offset_of(entry->d_un.d_ptr);
    }
    if (texts == 0) return;
    for (size_t i = 0; const ElfW(Dyn)* const entry = entry_at(i); i++) {
      if (entry->d_tag != DT_NEEDED && entry->d_tag != DT_RUNPATH && entry->d_tag != DT_RPATH) continue;
      if (const char* const text = text_at(texts, entry->d_un.d_val); text != nullptr) f(entry->d_tag, text);
    }
  }

 private:
  template <typename T>
  const T* at(size_t offset) const {
    if (offset % alignof(T) != 0 || offset > data_.size() || sizeof(T) > data_.size() - offset) return nullptr;
    return reinterpret_cast<const T*>(data_.data() + offset);
  }
  template <typename Is>
      const ElfW(Phdr) * segment(Is&& is) const {
    const auto* const header = at<ElfW(Ehdr)>(0);
    for (size_t i = 0; i < header->e_phnum; i++) {
      const auto* const found = at<ElfW(Phdr)>(header->e_phoff + i * sizeof(ElfW(Phdr)));
      if (found != nullptr && is(*found)) return found;
    }
    return nullptr;
  }
  /// Where the address lies in the file; 0: nowhere.
  size_t offset_of(ElfW(Addr) address) const {
    const ElfW(Phdr)* const found = segment([&](const ElfW(Phdr) & s) {
      return s.p_type == PT_LOAD && address >= s.p_vaddr && address - s.p_vaddr < s.p_filesz;
    });
    return found != nullptr ? found->p_offset + (address - found->p_vaddr) : 0;
  }
  const char* text_at(size_t texts, size_t offset) const {
    if (texts > data_.size() || offset >= data_.size() - texts) return nullptr;
    const std::string_view rest = data_.substr(texts + offset);
    return rest.find('\0') != std::string_view::npos ? rest.data() : nullptr;
  }

  std::string_view data_;
};

/// Appends the folders of a list with colons. `$ORIGIN` is the folder of the file that has the list.
void add_folders(Folders& to, const char* list, const std::string& origin) {
  for (std::string_view rest = list; !rest.empty();) {
    const size_t end = std::min(rest.find(':'), rest.size());
    std::string folder(rest.substr(0, end));
    for (const std::string_view name : {"${ORIGIN}", "$ORIGIN"}) {
      if (const size_t at = folder.find(name); at != std::string::npos) folder.replace(at, name.size(), origin);
    }
    if (!folder.empty()) to.push_back(folder);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

/// The folders where the loader looks for what this caller asks for.
Folders folders_of(const void* caller) {
  Folders folders;
  Dl_info info;
  void* map = nullptr;
  Dl_serinfo size;
  if (dladdr1(caller, &info, &map, RTLD_DL_LINKMAP) == 0 || map == nullptr) return folders;
  if (dlinfo(map, RTLD_DI_SERINFOSIZE, &size) != 0) return folders;
  std::vector<uint64_t> room(size.dls_size / sizeof(uint64_t) + 1);
  auto* const list = reinterpret_cast<Dl_serinfo*>(room.data());
  if (dlinfo(map, RTLD_DI_SERINFOSIZE, list) != 0 || dlinfo(map, RTLD_DI_SERINFO, list) != 0) return folders;
  for (unsigned i = 0; i < list->dls_cnt; i++) folders.emplace_back(list->dls_serpath[i].dls_name);
  return folders;
}

bool is_loaded(const char* name) {
  void* const handle = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
  if (handle != nullptr) dlclose(handle);
  return handle != nullptr;
}

class Search {
 public:
  explicit Search(Folders folders) : folders_(std::move(folders)) {}

  bool finds_libibverbs(const std::string& name, const Folders& first) {
    if (name.find('/') != std::string::npos) return is_linked(name);
    for (const Folders* const folders : {&first, &folders_}) {
      for (const std::string& folder : *folders) {
        const std::string path = folder + "/" + name;
        if (access(path.c_str(), R_OK) == 0) return is_linked(path);
      }
    }
    return false;
  }

 private:
  bool is_linked(const std::string& path) {
    if (seen_.size() >= kFilesMax || !seen_.insert(path).second) return false;
    const ElfFile file(path);
    if (!file.good()) return false;
    Folders own;
    std::vector<std::string> needs;
    file.for_each_text([&](auto tag, const char* text) {
      if (tag == DT_NEEDED) {
        needs.emplace_back(text);
      } else {
        add_folders(own, text, path.substr(0, path.rfind('/')));
      }
    });
    for (const std::string& need : needs) {
      if (is_libibverbs(need.c_str())) return true;
    }
    // A library that is loaded already is bound already.
    for (const std::string& need : needs) {
      if (!is_loaded(need.c_str()) && finds_libibverbs(need, own)) return true;
    }
    return false;
  }

  static constexpr size_t kFilesMax = 500;
  const Folders folders_;
  std::set<std::string> seen_;
};

}  // namespace

bool is_libibverbs(const char* file) {
  if (file == nullptr) return false;
  const char* slash = std::strrchr(file, '/');
  const char* name = slash != nullptr ? slash + 1 : file;
  constexpr char kPrefix[] = "libibverbs";
  const size_t length = sizeof kPrefix - 1;
  return std::strncmp(name, kPrefix, length) == 0 && (name[length] == '.' || name[length] == '-');
}

bool needs_libibverbs(const char* file, const void* caller) noexcept try {
  if (file == nullptr || *file == 0 || is_loaded(file)) return false;
  const bool needs = Search(folders_of(caller)).finds_libibverbs(file, {});
  dlerror();  // clears the errors of our own calls
  return needs;
} catch (const std::bad_alloc&) {
  return false;
}

void warn_of_namespace(const char* file) noexcept {
  static std::atomic<bool> said{false};
  if (said.exchange(true)) return;
  log_message(
      LogLevel::kWarning,
      "dlmopen: %s is linked with libibverbs, and finds no device of uroce's in a namespace of its own: load it "
      "into LM_ID_BASE",
      file);
}

}  // namespace uroce::verbs
