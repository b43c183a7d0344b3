// `kinema serve` as a process, with a tiny model: what it makes, and what it keeps when it or its
// engine is killed.
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include "cli/run_kinema.h"
#include "http/client.h"
#include "kinema/io/json.h"
#include "kinema/media/video.h"

namespace kinema::cli_test {
namespace {

using namespace std::chrono_literals;
using io::Json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

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
      std::this_thread::sleep_for(50ms);
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
                  const std::string& body = "") const {
    http_test::Client client(port_);
    client.send(
        fmt::format("{} {} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {}\r\n"
                    "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
                    method, target, port_, token_, body.size(), body));
    return client.read_answer();
  }
  Json json(const std::string& method, const std::string& target,
            const std::string& body = "") const {
    const std::string answer = ask(method, target, body);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 20")) << method << " " << target;
    return Json::parse(answer.substr(answer.find("\r\n\r\n") + 4), "the answer");
  }
  /// The job when it has ended.
  Json ended(const std::string& id) const {
    for (int i = 0; i < 10; ++i) {
      Json job = json("GET", "/api/jobs/" + id + "?wait=30");
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
      std::this_thread::sleep_for(50ms);
    }
    return false;
  }
};

TEST_F(ServeTest, MakesWhatGenerateMakes) {
  // A client's prompt replaces those of the file.
  write("prompts.txt", "one\ntwo\n");
  write("tiny.yml", std::string(tiny_config()) + "prompt_file: prompts.txt\n");
  Serve server(folder_, {"tiny.yml"});
  ASSERT_TRUE(server.is_ready()) << read_text(folder_ / ".serve.err");
  const Json state = server.json("GET", "/api/state");
  const Json model = state.at("models").items()[0];
  EXPECT_EQ(model.at("name").as_string(), "tiny");
  EXPECT_EQ(model.at("kind").as_string(), "video");
  EXPECT_EQ(model.at("defaults").at("width").as_int(), 16);

  const Json job = server.json("POST", "/api/jobs", request("a red circle"));
  const Json done = server.ended(job.at("id").as_string());
  ASSERT_EQ(done.at("state").as_string(), "done") << done.dump();
  ASSERT_EQ(done.at("outputs").items().size(), 1U);
  const Json output = done.at("outputs").items()[0];
  EXPECT_EQ(output.at("width").as_int(), 16);
  const std::string answer = server.ask("GET", output.at("url").as_string());
  EXPECT_THAT(answer, HasSubstr("Content-Type: video/mp4\r\n"));
  std::ofstream(folder_ / "served.mp4") << answer.substr(answer.find("\r\n\r\n") + 4);
  EXPECT_THAT(server.ask("GET", output.at("thumb").as_string()), HasSubstr("image/png"));

  const Outcome made = run({"generate", "tiny.yml", "prompt=a red circle", "seed=7",
                            "num_inference_steps=2", "video_folder=made"});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_EQ(media::read_video(folder_ / "served.mp4").frames.bytes,
            media::read_video(folder_ / "made/000_a_red_circle.mp4").frames.bytes);
}

TEST_F(ServeTest, RefusesWhatClientsMayNotSet) {
  Serve server(folder_, {"tiny.yml"});
  ASSERT_TRUE(server.is_ready()) << read_text(folder_ / ".serve.err");
  const auto refused = [&](const std::string& settings) {
    return server.ask("POST", "/api/jobs", "{\"settings\":" + settings + "}");
  };
  for (const char* key : {"pjrt_plugin", "output_dir", "video_folder", "save_latents", "image",
                          "initial_latents", "xla_flags", "serve_token", "contact_sheet",
                          "pretrained_model_name_or_path", "prompt_file", "lora_config"}) {
    const std::string answer = refused(fmt::format(R"({{"{}":"/tmp/x"}})", key));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 422")) << key;
    EXPECT_THAT(answer, HasSubstr(fmt::format("\"param\": \"{}\"", key)));
  }
  EXPECT_THAT(refused(R"({"width":17})"), StartsWith("HTTP/1.1 422"));
  EXPECT_THAT(refused(R"({"num_inference_steps":0})"), StartsWith("HTTP/1.1 422"));
  EXPECT_THAT(refused(R"({"num_inference_stepz":1})"), HasSubstr("num_inference_steps"));
  EXPECT_EQ(server.json("GET", "/api/jobs").at("jobs").items().size(), 0U);
}

TEST_F(ServeTest, SurvivesItsEngine) {
  Serve server(folder_, {"tiny.yml"});
  ASSERT_TRUE(server.is_ready()) << read_text(folder_ / ".serve.err");
  const std::string id = server.json("POST", "/api/jobs", request("killed")).at("id").as_string();
  pid_t engine = 0;
  for (int i = 0; i < 200 && engine == 0; ++i) {
    std::this_thread::sleep_for(10ms);
    engine = server.engine();
  }
  ASSERT_NE(engine, 0);
  kill(engine, SIGKILL);
  EXPECT_EQ(server.ended(id).at("state").as_string(), "done");
}

TEST_F(ServeTest, LosesNothingWhenItIsKilled) {
  std::mt19937 random(7);
  std::set<std::string> acknowledged;
  for (int round = 0; round < 8; ++round) {
    Serve server(folder_, {"tiny.yml"});
    ASSERT_TRUE(server.is_ready()) << read_text(folder_ / ".serve.err");
    for (int i = 0; i < 2; ++i) {
      acknowledged.insert(
          server.json("POST", "/api/jobs", request("a fox", i)).at("id").as_string());
    }
    std::this_thread::sleep_for(
        std::chrono::milliseconds(std::uniform_int_distribution<>(0, 1500)(random)));
    const pid_t engine = server.engine();
    server.end(SIGKILL);
    if (engine != 0) {
      EXPECT_TRUE(ends(engine)) << "the engine lives on";
    }
  }
  Serve server(folder_, {"tiny.yml"});
  ASSERT_TRUE(server.is_ready()) << read_text(folder_ / ".serve.err");
  int64_t done = 0;
  for (const std::string& id : acknowledged) {
    const Json job = server.ended(id);
    if (job.at("state").as_string() == "failed") {  // three of the kills were while it ran
      EXPECT_GE(job.at("attempts").as_int(), 3) << job.dump();
      continue;
    }
    EXPECT_EQ(job.at("state").as_string(), "done") << job.dump();
    ASSERT_EQ(job.at("outputs").items().size(), 1U);
    EXPECT_THAT(server.ask("GET", job.at("outputs").items()[0].at("url").as_string()),
                StartsWith("HTTP/1.1 200"));
    ++done;
  }
  EXPECT_GT(done, 8);
  EXPECT_EQ(server.json("GET", "/api/outputs").at("total").as_int(), done);
}

TEST_F(ServeTest, LeavesRunsAloneAndFindsThemAgain) {
  const auto state = [](const Serve& server) {
    return server.json("GET", "/api/runs/long").at("state").as_string();
  };
  const auto becomes = [&](const Serve& server, const std::string& wanted) {
    for (int i = 0; i < 1200; ++i) {
      const Json run = server.json("GET", "/api/runs/long");
      if (run.at("state").as_string() == wanted &&
          (wanted != "running" || run.at("step").as_int() > 0)) {
        return true;
      }
      std::this_thread::sleep_for(100ms);
    }
    return false;
  };
  pid_t trainer = 0;
  {
    Serve server(folder_, {"tiny.yml"});
    ASSERT_TRUE(server.is_ready()) << read_text(folder_ / ".serve.err");
    server.json("POST", "/api/runs",
                R"({"name":"long","base":"tiny","start":true,)"
                R"("settings":{"max_train_steps":1000000,"checkpoint_every":-1}})");
    ASSERT_TRUE(becomes(server, "running"))
        << server.json("GET", "/api/runs/long/log").at("text").as_string();
    trainer = std::stoi(read_text(folder_ / "served/runs/long/.lock"));
    server.end(SIGKILL);
  }
  EXPECT_EQ(kill(trainer, 0), 0) << "the run ended with the server";
  Serve server(folder_, {"tiny.yml"});
  ASSERT_TRUE(server.is_ready()) << read_text(folder_ / ".serve.err");
  EXPECT_EQ(state(server), "running");
  EXPECT_THAT(server.ask("POST", "/api/runs/long/start"), StartsWith("HTTP/1.1 409"));
  EXPECT_THAT(server.ask("DELETE", "/api/runs/long", R"({"name":"long"})"),
              StartsWith("HTTP/1.1 409"));
  server.json("POST", "/api/runs/long/stop");
  ASSERT_TRUE(becomes(server, "stopped"));
  EXPECT_TRUE(ends(trainer));
  const Json stopped = server.json("GET", "/api/runs/long");
  EXPECT_EQ(stopped.at("checkpoints").items().size(), 1U);
  EXPECT_EQ(stopped.at("steps").as_int(), 1000000);
  EXPECT_THAT(server.ask("POST", "/api/runs",
                         R"({"name":"b","base":"tiny","settings":)"
                         R"({"pjrt_plugin":"/tmp/evil.so"}})"),
              StartsWith("HTTP/1.1 422"));
  server.json("DELETE", "/api/runs/long", R"({"name":"long"})");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "served/runs/long"));
}

TEST_F(ServeTest, StopsCleanly) {
  std::string id;
  {
    Serve server(folder_, {"tiny.yml"});
    ASSERT_TRUE(server.is_ready()) << read_text(folder_ / ".serve.err");
    id = server.json("POST", "/api/jobs", request("a fox")).at("id").as_string();
    const int status = server.end(SIGTERM);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  Serve server(folder_, {"tiny.yml"});
  ASSERT_TRUE(server.is_ready()) << read_text(folder_ / ".serve.err");
  EXPECT_EQ(server.ended(id).at("attempts").as_int(), 1);
}

TEST_F(ServeTest, ReportsWhatItCannotUse) {
  run({"serve", "missing.yml"}).expect_error("missing.yml");
  run({"serve", "tiny.yml", "serve_address=localhost", "serve_folder=a"})
      .expect_error("`localhost`");
  run({"serve", "tiny.yml", "serve_address=0.0.0.0", "serve_token=none", "serve_folder=a"})
      .expect_error("needs a token");
  run({"serve", "tiny.yml", "tls_cert=/nowhere", "serve_folder=a"}).expect_error("its key");
  run({"serve", "tiny.yml", "serve_models=[tiny.yml]", "serve_folder=a"})
      .expect_error("two models have the name `tiny`");
  write("file", "");
  run({"serve", "tiny.yml", "serve_folder=file"}).expect_error("file");
}

}  // namespace
}  // namespace kinema::cli_test
