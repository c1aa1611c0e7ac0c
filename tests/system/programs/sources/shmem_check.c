/* Every PE writes to its right neighbour and reads from its left one, and all add to one counter. */
#include <shmem.h>
#include <stdint.h>
#include <stdio.h>

enum { kBytes = 1 << 20 };
static uint8_t landing[kBytes], source[kBytes];
static long counter;

int main(void) {
  shmem_init();
  const int me = shmem_my_pe(), all = shmem_n_pes();
  const int right = (me + 1) % all, left = (me + all - 1) % all;
  uint8_t* const heap = shmem_malloc(kBytes);
  for (int i = 0; i < kBytes; i++) source[i] = heap[i] = (uint8_t)(me * 37 + i * 5 + (i >> 9));
  shmem_barrier_all();
  shmem_putmem(landing, source, kBytes, right);
  shmem_long_atomic_add(&counter, me + 1, 0);
  shmem_barrier_all();
  int wrong = 0;
  for (int i = 0; i < kBytes; i++) wrong += landing[i] != (uint8_t)(left * 37 + i * 5 + (i >> 9));
  shmem_getmem(source, heap, kBytes, right);
  for (int i = 0; i < kBytes; i++) wrong += source[i] != (uint8_t)(right * 37 + i * 5 + (i >> 9));
  const long total = shmem_long_atomic_fetch(&counter, 0);
  shmem_barrier_all();
  if (wrong != 0 || total != (long)all * (all + 1) / 2) {
    fprintf(stderr, "PE %d: %d bytes are wrong, the counter is %ld\n", me, wrong, total);
    shmem_global_exit(1);
  }
  if (me == 0) printf("verified %d PEs\n", all);
  shmem_free(heap);
  shmem_finalize();
  return 0;
}
