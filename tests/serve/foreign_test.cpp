// The APIs of OpenAI and AUTOMATIC1111, with requests as their clients were seen to send them.
#include <gmock/gmock.h>

#include "kinema/http/gate.h"
#include "kinema/media/image.h"
#include "serve/running_front.h"

namespace kinema::serve_test {
namespace {

using io::Json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class ForeignTest : public FrontTest {
 protected:
  /// A request whose answer is not in the OpenAPI document.
  Json plain(const std::string& method, const std::string& target, const std::string& body = "",
             int status = 200) {
    return json_of(ask(method, target, body), status, /*checks=*/false);
  }
  Json openai(const std::string& body, int status = 200, const std::string& fields = "") {
    return json_of(
        ask("POST", "/v1/images/generations", body, "Content-Type: application/json\r\n" + fields),
        status);
  }
  static std::string part(const std::string& name, const std::string& content,
                          const std::string& file = "") {
    return "--XX\r\nContent-Disposition: form-data; name=\"" + name + "\"" +
           (file.empty() ? "" : "; filename=\"" + file + "\"\r\nContent-Type: image/png") +
           "\r\n\r\n" + content + "\r\n";
  }
  Json form(const std::string& target, const std::string& parts, int status = 200) {
    return json_of(ask("POST", target, parts + "--XX--\r\n",
                       "Content-Type: multipart/form-data; boundary=XX\r\n"),
                   status);
  }
  std::string picture() {
    media::write_png(folder_ / "a.png", HostArray{{DType::U8, {6, 10, 3}}});
    return read(folder_ / "a.png");
  }
  std::string error_param(const Json& json) {
    const Json param = json.at("error").at("param");
    return param.is_null() ? "" : param.as_string();
  }
};

TEST_F(ForeignTest, OpenAiMakesImages) {
  start();
  const Json one = openai(R"({"prompt":"a fox"})");
  ASSERT_EQ(one.at("data").items().size(), 1U);
  EXPECT_THAT(*http::base64_decoded(one.at("data").items()[0].at("b64_json").as_string()),
              StartsWith("\x89PNG"));
  EXPECT_EQ(one.at("size").as_string(), "8x8");
  const Json two =
      openai(R"({"prompt":"a fox","model":"gpt-image-1","n":2,"size":"auto","seed":7,)"
             R"("quality":"high","user":"me","response_format":"url","kinema":{"steps":4}})");
  ASSERT_EQ(two.at("data").items().size(), 2U);
  // The link works without a token, for this picture only.
  const std::string url = two.at("data").items()[1].at("url").as_string();
  const std::string target = url.substr(url.find("/files/"));
  const auto fetch = [&](const std::string& path) {
    http_test::Client client(port());
    client.send(fmt::format("GET {} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n", path, port()));
    return client.read_answer();
  };
  EXPECT_THAT(fetch(target), HasSubstr("\x89PNG"));
  EXPECT_THAT(fetch(target.substr(0, target.find('?'))), StartsWith("HTTP/1.1 401"));
  EXPECT_EQ(get("/v1/models").at("data").items()[0].at("id").as_string(), "tiny");
}

TEST_F(ForeignTest, OpenAiNamesTheFieldAtFault) {
  start();
  const auto param = [&](const std::string& body, int status = 400) {
    return error_param(openai(body, status));
  };
  EXPECT_EQ(param("{}"), "prompt");
  EXPECT_EQ(param(R"({"prompt":7})"), "prompt");
  EXPECT_EQ(param(R"({"prompt":"a","model":"unknown"})", 404), "model");
  EXPECT_EQ(param(R"({"prompt":"a","model":"clips"})"), "model");
  EXPECT_EQ(param(R"({"prompt":"a","n":0})"), "n");
  EXPECT_EQ(param(R"({"prompt":"a","n":"x"})"), "n");
  EXPECT_EQ(param(R"({"prompt":"a","size":"10y10"})"), "size");
  EXPECT_EQ(param(R"({"prompt":"a","size":"99999999999999999999x1"})"), "size");
  EXPECT_EQ(param(R"({"prompt":"a","output_format":"tiff"})"), "output_format");
  EXPECT_EQ(param(R"({"prompt":"a","output_format":"webp","output_compression":101})"),
            "output_compression");
  EXPECT_EQ(param(R"({"prompt":"a","response_format":"x"})"), "response_format");
  EXPECT_EQ(param(R"({"prompt":"a","kinema":{"steps":1000}})"), "steps");
  EXPECT_EQ(param(R"({"prompt":"a","kinema":{"output_dir":"/"}})"), "output_dir");
  EXPECT_THAT(openai(R"({"prompt":"fail"})", 400).at("error").at("message").as_string(),
              HasSubstr("this prompt fails"));
  EXPECT_THAT(openai(R"({"prompt":"die"})", 500).at("error").at("type").as_string(),
              HasSubstr("server_error"));
}

TEST_F(ForeignTest, OpenAiAndA1111ChooseFormats) {
  start();
  catalogue_.is_open = true;
  openai(R"({"prompt":"a","output_format":"webp","output_compression":70})", 200);
  const auto settings = [&] {
    return get("/api/jobs").at("jobs").items()[0].at("request").at("settings");
  };
  EXPECT_EQ(settings().at("image_format").as_string(), "webp");
  EXPECT_EQ(settings().at("image_quality").as_int(), 70);
  plain("POST", "/sdapi/v1/txt2img",
        R"({"prompt":"a","override_settings":{"samples_format":"jpg","jpeg_quality":60}})");
  EXPECT_EQ(settings().at("image_format").as_string(), "jpeg");
  EXPECT_EQ(settings().at("image_quality").as_int(), 60);
}

TEST_F(ForeignTest, OpenAiStreams) {
  start();
  http_test::Client client(port());
  const std::string body = R"({"prompt":"a fox","stream":true,"partial_images":2,"n":2})";
  client.send(head("POST", "/v1/images/generations") +
              fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
                          body.size(), body));
  const std::string all = client.read_all();
  EXPECT_THAT(all, HasSubstr("event: image_generation.completed\ndata: {\"type\": "
                             "\"image_generation.completed\", \"b64_json\": \"iVBOR"));
  EXPECT_TRUE(client.is_ended());
  const size_t first = all.find("image_generation.completed\n");
  EXPECT_NE(all.find("image_generation.completed\n", first + 1), std::string::npos);
}

TEST_F(ForeignTest, AnOpenAiRetryGetsTheRunningJob) {
  start();
  const std::string body = R"({"prompt":"a fox"})";
  openai(body);
  const auto jobs = [&] { return get("/api/jobs").at("jobs").items().size(); };
  EXPECT_EQ(jobs(), 1U);
  openai(body, 200, "x-stainless-retry-count: 1\r\n");
  EXPECT_EQ(jobs(), 1U);
  openai(body, 200, "x-stainless-retry-count: 0\r\n");
  EXPECT_EQ(jobs(), 2U);
  openai(R"({"prompt":"another"})", 200, "x-stainless-retry-count: 1\r\n");
  EXPECT_EQ(jobs(), 3U);
  openai(body, 200, "Idempotency-Key: k\r\n");
  openai(body, 200, "Idempotency-Key: k\r\n");
  EXPECT_EQ(jobs(), 4U);
}

TEST_F(ForeignTest, OpenAiRefusesAFullQueue) {
  start([](serve::FrontOptions& options) { options.queue.most_waiting = 1; });
  post("/api/queue", R"({"paused":true})");
  add("a fox");
  const std::string answer = ask("POST", "/v1/images/generations", R"({"prompt":"a"})");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 429"));
  EXPECT_THAT(answer, HasSubstr("Retry-After: 5\r\n"));
  EXPECT_THAT(answer, HasSubstr("\"type\": \"rate_limit_error\""));
}

TEST_F(ForeignTest, CancelsWhatALeftClientAskedFor) {
  start([](serve::FrontOptions& options) {
    options.queue.leave_time = std::chrono::milliseconds(100);
  });
  {
    http_test::Client client(port());
    const std::string body = R"({"prompt":"slow"})";
    client.send(head("POST", "/v1/images/generations") +
                fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
                            body.size(), body));
    ASSERT_TRUE(becomes_true([&] { return front_->queue().live().has_value(); }));
  }
  EXPECT_TRUE(becomes_true([&] {
    return get("/api/jobs").at("jobs").items()[0].at("state").as_string() == "cancelled";
  }));
}

TEST_F(ForeignTest, OpenAiEdits) {
  start();
  const Json edited = form("/v1/images/edits", part("prompt", "a fox") + part("n", "2") +
                                                   part("image", picture(), "a.png"));
  EXPECT_EQ(edited.at("data").items().size(), 2U);
  EXPECT_EQ(error_param(form("/v1/images/edits", part("prompt", "a"), 400)), "image");
  EXPECT_EQ(error_param(form("/v1/images/edits", part("image", picture(), "a.png"), 400)),
            "prompt");
  form("/v1/images/edits", part("prompt", "a") + part("image", "<svg/>", "a.svg"), 415);
  plain("POST", "/v1/images/edits", "{}", 415);
}

TEST_F(ForeignTest, OpenAiMakesVideos) {
  start();
  const Json made = form("/v1/videos", part("prompt", "a fox") + part("model", "clips") +
                                           part("seconds", "4") + part("size", "32x16"));
  EXPECT_EQ(made.at("object").as_string(), "video");
  EXPECT_EQ(made.at("seconds").as_string(), "4");
  EXPECT_EQ(made.at("size").as_string(), "32x16");
  const std::string place = "/v1/videos/" + made.at("id").as_string();
  EXPECT_TRUE(becomes_true([&] { return get(place).at("status").as_string() == "completed"; }));
  EXPECT_EQ(get(place).at("progress").as_int(), 100);
  EXPECT_THAT(body_of(ask("GET", place + "/content")), StartsWith("\x89PNG"));
  EXPECT_THAT(ask("GET", place + "/content", "", "Range: bytes=0-3\r\n"),
              StartsWith("HTTP/1.1 206"));
  EXPECT_THAT(ask("GET", place + "/content?variant=thumbnail"), HasSubstr("image/png"));
  get(place + "/content?variant=other", 400);
  const Json remix = post(place + "/remix", R"({"prompt":"a kite"})");
  EXPECT_EQ(remix.at("remixed_from_video_id").as_string(), made.at("id").as_string());
  EXPECT_EQ(remix.at("prompt").as_string(), "a kite");
  add("of another API");
  const Json list = get("/v1/videos?limit=1");
  EXPECT_EQ(list.at("first_id").as_string(), remix.at("id").as_string());
  EXPECT_TRUE(list.at("has_more").as_bool());
  EXPECT_EQ(get("/v1/videos?after=" + remix.at("id").as_string()).at("data").items().size(), 1U);
  EXPECT_TRUE(send("DELETE", place, "").at("deleted").as_bool());
  get(place, 404);
  post("/v1/videos", R"({"prompt":"a","model":"tiny"})", 400);
  post("/v1/videos", R"({"prompt":"a","model":"clips","seconds":"x"})", 400);
  post("/v1/videos", R"({"prompt":"a","model":"clips","seconds":"1e9"})", 400);
  const std::string url = R"("input_reference":{"image_url":"http://127.0.0.1/a.png"})";
  EXPECT_EQ(error_param(post("/v1/videos", R"({"prompt":"a","model":"clips",)" + url + "}", 400)),
            "input_reference");
}

/// What webuiapi 0.9.17 sends with each request, in part.
std::string webui_request(const std::string& more) {
  return R"({"enable_hr":false,"hr_scale":2,"styles":[],"seed":-1,"sampler_name":"Euler a",)"
         R"("batch_size":2,"n_iter":1,"steps":20,"cfg_scale":7.0,"width":512,"height":512,)"
         R"("restore_faces":false,"tiling":false,"negative_prompt":"","script_name":null,)"
         R"("override_settings":{},"sampler_index":"Euler a","alwayson_scripts":{},)" +
         more + "}";
}

TEST_F(ForeignTest, A1111MakesImages) {
  start();
  catalogue_.is_open = true;
  const Json made =
      plain("POST", "/sdapi/v1/txt2img", webui_request(R"("prompt":"a fox <lora:kites:0.5>")"));
  ASSERT_EQ(made.at("images").items().size(), 2U);
  const Json info = Json::parse(made.at("info").as_string(), "info");
  EXPECT_EQ(info.at("prompt").as_string(), "a fox ");
  EXPECT_EQ(info.at("all_seeds").items().size(), 2U);
  EXPECT_THAT(info.at("extra_generation_params").at("Sampler").as_string(), HasSubstr("Euler a"));
  const Json job = get("/api/jobs").at("jobs").items()[0].at("request");
  EXPECT_EQ(job.at("loras").items()[0].at("name").as_string(), "kites");
  EXPECT_EQ(job.at("loras").items()[0].at("scale").as_number(), 0.5);
  EXPECT_EQ(job.at("settings").at("num_inference_steps").as_int(), 20);

  const auto refused = [&](const std::string& more, int status) {
    return plain("POST", "/sdapi/v1/txt2img", webui_request(more), status).at("detail").as_string();
  };
  EXPECT_THAT(refused(R"("prompt":"<lora:unknown:1>")", 404), HasSubstr("`unknown`"));
  const auto status_of = [&](const std::string& body) {
    return ask("POST", "/sdapi/v1/txt2img", body).substr(9, 3);
  };
  EXPECT_EQ(status_of(R"({"enable_hr":true})"), "422");
  EXPECT_EQ(status_of(R"({"script_name":"x"})"), "422");
  EXPECT_EQ(status_of(R"({"alwayson_scripts":{"controlnet":{}}})"), "422");
  EXPECT_EQ(status_of(R"({"batch_size":9223372036854775807,"n_iter":2})"), "400");
  EXPECT_EQ(status_of(R"({"batch_size":8,"n_iter":8})"), "422");
  EXPECT_EQ(status_of(R"({"override_settings":{"sd_model_checkpoint":"clips"}})"), "422");
}

TEST_F(ForeignTest, A1111ChangesAPicture) {
  start();
  catalogue_.is_open = true;
  const std::string image = http::base64(picture());
  const Json made =
      plain("POST", "/sdapi/v1/img2img",
            R"({"prompt":"a","denoising_strength":0.5,"init_images":["data:image/png;base64,)" +
                image + "\"]}");
  EXPECT_EQ(made.at("images").items().size(), 1U);
  EXPECT_TRUE(made.at("parameters").at("init_images").is_null());
  const Json job = get("/api/jobs").at("jobs").items()[0].at("request");
  EXPECT_EQ(job.at("settings").at("strength").as_number(), 0.5);
  EXPECT_EQ(job.at("inputs").members().size(), 1U);
  EXPECT_EQ(ask("POST", "/sdapi/v1/img2img",
                R"({"inpainting_mask_invert":1,"mask":")" + image + R"(","init_images":[")" +
                    image + "\"]}")
                .substr(9, 3),
            "422");
  for (const char* body : {R"({"init_images":["http://127.0.0.1:1/a.png"]})",
                           R"({"init_images":["file:///etc/passwd"]})",
                           R"({"init_images":["/etc/passwd"]})", R"({"init_images":[""]})"}) {
    EXPECT_THAT(ask("POST", "/sdapi/v1/img2img", body), StartsWith("HTTP/1.1 4")) << body;
  }
  const Json info = plain("POST", "/sdapi/v1/png-info", "{\"image\":\"" + image + "\"}");
  EXPECT_EQ(info.at("info").as_string(), "");
  plain("POST", "/sdapi/v1/png-info", R"({"image":"AAAA"})", 422);
}

TEST_F(ForeignTest, A1111TellsAndSteers) {
  start();
  EXPECT_EQ(plain("GET", "/sdapi/v1/progress").at("progress").as_number(), 0);
  EXPECT_EQ(plain("GET", "/sdapi/v1/progress").at("state").at("job_count").as_int(), 0);
  EXPECT_EQ(plain("GET", "/sdapi/v1/sd-models").items()[0].at("title").as_string(), "tiny");
  EXPECT_GT(plain("GET", "/sdapi/v1/samplers").items().size(), 10U);
  EXPECT_EQ(plain("GET", "/sdapi/v1/loras").items()[0].at("path").as_string(), "kites");
  plain("POST", "/sdapi/v1/options", R"({"sd_model_checkpoint":"clips"})");
  EXPECT_EQ(plain("GET", "/sdapi/v1/options").at("sd_model_checkpoint").as_string(), "clips");
  plain("POST", "/sdapi/v1/options", R"({"sd_model_checkpoint":"unknown"})", 404);
  plain("POST", "/sdapi/v1/options", R"({"outdir_samples":"/"})", 422);
  plain("POST", "/sdapi/v1/refresh-checkpoints");
  EXPECT_EQ(plain("GET", "/sdapi/v1/upscalers").items().size(), 0U);

  // Only jobs of this API are interrupted.
  add("slow");
  ASSERT_TRUE(becomes_true([&] { return front_->queue().live().has_value(); }));
  EXPECT_GT(plain("GET", "/sdapi/v1/progress").at("progress").as_number(), 0);
  EXPECT_EQ(plain("GET", "/sdapi/v1/progress").at("state").at("job_count").as_int(), 1);
  EXPECT_TRUE(becomes_true(
      [&] { return !plain("GET", "/sdapi/v1/progress").at("current_image").is_null(); }));
  plain("POST", "/sdapi/v1/interrupt");
  EXPECT_TRUE(becomes_true([&] { return !front_->queue().live().has_value(); }));
  EXPECT_EQ(get("/api/jobs").at("jobs").items()[0].at("state").as_string(), "done");
}

TEST_F(ForeignTest, TellsFigures) {
  start();
  wait_for(post("/api/jobs", R"({"settings":{"prompt":"a"}})", 201));
  const std::string text = body_of(ask("GET", "/metrics"));
  EXPECT_THAT(text, HasSubstr("\nkinema_jobs_ended{state=\"done\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\nkinema_jobs_waiting 0\n"));
  EXPECT_THAT(text, HasSubstr("\nkinema_outputs 1\n"));
  EXPECT_THAT(text, HasSubstr("\nkinema_stage_seconds_total{stage=\"steps\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("\nkinema_engine_memory_bytes 500\n"));
  EXPECT_THAT(text, HasSubstr("\nkinema_engine_memory_limit_bytes 1000\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE kinema_engine_deaths_total counter\n"));
}

}  // namespace
}  // namespace kinema::serve_test
