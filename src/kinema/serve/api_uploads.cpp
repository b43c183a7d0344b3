// Pictures that clients send, and settings in files.
#include <fcntl.h>
#include <fmt/format.h>

#include <filesystem>

#include "kinema/core/error.h"
#include "kinema/http/file_response.h"
#include "kinema/io/folder.h"
#include "kinema/io/mapped_file.h"
#include "kinema/media/image.h"
#include "kinema/serve/api.h"
#include "kinema/serve/uploads.h"

namespace kinema::serve {
namespace {

namespace fs = std::filesystem;
using http::Refusal;
using http::Request;

io::Json to_json(const UploadRecord& upload) {
  return io::Json::object({{"id", upload.id},
                           {"url", fmt::format("/uploads/{}", upload.id)},
                           {"type", upload.type},
                           {"width", upload.width},
                           {"height", upload.height},
                           {"frames", upload.frames}});
}

io::Json take_upload(Context& context, Request& request) {
  if (!request.file) {
    throw Refusal(422, "the request has no body, expected a picture");
  }
  return to_json(store_upload(context.store, context.looks, *request.file));
}

/// The ending of a file with settings, by its media type.
std::string ending_of(const std::string& type) {
  return type == "image/png"    ? ".png"
         : type == "image/jpeg" ? ".jpg"
         : type == "image/webp" ? ".webp"
                                : ".json";
}

io::Json read_sent_settings(Context& context, Request& request) {
  if (!request.file) {
    throw Refusal(422, "the request has no body, expected a picture or a .json of kinema");
  }
  // The name tells the reader what it is.
  const fs::path named = request.file->path().string() + ending_of(request.media_type());
  request.file->keep_as(named);
  io::Json left_out = io::Json::array();
  try {
    const FoundSettings found = context.catalogue.read_settings(named);
    fs::remove(named);
    for (const std::string& line : found.left_out) {
      left_out.append(line);
    }
    return io::Json::object(
        {{"request", serve::to_json(found.request)}, {"left_out", std::move(left_out)}});
  } catch (const Error& error) {
    fs::remove(named);
    throw Refusal(422, error.what());
  }
}

}  // namespace

void add_upload_routes(Api& api, Context& context) {
  const http::BodyRule picture{.limit = context.options.upload_bytes,
                               .types = {"image/png", "image/jpeg", "image/webp", "video/mp4"},
                               .to_file = true};
  api.add_json({.method = "POST",
                .pattern = "/api/uploads",
                .summary = "Stores a picture or video (PNG, JPEG, WebP or MP4 as the body); equal "
                           "bytes have equal ids",
                .answer = "Upload",
                .status = 201,
                .rule = picture},
               [&context](Request& request) { return take_upload(context, request); });
  api.add({.method = "GET", .pattern = "/uploads/{id}", .summary = "A picture that was sent"},
          [&context](Request& request) {
            const auto upload = context.store.upload(request.params.at("id"));
            if (!upload) {
              throw Refusal(404, "there is no such upload", "", "upload_not_found");
            }
            return http::file_response(request, upload->path, upload->type);
          });
  api.add_json({.method = "POST",
                .pattern = "/api/settings/read",
                .summary = "The settings in a picture or .json that kinema made (the body)",
                .answer = "FoundSettings",
                .rule = {.limit = context.options.upload_bytes,
                         .types = {"image/png", "image/jpeg", "image/webp", "application/json"},
                         .to_file = true}},
               [&context](Request& request) { return read_sent_settings(context, request); });
}

}  // namespace kinema::serve
