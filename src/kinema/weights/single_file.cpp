#include "kinema/weights/single_file.h"

#include "kinema/weights/checkpoint.h"
#include "kinema/weights/file_names.h"

namespace kinema::weights {

std::vector<std::string_view> parts_in(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored) || is_gguf(path)) {
    return {};
  }
  const io::SafetensorsFile file = io::SafetensorsFile::open(path);
  std::vector<const io::TensorView*> tensors;
  for (const io::TensorView& tensor : file.tensors()) {
    tensors.push_back(&tensor);
  }
  std::vector<std::string_view> out;
  for (const std::string_view part : {kVae, kTextEncoder, kTextEncoder2}) {
    if (find_names(tensors, part).table != nullptr) {
      out.push_back(part);
    }
  }
  return out;
}

std::string models_in(const std::filesystem::path& path) {
  const Checkpoint network = Checkpoint::open(path);
  std::string out;
  if (const Family* family = family_of(network)) {
    out =
        fmt::format("{} names of {}",
                    network.naming() == Naming::ORIGINAL ? "original" : "diffusers", family->name);
  }
  for (const std::string_view part : parts_in(path)) {
    out += (out.empty() ? "" : ", ") + std::string(part);
  }
  return out;
}

}  // namespace kinema::weights
