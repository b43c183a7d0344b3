// The page: files of the program, or of a folder while they are written.
#include <algorithm>
#include <filesystem>

#include "kinema/http/file_response.h"
#include "kinema/serve/api.h"
#include "kinema/serve/page.h"

namespace kinema::serve {
namespace {

using http::Refusal;
using http::Request;
using http::Response;

constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "media-src 'self' blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'";

std::string_view page_type(const std::filesystem::path& name) {
  static constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
      {".html", "text/html; charset=utf-8"},
      {".css", "text/css; charset=utf-8"},
      {".js", "text/javascript; charset=utf-8"},
      {".svg", "image/svg+xml"},
  };
  const auto* found = std::ranges::find(kTypes, name.extension().native(),
                                        &std::pair<std::string_view, std::string_view>::first);
  return found == std::end(kTypes) ? http::media_type_of(name) : found->second;
}

Response page_file(const Context& context, const Request& request, const std::string& name) {
  const auto files = page_files();
  const auto found = std::ranges::find(files, name, &PageFile::name);
  const std::filesystem::path& folder = context.options.page;
  Response out;
  if (!folder.empty() && name.find('/') == std::string::npos && !name.starts_with('.')) {
    out = http::file_response(request, folder / name, page_type(name));
  } else if (found != files.end()) {
    out = http::bytes_response(request, found->bytes, page_type(name), found->hash);
  } else {
    throw Refusal(404, "there is no such address");
  }
  out.headers.set("Content-Security-Policy", kPolicy);
  return out;
}

}  // namespace

void add_page_routes(Api& api, Context& context) {
  // The files tell nothing, and a page that says that the token is missing is of more help than an
  // answer without one.
  api.add({.method = "GET",
           .pattern = "/",
           .summary = "The page; with a token in the query, its cookie and a redirection",
           .query = {{"token", "text", "the token"}},
           .access = http::Access::OPEN},
          [&context](Request& request) {
            auto cookie = context.gate.exchange(request);
            return cookie ? std::move(*cookie) : page_file(context, request, "index.html");
          });
  api.add({.method = "GET",
           .pattern = "/{file}",
           .summary = "A file of the page",
           .access = http::Access::OPEN},
          [&context](Request& request) {
            return page_file(context, request, request.params.at("file"));
          });
}

}  // namespace kinema::serve
