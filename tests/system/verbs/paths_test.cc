// What a program finds in /sys/class/infiniband and /dev/infiniband.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <glob.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <string>

namespace {

std::string read_file(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY);
  if (fd < 0) return "(cannot be opened)";
  char text[256];
  const ssize_t length = read(fd, text, sizeof text);
  close(fd);
  return std::string(text, length > 0 ? static_cast<size_t>(length) : 0);
}

std::set<std::string> list(const char* path) {
  std::set<std::string> names;
  DIR* directory = opendir(path);
  if (directory == nullptr) return names;
  while (const dirent* entry = readdir(directory)) names.insert(entry->d_name);
  closedir(directory);
  names.erase(".");
  names.erase("..");
  return names;
}

const std::string kDevice = "/sys/class/infiniband/uroce0";

/// Two ports without a kernel interface: a model of the card, which is named, or the segment, the default.
bool on_card() { return std::getenv("UROCE_PORT") != nullptr; }

TEST(PathsTest, UverbsIsACharacterDeviceThatOpens) {
  const char* path = "/dev/infiniband/uverbs0";
  struct stat info;
  ASSERT_EQ(stat(path, &info), 0);
  EXPECT_TRUE(S_ISCHR(info.st_mode));
  EXPECT_EQ(access(path, R_OK | W_OK), 0);
  const int fd = open(path, O_RDWR);
  EXPECT_GE(fd, 0);
  close(fd);
  EXPECT_EQ(list("/dev/infiniband"), (std::set<std::string>{"rdma_cm", "uverbs0"}));
}

TEST(PathsTest, DeviceIsListed) {
  EXPECT_EQ(list("/sys/class/infiniband"), std::set<std::string>{"uroce0"});
  EXPECT_EQ(read_file("/sys/class/infiniband_verbs/uverbs0/ibdev"), "uroce0\n");
  glob_t found{};
  ASSERT_EQ(glob("/sys/class/infiniband/*/ports/*", 0, nullptr, &found), 0);
  ASSERT_EQ(found.gl_pathc, 1u);
  EXPECT_EQ(found.gl_pathv[0], kDevice + "/ports/1");
  globfree(&found);
  dirent** entries = nullptr;
  const int count = scandir("/sys/class/infiniband", &entries, nullptr, alphasort);
  EXPECT_EQ(count, 3);
  for (int i = 0; i < count; i++) std::free(entries[i]);
  std::free(entries);
}

TEST(PathsTest, Attributes) {
  EXPECT_EQ(read_file(kDevice + "/node_type"), "1: CA\n");
  EXPECT_EQ(read_file(kDevice + "/ports/1/link_layer"), "Ethernet\n");
  EXPECT_EQ(read_file(kDevice + "/ports/1/gid_attrs/types/0"), "RoCE v2\n");
  EXPECT_EQ(read_file(kDevice + "/ports/1/gid_attrs/types/1"), "RoCE v2\n");
  EXPECT_EQ(read_file(kDevice + "/ports/1/pkeys/0"), "0xffff\n");
  EXPECT_EQ(read_file(kDevice + "/ports/1/gids/0").substr(0, 5), "fe80:");
  EXPECT_EQ(read_file(kDevice + "/node_guid").size(), 20u);
  EXPECT_EQ(read_file(kDevice + "/ports/1/gid_attrs/types/99"), "(cannot be opened)");
  // An unused index: zeros, without a type.
  EXPECT_EQ(read_file(kDevice + "/ports/1/gids/31"), "0000:0000:0000:0000:0000:0000:0000:0000\n");
  EXPECT_EQ(read_file(kDevice + "/ports/1/gids/32"), "(cannot be opened)");
  EXPECT_EQ(read_file(kDevice + "/ports/1/gid_attrs/types/31"), "(cannot be opened)");
  EXPECT_EQ(read_file(kDevice + "/ports/1/phys_state"), "5: LinkUp\n");
  std::ifstream stream(kDevice + "/ports/1/state");
  std::string state;
  std::getline(stream, state);
  EXPECT_EQ(state, "4: ACTIVE");
  std::FILE* file = std::fopen((kDevice + "/ports/1/hw_counters/out_of_sequence").c_str(), "r");
  ASSERT_NE(file, nullptr);
  std::fclose(file);
}

/// The files that a kernel's device has, with contents as programs expect them.
TEST(PathsTest, EveryAttribute) {
  EXPECT_EQ(read_file(kDevice + "/fw_ver"), "uroce-0.1\n");
  EXPECT_EQ(read_file(kDevice + "/hw_rev"), "0\n");
  EXPECT_EQ(read_file(kDevice + "/hca_type"), "uroce\n");
  EXPECT_EQ(read_file(kDevice + "/board_id"), "uroce\n");
  EXPECT_EQ(read_file(kDevice + "/node_desc"), "uroce0\n");
  EXPECT_EQ(read_file(kDevice + "/sys_image_guid"), read_file(kDevice + "/node_guid"));
  // The low half of GID 0 is the GUID.
  const std::string gid = read_file(kDevice + "/ports/1/gids/0");
  EXPECT_EQ(gid.substr(20), read_file(kDevice + "/node_guid"));
  EXPECT_EQ(read_file(kDevice + "/ports/1/gids/1").substr(0, 30), "0000:0000:0000:0000:0000:ffff:");
  EXPECT_EQ(read_file(kDevice + "/ports/1/rate"), on_card() ? "10 Gb/sec (1X QDR)\n" : "100 Gb/sec (4X EDR)\n");
  EXPECT_NE(read_file(kDevice + "/ports/1/lid"), "0x0\n");
  EXPECT_EQ(read_file(kDevice + "/ports/1/sm_lid"), "0x0\n");
  EXPECT_EQ(read_file(kDevice + "/ports/1/sm_sl"), "0\n");
  EXPECT_EQ(read_file(kDevice + "/ports/1/lid_mask_count"), "0\n");
  EXPECT_EQ(read_file(kDevice + "/ports/1/cap_mask"), "0x04010000\n");
  for (const char* name : {"port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets"}) {
    EXPECT_EQ(read_file(kDevice + "/ports/1/counters/" + name), "0\n") << name;
  }
  EXPECT_EQ(read_file("/sys/class/infiniband_verbs/abi_version"), "6\n");
  EXPECT_EQ(read_file("/sys/class/infiniband_verbs/uverbs0/abi_version"), "1\n");
  EXPECT_EQ(read_file("/sys/class/infiniband_verbs/uverbs0/dev"), "1:3\n");
  EXPECT_EQ(read_file("/sys/class/infiniband_mad/abi_version"), "5\n");
}

// The segment has the addresses of the machine's interfaces, and belongs to the first of these; the card belongs to
// none.
TEST(PathsTest, InterfaceOfTheKernel) {
  const std::string parent = read_file(kDevice + "/parent");
  EXPECT_EQ(read_file(kDevice + "/ports/1/gid_attrs/ndevs/0"), parent);
  if (on_card()) {
    EXPECT_EQ(parent, "(cannot be opened)");
  } else {
    EXPECT_TRUE(list("/sys/class/net").contains(parent.substr(0, parent.find('\n')))) << parent;
  }
}

/// Each function of libc that takes a path, under each of its names.
TEST(PathsTest, EveryFunctionFindsThem) {
  const std::string file = kDevice + "/node_type";
  const char* path = file.c_str();
  const auto opens = [](int fd) {
    char text[8] = "";
    const bool good = fd >= 0 && read(fd, text, 5) == 5 && std::string(text) == "1: CA";
    if (fd >= 0) close(fd);
    return good;
  };
  using Open = int (*)(const char*, int, ...);
  using Open2 = int (*)(const char*, int);
  using OpenAt = int (*)(int, const char*, int, ...);
  using OpenAt2 = int (*)(int, const char*, int);
  for (const char* name : {"open", "open64"})
    EXPECT_TRUE(opens(reinterpret_cast<Open>(dlsym(RTLD_DEFAULT, name))(path, O_RDONLY))) << name;
  for (const char* name : {"__open_2", "__open64_2"})
    EXPECT_TRUE(opens(reinterpret_cast<Open2>(dlsym(RTLD_DEFAULT, name))(path, O_RDONLY))) << name;
  for (const char* name : {"openat", "openat64"})
    EXPECT_TRUE(opens(reinterpret_cast<OpenAt>(dlsym(RTLD_DEFAULT, name))(AT_FDCWD, path, O_RDONLY))) << name;
  for (const char* name : {"__openat_2", "__openat64_2"})
    EXPECT_TRUE(opens(reinterpret_cast<OpenAt2>(dlsym(RTLD_DEFAULT, name))(AT_FDCWD, path, O_RDONLY))) << name;
  for (const char* name : {"fopen", "fopen64"}) {
    std::FILE* stream =
        reinterpret_cast<std::FILE* (*)(const char*, const char*)>(dlsym(RTLD_DEFAULT, name))(path, "r");
    ASSERT_NE(stream, nullptr) << name;
    std::fclose(stream);
  }
  using Stat = int (*)(const char*, struct stat*);
  using Xstat = int (*)(int, const char*, struct stat*);
  using StatAt = int (*)(int, const char*, struct stat*, int);
  struct stat info;
  for (const char* name : {"stat", "stat64", "lstat", "lstat64"}) {
    info = {};
    EXPECT_EQ(reinterpret_cast<Stat>(dlsym(RTLD_DEFAULT, name))(path, &info), 0) << name;
    EXPECT_TRUE(S_ISREG(info.st_mode)) << name;
  }
  for (const char* name : {"__xstat", "__xstat64", "__lxstat", "__lxstat64"}) {
    info = {};
    EXPECT_EQ(reinterpret_cast<Xstat>(dlsym(RTLD_DEFAULT, name))(1, path, &info), 0) << name;
    EXPECT_TRUE(S_ISREG(info.st_mode)) << name;
  }
  for (const char* name : {"fstatat", "fstatat64"}) {
    EXPECT_EQ(reinterpret_cast<StatAt>(dlsym(RTLD_DEFAULT, name))(AT_FDCWD, path, &info, 0), 0) << name;
  }
  struct statx extended {};
  EXPECT_EQ(statx(AT_FDCWD, path, 0, STATX_SIZE, &extended), 0);
  EXPECT_EQ(extended.stx_size, 6u);
  using Access = int (*)(const char*, int);
  for (const char* name : {"access", "euidaccess", "eaccess"}) {
    EXPECT_EQ(reinterpret_cast<Access>(dlsym(RTLD_DEFAULT, name))(path, R_OK), 0) << name;
  }
  EXPECT_EQ(faccessat(AT_FDCWD, path, R_OK, 0), 0);
  char room[PATH_MAX] = "";
  EXPECT_GT(readlink("/sys/class/infiniband_verbs/uverbs0/subsystem", room, sizeof room), 0);
  EXPECT_GT(readlinkat(AT_FDCWD, "/sys/class/infiniband_verbs/uverbs0/subsystem", room, sizeof room), 0);
  char* name = canonicalize_file_name(path);
  EXPECT_STREQ(name, path);
  std::free(name);
  dirent64** entries = nullptr;
  const int count = scandir64(kDevice.c_str(), &entries, nullptr, nullptr);
  EXPECT_GT(count, 8);
  for (int i = 0; i < count; i++) std::free(entries[i]);
  std::free(entries);
  glob64_t found{};
  ASSERT_EQ(glob64("/sys/class/infiniband/*/node_t*", 0, nullptr, &found), 0);
  EXPECT_EQ(found.gl_pathv[0], file);
  globfree64(&found);
}

/// A program that was built before glibc 2.33 calls fstatat by these.
TEST(PathsTest, OlderNamesOfFstatat) {
  using XstatAt = int (*)(int, int, const char*, struct stat*, int);
  for (const char* name : {"__fxstatat", "__fxstatat64"}) {
    struct stat info {};
    const auto call = reinterpret_cast<XstatAt>(dlsym(RTLD_DEFAULT, name));
    EXPECT_EQ(call(1, AT_FDCWD, (kDevice + "/node_type").c_str(), &info, 0), 0) << name;
    EXPECT_TRUE(S_ISREG(info.st_mode)) << name;
  }
}

TEST(PathsTest, FilesOfTheApi) {
  using ReadFile = int (*)(const char*, const char*, char*, size_t);
  const auto read_sysfs = reinterpret_cast<ReadFile>(dlvsym(RTLD_DEFAULT, "ibv_read_sysfs_file", "IBVERBS_1.0"));
  ASSERT_NE(read_sysfs, nullptr);
  char text[16];
  std::memset(text, 'x', sizeof text);
  EXPECT_EQ(read_sysfs(kDevice.c_str(), "node_type", text, sizeof text), 5);
  EXPECT_STREQ(text, "1: CA");
  EXPECT_EQ(read_sysfs(kDevice.c_str(), "no_such_file", text, sizeof text), -1);
  std::memset(text, 'x', sizeof text);
  EXPECT_EQ(read_sysfs(kDevice.c_str(), "node_type", text, 3), 3);  // no room for more, nor for an end
  EXPECT_EQ(std::string(text, 4), "1: x");
}

/// Trees of processes that are gone are removed when another process makes its tree; those of living ones stay. A lock
/// shows that a process lives: numbers are not unique across containers.
TEST(PathsTest, TreesOfTheDeadAreRemoved) {
  const std::string directory = std::getenv("UROCE_RUNTIME_DIR");
  const std::string dead = directory + "/sysfs-" + std::to_string(getppid()) + "-abcdef";
  const std::string living = directory + "/sysfs-4000000-abcdef";
  const std::string other = directory + "/sysfs-none";
  for (const std::string& name : {dead, living, other}) ASSERT_EQ(mkdir(name.c_str(), 0700), 0);
  const int lock = open(living.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(flock(lock, LOCK_EX), 0);
  EXPECT_EQ(std::system("ls /sys/class/infiniband > /dev/null"), 0);
  close(lock);
  EXPECT_NE(access(dead.c_str(), F_OK), 0);
  EXPECT_EQ(access(living.c_str(), F_OK), 0);
  EXPECT_EQ(access(other.c_str(), F_OK), 0);
  rmdir(living.c_str());
  rmdir(other.c_str());
}

TEST(PathsTest, RealPathKeepsItsName) {
  char room[PATH_MAX];
  ASSERT_NE(realpath(kDevice.c_str(), room), nullptr);
  EXPECT_EQ(room, kDevice);
  char* allocated = realpath("/sys/class/infiniband_verbs/uverbs0/subsystem", nullptr);
  ASSERT_NE(allocated, nullptr);
  EXPECT_STREQ(allocated, "/sys/class/infiniband_verbs");
  std::free(allocated);
}

/// As with the kernel's software devices: topology code (NCCL, UCX, hwloc, libfabric) that walks up from `device` finds
/// nothing, and takes the device for one without a bus.
TEST(PathsTest, TheDeviceHangsOnNoBus) {
  EXPECT_EQ(realpath((kDevice + "/device").c_str(), nullptr), nullptr);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(realpath("/sys/class/infiniband_verbs/uverbs0/device", nullptr), nullptr);
  char* const subsystem = realpath((kDevice + "/subsystem").c_str(), nullptr);
  EXPECT_STREQ(subsystem, "/sys/class/infiniband");
  std::free(subsystem);
}

/// `ls -l`, as used by people and scripts, asks for extended attributes.
TEST(PathsTest, ListingsHaveNoErrors) {
  const char* const command =
      "ls -lR /sys/class/infiniband /sys/class/infiniband_verbs /dev/infiniband 2>&1 >/dev/null";
  FILE* const listing = popen(command, "r");
  char text[256] = "";
  EXPECT_EQ(fgets(text, sizeof text, listing), nullptr) << text;
  EXPECT_EQ(pclose(listing), 0);
  const std::string file = kDevice + "/node_type";
  char room[64];
  EXPECT_EQ(getxattr(file.c_str(), "user.none", room, sizeof room), -1);
  EXPECT_TRUE(errno == ENODATA || errno == ENOTSUP) << std::strerror(errno);
  EXPECT_EQ(lgetxattr(file.c_str(), "user.none", room, sizeof room), -1);
  EXPECT_TRUE(errno == ENODATA || errno == ENOTSUP) << std::strerror(errno);
  EXPECT_GE(listxattr(file.c_str(), room, sizeof room), 0);
  EXPECT_GE(llistxattr(file.c_str(), room, sizeof room), 0);
}

/// Restores the working directory.
class InDirectory {
 public:
  explicit InDirectory(const std::string& path) : before_(open(".", O_PATH | O_DIRECTORY)) {
    EXPECT_EQ(chdir(path.c_str()), 0) << path;
  }
  ~InDirectory() {
    EXPECT_EQ(fchdir(before_), 0);
    close(before_);
  }

 private:
  int before_;
};

std::string where() {
  char room[PATH_MAX];
  return getcwd(room, sizeof room) != nullptr ? room : "(nowhere)";
}

std::string output_of(const char* command) {
  std::FILE* pipe = popen(command, "r");
  if (pipe == nullptr) return "(cannot be started)";
  std::string text;
  char line[256];
  while (std::fgets(line, sizeof line, pipe) != nullptr) text += line;
  pclose(pipe);
  return text;
}

/// A shell looks 200 times while there can be no tree, and then until there is one. Returns what was logged, and in the
/// last line how many seconds the 200 looks took.
std::string look_without_a_tree() {
  return output_of(R"(d=$UROCE_RUNTIME_DIR/later; echo > $d
    env -u UROCE_PORT UROCE_LOG=debug UROCE_RUNTIME_DIR=$d sh -c '
      look() { test -e /sys/class/infiniband/uroce0/node_type; }
      began=$(date +%s); n=0
      while test $n -lt 200; do look && echo early; n=$((n + 1)); done
      ended=$(date +%s)
      rm "$0"; mkdir -m 700 "$0"; n=0
      until look || test $n -eq 100; do sleep 0.1; n=$((n + 1)); done
      look || echo never
      echo $((ended - began))' $d 2>&1
    rm -rf $d)");
}

int count_of(const std::string& what, const std::string& text) {
  int count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) count++;
  return count;
}

TEST(PathsTest, ATreeThatCannotBeMadeIsTriedOnceASecond) {
  const std::string said = look_without_a_tree();
  const size_t last = said.rfind('\n', said.size() - 2) + 1;
  EXPECT_GE(count_of("is not a directory of this user", said), 1) << said;
  EXPECT_LE(count_of("is not a directory of this user", said), std::atoi(said.c_str() + last) + 2) << said;
  EXPECT_EQ(count_of("early", said) + count_of("never", said), 0) << said;
}

TEST(PathsTest, ADirectoryToWorkIn) {
  const InDirectory in("/sys/class/infiniband");
  EXPECT_EQ(where(), "/sys/class/infiniband");
  EXPECT_EQ(list("."), std::set<std::string>{"uroce0"});
  EXPECT_EQ(read_file("uroce0/node_type"), "1: CA\n");
  ASSERT_EQ(chdir("uroce0/ports/1"), 0);
  EXPECT_EQ(where(), kDevice + "/ports/1");
  EXPECT_EQ(read_file("state"), "4: ACTIVE\n");
  EXPECT_EQ(read_file("../../node_type"), "1: CA\n");
  char* const path = realpath("state", nullptr);
  EXPECT_EQ(path, kDevice + "/ports/1/state");
  std::free(path);
  char* const name = get_current_dir_name();
  EXPECT_EQ(name, kDevice + "/ports/1");
  std::free(name);
  std::string room(kDevice.size() + std::strlen("/ports/1"), '\0');  // no room for the terminating NUL
  for (const size_t bytes : {size_t{8}, room.size()}) {
    EXPECT_EQ(getcwd(room.data(), bytes), nullptr);
    EXPECT_EQ(errno, ERANGE);
  }
  EXPECT_EQ(getcwd(room.data(), room.size() + 1), room.data());
  EXPECT_EQ(output_of("pwd; cat link_layer; /bin/pwd"), kDevice + "/ports/1\nEthernet\n" + kDevice + "/ports/1\n");
}

TEST(PathsTest, IntoTheTreeAndOutOfItByRelativeNames) {
  const InDirectory in("/sys/class");
  EXPECT_EQ(where(), "/sys/class");
  EXPECT_EQ(read_file("infiniband/uroce0/node_type"), "1: CA\n");
  ASSERT_EQ(chdir("infiniband"), 0);
  EXPECT_EQ(where(), "/sys/class/infiniband");
  EXPECT_EQ(access("../net/lo/ifindex", R_OK), 0);  // the real one
  EXPECT_EQ(read_file("../infiniband_verbs/uverbs0/ibdev"), "uroce0\n");
  ASSERT_EQ(chdir(".."), 0);
  EXPECT_EQ(where(), "/sys/class");
  EXPECT_EQ(access("net/lo", F_OK), 0);
  const int classes = open("/sys/class", O_RDONLY | O_DIRECTORY);
  const int file = openat(classes, "infiniband/uroce0/node_type", O_RDONLY);
  EXPECT_GE(file, 0);
  close(file);
  close(classes);
}

TEST(PathsTest, AShellMayGoThere) {
  EXPECT_EQ(output_of("cd /sys/class/infiniband && for d in *; do echo $d; cat $d/ports/1/state; done; cd ..; pwd"),
            "uroce0\n4: ACTIVE\n/sys/class\n");
  EXPECT_EQ(
      output_of("bash -c 'cd /sys/class/infiniband/uroce0; cd ports/1; cat phys_state; pwd -P; cd ../..; ls -d ports'"),
      "5: LinkUp\n" + kDevice + "/ports/1\nports\n");
}

TEST(PathsTest, ChildrenSeeTheSame) {
  std::FILE* pipe = popen("ls /sys/class/infiniband", "r");
  ASSERT_NE(pipe, nullptr);
  char line[64] = "";
  EXPECT_NE(std::fgets(line, sizeof line, pipe), nullptr);
  EXPECT_EQ(pclose(pipe), 0);
  EXPECT_STREQ(line, "uroce0\n");
}

/// As the kernel does.
TEST(PathsTest, NoPathAtAll) {
  const char* volatile none = nullptr;  // the compiler would warn
  struct stat info;
  const auto refused = [](int result) { return result == -1 && errno == EFAULT; };
  EXPECT_TRUE(refused(access(none, F_OK)));
  EXPECT_TRUE(refused(open(none, O_RDONLY)));
  EXPECT_TRUE(refused(openat(AT_FDCWD, none, O_RDONLY)));
  EXPECT_TRUE(refused(stat(none, &info)));
  EXPECT_TRUE(refused(lstat(none, &info)));
  EXPECT_TRUE(refused(chdir(none)));
  EXPECT_TRUE(refused(faccessat(AT_FDCWD, none, F_OK, 0)));
}

TEST(PathsTest, OtherPathsAreLeftAlone) {
  EXPECT_EQ(read_file("/proc/self/comm"), "verbs_paths_tes\n");
  struct stat info;
  EXPECT_EQ(stat("/sys/class/infinibandit", &info), -1);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(stat("/dev/null", &info), 0);
  const std::string name = testing::TempDir() + "uroce_paths_test_" + std::to_string(getpid());
  const int fd = open(name.c_str(), O_CREAT | O_EXCL | O_WRONLY, 0640);  // the mode is passed on
  ASSERT_GE(fd, 0);
  ASSERT_EQ(fstat(fd, &info), 0);
  EXPECT_EQ(info.st_mode & 0777 & ~0640u, 0u);
  EXPECT_NE(info.st_mode & 0400, 0u);
  close(fd);
  unlink(name.c_str());
}

TEST(PathsTest, CanBeSwitchedOff) {
  const char* shim = std::getenv("LD_PRELOAD");
  ASSERT_NE(shim, nullptr);
  EXPECT_NE(std::system("env UROCE_PATHS=0 test -e /dev/infiniband/uverbs0"), 0);
  EXPECT_EQ(std::system("env test -e /dev/infiniband/uverbs0"), 0);
}

}  // namespace
