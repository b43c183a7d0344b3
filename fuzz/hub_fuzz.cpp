// Any text as what a hub, a store or a server says, or a user of one: ids, lists of files, paths of
// objects, URLs. What is taken names nothing outside of its folder.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "allocations.h"
#include "kinema/core/error.h"
#include "kinema/remote/http.h"
#include "kinema/remote/hub.h"
#include "kinema/remote/model_files.h"
#include "kinema/remote/store.h"

namespace {

using namespace kinema;

bool leads_out(const std::string& path) {
  return path.starts_with('/') || ("/" + path + "/").find("/../") != std::string::npos;
}

void read_id(const std::string& text) {
  const auto id = remote::read_hub_id(text);
  if (id && (leads_out(id->repo) || leads_out(id->revision) || leads_out(id->file) ||
             id->repo.find("--") != std::string::npos || text.find(id->repo) != 0)) {
    std::abort();
  }
}

/// A name a line.
void choose(const std::string& text) {
  std::vector<std::string> all;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    all.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  for (const std::string& name : remote::choose_files(all, {}, "o/n")) {
    if (std::ranges::find(all, name) == all.end() && name != "model_index.json") {
      std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  const AllocationLimit limit(size);
  try {
    switch (data[0] % 4) {
      case 0:
        read_id(text);
        break;
      case 1:
        choose(text);
        break;
      case 2:
        if (const auto path = remote::read_store_path(text); path && leads_out(path->name)) {
          std::abort();
        }
        break;
      default:
        remote::origin_of(remote::resolved_url("https://hub.example/a/b", text));
        remote::percent_encoded(text, /*keep_slash=*/true);
    }
  } catch (const Error&) {
  }
  return 0;
}
