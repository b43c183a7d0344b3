// The own API over HTTP, with a fake engine. Every answer is compared with its schema in the
// OpenAPI document.
#include <gmock/gmock.h>

#include <fstream>

#include "http/client.h"
#include "kinema/http/gate.h"
#include "kinema/io/json.h"
#include "kinema/media/image.h"
#include "serve/fixture.h"
#include "serve/running_front.h"

namespace kinema::serve_test {
namespace {

using io::Json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class ApiTest : public FrontTest {};

TEST_F(ApiTest, DescribesEveryRoute) {
  start();
  const Json document = get("/api/openapi.json");
  EXPECT_EQ(document.at("openapi").as_string(), "3.1.0");
  EXPECT_GT(document.at("paths").members().size(), 25U);
  for (const auto& [path, operations] : document.at("paths").members()) {
    for (const auto& [method, operation] : operations.members()) {
      EXPECT_FALSE(operation.at("summary").as_string().empty()) << method << " " << path;
    }
  }
}

TEST_F(ApiTest, TellsItsState) {
  start();
  const Json state = get("/api/state");
  EXPECT_EQ(state.at("models").items().size(), 2U);
  EXPECT_EQ(state.at("models").items()[1].at("kind").as_string(), "video");
  EXPECT_EQ(state.at("loras").items()[0].at("name").as_string(), "kites");
  EXPECT_EQ(state.at("engine").at("state").as_string(), "none");
  EXPECT_THAT(state.at("jobs").items(), IsEmpty());
  EXPECT_EQ(get("/api/keys?for=generate&model=tiny").at("keys").items().size(), 2U);
  EXPECT_EQ(get("/api/keys?model=unknown", 404).at("error").at("code").as_string(),
            "model_not_found");
  post("/api/models/refresh", "{}");
  EXPECT_EQ(catalogue_.refreshed, 1);
  EXPECT_EQ(get("/healthz").dump(-1), "{\"ok\": true}");
}

TEST_F(ApiTest, MakesAJobAndServesItsFiles) {
  start();
  const Json job = post(
      "/api/jobs", R"({"model":"tiny","settings":{"prompt":"a fox","seed":9},"count":2})", 201);
  const Json done = wait_for(job);
  EXPECT_EQ(done.at("state").as_string(), "done");
  EXPECT_EQ(done.at("progress").as_number(), 1);
  ASSERT_EQ(done.at("outputs").items().size(), 2U);
  const Json output = done.at("outputs").items()[1];
  EXPECT_EQ(output.at("seed").as_int(), 9);
  EXPECT_EQ(output.at("index").as_int(), 1);

  const std::string url = output.at("url").as_string();
  const std::string picture = body_of(ask("GET", url));
  EXPECT_THAT(picture, StartsWith("\x89PNG"));
  EXPECT_THAT(ask("GET", url), HasSubstr("Content-Type: image/png\r\n"));
  EXPECT_THAT(ask("GET", url, "", "Range: bytes=1-3\r\n"), HasSubstr("\r\n\r\nPNG"));
  EXPECT_THAT(ask("GET", url + "?download"), HasSubstr("attachment; filename=\"1.png\""));
  EXPECT_THAT(ask("GET", output.at("thumb").as_string()), HasSubstr("image/png"));
  const Json details = get("/api/outputs/" + output.at("id").as_string());
  EXPECT_EQ(details.at("request").at("settings").at("seed").as_int(), 9);
  ASSERT_EQ(details.at("files").items().size(), 2U);
  EXPECT_THAT(body_of(ask("GET", details.at("files").items()[1].at("url").as_string())),
              HasSubstr("tiny.yml"));
}

TEST_F(ApiTest, ReportsARefusalWithItsField) {
  start();
  const Json error =
      post("/api/jobs", R"({"settings":{"prompt":"a","steps":1000}})", 422).at("error");
  EXPECT_EQ(error.at("param").as_string(), "steps");
  EXPECT_EQ(error.at("message").as_string(), "steps are 1 to 100");
  const Json check = post("/api/check", R"({"settings":{"prompt":"a","steps":1000}})");
  EXPECT_FALSE(check.at("ok").as_bool());
  EXPECT_EQ(check.at("error").at("param").as_string(), "steps");
  EXPECT_EQ(post("/api/check", R"({"settings":{"prompt":"a","steps":13}})")
                .at("notices")
                .items()[0]
                .as_string(),
            "13 steps are unlucky");
  post("/api/jobs", R"({"settings":{"prompt":"a","pjrt_plugin":"/tmp/evil.so"}})", 422);
  post("/api/jobs", R"({"modle":"tiny"})", 422);
  post("/api/jobs", "{", 400);
  post("/api/jobs", "[]", 400);
  get("/api/jobs/unknown", 404);
  get("/api/jobs?limit=1000", 422);
  get("/api/jobs?limit=x", 422);
  get("/api/nothing", 404);
  EXPECT_EQ(get("/api/jobs").at("jobs").items().size(), 0U);
}

TEST_F(ApiTest, AddsAJobOnceForAClientKey) {
  start();
  post("/api/queue", R"({"paused":true})");
  const std::string body = R"({"settings":{"prompt":"a"},"client_key":"k"})";
  const Json first = post("/api/jobs", body, 201);
  EXPECT_EQ(post("/api/jobs", body, 200).at("id").as_string(), first.at("id").as_string());
  EXPECT_EQ(get("/api/jobs").at("jobs").items().size(), 1U);
}

TEST_F(ApiTest, SteersTheQueue) {
  start();
  EXPECT_TRUE(post("/api/queue", R"({"paused":true})").at("paused").as_bool());
  const std::string first = add("first");
  const std::string second = add("second");
  post("/api/jobs/" + second + "/move", "{\"before\":\"" + first + "\"}");
  EXPECT_EQ(get("/api/state").at("jobs").items()[0].at("id").as_string(), second);
  EXPECT_EQ(send("PATCH", "/api/jobs/" + first, R"({"settings":{"prompt":"edited"}})")
                .at("request")
                .at("settings")
                .at("prompt")
                .as_string(),
            "edited");
  EXPECT_EQ(post("/api/jobs/" + second + "/cancel", "").at("state").as_string(), "cancelled");
  EXPECT_EQ(post("/api/jobs/" + second + "/cancel", "", 409).at("error").at("type").as_string(),
            "invalid_request_error");
  post("/api/jobs/" + second + "/retry", "", 201);
  send("DELETE", "/api/jobs/" + second, "");
  get("/api/jobs/" + second, 404);
  send("DELETE", "/api/jobs/" + first, "", 409);
  const Json page = get("/api/jobs?limit=1");
  EXPECT_EQ(page.at("jobs").items().size(), 1U);
  EXPECT_EQ(get("/api/jobs?limit=1&before=" + page.at("next").as_string())
                .at("jobs")
                .items()[0]
                .at("id")
                .as_string(),
            first);
  EXPECT_FALSE(post("/api/queue", R"({"paused":false})").at("paused").as_bool());
}

TEST_F(ApiTest, KeepsAGallery) {
  start();
  const Json done = wait_for(post("/api/jobs", R"({"settings":{"prompt":"a red kite"}})", 201));
  const Json output = done.at("outputs").items()[0];
  const std::string place = "/api/outputs/" + output.at("id").as_string();
  const auto total = [&](const std::string& query) {
    return get("/api/outputs" + query).at("total").as_int();
  };
  EXPECT_EQ(total("?q=KITE+red&model=tiny&kind=image"), 1);
  EXPECT_EQ(total("?q=fox"), 0);
  EXPECT_EQ(total("?starred=1"), 0);
  EXPECT_TRUE(send("PATCH", place, R"({"starred":true})").at("starred").as_bool());
  EXPECT_EQ(total("?starred=1"), 1);
  send("DELETE", place + "?forever=1", "", 409);
  EXPECT_FALSE(send("DELETE", place, "").at("deleted").is_null());
  EXPECT_EQ(total(""), 0);
  EXPECT_EQ(total("?deleted=1"), 1);
  EXPECT_TRUE(post(place + "/restore", "").at("deleted").is_null());
  send("DELETE", place, "");
  EXPECT_EQ(send("DELETE", "/api/bin", "").at("removed").as_int(), 1);
  get(place, 404);
  EXPECT_THAT(ask("GET", output.at("url").as_string()), StartsWith("HTTP/1.1 404"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "data/outputs" / done.at("id").as_string()));
}

TEST_F(ApiTest, TakesPictures) {
  start();
  HostArray image{{DType::U8, {6, 10, 3}}};
  media::write_png(folder_ / "a.png", image);
  const std::string bytes = read(folder_ / "a.png");
  const auto upload = [&](const std::string& body, int status, const std::string& type) {
    return json_of(ask("POST", "/api/uploads", body, "Content-Type: " + type + "\r\n"), status);
  };
  const Json sent = upload(bytes, 201, "image/png");
  EXPECT_EQ(sent.at("width").as_int(), 10);
  EXPECT_EQ(sent.at("height").as_int(), 6);
  EXPECT_EQ(upload(bytes, 201, "image/png").at("id").as_string(), sent.at("id").as_string());
  EXPECT_EQ(body_of(ask("GET", sent.at("url").as_string())), bytes);
  EXPECT_EQ(upload(bytes, 201, "image/jpeg").at("type").as_string(), "image/png");
  upload("<svg onload=alert(1)>", 415, "image/png");
  upload("<svg/>", 415, "image/svg+xml");
  upload(bytes.substr(0, 20), 422, "image/png");
  upload(std::string(3 << 20, 'x'), 413, "image/png");
  // A picture of 60,000 x 60,000 pixels in 100 bytes.
  std::string bomb = bytes;
  bomb.replace(16, 8, std::string("\0\0\xea\x60\0\0\xea\x60", 8));
  upload(bomb, 422, "image/png");
  EXPECT_THAT(ask("GET", "/uploads/..%2Fserve.db"), StartsWith("HTTP/1.1 404"));

  const Json job =
      post("/api/jobs",
           R"({"settings":{"prompt":"a"},"inputs":{"image":")" + sent.at("id").as_string() + "\"}}",
           201);
  const Json done = wait_for(job);
  const std::string settings = done.at("outputs").items()[0].at("id").as_string();
  EXPECT_THAT(body_of(ask("GET", "/files/" + settings + "/0.json")),
              HasSubstr("data/uploads/" + sent.at("id").as_string() + ".png"));

  const auto found = [&](const std::string& body, int status, const std::string& type) {
    return json_of(ask("POST", "/api/settings/read", body, "Content-Type: " + type + "\r\n"),
                   status);
  };
  EXPECT_EQ(found(bytes, 200, "image/png").at("request").at("settings").at("prompt").as_string(),
            ".png");
  found("{}", 422, "application/json");
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "data/receiving"));
}

TEST_F(ApiTest, OpensNoPathOfAClient) {
  start();
  for (const char* path :
       {"/files/..%2F..%2Fetc/passwd", "/files/x/..%2F..%2F..%2Fetc%2Fpasswd", "/thumbs/..%2Ftoken",
        "/..%2Ftoken", "/token", "/../data/token", "/.lock", "/files/../token"}) {
    EXPECT_THAT(ask("GET", path), StartsWith("HTTP/1.1 404")) << path;
  }
}

TEST_F(ApiTest, NeedsTheToken) {
  start();
  http_test::Client stranger(port());
  stranger.send(fmt::format("GET /api/state HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n", port()));
  EXPECT_THAT(stranger.read_answer(), StartsWith("HTTP/1.1 401"));
  const std::string link = front_->link();
  http_test::Client browser(port());
  browser.send(fmt::format("GET {} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n",
                           link.substr(link.find("/?")), port()));
  const std::string answer = browser.read_answer();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 303"));
  const size_t at = answer.find("Set-Cookie: ") + 12;
  const std::string cookie = answer.substr(at, answer.find(';', at) - at);
  EXPECT_THAT(cookie, Not(HasSubstr(link.substr(link.find("token=") + 6))));
  browser.send(fmt::format("GET /api/state HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nCookie: {}\r\n\r\n",
                           port(), cookie));
  EXPECT_THAT(browser.read_answer(), StartsWith("HTTP/1.1 200"));
  browser.send(
      fmt::format("GET /api/state HTTP/1.1\r\nHost: evil.example\r\nCookie: {}\r\n\r\n", cookie));
  EXPECT_THAT(browser.read_answer(), StartsWith("HTTP/1.1 421"));
}

TEST_F(ApiTest, SendsEvents) {
  start();
  http_test::Client page(port());
  page.send(
      head("GET", fmt::format("/api/events?after={}", get("/api/state").at("event").as_int())) +
      "\r\n");
  page.read_until("\r\n\r\n");
  const std::string id = add("a fox");
  EXPECT_THAT(page.read_until("event: output\n"), HasSubstr("event: job\ndata: {\"id\": \"" + id));
  http_test::Client old(port());
  old.send(head("GET", "/api/events") + "Last-Event-ID: 5\r\n\r\n");
  EXPECT_THAT(old.read_until("event: reset\n"), HasSubstr("event: reset\n"));
  front_->stop(std::chrono::seconds(5));
  EXPECT_THAT(page.read_all(), HasSubstr("event: bye\n"));
}

TEST_F(ApiTest, KeepsItsTokenToItself) {
  EXPECT_EQ(serve::folder_token(folder_ / "t"), serve::folder_token(folder_ / "t"));
  std::filesystem::permissions(folder_ / "t/token", std::filesystem::perms::all);
  EXPECT_THAT([&] { serve::folder_token(folder_ / "t"); },
              ::testing::ThrowsMessage<Error>(HasSubstr("chmod 600")));
}

TEST_F(ApiTest, AsksForATokenWhereOthersCanReachIt) {
  serve::FrontOptions options{.folder = folder_ / "data"};
  options.server.addresses = {"0.0.0.0"};
  options.server.port = 1;
  EXPECT_THAT([&] { serve::Front(options, catalogue_); },
              ::testing::ThrowsMessage<Error>(HasSubstr("needs a token")));
}

TEST_F(ApiTest, ServesAPageFromAFolder) {
  std::filesystem::create_directories(folder_ / "page");
  std::ofstream(folder_ / "page/index.html") << "<!doctype html>";
  std::ofstream(folder_ / "page/a.js") << "1";
  start([&](serve::FrontOptions& options) { options.page = folder_ / "page"; });
  EXPECT_THAT(ask("GET", "/"), HasSubstr("text/html; charset=utf-8"));
  EXPECT_THAT(ask("GET", "/"), HasSubstr("default-src 'none'"));
  EXPECT_THAT(ask("GET", "/a.js"), HasSubstr("text/javascript"));
  EXPECT_THAT(ask("GET", "/..%2Fdata%2Ftoken"), StartsWith("HTTP/1.1 404"));
}

}  // namespace
}  // namespace kinema::serve_test
