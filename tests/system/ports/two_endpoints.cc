// An application with two endpoints on the default port, until its standard input ends.
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>

#include "dpdk/endpoint.h"
#include "transport/observer.h"

int main() {
  uroce::Observer observer;
  const uroce::EndpointConfig config;
  std::string error;
  std::unique_ptr<uroce::Endpoint> endpoints[2];
  for (auto& endpoint : endpoints) {
    endpoint = uroce::Endpoint::open(config, observer, error);
    if (endpoint) continue;
    std::fprintf(stderr, "%s\n", error.c_str());
    return 1;
  }
  std::puts("open");
  std::fflush(stdout);
  char end;
  while (read(STDIN_FILENO, &end, 1) > 0) {
  }
  return 0;
}
