// Descriptors opened by libraries that are loaded for a driver are closed on exec, too (see wrap_descriptor_calls.cc):
// the libraries do not ask for that, so each is marked as soon as it is open.
//
// For targets with -Wl,--wrap=... for each of these functions.
#include <fcntl.h>

#include <cstdint>
#include <cstdio>

#define HIDDEN __attribute__((visibility("hidden")))

namespace {

void close_on_exec(int fd) {
  if (fd >= 0) fcntl(fd, F_SETFD, FD_CLOEXEC);
}

template <typename T>
T* close_on_exec(T* opened, FILE* (*file_of)(T*)) {
  FILE* const file = opened != nullptr ? file_of(opened) : nullptr;
  if (file != nullptr) close_on_exec(fileno(file));
  return opened;
}

}  // namespace

// Only pointers to the types, which are the libraries' own, are used here.
extern "C" {

struct pcap;
struct pcap_dumper;
struct xsk_socket;
struct xsk_umem;
struct xsk_ring;

int pcap_fileno(pcap* capture);
FILE* pcap_file(pcap* capture);
FILE* pcap_dump_file(pcap_dumper* dumper);
pcap* __real_pcap_open_live(const char* device, int bytes, int promiscuous, int timeout_ms, char* error);
pcap* __real_pcap_open_offline(const char* name, char* error);
pcap_dumper* __real_pcap_dump_open(pcap* capture, const char* name);

HIDDEN pcap* __wrap_pcap_open_live(const char* device, int bytes, int promiscuous, int timeout_ms, char* error) {
  pcap* const capture = __real_pcap_open_live(device, bytes, promiscuous, timeout_ms, error);
  if (capture != nullptr) close_on_exec(pcap_fileno(capture));
  return capture;
}

HIDDEN pcap* __wrap_pcap_open_offline(const char* name, char* error) {
  return close_on_exec(__real_pcap_open_offline(name, error), pcap_file);
}

HIDDEN pcap_dumper* __wrap_pcap_dump_open(pcap* capture, const char* name) {
  return close_on_exec(__real_pcap_dump_open(capture, name), pcap_dump_file);
}

int xsk_socket__fd(const xsk_socket* socket);
int xsk_umem__fd(const xsk_umem* memory);
int __real_xsk_umem__create(xsk_umem** memory, void* area, uint64_t bytes, xsk_ring* fill, xsk_ring* completion,
                            const void* config);
int __real_xsk_socket__create(xsk_socket** socket, const char* interface, uint32_t queue, xsk_umem* memory,
                              xsk_ring* rx, xsk_ring* tx, const void* config);
int __real_xsk_socket__create_shared(xsk_socket** socket, const char* interface, uint32_t queue, xsk_umem* memory,
                                     xsk_ring* rx, xsk_ring* tx, xsk_ring* fill, xsk_ring* completion,
                                     const void* config);

HIDDEN int __wrap_xsk_umem__create(xsk_umem** memory, void* area, uint64_t bytes, xsk_ring* fill, xsk_ring* completion,
                                   const void* config) {
  const int code = __real_xsk_umem__create(memory, area, bytes, fill, completion, config);
  if (code == 0) close_on_exec(xsk_umem__fd(*memory));
  return code;
}

HIDDEN int __wrap_xsk_socket__create(xsk_socket** socket, const char* interface, uint32_t queue, xsk_umem* memory,
                                     xsk_ring* rx, xsk_ring* tx, const void* config) {
  const int code = __real_xsk_socket__create(socket, interface, queue, memory, rx, tx, config);
  if (code == 0) close_on_exec(xsk_socket__fd(*socket));
  return code;
}

HIDDEN int __wrap_xsk_socket__create_shared(xsk_socket** socket, const char* interface, uint32_t queue,
                                            xsk_umem* memory, xsk_ring* rx, xsk_ring* tx, xsk_ring* fill,
                                            xsk_ring* completion, const void* config) {
  const int code = __real_xsk_socket__create_shared(socket, interface, queue, memory, rx, tx, fill, completion, config);
  if (code == 0) close_on_exec(xsk_socket__fd(*socket));
  return code;
}

}  // extern "C"
