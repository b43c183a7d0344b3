// Runs over HTTP, with files as training writes them. tests/cli/serve_test has real processes.
#include "kinema/serve/runs.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "kinema/media/image.h"
#include "serve/running_front.h"

namespace kinema::serve_test {
namespace {

using io::Json;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class RunsTest : public FrontTest {
 protected:
  void start_with(const std::string& script) {
    start([&](serve::FrontOptions& options) { options.train = {"/bin/sh", "-c", script}; });
  }
  Json create(const std::string& more = "", int status = 201) {
    return post("/api/runs", R"({"name":"kites","base":"tiny")" + more + "}", status);
  }
  std::string state() { return get("/api/runs/kites").at("state").as_string(); }
  std::filesystem::path run() { return folder_ / "data/runs/kites"; }
};

TEST_F(RunsTest, AreMadeCheckedAndRemoved) {
  start_with("true");
  EXPECT_EQ(get("/api/bases").at("bases").items()[0].at("name").as_string(), "tiny");
  EXPECT_EQ(get("/api/keys?for=train&base=tiny").at("keys").items()[0].at("key").as_string(),
            "learning_rate");
  EXPECT_TRUE(get("/api/state").at("limits").at("training").as_bool());
  const Json run = create(R"(,"yaml":"seed: 3","settings":{"learning_rate":0.1})");
  EXPECT_EQ(run.at("state").as_string(), "created");
  EXPECT_THAT(get("/api/runs/kites").at("config").as_string(), HasSubstr("seed: 3"));
  EXPECT_EQ(get("/api/runs").at("runs").items().size(), 1U);
  create("", 409);
  for (const char* name : {"", "..", "a/b", ".hidden", "a b"}) {
    post("/api/runs", fmt::format(R"({{"name":"{}","base":"tiny"}})", name), 422);
  }
  post("/api/runs", R"({"name":"other","base":"unknown"})", 404);
  post("/api/runs", R"({"name":"other","base":"tiny","settings":{"output_dir":"/"}})", 422);
  post("/api/runs", R"({"name":"other","base":"tiny","start_now":true})", 422);
  EXPECT_FALSE(post("/api/runs/check", R"({"base":"tiny","settings":{"output_dir":"/"}})")
                   .at("ok")
                   .as_bool());
  EXPECT_TRUE(post("/api/runs/check", R"({"base":"tiny"})").at("ok").as_bool());
  post("/api/runs/kites/stop", "", 409);
  send("DELETE", "/api/runs/kites", R"({"name":"other"})", 422);
  send("DELETE", "/api/runs/kites", R"({"name":"kites"})");
  get("/api/runs/kites", 404);
}

TEST_F(RunsTest, TellWhyTheyFailed) {
  start_with("echo training; echo 'kinema: [train] no data' >&2; exit 1");
  create(R"(,"start":true)");
  EXPECT_TRUE(becomes_true([&] { return state() == "failed"; }));
  EXPECT_EQ(get("/api/runs/kites").at("error").at("message").as_string(), "[train] no data");
  const Json log = get("/api/runs/kites/log");
  EXPECT_EQ(log.at("text").as_string(), "training\nkinema: [train] no data\n");
  EXPECT_EQ(get("/api/runs/kites/log?after=9").at("text").as_string(), "kinema: [train] no data\n");
  EXPECT_EQ(get(fmt::format("/api/runs/kites/log?after={}", log.at("next").as_int()))
                .at("text")
                .as_string(),
            "");
  get("/api/runs/kites/log?after=-1", 422);
}

TEST_F(RunsTest, ShowWhatTheyWrote) {
  start_with("true");
  create();
  std::filesystem::create_directories(run() / "samples/10");
  std::ofstream metrics(run() / "metrics.jsonl");
  for (int i = 0; i < 10; ++i) {
    metrics << fmt::format(R"({{"step":{},"learning/loss":{},"learning/current_learning_rate":0.1,)"
                           R"("learning/grad_norm":1,"perf/step_time_seconds":0.5,)"
                           R"("perf/expected_step_time_seconds":0.25,"perf/rss_bytes":77}})",
                           i, i % 2 == 0 ? 1 : 3);
    metrics << "\n";
  }
  metrics.close();
  media::write_png(run() / "samples/10/000_a_fox.png", HostArray{{DType::U8, {6, 10, 3}}});
  std::ofstream(run() / "samples/10/000_a_fox.json") << R"({"prompt":"a fox"})";
  std::ofstream(run() / "samples/10/notes.txt") << "not a sample";

  const Json all = get("/api/runs/kites/metrics");
  EXPECT_EQ(all.at("step").items().size(), 10U);
  const Json some = get("/api/runs/kites/metrics?after=3&buckets=3");
  EXPECT_EQ(some.at("step").as_ints(), (std::vector<int64_t>{5, 7, 9}));
  EXPECT_EQ(some.at("loss").items()[0].as_number(), 2);
  EXPECT_EQ(some.at("low").items()[0].as_number(), 1);
  EXPECT_EQ(some.at("high").items()[0].as_number(), 3);
  EXPECT_EQ(get("/api/runs/kites").at("step").as_int(), 10);
  EXPECT_EQ(get("/api/runs/kites").at("planned_step_seconds").as_number(), 0.25);
  EXPECT_EQ(get("/api/runs/kites").at("bytes").as_int(), 77);

  const Json sample = get("/api/runs/kites/samples").at("samples").items()[0];
  EXPECT_EQ(sample.at("prompt").as_string(), "a fox");
  EXPECT_EQ(sample.at("width").as_int(), 10);
  EXPECT_EQ(get("/api/runs/kites/samples").at("samples").items().size(), 1U);
  EXPECT_THAT(body_of(ask("GET", sample.at("url").as_string())), StartsWith("\x89PNG"));
  for (const char* path :
       {"/runs/kites/samples/10/notes.txt", "/runs/kites/samples/..%2F..%2F/token",
        "/runs/kites/samples/10/..%2F..%2Fmetrics.jsonl",
        "/runs/..%2Fdata/samples/10/000_a_fox.png"}) {
    EXPECT_THAT(ask("GET", path), StartsWith("HTTP/1.1 4")) << path;
  }
}

TEST_F(RunsTest, TellSamplesThatAreNew) {
  start_with("true");
  create();
  const auto write_sample = [&](int step) {
    const std::filesystem::path folder = run() / "samples" / std::to_string(step);
    std::filesystem::create_directories(folder);
    media::write_png(folder / "000_a_fox.png", HostArray{{DType::U8, {6, 10, 3}}});
    std::ofstream(run() / "metrics.jsonl", std::ios::app)
        << fmt::format("{{\"step\":{},\"learning/loss\":1}}\n", step);
  };
  write_sample(10);
  // The first look at the run is before the listing, which has its samples.
  ASSERT_TRUE(becomes_true([&] { return get("/api/runs/kites").at("step").as_int() == 11; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  http_test::Client client(port());
  client.send(
      head("GET", fmt::format("/api/events?after={}", get("/api/state").at("event").as_int())) +
      "\r\n");
  write_sample(20);
  EXPECT_THAT(client.read_until("event: sample"), HasSubstr("event: sample"));
  EXPECT_THAT(client.read_until("000_a_fox.png\""), HasSubstr("/runs/kites/samples/20/"));
  EXPECT_THAT(client.received(), Not(HasSubstr("/samples/10/")));
}

}  // namespace
}  // namespace kinema::serve_test
