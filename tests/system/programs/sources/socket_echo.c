// A program of plain sockets: a server that gives back what it gets, and a client that checks that.
//
//     socket_echo PORT            serves one connection
//     socket_echo PORT ADDRESS    sends a megabyte in pieces, and says "same" or "different"
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { kPiece = 10000, kPieces = 100 };

static int fail(const char* what) {
  perror(what);
  return 1;
}

static int serve(const struct sockaddr_in* address) {
  static char data[65536];
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(listener, (const struct sockaddr*)address, sizeof *address) != 0) return fail("bind");
  if (listen(listener, 1) != 0) return fail("listen");
  int connection = accept(listener, NULL, NULL);
  if (connection < 0) return fail("accept");
  ssize_t length;
  while ((length = recv(connection, data, sizeof data, 0)) > 0) {
    if (send(connection, data, (size_t)length, 0) != length) return fail("send");
  }
  close(connection);
  close(listener);
  return 0;
}

static int ask(const struct sockaddr_in* address) {
  static char data[kPiece], back[kPiece];
  int connection = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(connection, (const struct sockaddr*)address, sizeof *address) != 0) return fail("connect");
  int same = 1;
  for (int piece = 0; piece < kPieces; piece++) {
    for (int i = 0; i < kPiece; i++) data[i] = (char)(i * 31 + piece * 7);
    if (send(connection, data, kPiece, 0) != kPiece) return fail("send");
    for (int got = 0; got < kPiece;) {
      ssize_t length = recv(connection, back + got, (size_t)(kPiece - got), 0);
      if (length <= 0) return fail("recv");
      got += (int)length;
    }
    same = same && memcmp(data, back, kPiece) == 0;
  }
  shutdown(connection, SHUT_RDWR);
  close(connection);
  puts(same ? "same" : "different");
  return same ? 0 : 1;
}

int main(int count, char** words) {
  if (count < 2) return 2;
  struct sockaddr_in address;
  memset(&address, 0, sizeof address);
  address.sin_family = AF_INET;
  address.sin_port = htons((unsigned short)atoi(words[1]));
  address.sin_addr.s_addr = count > 2 ? inet_addr(words[2]) : htonl(INADDR_ANY);
  return count > 2 ? ask(&address) : serve(&address);
}
