/* A server that listens and a client that connects to it by address and port, over UCX's own API. What one sends by
 * tag, stream and active message the other sends back; then the client writes, reads and counts in the server's memory.
 *
 *   ucp_check PORT            ucp_check PORT ADDRESS
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

enum { kLargest = 1 << 20, kMessage = 7, kTag = 0x77 };

static ucp_context_h context;
static ucp_worker_h worker;
static uint8_t *out, *in;
static ucp_conn_request_h request;
static int served, gone;
static ucs_status_t lost;
static struct {
  int done;
  void* rendezvous;
} arrived;

static void fail(const char* what, ucs_status_t status) {
  fprintf(stderr, "%s: %s\n", what, ucs_status_string(status));
  exit(1);
}

static void check(ucs_status_t status, const char* what) {
  if (status != UCS_OK) fail(what, status);
}

/* UCX says that the peer has gone and that its last message is here in any order, if both are there. */
static void turn(void) {
  static int turns_without_peer;
  ucp_worker_progress(worker);
  if (gone && !served && ++turns_without_peer > 10000) fail("connection", lost);
}

static void finish(ucs_status_ptr_t request_or_status, const char* what) {
  if (request_or_status == NULL) return;
  if (UCS_PTR_IS_ERR(request_or_status)) fail(what, UCS_PTR_STATUS(request_or_status));
  ucs_status_t status;
  while ((status = ucp_request_check_status(request_or_status)) == UCS_INPROGRESS) turn();
  ucp_request_free(request_or_status);
  check(status, what);
}

static uint8_t byte_of(size_t size, size_t i, int kind) { return (uint8_t)(size * 3 + i * 7 + (i >> 9) + kind); }

static void fill(size_t size, int kind) {
  for (size_t i = 0; i < size; i++) out[i] = byte_of(size, i, kind);
}

static void expect_bytes(size_t size, int kind, const char* what) {
  for (size_t i = 0; i < size; i++) {
    if (in[i] != byte_of(size, i, kind)) {
      fprintf(stderr, "%s of %zu bytes: wrong at %zu\n", what, size, i);
      exit(1);
    }
  }
  memset(in, 0, size);
}

static ucs_status_t on_message(void* unused, const void* header, size_t header_bytes, void* data, size_t bytes,
                               const ucp_am_recv_param_t* param) {
  (void)unused, (void)header, (void)header_bytes;
  arrived.done = 1;
  if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) {
    arrived.rendezvous = data;
    return UCS_INPROGRESS;
  }
  memcpy(in, data, bytes);
  return UCS_OK;
}

static void on_connection(ucp_conn_request_h connection, void* unused) {
  (void)unused;
  request = connection;
}

static void on_error(void* unused, ucp_ep_h ep, ucs_status_t status) {
  (void)unused, (void)ep;
  gone = 1;
  lost = status;
}

static const ucp_request_param_t kPlain;

static void send_one(ucp_ep_h ep, int kind, size_t size) {
  fill(size, kind);
  if (kind == 0) finish(ucp_tag_send_nbx(ep, out, size, kTag, &kPlain), "tag send");
  if (kind == 1) finish(ucp_stream_send_nbx(ep, out, size, &kPlain), "stream send");
  if (kind == 2) finish(ucp_am_send_nbx(ep, kMessage, NULL, 0, out, size, &kPlain), "message send");
}

static void receive_one(ucp_ep_h ep, int kind, size_t size) {
  if (kind == 0) finish(ucp_tag_recv_nbx(worker, in, size, kTag, ~0ull, &kPlain), "tag receive");
  if (kind == 1) {
    ucp_request_param_t all = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_STREAM_RECV_FLAG_WAITALL};
    size_t length = 0;
    ucs_status_ptr_t got = ucp_stream_recv_nbx(ep, in, size, &length, &all);
    finish(got, "stream receive");
  }
  if (kind == 2) {
    while (!arrived.done) turn();
    if (arrived.rendezvous != NULL) finish(ucp_am_recv_data_nbx(worker, arrived.rendezvous, in, size, &kPlain), "data");
    arrived.done = 0;
    arrived.rendezvous = NULL;
  }
  static const char* const kKinds[] = {"tag", "stream", "active message"};
  expect_bytes(size, kind, kKinds[kind]);
}

static void messages(ucp_ep_h ep, int client) {
  for (int kind = 0; kind < 3; kind++) {
    for (size_t size = 1; size <= kLargest; size *= 4) {
      if (client) send_one(ep, kind, size);
      receive_one(ep, kind, size);
      if (!client) send_one(ep, kind, size);
    }
  }
}

static ucp_mem_h map_memory(void) {
  ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                 .address = in,
                                 .length = kLargest};
  ucp_mem_h memory;
  check(ucp_mem_map(context, &params, &memory), "ucp_mem_map");
  return memory;
}

/* The server says where its memory is, and waits until the client is done with it. */
static void lend_memory(ucp_ep_h ep) {
  ucp_mem_h memory = map_memory();
  void* key;
  size_t key_bytes;
  check(ucp_rkey_pack(context, memory, &key, &key_bytes), "ucp_rkey_pack");
  memset(in, 0, kLargest);
  const uint64_t where[2] = {(uint64_t)(uintptr_t)in, key_bytes};
  finish(ucp_tag_send_nbx(ep, where, sizeof where, kTag, &kPlain), "address");
  finish(ucp_tag_send_nbx(ep, key, key_bytes, kTag, &kPlain), "key");
  uint64_t counted;
  finish(ucp_tag_recv_nbx(worker, &counted, sizeof counted, kTag, ~0ull, &kPlain), "end");
  uint64_t word;
  memcpy(&word, in, sizeof word);
  if (word != counted) fail("the counter", UCS_ERR_IO_ERROR);
  ucp_rkey_buffer_release(key);
  check(ucp_mem_unmap(context, memory), "ucp_mem_unmap");
}

static uint64_t atomic(ucp_ep_h ep, ucp_rkey_h key, uint64_t at, ucp_atomic_op_t operation, uint64_t operand,
                       uint64_t reply) {
  ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER,
                               .datatype = ucp_dt_make_contig(8),
                               .reply_buffer = &reply};
  finish(ucp_atomic_op_nbx(ep, operation, &operand, 1, at, key, &param), "atomic");
  return reply;
}

static void use_memory(ucp_ep_h ep) {
  uint64_t where[2];
  finish(ucp_tag_recv_nbx(worker, where, sizeof where, kTag, ~0ull, &kPlain), "address");
  void* packed = malloc(where[1]);
  finish(ucp_tag_recv_nbx(worker, packed, where[1], kTag, ~0ull, &kPlain), "key");
  ucp_rkey_h key;
  check(ucp_ep_rkey_unpack(ep, packed, &key), "ucp_ep_rkey_unpack");
  for (size_t size = 1; size <= kLargest; size *= 4) {
    fill(size, 3);
    finish(ucp_put_nbx(ep, out, size, where[0], key, &kPlain), "put");
    finish(ucp_ep_flush_nbx(ep, &kPlain), "flush");
    finish(ucp_get_nbx(ep, in, size, where[0], key, &kPlain), "get");
    expect_bytes(size, 3, "put and get");
  }
  const uint64_t zero = 0;
  finish(ucp_put_nbx(ep, &zero, sizeof zero, where[0], key, &kPlain), "put");
  finish(ucp_ep_flush_nbx(ep, &kPlain), "flush");
  for (uint64_t i = 0; i < 100; i++) {
    if (atomic(ep, key, where[0], UCP_ATOMIC_OP_ADD, 3, ~0ull) != 3 * i) fail("fetch and add", UCS_ERR_IO_ERROR);
  }
  if (atomic(ep, key, where[0], UCP_ATOMIC_OP_SWAP, 50, 0) != 300) fail("swap", UCS_ERR_IO_ERROR);
  /* What is compared is the operand, what is swapped comes and goes in the reply. */
  if (atomic(ep, key, where[0], UCP_ATOMIC_OP_CSWAP, 51, 60) != 50) fail("a mismatch", UCS_ERR_IO_ERROR);
  if (atomic(ep, key, where[0], UCP_ATOMIC_OP_CSWAP, 50, 70) != 50) fail("a match", UCS_ERR_IO_ERROR);
  const uint64_t last = 70;
  finish(ucp_tag_send_nbx(ep, &last, sizeof last, kTag, &kPlain), "end");
  ucp_rkey_destroy(key);
  free(packed);
}

static ucp_ep_h accept_one(struct sockaddr_in* address) {
  ucp_listener_params_t params = {
      .field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
      .sockaddr = {(const struct sockaddr*)address, sizeof *address},
      .conn_handler = {on_connection, NULL}};
  ucp_listener_h listener;
  check(ucp_listener_create(worker, &params, &listener), "ucp_listener_create");
  printf("listening\n");
  fflush(stdout);
  while (request == NULL) turn();
  ucp_ep_params_t accepted = {.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST | UCP_EP_PARAM_FIELD_ERR_HANDLER |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                              .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                              .err_handler = {on_error, NULL},
                              .conn_request = request};
  ucp_ep_h ep;
  check(ucp_ep_create(worker, &accepted, &ep), "ucp_ep_create");
  ucp_listener_destroy(listener);
  return ep;
}

static ucp_ep_h connect_to(struct sockaddr_in* address) {
  ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR |
                                          UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                            .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
                            .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                            .err_handler = {on_error, NULL},
                            .sockaddr = {(const struct sockaddr*)address, sizeof *address}};
  ucp_ep_h ep;
  check(ucp_ep_create(worker, &params, &ep), "ucp_ep_create");
  return ep;
}

static void open_worker(void) {
  ucp_params_t params = {
      .field_mask = UCP_PARAM_FIELD_FEATURES,
      .features = UCP_FEATURE_TAG | UCP_FEATURE_STREAM | UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_AMO64};
  check(ucp_init(&params, NULL, &context), "ucp_init");
  ucp_worker_params_t one = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE, .thread_mode = UCS_THREAD_MODE_SINGLE};
  check(ucp_worker_create(context, &one, &worker), "ucp_worker_create");
  ucp_am_handler_param_t handler = {
      .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB, .id = kMessage, .cb = on_message};
  check(ucp_worker_set_am_recv_handler(worker, &handler), "ucp_worker_set_am_recv_handler");
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const int client = argc > 2;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[1]))};
  if (client && inet_pton(AF_INET, argv[2], &address.sin_addr) != 1) return 2;
  out = aligned_alloc(4096, kLargest);
  in = aligned_alloc(4096, kLargest);
  if (out == NULL || in == NULL) return 1;
  open_worker();
  ucp_ep_h ep = client ? connect_to(&address) : accept_one(&address);
  messages(ep, client);
  if (client) {
    use_memory(ep);
  } else {
    lend_memory(ep);
  }
  served = 1;
  /* The client ends the connection; the server waits for that. */
  while (!client && !gone) ucp_worker_progress(worker);
  ucp_request_param_t close = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = client ? 0 : UCP_EP_CLOSE_FLAG_FORCE};
  finish(ucp_ep_close_nbx(ep, &close), "ucp_ep_close");
  ucp_worker_destroy(worker);
  ucp_cleanup(context);
  printf("tag, stream, active message, put, get and atomics verified\n");
  return 0;
}
