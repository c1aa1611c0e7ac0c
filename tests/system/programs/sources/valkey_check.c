/* Clients of a Valkey server over RDMA, in threads of one process, over libvalkey's own API: what was set is read back, one
 * command after the other and many at once, and every byte looked at. Afterwards the server has the values of the first thread.
 *
 *   valkey_check ADDRESS PORT THREADS [forever | rest]
 *
 * `rest`: afterwards each stays connected, and asks nothing more.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <valkey/rdma.h>
#include <valkey/valkey.h>

enum { kPipelined = 200 };
static const size_t kLengths[] = {0, 1, 1024, 4095, 4096, 4097, 65536, 1048575, 1048576, 3000001};  // the server's buffer has 1 MiB
enum { kLengthCount = sizeof(kLengths) / sizeof(kLengths[0]) };
static const char* address;
static int port, forever, rest;

static void fail(const valkeyContext* client, const char* what) {
  fprintf(stderr, "%s: %s\n", what, client != NULL && client->err != 0 ? client->errstr : "not what was expected");
  exit(1);
}

static void fill(char* value, size_t size, int thread) {
  for (size_t i = 0; i < size; i++) value[i] = (char)(size * 5 + i * 7 + (i >> 8) * 3 + (size_t)thread * 11);
}

static void expect(const valkeyContext* client, valkeyReply* reply, int type, const char* value, size_t size) {
  if (reply == NULL || reply->type != type || reply->len != size || memcmp(reply->str, value, size) != 0) fail(client, "a reply");
  freeReplyObject(reply);
}

static void set_and_get(valkeyContext* client, int thread, char* value) {
  for (int i = 0; i < kLengthCount; i++) {
    char key[32];
    snprintf(key, sizeof(key), "t%d:%zu", thread, kLengths[i]);
    fill(value, kLengths[i], thread);
    expect(client, valkeyCommand(client, "SET %s %b", key, value, kLengths[i]), VALKEY_REPLY_STATUS, "OK", 2);
    expect(client, valkeyCommand(client, "GET %s", key), VALKEY_REPLY_STRING, value, kLengths[i]);
  }
}

static void pipelined(valkeyContext* client, int thread, char* value) {
  void* reply = NULL;
  for (size_t i = 0; i < kPipelined; i++) {
    fill(value, 37 * i, thread);
    valkeyAppendCommand(client, "SET p%d:%d %b", thread, (int)i, value, 37 * i);
  }
  for (size_t i = 0; i < kPipelined; i++) {
    if (valkeyGetReply(client, &reply) != VALKEY_OK) fail(client, "replies to SET");
    expect(client, reply, VALKEY_REPLY_STATUS, "OK", 2);
  }
  for (size_t i = 0; i < kPipelined; i++) valkeyAppendCommand(client, "GET p%d:%d", thread, (int)i);
  for (size_t i = 0; i < kPipelined; i++) {
    if (valkeyGetReply(client, &reply) != VALKEY_OK) fail(client, "replies to GET");
    fill(value, 37 * i, thread);
    expect(client, reply, VALKEY_REPLY_STRING, value, 37 * i);
  }
}

static void* run(void* argument) {
  int thread = (int)(intptr_t)argument;
  char* value = malloc(kLengths[kLengthCount - 1]);
  struct timeval patience = {20, 0};
  valkeyOptions options = {0};
  VALKEY_OPTIONS_SET_RDMA(&options, address, port);
  options.connect_timeout = &patience;
  options.command_timeout = &patience;
  valkeyContext* client = valkeyConnectWithOptions(&options);
  if (client == NULL || client->err != 0 || value == NULL) fail(client, "to connect");
  do {
    set_and_get(client, thread, value);
    pipelined(client, thread, value);
  } while (forever);
  if (rest) {
    puts("at rest");
    fflush(stdout);
    for (;;) pause();
  }
  valkeyFree(client);
  free(value);
  return NULL;
}

int main(int argc, char** argv) {
  if (argc < 4 || valkeyInitiateRdma() != VALKEY_OK) return 2;
  address = argv[1];
  port = atoi(argv[2]);
  int count = atoi(argv[3]);
  forever = argc > 4 && strcmp(argv[4], "forever") == 0;
  rest = argc > 4 && strcmp(argv[4], "rest") == 0;
  pthread_t* threads = calloc((size_t)count, sizeof(*threads));
  for (intptr_t i = 0; i < count; i++) pthread_create(&threads[i], NULL, run, (void*)i);
  for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
  free(threads);
  printf("%d clients verified %d values each\n", count, kLengthCount + kPipelined);
  return 0;
}
