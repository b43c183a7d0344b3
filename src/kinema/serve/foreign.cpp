#include "kinema/serve/foreign.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "kinema/core/error.h"
#include "kinema/io/mapped_file.h"
#include "kinema/remote/digest.h"
#include "kinema/serve/uploads.h"

namespace kinema::serve {
namespace {

using http::Refusal;
using Kind = io::Json::Kind;

const io::Json* given_member(const io::Json& json, const std::string& name) {
  const io::Json* out = json.find(name);
  return out == nullptr || out->is_null() ? nullptr : out;
}

[[noreturn]] void refuse_member(const io::Json& member, const std::string& name,
                                const char* expected) {
  throw Refusal(400, fmt::format("`{}` is {}, expected {}", name, member.describe(), expected),
                name);
}

}  // namespace

bool has_key(Context& context, const std::string& model, const std::string& key) {
  const std::vector<Key> keys = context.catalogue.keys(model);
  return std::ranges::find(keys, key, &Key::key) != keys.end();
}

void set_size(const std::string& size, io::Json& settings) {
  if (size.empty() || size == "auto") {
    return;
  }
  int64_t width = 0;
  int64_t height = 0;
  const char* end = size.data() + size.size();
  const auto first = std::from_chars(size.data(), end, width);
  const bool has_x = first.ec == std::errc() && first.ptr != end && *first.ptr == 'x';
  const auto second = has_x ? std::from_chars(first.ptr + 1, end, height) : first;
  if (!has_x || second.ec != std::errc() || second.ptr != end || width < 1 || height < 1) {
    throw Refusal(400, fmt::format("`size` is `{}`, expected WIDTHxHEIGHT or auto", size), "size",
                  "invalid_size");
  }
  settings.set("width", width).set("height", height);
}

std::string upload_base64(Context& context, const std::string& text, const std::string& param) {
  std::string_view data = text;
  if (data.starts_with("data:")) {
    const size_t comma = data.find(',');
    const bool is_base64 = comma != data.npos && data.substr(0, comma).ends_with(";base64");
    if (!is_base64) {
      throw Refusal(400, "the data URL is not in base64", param);
    }
    data.remove_prefix(comma + 1);
  }
  const auto bytes = http::base64_decoded(data);
  if (!bytes || bytes->empty()) {
    throw Refusal(400, fmt::format("`{}` is no picture in base64: no address is fetched", param),
                  param);
  }
  return store_upload(context.store, context.looks, *bytes).id;
}

std::string text_member(const io::Json& json, const std::string& name,
                        const std::string& otherwise) {
  const io::Json* member = given_member(json, name);
  if (member != nullptr && !member->is_string()) {
    refuse_member(*member, name, "a text");
  }
  return member == nullptr ? otherwise : member->as_string();
}

double number_member(const io::Json& json, const std::string& name, double otherwise) {
  const io::Json* member = given_member(json, name);
  if (member == nullptr) {
    return otherwise;
  }
  if (member->kind() == Kind::Integer || member->kind() == Kind::Number) {
    return member->as_number();
  }
  if (member->is_string()) {  // forms have texts only
    const std::string& text = member->as_string();
    double out = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    if (error == std::errc() && end == text.data() + text.size() && std::isfinite(out)) {
      return out;
    }
  }
  refuse_member(*member, name, "a number");
}

int64_t integer_member(const io::Json& json, const std::string& name, int64_t otherwise) {
  constexpr double kMost = 9007199254740992.0;  // 2^53: all integers below are exact
  const double out = number_member(json, name, static_cast<double>(otherwise));
  if (out != std::floor(out) || std::abs(out) > kMost) {
    refuse_member(json.at(name), name, "an integer");
  }
  return static_cast<int64_t>(out);
}

bool bool_member(const io::Json& json, const std::string& name, bool otherwise) {
  const io::Json* member = given_member(json, name);
  if (member == nullptr) {
    return otherwise;
  }
  if (member->kind() != Kind::Bool) {
    refuse_member(*member, name, "true or false");
  }
  return member->as_bool();
}

void set_image_format(io::Json& settings, const std::string& format, int64_t quality,
                      const std::pair<const char*, const char*>& names) {
  if (format != "png" && format != "jpg" && format != "jpeg" && format != "webp") {
    throw Refusal(422, fmt::format("`{}` is `{}`, expected png, jpeg or webp", names.first, format),
                  names.first);
  }
  if (quality < 0 || quality > 100) {
    throw Refusal(422, fmt::format("`{}` is {}, expected 0 to 100", names.second, quality),
                  names.second);
  }
  settings.set("image_format", format == "jpg" ? "jpeg" : format);
  if (format != "png") {
    settings.set("image_quality", std::max<int64_t>(1, quality));
  }
}

std::string file_base64(const std::filesystem::path& path) {
  const io::MappedFile file = io::MappedFile::open(path);
  return file.parsed([](std::span<const std::byte> bytes) {
    return http::base64({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  });
}

JobRecord add_retried(Context& context, const http::Request& request, std::string_view body,
                      MakeRequest asked, const std::string& source) {
  constexpr double kRetryTime = 15 * 60;
  if (const std::string_view key = request.headers.get("idempotency-key"); !key.empty()) {
    return context.queue.add(std::move(asked), source, fmt::format("{}-key:{}", source, key));
  }
  remote::Digest digest(remote::Digest::Kind::SHA256);
  digest.update(body);
  const std::string prefix = fmt::format("{}:{}:", source, digest.hex());
  const std::string_view retries = request.headers.get("x-stainless-retry-count");
  if (!retries.empty() && retries != "0") {
    if (auto known = context.store.newest_with_key(prefix, now() - kRetryTime)) {
      return std::move(*known);
    }
  }
  return context.queue.add(std::move(asked), source, prefix + http::random_id());
}

http::Refusal failure_of(const JobRecord& job) {
  if (job.state == JobState::CANCELLED) {
    return Refusal(400, "the job was cancelled", "", "cancelled");
  }
  return Refusal(job.error.find("engine ended") != std::string::npos ? 500 : 400, job.error,
                 job.error_param);
}

void answer_when_ended(Context& context, const http::Request& request, const JobRecord& job,
                       const http::Reply& reply,
                       std::function<http::Response(const JobRecord&)> answer) {
  // Only the path decides on the form of an error.
  http::Request asked{.method = request.method, .target = request.target, .path = request.path};
  const auto send = [&context, id = job.id, reply, asked, answer = std::move(answer)] {
    try {
      const auto ended = context.store.job(id);
      if (!ended || ended->state != JobState::DONE) {
        throw ended ? failure_of(*ended) : Refusal(404, "the job was removed");
      }
      http::Response out = answer(*ended);
      out.headers.set("X-Kinema-Job", id);
      reply.send(std::move(out));
    } catch (const Refusal& refusal) {
      reply.send(error_response(asked, refusal));
    } catch (const std::exception& error) {
      reply.send(error_response(asked, Refusal(500, error.what())));
    }
  };
  context.queue.wait({.job = job.id,
                      .until = std::chrono::steady_clock::now() + std::chrono::hours(24),
                      .is_gone = [reply] { return reply.is_gone(); },
                      .done = send});
}

}  // namespace kinema::serve
