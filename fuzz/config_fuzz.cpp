// Any text as a configuration: an Error, or a configuration that reads back
// from its own text.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "input_file.h"
#include "kinema/config/config.h"
#include "kinema/config/datasets.h"
#include "kinema/core/error.h"

namespace {

kinema::config::Loaded load_text(std::string_view text) {
  // load() takes a file, since `base:` is relative to one.
  return kinema::config::load(
      input_file("run.yml", reinterpret_cast<const uint8_t*>(text.data()), text.size()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const auto loaded = load_text(text);
    std::string own;
    try {
      own = kinema::config::to_yaml(loaded);
      if (!(load_text(own).config == loaded.config)) {
        std::abort();
      }
    } catch (const kinema::Error&) {
      std::abort();
    }
    kinema::config::notices(loaded, "train");
    for (const auto& set : kinema::config::read_datasets(loaded.config.data)) {
      if (set.repeats < 1 || set.weight < 0 || (set.path.empty() && set.metadata.empty())) {
        std::abort();
      }
    }
  } catch (const kinema::Error&) {
    return 0;
  }
  return 0;
}
