// `kinema serve` as a process, with a tiny model: what it makes, and what it keeps when it or its
// engine is killed.
#include <gmock/gmock.h>

#include <fstream>
#include <random>
#include <set>

#include "cli/serve_process.h"
#include "kinema/media/video.h"

namespace kinema::cli_test {
namespace {

using namespace std::chrono_literals;
using io::Json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

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
