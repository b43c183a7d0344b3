// What the server knows beyond jobs: estimates, previews, plans, data sets, the disk, downloads.
#include <gmock/gmock.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "kinema/io/atomic_write.h"
#include "serve/running_front.h"

namespace kinema::serve_test {
namespace {

namespace fs = std::filesystem;
using io::Json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class ServicesTest : public FrontTest {
 protected:
  Json check(const std::string& settings) {
    return post("/api/check", R"({"settings":{"prompt":"a",)" + settings + "}}");
  }
  void make(const std::string& settings) {
    wait_for(post("/api/jobs", R"({"settings":{"prompt":"a",)" + settings + "}}", 201));
  }
};

TEST_F(ServicesTest, EstimatesARequestByWhatOthersTook) {
  start();
  EXPECT_TRUE(check(R"("width":8,"height":8)").at("seconds").is_null());
  make(R"("width":8,"height":8)");
  // The fake engine says 0.5 s a step and 0.5 s beside, with one step, and 3 s of setup before.
  EXPECT_DOUBLE_EQ(check(R"("width":8,"height":8)").at("seconds").as_number(), 1.0);
  EXPECT_EQ(check(R"("width":8,"height":8)").at("bytes").as_int(), 600);
  EXPECT_EQ(check(R"("width":8,"height":8)").at("bytes_limit").as_int(), 1000);
  // Twice the pixels, which are not compiled.
  EXPECT_DOUBLE_EQ(check(R"("width":16,"height":8)").at("seconds").as_number(), 2.0 + 3.0);
  EXPECT_EQ(get("/api/state").at("engine").at("bytes").as_int(), 500);
  EXPECT_EQ(get("/api/devices").at("here").items()[0].at("name").as_string(), "a fake device");
  start();  // another server of the same folder
  EXPECT_DOUBLE_EQ(check(R"("width":8,"height":8)").at("seconds").as_number(), 4.0);
}

TEST_F(ServicesTest, ShowsWhatIsBeingMade) {
  start();
  const std::string job = add("slow");
  ASSERT_TRUE(becomes_true([&] { return !get("/api/jobs/" + job).at("preview").is_null(); }));
  const std::string url = get("/api/jobs/" + job).at("preview").as_string();
  EXPECT_EQ(url, "/previews/" + job + "?n=1");
  const std::string answer = ask("GET", url);
  EXPECT_THAT(answer, HasSubstr("image/jpeg"));
  EXPECT_THAT(body_of(answer), StartsWith("\xff\xd8\xff"));
  EXPECT_THAT(ask("GET", "/previews/j_other"), StartsWith("HTTP/1.1 404"));
  get("/api/jobs/" + job + "?wait=30");
  EXPECT_THAT(ask("GET", url), StartsWith("HTTP/1.1 404"));
}

const char* const kReport =
    R"({"program":"step","fits":true,"tried":[],"not_tried":[],"bytes":{"total":7,"limit":9},)"
    R"("roofline":{"seconds":2.0,"compute":1.0,"hbm":2.0,"interconnect":0.0,"host":0.0},)"
    R"("expected":{"busy_seconds":2.5,"waiting_seconds":0.5}})";

TEST_F(ServicesTest, PlansOnceInAProcess) {
  start([&](serve::FrontOptions& options) {
    options.plan = {"/bin/sh", "-c",
                    fmt::format("echo x >> {}/runs.txt; grep -q prompt $0 && echo '{}' || "
                                "{{ echo 'kinema: [plan] no such model' >&2; exit 1; }}",
                                folder_.path().string(), kReport)};
  });
  const std::string body = R"({"device":"h100","job":{"settings":{"prompt":"a"}}})";
  const Json plan = post("/api/plans", body, 202);
  const std::string target = "/api/plans/" + plan.at("id").as_string();
  ASSERT_TRUE(becomes_true([&] { return get(target).at("state").as_string() != "running"; }));
  const Json done = get(target);
  EXPECT_EQ(done.at("state").as_string(), "done");
  EXPECT_TRUE(done.at("fits").as_bool());
  EXPECT_EQ(done.at("bytes").as_int(), 7);
  EXPECT_EQ(done.at("step_seconds").as_number(), 3);
  EXPECT_EQ(done.at("bound_by").as_string(), "memory");
  EXPECT_EQ(post("/api/plans", body, 202).at("id").as_string(), plan.at("id").as_string());
  EXPECT_EQ(read(folder_ / "runs.txt"), "x\n");

  const Json failed = post("/api/plans", R"({"device":"h100","run":{"base":"tiny"}})", 202);
  const std::string other = "/api/plans/" + failed.at("id").as_string();
  ASSERT_TRUE(becomes_true([&] { return get(other).at("state").as_string() == "failed"; }));
  EXPECT_EQ(get(other).at("error").at("message").as_string(), "[plan] no such model");
  post("/api/plans", R"({"device":"h101","run":{"base":"tiny"}})", 422);
  post("/api/plans", R"({"device":"h100"})", 422);
  post("/api/plans", R"({"device":"h100","run":{"base":"tiny"},"flags":"x"})", 422);
  post("/api/plans", R"({"device":"h100","job":{"settings":{"output_dir":"/"}}})", 422);
  get("/api/plans/p_unknown", 404);
  EXPECT_EQ(get("/api/devices").at("devices").items()[0].at("name").as_string(), "h100");
}

TEST_F(ServicesTest, CancelsPlans) {
  start([&](serve::FrontOptions& options) { options.plan = {"/bin/sh", "-c", "exec sleep 60"}; });
  const auto plan = [&](const char* prompt) {
    return "/api/plans/" +
           post(
               "/api/plans",
               fmt::format(R"({{"device":"h100","job":{{"settings":{{"prompt":"{}"}}}}}})", prompt),
               202)
               .at("id")
               .as_string();
  };
  const std::string running = plan("a");
  const std::string waiting = plan("b");
  EXPECT_EQ(post(waiting + "/cancel", "").at("state").as_string(), "cancelled");
  post(running + "/cancel", "");
  EXPECT_TRUE(becomes_true([&] { return get(running).at("state").as_string() == "cancelled"; }));
  post(running + "/cancel", "", 409);
  for (int i = 0; i < 9; ++i) {
    plan(std::to_string(i).c_str());
  }
  post("/api/plans", R"({"device":"h100","job":{"settings":{"prompt":"more"}}})", 429);
}

class DatasetsTest : public FrontTest {
 protected:
  /// The looking process is a script here: every file is a picture of 4 x 3.
  void start_with_data() {
    fs::create_directories(data() / "more");
    for (const char* name : {"a.png", "b.png", "more/c.png"}) {
      std::ofstream(data() / name) << "x";
    }
    std::ofstream(data() / "a.txt") << "a fox\n";
    std::ofstream(data() / "more/c.txt") << "a kite";
    start([&](serve::FrontOptions& options) {
      options.datasets = {data().string()};
      options.look = {"/bin/sh", "-c",
                      R"(shift 0; t=$1; for f in "$@"; do [ "$f" = "$t" ] || echo )"
                      R"('{"is_video":false,"width":4,"height":3,"frames":1,"seconds":0,)"
                      R"("thumb":"'$f'","problem":""}'; done)",
                      "look"};
    });
  }
  fs::path data() { return folder_ / "foxes"; }
  Json clip(const std::string& file) {
    const Json all = get("/api/datasets/foxes");
    for (const Json& each : all.at("clips").items()) {
      if (each.at("file").as_string() == file) {
        return each;
      }
    }
    return {};
  }
  Json change(const Json& clip, const std::string& caption, const std::string& was,
              int status = 200) {
    return send("PATCH", "/api/datasets/foxes/" + clip.at("id").as_string(),
                Json::object({{"caption", caption}, {"was", was}}).dump(-1), status);
  }
};

TEST_F(DatasetsTest, AreListedAndTheirCaptionsChanged) {
  start_with_data();
  const Json set = get("/api/datasets").at("datasets").items()[0];
  EXPECT_EQ(set.at("name").as_string(), "foxes");
  EXPECT_EQ(set.at("clips").as_int(), 3);
  EXPECT_TRUE(set.at("editable").as_bool());
  EXPECT_EQ(get("/api/datasets/foxes?offset=1&limit=1").at("clips").items().size(), 1U);
  get("/api/datasets/foxes?limit=0", 422);
  get("/api/datasets/wolves", 404);

  const Json a = clip("a.png");
  EXPECT_EQ(a.at("caption").as_string(), "a fox");
  EXPECT_EQ(a.at("width").as_int(), 4);
  EXPECT_EQ(change(a, "a red fox", "a fox").at("caption").as_string(), "a red fox");
  EXPECT_EQ(read(data() / "a.txt"), "a red fox");
  change(a, "a blue fox", "a fox", 409);
  EXPECT_EQ(read(data() / "a.txt"), "a red fox");
  const Json b = clip("b.png");
  EXPECT_FALSE(b.at("problem").is_null());  // it has no caption
  change(b, "a second", "");
  EXPECT_EQ(read(data() / "b.txt"), "a second");
  change(a, std::string(70'000, 'a'), "a red fox", 422);
  send("PATCH", "/api/datasets/foxes/0123456789abcdef", R"({"caption":"x","was":""})", 404);
  EXPECT_EQ(body_of(ask("GET", a.at("url").as_string())), "x");
  EXPECT_EQ(body_of(ask("GET", a.at("thumb").as_string())), "x");
}

TEST_F(DatasetsTest, StayInTheirFolder) {
  std::ofstream(folder_ / "secret.png") << "secret";
  fs::create_directories(folder_ / "elsewhere");
  std::ofstream(folder_ / "elsewhere/d.png") << "secret";
  fs::create_directories(data());
  fs::create_symlink(folder_ / "secret.png", data() / "link.png");
  fs::create_directory_symlink(folder_ / "elsewhere", data() / "there");
  start_with_data();
  const Json link = clip("link.png");
  const Json inner = clip("there/d.png");
  for (const Json* each : {&link, &inner}) {
    if (!each->is_object()) {
      continue;
    }
    EXPECT_THAT(ask("GET", each->at("url").as_string()), StartsWith("HTTP/1.1 404"));
    EXPECT_THAT(ask("GET", each->at("thumb").as_string()), StartsWith("HTTP/1.1 404"));
    change(*each, "mine", each->at("caption").as_string(), 404);
  }
  EXPECT_TRUE(link.is_object());
  EXPECT_FALSE(fs::exists(folder_ / "elsewhere/d.txt"));
  for (const char* path :
       {"/datasets/foxes/clips/..%2f..%2fsecret.png", "/datasets/..%2f/clips/a.png",
        "/datasets/foxes/clips/a.png", "/datasets/foxes/thumbs/%2fetc%2fpasswd"}) {
    EXPECT_THAT(ask("GET", path), StartsWith("HTTP/1.1 4")) << path;
  }
}

TEST_F(DatasetsTest, WithAListAreNotChanged) {
  fs::create_directories(data());
  std::ofstream(data() / "metadata.jsonl") << R"({"file_name":"a.png","text":"a fox"})"
                                           << "\n";
  start_with_data();
  EXPECT_FALSE(get("/api/datasets").at("datasets").items()[0].at("editable").as_bool());
  change(clip("a.png"), "other", "a fox", 409);
}

TEST_F(ServicesTest, TellsWhatTheDiskHolds) {
  start();
  make(R"("width":8)");
  const Json disk = get("/api/disk");
  EXPECT_EQ(disk.at("files").items()[0].at("name").as_string(), "tiny.safetensors");
  EXPECT_EQ(disk.at("space").at("models").as_int(), 5);
  const int64_t made = disk.at("space").at("outputs").as_int();
  EXPECT_GT(made, 0);
  EXPECT_GT(disk.at("space").at("free").as_int(), 0);
  const std::string id = get("/api/outputs").at("outputs").items()[0].at("id").as_string();
  send("DELETE", "/api/outputs/" + id, "");
  EXPECT_EQ(get("/api/disk").at("space").at("bin").as_int(), made);
  EXPECT_EQ(get("/api/disk").at("space").at("outputs").as_int(), 0);
}

TEST_F(ServicesTest, FollowsNoLinksOutOfItsFolder) {
  start();
  make(R"("width":8)");
  const Json all = get("/api/outputs");
  const Json output = all.at("outputs").items()[0];
  const std::string url = output.at("url").as_string();
  const fs::path folder = folder_ / "data/outputs" / output.at("job").as_string();
  EXPECT_THAT(ask("GET", url), StartsWith("HTTP/1.1 200"));
  fs::rename(folder / "0.png", folder / "kept.png");
  fs::create_symlink(folder_ / "data/serve.db", folder / "0.png");
  EXPECT_THAT(ask("GET", url), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(ask("GET", output.at("thumb").as_string()), StartsWith("HTTP/1.1 404"));
  fs::rename(folder, folder_ / "moved");
  fs::create_directories(folder_ / "other");
  std::ofstream(folder_ / "other/0.png") << "secret";
  fs::create_directory_symlink(folder_ / "other", folder);
  EXPECT_THAT(ask("GET", url), StartsWith("HTTP/1.1 404"));
}

TEST_F(ServicesTest, DownloadsOnlyWhereThatIsAllowed) {
  start();
  EXPECT_FALSE(get("/api/state").at("limits").at("downloads").as_bool());
  post("/api/downloads", R"({"source":"owner/name"})", 404);
  get("/api/downloads", 404);
}

TEST_F(ServicesTest, DownloadsAModelAndAddsIt) {
  std::mutex mutex;
  std::condition_variable changed;
  bool goes_on = false;
  start([&](serve::FrontOptions& options) {
    options.fetch = [&](const std::string& source, const auto& progress) {
      progress(1, 10);
      kinema::check(source != "owner/missing", "[hub] there is no such model");
      std::unique_lock lock(mutex);
      while (!goes_on && source == "owner/slow") {
        progress(2, 10);
        changed.wait_for(lock, std::chrono::milliseconds(1));
      }
      progress(10, 10);
    };
  });
  const auto state = [&](const std::string& id) {
    const Json all = get("/api/downloads");
    for (const Json& each : all.at("downloads").items()) {
      if (each.at("id").as_string() == id) {
        return each.at("state").as_string();
      }
    }
    return std::string();
  };
  const auto begin = [&](const std::string& source) {
    return post("/api/downloads", "{\"source\":\"" + source + "\"}", 201).at("id").as_string();
  };
  const std::string slow = begin("owner/slow");
  EXPECT_EQ(begin("owner/slow"), slow);
  const std::string waiting = begin("owner/waiting");
  EXPECT_EQ(post("/api/downloads/" + waiting + "/cancel", "").at("state").as_string(), "cancelled");
  post("/api/downloads/" + slow + "/cancel", "");
  EXPECT_TRUE(becomes_true([&] { return state(slow) == "cancelled"; }));
  post("/api/downloads/" + slow + "/cancel", "", 409);
  const std::string good = begin("owner/good");
  EXPECT_TRUE(becomes_true([&] { return state(good) == "done"; }));
  EXPECT_EQ(catalogue_.added, "owner/good");
  for (const char* bad : {"owner/missing", "owner/broken"}) {
    const std::string id = begin(bad);
    EXPECT_TRUE(becomes_true([&] { return state(id) == "failed"; })) << bad;
  }
  for (const char* bad :
       {"", "name", "/etc/passwd", "http://a/b", "owner/name/x.safetensors", "../name"}) {
    post("/api/downloads", Json::object({{"source", bad}}).dump(-1), 422);
  }
}

}  // namespace
}  // namespace kinema::serve_test
