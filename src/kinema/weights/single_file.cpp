#include "kinema/weights/single_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kinema/weights/checkpoint.h"
#include "kinema/weights/file_names.h"

namespace kinema::weights {
namespace {

bool is_single_file(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) && !is_gguf(path);
}

}  // namespace

std::vector<std::string_view> parts_in(const std::filesystem::path& path) {
  if (!is_single_file(path)) {
    return {};
  }
  const io::TensorFile file = io::TensorFile::open(path);
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
  if (const Family* family = find_family(network)) {
    out =
        fmt::format("{} names of {}",
                    network.naming() == Naming::ORIGINAL ? "original" : "diffusers", family->name);
  }
  for (const std::string_view part : parts_in(path)) {
    out += (out.empty() ? "" : ", ") + std::string(part);
  }
  return out;
}

std::string to_string(const ObjectiveMarks& marks) {
  const bool both = marks.v_prediction && marks.zero_terminal_snr;
  return fmt::format("{}{}{} (by {})", marks.v_prediction ? "v-prediction" : "", both ? ", " : "",
                     marks.zero_terminal_snr ? "zero terminal SNR" : "",
                     fmt::join(marks.sources, ", "));
}

ObjectiveMarks objective_marks(const std::filesystem::path& path) {
  ObjectiveMarks out;
  if (!is_single_file(path)) {
    return out;
  }
  const io::TensorFile file = io::TensorFile::open(path);
  if (file.find(kVelocityMark) != nullptr) {
    out.v_prediction = true;
    out.sources.push_back(fmt::format("`{}`", kVelocityMark));
  }
  if (file.find(kZeroSnrMark) != nullptr) {
    out.zero_terminal_snr = true;
    out.sources.push_back(fmt::format("`{}`", kZeroSnrMark));
  }
  constexpr const char* kKey = "modelspec.prediction_type";
  const auto said = file.metadata().find(kKey);
  if (said != file.metadata().end() &&
      (said->second == "v" || said->second == "v_prediction" || said->second == "v-prediction")) {
    out.v_prediction = true;
    out.sources.push_back(fmt::format("{} `{}`", kKey, said->second));
  }
  return out;
}

std::vector<std::string> unused_tensors(const std::filesystem::path& path) {
  std::vector<std::string> out;
  if (!is_single_file(path)) {
    return out;
  }
  const io::TensorFile file = io::TensorFile::open(path);
  for (const io::TensorView& tensor : file.tensors()) {
    if (is_left_over(tensor.name)) {
      out.push_back(tensor.name);
    }
  }
  return out;
}

}  // namespace kinema::weights
