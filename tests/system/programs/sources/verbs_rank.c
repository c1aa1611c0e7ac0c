// verbs_mesh whose processes have no parent in common:
//
//   verbs_rank PROCESS FILE PROCESSES TOPOLOGY BYTES MESSAGES [events]
//
// What they tell each other before they talk lies in the file, as ranks of an MPI have it from their launcher. The MTU
// is the port's, which may be a TAP's.
#include <fcntl.h>
#include <infiniband/verbs.h>
static enum ibv_mtu active_mtu(void);
#define IBV_MTU_4096 active_mtu()
#define main of_one_parent
#include "verbs_mesh.c"
#undef main

static enum ibv_mtu active_mtu(void) {
  struct ibv_port_attr attr;
  if (ibv_query_port(device, 1, &attr) != 0) fail("ibv_query_port");
  return attr.active_mtu;
}

int main(int argc, char** argv) {
  if (argc < 7) return 2;
  me = atoi(argv[1]);
  processes = atoi(argv[3]);
  bytes = strtoul(argv[5], NULL, 0);
  messages = atoi(argv[6]);
  const int file = open(argv[2], O_RDWR);
  if (file < 0 || ftruncate(file, sizeof *all) != 0) fail("the file");
  all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (all == MAP_FAILED) fail("mmap");
  const int events = argc > 7;
  open_device(events);
  const int bad = run(argv[4], events);
  printf("%ld messages of %zu bytes verified\n", all->verified[me], bytes);
  return bad;
}
