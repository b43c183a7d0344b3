// Groups of another host, here the loopback interface.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>

#include "environments/python_environments.h"
#include "environments/steps.h"
#include "kinema/environments/group.h"

namespace kinema::environments {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr const char* kModule = R"py(
import os
import numpy as np
class Walk:
    observations = {"x": ("float32", (1000,)), "process": ("float32", ())}
    actions = {"action": ("int32", (), 0, 3)}
    def __init__(self, seed, crash): self.rng, self.crash = np.random.default_rng(seed), crash
    def look(self): return {"x": self.rng.random(1000), "process": os.getpid()}
    def reset(self):
        self.t = 0
        return self.look()
    def step(self, action):
        self.t += 1
        if self.t == self.crash: os._exit(1)
        return self.look(), int(action["action"]), False, self.t == 5
def make(seed, crash=-1): return Walk(seed, crash)
)py";

constexpr const char* kToken = "0123456789abcdef0123";

/// envs.py that listens at a port of this host.
class Listening {
 public:
  explicit Listening(const OwnModule& module, const std::string& more = "") {
    module.write("token", std::string(kToken) + "\n");
    const std::string command =
        fmt::format("echo $$; exec python3 '{}/envs.py' --listen 127.0.0.1:0 --token-file token {}",
                    KINEMA_BINARY_DIR, more);
    output_ = popen(command.c_str(), "re");
    process_ = std::stoi(line());
    const std::string text = line();
    address_ = "127.0.0.1" + text.substr(text.find_last_of(':'));
  }
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;
  ~Listening() {
    kill(process_, SIGKILL);
    pclose(output_);
  }
  const std::string& address() const { return address_; }

 private:
  std::string line() {
    std::string out(4096, '\0');
    if (fgets(out.data(), static_cast<int>(out.size()), output_) == nullptr) {
      fail("[test] envs.py ended");
    }
    out.resize(out.find('\n'));
    return out;
  }

  FILE* output_ = nullptr;
  pid_t process_ = 0;
  std::string address_;
};

GroupOptions remote(const Listening& server, const std::string& settings = "") {
  return {.task = "own:make",
          .count = 3,
          .seed = 5,
          .settings = settings,
          .address = server.address(),
          .token = kToken,
          .step_timeout_seconds = 60.0};
}

TEST(RemoteGroup, ReturnsWhatALocalOneDoes) {
  const OwnModule module(kModule);
  const Listening server(module);
  GroupOptions local = remote(server, R"({"processes": 2})");
  local.address.clear();
  const auto here = open_group(local);
  const auto there = open_group(remote(server, R"({"processes": 3})"));
  EXPECT_EQ(here->observations(), there->observations());
  for (int i = 0; i < 20; ++i) {
    const GroupSteps a = step(*here, {i % 3, 1, 2}, i == 0);
    const GroupSteps b = step(*there, {i % 3, 1, 2}, i == 0);
    EXPECT_EQ(a.observations.at("x").bytes, b.observations.at("x").bytes);
    EXPECT_EQ(a.reward, b.reward);
    EXPECT_EQ(a.is_first, b.is_first);
    EXPECT_EQ(a.is_last, b.is_last);
    EXPECT_EQ(a.is_terminal, b.is_terminal);
  }
  // Each connection has a process of its own.
  std::vector<float> processes = floats(step(*there, {0, 0, 0}).observations.at("process"));
  std::ranges::sort(processes);
  EXPECT_EQ(std::adjacent_find(processes.begin(), processes.end()), processes.end());
}

TEST(RemoteGroup, StartsAgainAfterACrash) {
  const OwnModule module(kModule);
  const Listening server(module);
  const auto group = open_group(
      remote(server, R"({"crash": 2, "processes": 1, "restart_wait": 0, "restart_failures": 1})"));
  step(*group, {0, 0, 0}, true);
  step(*group, {0, 0, 0});
  EXPECT_THAT(step(*group, {0, 0, 0}).is_first, Each(1));
  step(*group, {0, 0, 0});
  EXPECT_THAT(
      [&] {
        step(*group, {0, 0, 0});
      },
      ThrowsMessage<Error>(HasSubstr("failed 2 times within 300 s")));
}

TEST(RemoteGroup, NeedsTheToken) {
  const OwnModule module(kModule);
  const Listening server(module);
  for (const std::string token : {"", "0123456789abcdef0124", "0123456789abcdef01234"}) {
    GroupOptions options = remote(server);
    options.token = token;
    EXPECT_THAT([&] { open_group(options); },
                ThrowsMessage<Error>(
                    HasSubstr(server.address() + " refuses this group: the token is another one")));
  }
}

TEST(RemoteGroup, NamesTheAddressThatCannotBeReached) {
  const OwnModule module(kModule);
  std::string address;
  {
    const Listening server(module);
    address = server.address();
  }
  GroupOptions options{.task = "own:make", .address = address, .token = kToken};
  EXPECT_THAT([&] { open_group(options); },
              ThrowsMessage<Error>(HasSubstr(address + " cannot be reached: Connection refused")));
  options.address = "localhost";
  EXPECT_THAT([&] { open_group(options); },
              ThrowsMessage<Error>(HasSubstr("`localhost`, expected HOST:PORT")));
}

TEST(RemoteGroup, ConnectionsAreLimited) {
  const OwnModule module(kModule);
  const Listening server(module, "--connections 2");
  const auto two = open_group(remote(server, R"({"processes": 2})"));
  EXPECT_THAT([&] { open_group(remote(server, R"({"processes": 1})")); },
              ThrowsMessage<Error>(HasSubstr("own:make cannot be started: it has ended")));
  EXPECT_THAT(step(*two, {0, 0, 0}, true).is_first, Each(1));
}

TEST(RemoteGroup, AServerNeedsALongToken) {
  const OwnModule module(kModule);
  module.write("token", "short\n");
  const std::string command = fmt::format(
      "python3 '{}/envs.py' --listen 127.0.0.1:0 --token-file token 2>&1", KINEMA_BINARY_DIR);
  FILE* output = popen(command.c_str(), "re");
  std::string text(4096, '\0');
  text.resize(fread(text.data(), 1, text.size(), output));
  EXPECT_NE(pclose(output), 0);
  EXPECT_THAT(text, HasSubstr("has 5 characters, expected at least 16"));
}

}  // namespace
}  // namespace kinema::environments
