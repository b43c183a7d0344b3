#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "cli/run_kinema.h"
#include "http/client.h"
#include "kinema/io/json.h"

namespace kinema::cli_test {

/// A `kinema serve` in the folder of a test; the destructor kills it.
class Serve {
 public:
  Serve(const std::filesystem::path& folder, std::vector<std::string> words)
      : folder_(folder), port_(free_port()) {
    words.insert(words.begin(), {"kinema", "serve"});
    words.push_back("serve_port=" + std::to_string(port_));
    words.emplace_back("serve_folder=served");
    std::vector<char*> argv;
    for (std::string& word : words) {
      argv.push_back(word.data());
    }
    argv.push_back(nullptr);
    const std::string program = std::string(KINEMA_BINARY_DIR) + "/kinema";
    const std::string out = (folder / ".serve").string();
    std::filesystem::remove(out);
    pid_ = fork();
    if (pid_ == 0) {
      if (chdir(folder.c_str()) != 0 || freopen(out.c_str(), "w", stdout) == nullptr ||
          freopen((folder / ".serve.err").c_str(), "w", stderr) == nullptr) {
        _exit(127);
      }
      execv(program.c_str(), argv.data());
      _exit(127);
    }
  }
  Serve(const Serve&) = delete;
  Serve& operator=(const Serve&) = delete;
  ~Serve() { end(SIGKILL); }

  /// Waits for the line with the link, which has the token.
  bool is_ready() {
    for (int i = 0; i < 600; ++i) {
      const std::string line = read_text(folder_ / ".serve");
      const size_t at = line.find("?token=");
      if (at != std::string::npos && line.ends_with('\n')) {
        token_ = line.substr(at + 7, 43);
        return true;
      }
      if (waitpid(pid_, nullptr, WNOHANG) == pid_) {
        pid_ = -1;
        return false;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return false;
  }
  /// Sends a signal and returns how it ended.
  int end(int signal) {
    int status = -1;
    if (pid_ > 0) {
      kill(pid_, signal);
      waitpid(pid_, &status, 0);
      pid_ = -1;
    }
    return status;
  }

  std::string ask(const std::string& method, const std::string& target,
                  const std::string& body = "",
                  const std::string& type = "application/json") const {
    http_test::Client client(port_);
    client.send(
        fmt::format("{} {} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {}\r\n"
                    "Content-Type: {}\r\nContent-Length: {}\r\n\r\n{}",
                    method, target, port_, token_, type, body.size(), body));
    return client.read_answer();
  }
  io::Json json(const std::string& method, const std::string& target,
                const std::string& body = "") const {
    const std::string answer = ask(method, target, body);
    EXPECT_THAT(answer, ::testing::StartsWith("HTTP/1.1 20")) << method << " " << target;
    return io::Json::parse(answer.substr(answer.find("\r\n\r\n") + 4), "the answer");
  }
  /// The job when it has ended.
  io::Json ended(const std::string& id) const {
    for (int i = 0; i < 10; ++i) {
      io::Json job = json("GET", "/api/jobs/" + id + "?wait=30");
      if (!job.at("ended").is_null()) {
        return job;
      }
    }
    ADD_FAILURE() << id << " does not end";
    return json("GET", "/api/jobs/" + id);
  }

  /// The engine's process id; 0: there is none.
  pid_t engine() const {
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string stat = read_text(entry.path() / "stat");
      const size_t name = stat.rfind(") ");
      if (name == std::string::npos) {
        continue;
      }
      std::istringstream fields(stat.substr(name + 2));
      std::string state;
      pid_t parent = 0;
      fields >> state >> parent;
      if (parent == pid_ && state != "Z") {
        return std::stoi(entry.path().filename());
      }
    }
    return 0;
  }
  pid_t pid() const { return pid_; }

 private:
  static uint16_t free_port() {
    const io::Descriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size);
    getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size);
    return ntohs(address.sin_port);
  }

  std::filesystem::path folder_;
  uint16_t port_;
  pid_t pid_ = -1;
  std::string token_;
};

class ServeTest : public KinemaOnCpu {
 protected:
  void SetUp() override {
    KinemaOnCpu::SetUp();
    if (IsSkipped()) {
      return;
    }
    const Outcome trained = run({"train", "tiny.yml", "max_train_steps=1"});
    ASSERT_EQ(trained.status, 0) << trained.err;
  }

  static std::string request(const std::string& prompt, int seed = 7) {
    return fmt::format(R"({{"settings":{{"prompt":"{}","seed":{},"num_inference_steps":2}}}})",
                       prompt, seed);
  }
  /// True if the process is gone within some seconds.
  static bool ends(pid_t pid) {
    for (int i = 0; i < 200; ++i) {
      const std::string stat = read_text(fmt::format("/proc/{}/stat", pid));
      if (stat.empty() || stat.find(") Z") != std::string::npos) {
        return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return false;
  }
};

}  // namespace kinema::cli_test
