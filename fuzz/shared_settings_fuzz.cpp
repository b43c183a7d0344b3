// Any text as the .json beside a video or as settings of other programs, or any bytes as a picture
// with settings inside: an Error, or words of which none sets what is this machine's affair.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "allocations.h"
#include "input_file.h"
#include "kinema/config/keys.h"
#include "kinema/core/error.h"
#include "kinema/resolve/foreign_settings.h"
#include "kinema/resolve/load.h"
#include "kinema/resolve/shared_settings.h"

namespace {

using namespace kinema;

bool may_be_shared(const std::string& word) {
  static const std::vector<config::KeyValue> known = config::describe({});
  const auto found =
      std::ranges::find(known, word.substr(0, word.find('=')), &config::KeyValue::key);
  return found != known.end() &&
         (found->field.share == config::Share::YES || found->field.share == config::Share::MODEL);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  const auto path = input_file(data[0] % 4 == 0 ? "image.png" : "video.json", data + 1, size - 1);
  const AllocationLimit limit(size);
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  try {
    if (data[0] % 4 == 1) {
      resolve::settings_of_parameters(text, "input");
    } else if (data[0] % 4 == 2) {
      resolve::settings_of_comfyui(text, "input");
    }
  } catch (const Error&) {
  }
  try {
    const resolve::SharedSettings shared = resolve::read_shared_settings(path);
    if (!std::ranges::all_of(shared.words, may_be_shared)) {
      std::abort();
    }
    resolve::check_given(shared, config::load_defaults(shared.words));
  } catch (const Error&) {
  }
  return 0;
}
