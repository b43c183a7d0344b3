#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>

#include "kinema/io/mapped_file.h"
#include "remote/test_server.h"

namespace kinema::cli_test {

/// Serves a folder as the model or data set org/name, with small and large files.
class Hub {
 public:
  enum class Kind { MODEL, DATASET };

  explicit Hub(std::filesystem::path folder, Kind kind = Kind::MODEL)
      : folder_(std::move(folder)),
        dataset_(kind == Kind::DATASET),
        server_([this](const remote::Received& request) { return answer(request); }) {}

  std::string environment(const std::filesystem::path& cache) const {
    return "HF_TOKEN= HF_ENDPOINT=" + server_.url() + " HF_HUB_CACHE=" + cache.string();
  }
  int status = 200;

 private:
  remote::Reply answer(const remote::Received& request) {
    if (status != 200) {
      return {.status = status};
    }
    if (request.target.starts_with(dataset_ ? "/api/datasets/org/name/"
                                            : "/api/models/org/name/")) {
      std::string files;
      for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_)) {
        if (entry.is_regular_file()) {
          files += fmt::format("{}{{\"rfilename\": \"{}\"}}", files.empty() ? "" : ", ",
                               entry.path().lexically_relative(folder_).string());
        }
      }
      return {.body = fmt::format(R"({{"sha": "{}", "siblings": [{}]}})", kCommit, files)};
    }
    const std::string resolve =
        (dataset_ ? "/datasets" : "") + ("/org/name/resolve/" + kCommit + "/");
    const std::string path = request.target.substr(std::min(resolve.size(), request.target.size()));
    if (!request.target.starts_with(resolve) || !std::filesystem::is_regular_file(folder_ / path)) {
      return {.status = 404};
    }
    std::string etag = path;
    std::ranges::replace(etag, '/', '_');
    return {.headers = {"ETag: \"" + etag + "\""}, .body = io::read_text(folder_ / path)};
  }

  const std::string kCommit = std::string(40, 'a');
  std::filesystem::path folder_;
  bool dataset_;
  remote::TestServer server_;
};

}  // namespace kinema::cli_test
