// `uroce-ping`: plain libibverbs and librdmacm, so it also asks over an RDMA card, and may be asked by one.
#include "client.h"
#include "options.h"
#include "server.h"

int main(int argc, char** argv) {
  uroce::ping::Options options;
  int code = 0;
  if (!uroce::ping::parse_options(argc, argv, options, code)) return code;
  return options.serve ? uroce::ping::serve() : uroce::ping::ask_host(options);
}
