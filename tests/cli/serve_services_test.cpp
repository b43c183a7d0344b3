// `kinema serve` as a process: previews, plans, data sets, videos that clients send, and what a run
// is asked for.
#include <gmock/gmock.h>

#include <functional>

#include "cli/serve_process.h"
#include "kinema/core/host_array.h"
#include "kinema/io/mapped_file.h"
#include "kinema/media/image.h"
#include "kinema/media/video.h"

namespace kinema::cli_test {
namespace {

using namespace std::chrono_literals;
using io::Json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Waits until something holds; false if it does not within two minutes.
bool becomes_true(const std::function<bool()>& holds) {
  for (int i = 0; i < 1200; ++i) {
    if (holds()) {
      return true;
    }
    std::this_thread::sleep_for(100ms);
  }
  return false;
}

TEST_F(ServeTest, ShowsPreviewsAndLearnsWhatRequestsTake) {
  Serve server(folder_, {"tiny.yml"});
  ASSERT_TRUE(server.is_ready()) << read_text(folder_ / ".serve.err");
  const std::string asked = R"({"settings":{"prompt":"a","num_inference_steps":400}})";
  EXPECT_TRUE(server.json("POST", "/api/check", asked).at("seconds").is_null());
  const std::string id = server.json("POST", "/api/jobs", asked).at("id").as_string();
  std::string url;
  ASSERT_TRUE(becomes_true([&] {
    const Json job = server.json("GET", "/api/jobs/" + id);
    url = job.at("preview").is_null() ? "" : job.at("preview").as_string();
    return !url.empty() || !job.at("ended").is_null();
  }));
  ASSERT_NE(url, "") << server.json("GET", "/api/jobs/" + id).dump();
  const std::string picture = server.ask("GET", url);
  EXPECT_THAT(picture, HasSubstr("image/jpeg"));
  const std::string bytes = picture.substr(picture.find("\r\n\r\n") + 4);
  EXPECT_EQ(media::read_image(std::as_bytes(std::span(bytes)), "preview").shape.rank(), 3);
  EXPECT_EQ(server.ended(id).at("state").as_string(), "done");

  const Json known = server.json("POST", "/api/check", asked);
  EXPECT_GT(known.at("seconds").as_number(), 0);
  EXPECT_GT(known.at("bytes").as_int(), 0);
  EXPECT_GT(known.at("bytes_limit").as_int(), known.at("bytes").as_int());
  const Json engine = server.json("GET", "/api/state").at("engine");
  EXPECT_GT(engine.at("bytes").as_int(), 0);
  EXPECT_EQ(server.json("GET", "/api/devices").at("here").items().size(), 1U);
}

TEST_F(ServeTest, PlansRequestsAndRuns) {
  Serve server(folder_, {"tiny.yml"});
  ASSERT_TRUE(server.is_ready()) << read_text(folder_ / ".serve.err");
  for (const char* what : {R"("job":{"settings":{"prompt":"a","width":32}})",
                           R"("run":{"base":"tiny","settings":{"per_device_batch_size":1}})"}) {
    const Json plan =
        server.json("POST", "/api/plans", fmt::format(R"({{"device":"cpu",{}}})", what));
    const std::string target = "/api/plans/" + plan.at("id").as_string();
    ASSERT_TRUE(becomes_true(
        [&] { return server.json("GET", target).at("state").as_string() != "running"; }));
    const Json done = server.json("GET", target);
    EXPECT_EQ(done.at("state").as_string(), "done") << done.dump();
    EXPECT_GT(done.at("bytes").as_int(), 0);
    EXPECT_GT(done.at("lines").items().size(), 1U);
  }
  EXPECT_THAT(server.ask("POST", "/api/plans", R"({"device":"z80","run":{"base":"tiny"}})"),
              StartsWith("HTTP/1.1 422"));
}

TEST_F(ServeTest, HasARunSaveAndSample) {
  Serve server(folder_, {"tiny.yml"});
  ASSERT_TRUE(server.is_ready()) << read_text(folder_ / ".serve.err");
  server.json("POST", "/api/runs",
              R"({"name":"long","base":"tiny","start":true,)"
              R"("settings":{"max_train_steps":1000000,"checkpoint_every":-1}})");
  const auto run = [&] { return server.json("GET", "/api/runs/long"); };
  ASSERT_TRUE(becomes_true([&] { return run().at("step").as_int() > 0; }))
      << server.json("GET", "/api/runs/long/log").at("text").as_string();
  EXPECT_EQ(run().at("checkpoints").items().size(), 0U);
  server.json("POST", "/api/runs/long/save");
  EXPECT_TRUE(becomes_true([&] { return run().at("checkpoints").items().size() == 1; }));
  server.json("POST", "/api/runs/long/sample");
  EXPECT_TRUE(becomes_true([&] {
    const Json samples = server.json("GET", "/api/runs/long/samples");
    return !samples.at("samples").items().empty();
  })) << server.json("GET", "/api/runs/long/log").at("text").as_string();
  EXPECT_EQ(run().at("state").as_string(), "running");
  server.json("POST", "/api/runs/long/stop");
  EXPECT_TRUE(becomes_true([&] { return run().at("state").as_string() == "stopped"; }));
  EXPECT_THAT(server.ask("POST", "/api/runs/long/save"), StartsWith("HTTP/1.1 409"));
}

TEST_F(ServeTest, LetsRequestsWaitWhileARunHasTheDevice) {
  Serve server(folder_, {"tiny.yml", "serve_training=exclusive"});
  ASSERT_TRUE(server.is_ready()) << read_text(folder_ / ".serve.err");
  server.ended(server.json("POST", "/api/jobs", request("first")).at("id").as_string());
  ASSERT_NE(server.engine(), 0);
  server.json("POST", "/api/runs",
              R"({"name":"long","base":"tiny","start":true,)"
              R"("settings":{"max_train_steps":1000000,"checkpoint_every":-1}})");
  const auto engine = [&] { return server.json("GET", "/api/state").at("engine"); };
  EXPECT_EQ(engine().at("state").as_string(), "none");
  EXPECT_EQ(engine().at("message").as_string(), "training long");
  const std::string id = server.json("POST", "/api/jobs", request("second")).at("id").as_string();
  std::this_thread::sleep_for(2s);
  EXPECT_EQ(server.json("GET", "/api/jobs/" + id).at("state").as_string(), "waiting");
  ASSERT_TRUE(
      becomes_true([&] { return server.json("GET", "/api/runs/long").at("step").as_int() > 0; }));
  server.json("POST", "/api/runs/long/stop");
  EXPECT_EQ(server.ended(id).at("state").as_string(), "done");
}

TEST_F(ServeTest, LooksAtDataSetsAndVideos) {
  std::filesystem::create_directories(folder_ / "foxes");
  HostArray frames{{DType::U8, {5, 32, 48, 3}}};
  media::write_mp4(folder_ / "foxes/b.mp4", frames, {.fps = 5});
  HostArray picture{{DType::U8, {400, 20, 3}}};
  media::write_png(folder_ / "foxes/a.png", picture);
  write("foxes/a.txt", "a fox");
  write("foxes/b.txt", "a fox runs");
  write("foxes/c.png", "no picture");
  write("foxes/c.txt", "nothing");
  Serve server(folder_, {"tiny.yml", "serve_datasets=foxes"});
  ASSERT_TRUE(server.is_ready()) << read_text(folder_ / ".serve.err");
  const Json set = server.json("GET", "/api/datasets/foxes");
  ASSERT_EQ(set.at("clips").items().size(), 3U) << set.dump();
  const Json& a = set.at("clips").items()[0];
  const Json& b = set.at("clips").items()[1];
  EXPECT_EQ(a.at("height").as_int(), 400);
  EXPECT_EQ(b.at("kind").as_string(), "video");
  EXPECT_EQ(b.at("frames").as_int(), 5);
  EXPECT_EQ(b.at("seconds").as_number(), 1);
  EXPECT_FALSE(set.at("clips").items()[2].at("problem").is_null());
  const std::string thumb = server.ask("GET", a.at("thumb").as_string());
  const std::string bytes = thumb.substr(thumb.find("\r\n\r\n") + 4);
  EXPECT_EQ(media::read_image(std::as_bytes(std::span(bytes)), "thumb").shape.dims[0], 320);
  EXPECT_THAT(server.ask("GET", b.at("thumb").as_string()), HasSubstr("image/jpeg"));

  const auto upload = [&](const std::string& body) {
    return server.ask("POST", "/api/uploads", body, "video/mp4");
  };
  const std::string video = io::read_text(folder_ / "foxes/b.mp4");
  const std::string sent = upload(video);
  EXPECT_THAT(sent, StartsWith("HTTP/1.1 201"));
  const Json about = Json::parse(sent.substr(sent.find("\r\n\r\n") + 4), "upload");
  EXPECT_EQ(about.at("frames").as_int(), 5);
  EXPECT_EQ(about.at("width").as_int(), 48);
  EXPECT_THAT(upload(video.substr(0, 200)), StartsWith("HTTP/1.1 422"));
  // A run of the data set is accepted, and its clips are those of the folder.
  const Json checked =
      server.json("POST", "/api/runs/check", R"({"base":"tiny","dataset":"foxes"})");
  EXPECT_THAT(checked.at("config").as_string(), HasSubstr("train_data_dir"));
  EXPECT_THAT(checked.at("config").as_string(), HasSubstr("foxes"));
  EXPECT_THAT(server.ask("POST", "/api/runs/check", R"({"base":"tiny","dataset":"wolves"})"),
              HasSubstr("no data set `wolves`"));
  // The video is what the request starts from.
  const Json job =
      server.json("POST", "/api/jobs",
                  fmt::format(R"({{"settings":{{"prompt":"a","num_inference_steps":2}},"inputs":)"
                              R"({{"video":"{}"}}}})",
                              about.at("id").as_string()));
  const Json ended = server.ended(job.at("id").as_string());
  EXPECT_EQ(ended.at("state").as_string(), "done") << ended.dump();
}

TEST_F(ServeTest, TellsWhatModelsAreOnTheDisk) {
  Serve server(folder_, {"tiny.yml"});
  ASSERT_TRUE(server.is_ready()) << read_text(folder_ / ".serve.err");
  const Json disk = server.json("GET", "/api/disk");
  EXPECT_GT(disk.at("space").at("free").as_int(), 0);
  EXPECT_GT(disk.at("space").at("total").as_int(), disk.at("space").at("free").as_int());
}

}  // namespace
}  // namespace kinema::cli_test
