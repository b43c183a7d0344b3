// Any text as a checkpoint's manifest.json: an Error, or names inside of the folder; and as one
// that its files do not match.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "allocations.h"
#include "input_file.h"
#include "kinema/checkpoints/checkpoint_folder.h"
#include "kinema/core/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kinema;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::filesystem::path file = input_file("manifest.json", data, size);
  const AllocationLimit limit(size);
  try {
    for (const std::string& name : checkpoints::manifest_files(text, "manifest.json")) {
      if (name.empty() || name.starts_with('/') ||
          ("/" + name + "/").find("/../") != std::string::npos) {
        std::abort();
      }
    }
  } catch (const Error&) {
  }
  try {
    checkpoints::joined_manifest({text, text});
  } catch (const Error&) {
  }
  try {
    checkpoints::manifest_problem(file.parent_path());
    checkpoints::describe_parts(file.parent_path());
  } catch (const Error&) {
  }
  return 0;
}
