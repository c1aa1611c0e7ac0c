// What a program that means harm says of itself does not reach a terminal as it is.
#include "uroce/programs.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "base/random.h"
#include "temporary_directory.h"

namespace uroce::launcher {
namespace {

/// Answers a greeting, and then each question with the next of `answers`.
class Teller {
 public:
  Teller(std::string path, std::vector<std::string> answers) : path_(std::move(path)), answers_(std::move(answers)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof address.sun_path - 1);
    fd_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(fd_, 1), 0);
    thread_ = std::thread([this] { tell(); });
  }
  ~Teller() {
    thread_.join();
    close(fd_);
  }

 private:
  void tell() {
    const int client = accept(fd_, nullptr, nullptr);
    send(client, "{}", 2, MSG_NOSIGNAL);
    char question[256];
    for (const std::string& answer : answers_) {
      if (recv(client, question, sizeof question, 0) <= 0) break;
      send(client, answer.data(), answer.size(), MSG_NOSIGNAL);
    }
    close(client);
  }

  const std::string path_;
  const std::vector<std::string> answers_;
  int fd_ = -1;
  std::thread thread_;
};

TEST(TelemetryClient, GivesOnlyPrintableCharacters) {
  const TemporaryRuntimeDir dir;
  SeededRandom random(25);
  std::vector<std::string> answers;
  for (int i = 0; i < 500; i++) {
    static constexpr const char* kEvil[] = {"\\u001b[2J", "\\n", "\\r", "\\u0007", "\xc2\x9b", "\x7f", "\\u202e", "x"};
    const auto evil = [&] { return std::string("a") + kEvil[random.below(8)] + kEvil[random.below(8)] + "z"; };
    answers.push_back("{\"/uroce/qp\": {\"error\": \"" + evil() + "\", \"" + evil() + "\": [\"" + evil() +
                      "\", {\"k\": \"" + evil() + "\"}]}}");
  }
  const std::string path = dir.path() / "telemetry";
  const Teller teller(path, answers);
  TelemetryClient client(path, 20);
  for (size_t i = 0; i < answers.size(); i++) {
    const auto value = client.value("/uroce/qp,1");
    ASSERT_TRUE(value) << answers[i];
    ASSERT_EQ(value->size(), 2u) << answers[i];
    for (const char c : value->dump()) ASSERT_TRUE(c >= ' ' && c <= '~') << answers[i];
    const std::string text = text_at(*value, "error");
    EXPECT_EQ(text.front(), 'a');
    EXPECT_EQ(text.find('\n'), std::string::npos) << "what dump() would write with a backslash";
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
  }
}

}  // namespace
}  // namespace uroce::launcher
