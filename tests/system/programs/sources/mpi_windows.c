/* What MPI has beside messages between two: collective operations of every form, messages out of order, and windows of
 * memory with put, get, accumulate, fetch_and_op and compare_and_swap. Every result is looked at. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { kWords = 1 << 16, kRounds = 200, kMessages = 64 };

static int rank, ranks;

static void expect(int holds, const char* what, long length) {
  if (holds) return;
  fprintf(stderr, "rank %d of %d: %s of %ld: a wrong result\n", rank, ranks, what, length);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static int64_t word_of(int from, long i, long length) { return from * 1000003L + i * 7 + length; }

static void fill(int64_t* words, int from, long length) {
  for (long i = 0; i < length; i++) words[i] = word_of(from, i, length);
}

static int is_from(const int64_t* words, int from, long length) {
  for (long i = 0; i < length; i++) {
    if (words[i] != word_of(from, i, length)) return 0;
  }
  return 1;
}

static void collectives(int64_t* out, int64_t* in, long length) {
  for (int root = 0; root < ranks; root++) {
    fill(in, rank == root ? root : ranks, length);
    MPI_Bcast(in, (int)length, MPI_INT64_T, root, MPI_COMM_WORLD);
    expect(is_from(in, root, length), "MPI_Bcast", length);
    fill(out, rank, length);
    MPI_Reduce(out, in, (int)length, MPI_INT64_T, MPI_MAX, root, MPI_COMM_WORLD);
    if (rank == root) expect(is_from(in, ranks - 1, length), "MPI_Reduce", length);
  }
  const long each = length / ranks;
  if (each == 0) return;
  fill(out, rank, each);
  MPI_Allgather(out, (int)each, MPI_INT64_T, in, (int)each, MPI_INT64_T, MPI_COMM_WORLD);
  for (int from = 0; from < ranks; from++) expect(is_from(in + from * each, from, each), "MPI_Allgather", each);
  MPI_Gather(out, (int)each, MPI_INT64_T, in, (int)each, MPI_INT64_T, 0, MPI_COMM_WORLD);
  for (int from = 0; rank == 0 && from < ranks; from++)
    expect(is_from(in + from * each, from, each), "MPI_Gather", each);
  for (int to = 0; to < ranks; to++) fill(out + to * each, to, each);
  MPI_Scatter(out, (int)each, MPI_INT64_T, in, (int)each, MPI_INT64_T, 0, MPI_COMM_WORLD);
  expect(is_from(in, rank, each), "MPI_Scatter", each);
  MPI_Reduce_scatter_block(out, in, (int)each, MPI_INT64_T, MPI_MIN, MPI_COMM_WORLD);
  expect(is_from(in, rank, each), "MPI_Reduce_scatter_block", each);
}

/* All at once, to everybody, and received in the opposite order. */
static void out_of_order(int64_t* out, int64_t* in, long length) {
  MPI_Request sends[kMessages];
  MPI_Status statuses[kMessages];
  const int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
  for (int n = 0; n < kMessages; n++) {
    fill(out + n * length, rank + n, length);
    MPI_Isend(out + n * length, (int)length, MPI_INT64_T, to, n, MPI_COMM_WORLD, &sends[n]);
  }
  for (int n = kMessages - 1; n >= 0; n--) {
    MPI_Recv(in, (int)length, MPI_INT64_T, from, n, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    expect(is_from(in, from + n, length), "MPI_Recv out of order", length);
  }
  MPI_Waitall(kMessages, sends, statuses);
}

static void put_and_get(MPI_Win window, int64_t* own, int64_t* buffer, long length) {
  const int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
  fill(buffer, rank, length);
  MPI_Win_fence(0, window);
  MPI_Put(buffer, (int)length, MPI_INT64_T, to, 0, (int)length, MPI_INT64_T, window);
  MPI_Win_fence(0, window);
  expect(is_from(own, from, length), "MPI_Put", length);
  MPI_Get(buffer, (int)length, MPI_INT64_T, to, 0, (int)length, MPI_INT64_T, window);
  MPI_Win_fence(0, window);
  expect(is_from(buffer, rank, length), "MPI_Get", length);
  /* All add theirs to what is at rank 0, which begins with zeros. */
  for (long i = 0; i < length; i++) own[i] = 0;
  fill(buffer, rank, length);
  MPI_Win_fence(0, window);
  MPI_Accumulate(buffer, (int)length, MPI_INT64_T, 0, 0, (int)length, MPI_INT64_T, MPI_SUM, window);
  MPI_Win_fence(0, window);
  for (long i = 0; rank == 0 && i < length; i++) {
    int64_t sum = 0;
    for (int other = 0; other < ranks; other++) sum += word_of(other, i, length);
    expect(own[i] == sum, "MPI_Accumulate", length);
  }
}

/* A counter and a lock at rank 0, which all want at the same time. */
static void atomics(MPI_Win window, int64_t* own) {
  const int64_t one = 1, nobody = 0, me = rank + 1;
  int64_t before = 0, last = -1;
  own[0] = own[1] = own[2] = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock_all(0, window);
  for (int round = 0; round < kRounds; round++) {
    MPI_Fetch_and_op(&one, &before, MPI_INT64_T, 0, 0, MPI_SUM, window);
    MPI_Win_flush(0, window);
    expect(before > last && before < (int64_t)ranks * kRounds, "MPI_Fetch_and_op", round);
    last = before;
  }
  for (int round = 0; round < kRounds / 10; round++) {
    do {
      MPI_Compare_and_swap(&me, &nobody, &before, MPI_INT64_T, 0, 1, window);
      MPI_Win_flush(0, window);
    } while (before != nobody);
    /* Under the lock: read, add, write. */
    int64_t value = 0;
    MPI_Get(&value, 1, MPI_INT64_T, 0, 2, 1, MPI_INT64_T, window);
    MPI_Win_flush(0, window);
    value++;
    MPI_Put(&value, 1, MPI_INT64_T, 0, 2, 1, MPI_INT64_T, window);
    MPI_Win_flush(0, window);
    MPI_Compare_and_swap(&nobody, &me, &before, MPI_INT64_T, 0, 1, window);
    MPI_Win_flush(0, window);
    expect(before == me, "MPI_Compare_and_swap", round);
  }
  MPI_Win_unlock_all(window);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
  int64_t results[3];
  MPI_Get(results, 3, MPI_INT64_T, 0, 0, 3, MPI_INT64_T, window);
  MPI_Win_unlock(0, window);
  expect(results[0] == (int64_t)ranks * kRounds, "the counter", (long)results[0]);
  expect(results[2] == (int64_t)ranks * (kRounds / 10), "what the lock guards", (long)results[2]);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int64_t* const out = malloc(kWords * sizeof *out);
  int64_t* const in = malloc(kWords * sizeof *in);
  int64_t* own;
  MPI_Win window;
  MPI_Win_allocate(kWords * sizeof *own, sizeof *own, MPI_INFO_NULL, MPI_COMM_WORLD, &own, &window);
  if (out == NULL || in == NULL) return 1;
  int lengths = 0;
  for (long length = 1; length <= kWords; length *= 16, lengths++) {
    collectives(out, in, length);
    if (length * kMessages <= kWords) out_of_order(out, in, length);
    put_and_get(window, own, out, length);
  }
  atomics(window, own);
  MPI_Win_free(&window);
  if (rank == 0) printf("windows and collectives of %d lengths verified between %d ranks\n", lengths, ranks);
  MPI_Finalize();
  return 0;
}
