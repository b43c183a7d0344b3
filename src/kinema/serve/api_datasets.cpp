// Data sets: their clips, and captions that can be edited.
#include "kinema/http/file_response.h"
#include "kinema/http/json_body.h"
#include "kinema/serve/api.h"
#include "kinema/serve/datasets.h"
#include "kinema/serve/foreign.h"

namespace kinema::serve {
namespace {

using http::Request;

http::Response clip_file(Context& context, const Request& request) {
  const auto path = context.datasets.file(request.params.at("name"), request.params.at("id"));
  const std::string_view type = http::media_type_of(path);
  http::Response out = http::file_response(request, path, type);
  if (type == "application/octet-stream") {
    out.headers.set("Content-Disposition", http::attachment(path.filename().string()));
  }
  return out;
}

}  // namespace

void add_dataset_routes(Api& api, Context& context) {
  api.add_json({.method = "GET",
                .pattern = "/api/datasets",
                .summary = "Data sets of serve_datasets, which a run can be given",
                .answer = "Datasets"},
               [&context](Request&) {
                 return io::Json::object({{"datasets", context.datasets.list()}});
               });
  api.add_json({.method = "GET",
                .pattern = "/api/datasets/{name}",
                .summary = "Clips with their captions, and what is wrong with the data set",
                .answer = "Clips",
                .query = {{"offset", "int", "clips to leave out"}, {"limit", "int", "1 to 200"}}},
               [&context](Request& request) {
                 return context.datasets.clips(
                     request.params.at("name"),
                     integer_argument(request, "offset", 0, 0, 1'000'000'000),
                     integer_argument(request, "limit", 50, 1, 200));
               });
  api.add_json({.method = "PATCH",
                .pattern = "/api/datasets/{name}/{id}",
                .summary = "Changes a caption, unless somebody else did meanwhile",
                .answer = "Clip",
                .body = "Caption"},
               [&context](Request& request) {
                 const io::Json body = http::json_body(request);
                 return context.datasets.set_caption(
                     request.params.at("name"), request.params.at("id"),
                     body.at("caption").as_string(), body.at("was").as_string());
               });
  api.add({.method = "GET",
           .pattern = "/datasets/{name}/clips/{id}",
           .summary = "A clip's file, with ranges"},
          [&context](Request& request) { return clip_file(context, request); });
  api.add({.method = "GET",
           .pattern = "/datasets/{name}/thumbs/{id}",
           .summary = "A small picture of a clip"},
          [&context](Request& request) {
            return http::file_response(
                request, context.datasets.thumb(request.params.at("name"), request.params.at("id")),
                "image/jpeg");
          });
}

}  // namespace kinema::serve
