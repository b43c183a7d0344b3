// The gallery, and the files of outputs.
#include <fmt/format.h>

#include <filesystem>

#include "kinema/core/error.h"
#include "kinema/http/file_response.h"
#include "kinema/http/json_body.h"
#include "kinema/serve/api.h"
#include "kinema/serve/paths.h"

namespace kinema::serve {
namespace {

namespace fs = std::filesystem;
using http::Refusal;
using http::Request;
using http::Response;

OutputRecord find_output(Context& context, const Request& request) {
  auto output = context.store.output(request.params.at("id"));
  if (!output) {
    throw Refusal(404, "there is no such output", "", "output_not_found");
  }
  return std::move(*output);
}

/// The output and the `.json` with its settings.
std::vector<fs::path> files_of(const OutputRecord& output) {
  std::vector<fs::path> out{output.path};
  const fs::path settings = fs::path(output.path).replace_extension(".json");
  std::error_code error;
  if (settings != output.path && fs::is_regular_file(settings, error)) {
    out.push_back(settings);
  }
  return out;
}

io::Json details(const OutputRecord& output) {
  io::Json files = io::Json::array();
  for (const fs::path& file : files_of(output)) {
    std::error_code error;
    const auto bytes = fs::file_size(file, error);
    const std::string name = file.filename().string();
    files.append(io::Json::object({{"name", name},
                                   {"url", fmt::format("/files/{}/{}", output.id, name)},
                                   {"bytes", error ? int64_t{0} : static_cast<int64_t>(bytes)}}));
  }
  return to_json(output).set("request", to_json(output.request)).set("files", std::move(files));
}

io::Json list_outputs(Context& context, const Request& request) {
  const OutputQuery query{.words = request.argument("q"),
                          .model = request.argument("model"),
                          .kind = request.argument("kind"),
                          .starred = request.argument("starred") == "1",
                          .deleted = request.argument("deleted") == "1",
                          .offset = integer_argument(request, "offset", 0, 0, 1'000'000'000),
                          .limit = integer_argument(request, "limit", 60, 1, 500)};
  const OutputPage page = context.store.outputs(query);
  io::Json outputs = io::Json::array();
  for (const OutputRecord& output : page.outputs) {
    outputs.append(to_json(output));
  }
  return io::Json::object({{"total", page.total}, {"outputs", std::move(outputs)}});
}

/// The output as it is now, which all clients are told.
io::Json changed(Context& context, const Request& request) {
  io::Json out = to_json(find_output(context, request));
  context.events.publish("output", out.dump(-1));
  return out;
}

io::Json remove_output(Context& context, const Request& request) {
  const OutputRecord output = find_output(context, request);
  if (request.argument("forever") != "1") {
    context.store.set_deleted(output.id, now());
    return changed(context, request);
  }
  if (!output.deleted) {
    throw Refusal(409, "the output is not in the bin: put it there first");
  }
  remove_forever(context, output);
  return io::Json::object({{"removed", true}});
}

io::Json empty_bin(Context& context) {
  int64_t removed = 0;
  while (true) {
    const OutputPage page = context.store.outputs({.deleted = true, .limit = 500});
    for (const OutputRecord& output : page.outputs) {
      remove_forever(context, output);
      ++removed;
    }
    if (page.outputs.empty()) {
      return io::Json::object({{"removed", removed}});
    }
  }
}

/// A folder of outputs may have become a link to another one.
void check_place(const Context& context, const fs::path& file) {
  if (!lies_in(file, context.store.folder() / "outputs")) {
    throw Refusal(404, "there is no such file");
  }
}

/// A file of an output by its name, which is compared with names and never opened.
Response output_file(Context& context, const Request& request) {
  const OutputRecord output = find_output(context, request);
  for (const fs::path& path : files_of(output)) {
    const std::string name = path.filename().string();
    if (name != request.params.at("name")) {
      continue;
    }
    check_place(context, path);
    const std::string_view type = http::media_type_of(path);
    Response out = http::file_response(request, path, type);
    if (request.query.contains("download") || type == "application/octet-stream") {
      out.headers.set("Content-Disposition", http::attachment(name));
    }
    return out;
  }
  throw Refusal(404, "there is no such file");
}

}  // namespace

void remove_forever(Context& context, const OutputRecord& output) {
  std::error_code ignored;
  for (const fs::path& file : files_of(output)) {
    fs::remove(file, ignored);
  }
  fs::remove(output.thumb, ignored);
  context.store.forget_output(output.id);
  fs::remove(output.path.parent_path(), ignored);  // if it is empty
  context.events.publish("removed", io::Json::object({{"output", output.id}}).dump(-1));
}

void add_output_routes(Api& api, Context& context) {
  api.add_json({.method = "GET",
                .pattern = "/api/outputs",
                .summary = "Outputs, newest first",
                .answer = "Outputs",
                .query = {{"q", "text", "words that the prompt has"},
                          {"model", "text", "made by this model"},
                          {"kind", "text", "image or video"},
                          {"starred", "int", "1: starred ones"},
                          {"deleted", "int", "1: those in the bin"},
                          {"offset", "int", "outputs to leave out"},
                          {"limit", "int", "1 to 500"}}},
               [&context](Request& request) { return list_outputs(context, request); });
  api.add_json({.method = "GET",
                .pattern = "/api/outputs/{id}",
                .summary = "An output, the request that makes it again, and its files",
                .answer = "OutputDetails"},
               [&context](Request& request) { return details(find_output(context, request)); });
  api.add_json({.method = "PATCH",
                .pattern = "/api/outputs/{id}",
                .summary = "Stars an output",
                .answer = "Output",
                .body = "Star"},
               [&context](Request& request) {
                 const OutputRecord output = find_output(context, request);
                 context.store.star(output.id, http::json_body(request).at("starred").as_bool());
                 return changed(context, request);
               });
  api.add_json({.method = "DELETE",
                .pattern = "/api/outputs/{id}",
                .summary = "Puts an output into the bin; from there, forever=1 removes it",
                .answer = "Output",
                .query = {{"forever", "int", "1: from the bin"}}},
               [&context](Request& request) { return remove_output(context, request); });
  api.add_json({.method = "POST",
                .pattern = "/api/outputs/{id}/restore",
                .summary = "Takes an output out of the bin",
                .answer = "Output"},
               [&context](Request& request) {
                 context.store.set_deleted(find_output(context, request).id, std::nullopt);
                 return changed(context, request);
               });
  api.add_json({.method = "DELETE",
                .pattern = "/api/bin",
                .summary = "Removes everything in the bin",
                .answer = "RemovedCount"},
               [&context](Request&) { return empty_bin(context); });
  api.add({.method = "GET",
           .pattern = "/files/{id}/{name}",
           .summary = "A file of an output, with ranges",
           .query = {{"download", "text", "as an attachment"}}},
          [&context](Request& request) { return output_file(context, request); });
  api.add({.method = "GET", .pattern = "/thumbs/{id}", .summary = "A small picture of an output"},
          [&context](Request& request) {
            const OutputRecord output = find_output(context, request);
            check_place(context, output.thumb);
            return http::file_response(request, output.thumb, http::media_type_of(output.thumb));
          });
}

}  // namespace kinema::serve
