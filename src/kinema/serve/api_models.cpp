// Files of models, what the disk holds, and downloads.
#include <filesystem>

#include "kinema/http/json_body.h"
#include "kinema/serve/api.h"
#include "kinema/serve/downloads.h"
#include "kinema/serve/foreign.h"

namespace kinema::serve {
namespace {

namespace fs = std::filesystem;
using http::Refusal;
using http::Request;

int64_t bytes_below(const fs::path& folder) {
  int64_t out = 0;
  std::error_code error;
  for (auto entry = fs::recursive_directory_iterator(folder, error);
       !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    std::error_code gone;
    if (entry->is_regular_file(gone) && !entry->is_symlink(gone)) {
      const uintmax_t bytes = entry->file_size(gone);
      out += gone ? 0 : static_cast<int64_t>(bytes);
    }
  }
  return out;
}

io::Json disk_json(Context& context) {
  io::Json files = io::Json::array();
  int64_t models = 0;
  for (const DiskFile& file : context.catalogue.disk()) {
    models += file.bytes;
    files.append(to_json(file));
  }
  const fs::path& folder = context.store.folder();
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  return io::Json::object(
      {{"files", std::move(files)},
       {"space",
        io::Json::object({{"outputs", context.store.bytes_of_outputs(/*deleted=*/false)},
                          {"bin", context.store.bytes_of_outputs(/*deleted=*/true)},
                          {"uploads", bytes_below(folder / "uploads")},
                          {"runs", bytes_below(folder / "runs")},
                          {"models", models},
                          {"free", error ? int64_t{0} : static_cast<int64_t>(space.available)},
                          {"total", error ? int64_t{0} : static_cast<int64_t>(space.capacity)}})}});
}

Downloads& downloads(Context& context) {
  if (context.downloads == nullptr) {
    throw Refusal(404, "the server was started without serve_downloads=true", "", "no_downloads");
  }
  return *context.downloads;
}

}  // namespace

void add_model_routes(Api& api, Context& context) {
  api.add_json({.method = "GET",
                .pattern = "/api/disk",
                .summary = "The files of models and LoRAs, and the space that everything takes",
                .answer = "Disk"},
               [&context](Request&) { return disk_json(context); });
  api.add_json({.method = "GET",
                .pattern = "/api/downloads",
                .summary = "Downloads since the start of the server",
                .answer = "Downloads"},
               [&context](Request&) {
                 return io::Json::object({{"downloads", downloads(context).list()}});
               });
  api.add_json({.method = "POST",
                .pattern = "/api/downloads",
                .summary = "Downloads a model of the hub, after which it can be asked",
                .answer = "Download",
                .body = "DownloadRequest",
                .status = 201},
               [&context](Request& request) {
                 return downloads(context).start(text_member(http::json_body(request), "source"));
               });
  api.add_json(
      {.method = "POST",
       .pattern = "/api/downloads/{id}/cancel",
       .summary = "Ends a download; what is there is used when it is started again",
       .answer = "Download"},
      [&context](Request& request) { return downloads(context).cancel(request.params.at("id")); });
}

}  // namespace kinema::serve
