// OpenAI's API of images (https://platform.openai.com/docs/api-reference/images), for its clients.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "kinema/core/error.h"
#include "kinema/http/file_response.h"
#include "kinema/http/json_body.h"
#include "kinema/http/multipart.h"
#include "kinema/io/mapped_file.h"
#include "kinema/serve/foreign.h"
#include "kinema/serve/openai_request.h"
#include "kinema/serve/uploads.h"

namespace kinema::serve {
namespace {

using http::Refusal;
using http::Request;
using http::Response;

io::Json usage() {
  const io::Json details =
      io::Json::object({{"text_tokens", int64_t{0}}, {"image_tokens", int64_t{0}}});
  return io::Json::object({{"total_tokens", int64_t{0}},
                           {"input_tokens", int64_t{0}},
                           {"output_tokens", int64_t{0}},
                           {"input_tokens_details", details}});
}

std::string size_text(const std::vector<OutputRecord>& outputs) {
  return outputs.empty() ? "" : fmt::format("{}x{}", outputs.front().width, outputs.front().height);
}

/// `png`, `jpeg` or `webp`.
std::string format_of(const std::vector<OutputRecord>& outputs) {
  const std::string_view type =
      outputs.empty() ? "image/png" : http::media_type_of(outputs.front().path);
  return std::string(type.substr(type.find('/') + 1));
}

/// A picture as a link that needs no token for an hour.
std::string signed_url(const Context& context, const std::string& origin,
                       const OutputRecord& output) {
  constexpr int64_t kHour = 3600;
  const std::string path = to_json(output).at("url").as_string();
  return fmt::format("{}{}?{}", origin, path,
                     context.gate.signed_query(path, static_cast<int64_t>(now()) + kHour));
}

io::Json images_json(Context& context, const JobRecord& job, bool as_url,
                     const std::string& origin) {
  const std::vector<OutputRecord> outputs = context.store.outputs_of(job.id);
  io::Json data = io::Json::array();
  for (const OutputRecord& output : outputs) {
    io::Json image = io::Json::object({{"revised_prompt", io::Json()}});
    if (as_url) {
      image.set("url", signed_url(context, origin, output));
    } else {
      image.set("b64_json", file_base64(output.path));
    }
    data.append(std::move(image));
  }
  return io::Json::object({{"created", static_cast<int64_t>(job.ended.value_or(now()))},
                           {"data", std::move(data)},
                           {"output_format", format_of(outputs)},
                           {"size", size_text(outputs)},
                           {"usage", usage()}});
}

/// A stream whose events are the finished pictures.
void stream_images(Context& context, const JobRecord& job, const std::string& prefix,
                   const http::Reply& reply) {
  auto stream = std::make_shared<http::EventStream>();
  const auto send = [&context, id = job.id, prefix, stream] {
    try {
      const auto ended = context.store.job(id);
      if (!ended || ended->state != JobState::DONE) {
        throw ended ? failure_of(*ended) : Refusal(404, "the job was removed");
      }
      const std::vector<OutputRecord> outputs = context.store.outputs_of(id);
      for (const OutputRecord& output : outputs) {
        const std::string name = prefix + ".completed";
        stream->publish(name, io::Json::object({{"type", name},
                                                {"b64_json", file_base64(output.path)},
                                                {"created_at", static_cast<int64_t>(*ended->ended)},
                                                {"size", size_text(outputs)},
                                                {"quality", "high"},
                                                {"background", "opaque"},
                                                {"output_format", format_of(outputs)},
                                                {"usage", usage()}})
                                  .dump(-1));
      }
    } catch (const Refusal& refusal) {
      const Request asked{.path = "/v1/images"};
      stream->publish("error", error_response(asked, refusal).body);
    }
    stream->end();
  };
  context.queue.wait({.job = job.id,
                      .until = std::chrono::steady_clock::now() + std::chrono::hours(24),
                      .is_gone = {},
                      .done = send});
  reply.send({.headers = {{"X-Kinema-Job", job.id}}, .events = stream});
}

/// Adds the job and answers in the form that the fields ask for.
void make_images(Context& context, const Request& request, std::string_view body,
                 const OpenAiFields& fields, const std::string& stream_prefix,
                 const http::Reply& reply) {
  MakeRequest asked = openai_request(context, fields);
  const io::Json& json = fields.json;
  asked.count = integer_member(json, "n", 1);
  if (asked.count < 1 || asked.count > context.queue.most_count()) {
    throw Refusal(
        400, fmt::format("`n` is {}, expected 1 to {}", asked.count, context.queue.most_count()),
        "n");
  }
  if (context.catalogue.model(asked.model).is_video) {
    throw Refusal(400, fmt::format("the model {} makes videos: ask /v1/videos", asked.model),
                  "model");
  }
  if (const std::string format = text_member(json, "output_format"); !format.empty()) {
    set_image_format(asked.settings, format, integer_member(json, "output_compression", 100),
                     {"output_format", "output_compression"});
  }
  const std::string response = text_member(json, "response_format", "b64_json");
  if (response != "b64_json" && response != "url") {
    throw Refusal(400, fmt::format("`response_format` is `{}`, expected url or b64_json", response),
                  "response_format");
  }
  const bool streams = bool_member(json, "stream", false);
  const JobRecord job = add_retried(context, request, body, std::move(asked), "openai");
  if (streams) {
    return stream_images(context, job, stream_prefix, reply);
  }
  const std::string origin =
      fmt::format("http{}://{}", request.is_secure ? "s" : "", request.headers.get("host"));
  answer_when_ended(context, request, job, reply,
                    [&context, as_url = response == "url", origin](const JobRecord& ended) {
                      return http::json_response(200, images_json(context, ended, as_url, origin));
                    });
}

void edit_images(Context& context, const Request& request, const http::Reply& reply) {
  if (!request.file) {
    throw Refusal(400, "the request has no body");
  }
  const io::MappedFile file = io::MappedFile::open(request.file->path());
  const std::string_view body(reinterpret_cast<const char*>(file.bytes().data()),
                              file.bytes().size());
  const OpenAiFields fields =
      read_openai_form(context, std::string(request.headers.get("content-type")), body);
  if (!fields.inputs.contains("image")) {
    throw Refusal(400, "`image` is missing", "image");
  }
  make_images(context, request, body, fields, "image_edit", reply);
}

io::Json models_list(Context& context) {
  io::Json data = io::Json::array();
  for (const Model& model : context.catalogue.models()) {
    data.append(io::Json::object({{"id", model.name},
                                  {"object", "model"},
                                  {"created", int64_t{0}},
                                  {"owned_by", "kinema"}}));
  }
  return io::Json::object({{"object", "list"}, {"data", std::move(data)}});
}

}  // namespace

void add_openai_routes(Api& api, Context& context) {
  api.add({.method = "POST",
           .pattern = "/v1/images/generations",
           .summary = "OpenAI: images of a prompt",
           .answer = "OpenAiImages",
           .body = "OpenAiImageRequest"},
          http::Route::Handler([&context](Request& request, const http::Reply& reply) {
            const OpenAiFields fields{.json = http::json_body(request)};
            make_images(context, request, request.body, fields, "image_generation", reply);
          }));
  api.add({.method = "POST",
           .pattern = "/v1/images/edits",
           .summary = "OpenAI: changes an image (multipart: image, mask, prompt, model, n, size)",
           .answer = "OpenAiImages",
           .rule = {.limit = 64 << 20, .types = {"multipart/form-data"}, .to_file = true}},
          http::Route::Handler([&context](Request& request, const http::Reply& reply) {
            edit_images(context, request, reply);
          }));
  api.add_json({.method = "GET",
                .pattern = "/v1/models",
                .summary = "OpenAI: the models",
                .answer = "OpenAiModels"},
               [&context](Request&) { return models_list(context); });
  api.add_json({.method = "GET",
                .pattern = "/health",
                .summary = "Whether the server answers; needs no token",
                .answer = "Health",
                .access = http::Access::OPEN},
               [](Request&) {
                 return io::Json::object({{"ok", true}});
               });
}

}  // namespace kinema::serve
