/* Every rank exchanges with every other, by three kinds of operation, from 1 byte to 4 MiB, and looks at every byte. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { kLargest = 4 << 20 };

static int rank, ranks;

static void fail(const char* operation, int bytes, int from) {
  fprintf(stderr, "rank %d of %d: %s of %d bytes: wrong data from rank %d\n", rank, ranks, operation, bytes, from);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

/* What `from` sends to `to`: different for each pair, length and place. */
static uint8_t byte_of(int from, int to, int bytes, int i) {
  return (uint8_t)(from * 31 + to * 17 + bytes + i * 7 + (i >> 8));
}

static void ring(uint8_t* out, uint8_t* in, int bytes) {
  const int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
  for (int i = 0; i < bytes; i++) out[i] = byte_of(rank, to, bytes, i);
  MPI_Sendrecv(out, bytes, MPI_BYTE, to, bytes, in, bytes, MPI_BYTE, from, bytes, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 0; i < bytes; i++) {
    if (in[i] != byte_of(from, rank, bytes, i)) fail("MPI_Sendrecv", bytes, from);
  }
}

static void all_to_all(uint8_t* out, uint8_t* in, int bytes) {
  const int each = bytes / ranks;
  if (each == 0) return;
  for (int to = 0; to < ranks; to++) {
    for (int i = 0; i < each; i++) out[to * each + i] = byte_of(rank, to, bytes, i);
  }
  MPI_Alltoall(out, each, MPI_BYTE, in, each, MPI_BYTE, MPI_COMM_WORLD);
  for (int from = 0; from < ranks; from++) {
    for (int i = 0; i < each; i++) {
      if (in[from * each + i] != byte_of(from, rank, bytes, i)) fail("MPI_Alltoall", bytes, from);
    }
  }
}

static void sum(uint8_t* out, uint8_t* in, int bytes) {
  const int count = bytes / (int)sizeof(uint64_t);
  uint64_t* const mine = (uint64_t*)out;
  uint64_t* const sums = (uint64_t*)in;
  for (int i = 0; i < count; i++) mine[i] = (uint64_t)(rank + 1) * (uint64_t)(i + bytes);
  MPI_Allreduce(mine, sums, count, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  const uint64_t factor = (uint64_t)ranks * (uint64_t)(ranks + 1) / 2;
  for (int i = 0; i < count; i++) {
    if (sums[i] != factor * (uint64_t)(i + bytes)) fail("MPI_Allreduce", bytes, -1);
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  uint8_t* const out = malloc(kLargest);
  uint8_t* const in = malloc(kLargest);
  if (out == NULL || in == NULL) return 1;
  int lengths = 0;
  for (int bytes = 1; bytes <= kLargest; bytes *= 4, lengths++) {
    ring(out, in, bytes);
    all_to_all(out, in, bytes);
    sum(out, in, bytes);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) printf("verified %d lengths between %d ranks\n", lengths, ranks);
  MPI_Finalize();
  return 0;
}
