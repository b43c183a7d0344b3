#include "kinema/model_files/single_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kinema/core/error.h"
#include "kinema/core/host_array.h"
#include "kinema/model_files/checkpoint.h"
#include "kinema/model_files/file_names.h"

namespace kinema::model_files {
namespace {

bool is_single_file(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) && !is_gguf(path);
}

std::vector<double> numbers_of(const io::TensorView& tensor) {
  check(is_float(tensor.shape.dtype), "[weights] `{}` is {}, expected numbers", tensor.name,
        to_string(tensor.shape));
  const HostArray values = convert(tensor.copy(), DType::F32);
  const auto floats = values.as<float>();
  return {floats.begin(), floats.end()};
}

/// The value of a scalar, if the file has it.
void read_scalar(const io::TensorFile& file, std::string_view name, double& to) {
  if (const io::TensorView* tensor = file.find(name)) {
    const std::vector<double> values = numbers_of(*tensor);
    check(values.size() == 1, "[weights] {}: `{}` is {}, expected one number", file.path(), name,
          to_string(tensor->shape));
    to = values[0];
  }
}

/// CosXL, and Playground v2.5, whose file has no noise levels: those of its paper
/// (arXiv:2402.17245) are EDM's own.
void read_edm(const io::TensorFile& file, ObjectiveMarks& out) {
  if (file.find(kEdmVelocityMax) != nullptr) {
    out.edm = EdmMarks{.sigma_data = 1.0};
    read_scalar(file, kEdmVelocityMax, out.edm->sigma_max);
    read_scalar(file, kEdmVelocityMin, out.edm->sigma_min);
    out.v_prediction = true;
    out.sources.push_back(fmt::format("`{}`", kEdmVelocityMax));
  } else if (file.find(kEdmMean) != nullptr) {
    out.edm = EdmMarks{};
    out.sources.push_back(fmt::format("`{}`", kEdmMean));
  }
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
  std::vector<std::string_view> learned;
  if (marks.edm) {
    learned.emplace_back("EDM");
  }
  if (marks.v_prediction) {
    learned.emplace_back("v-prediction");
  }
  if (marks.zero_terminal_snr) {
    learned.emplace_back("zero terminal SNR");
  }
  return fmt::format("{} (by {})", fmt::join(learned, ", "), fmt::join(marks.sources, ", "));
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
  read_edm(file, out);
  constexpr const char* kKey = "modelspec.prediction_type";
  const auto said = file.metadata().find(kKey);
  if (said != file.metadata().end() &&
      (said->second == "v" || said->second == "v_prediction" || said->second == "v-prediction")) {
    out.v_prediction = true;
    out.sources.push_back(fmt::format("{} `{}`", kKey, said->second));
  }
  return out;
}

std::optional<LatentStatistics> latent_statistics(const std::filesystem::path& path) {
  if (!is_single_file(path)) {
    return std::nullopt;
  }
  const io::TensorFile file = io::TensorFile::open(path);
  const io::TensorView* mean = file.find(kEdmMean);
  const io::TensorView* deviation = file.find(kEdmDeviation);
  if (mean == nullptr || deviation == nullptr) {
    return std::nullopt;
  }
  LatentStatistics out{.mean = numbers_of(*mean), .deviation = numbers_of(*deviation)};
  check(out.mean.size() == out.deviation.size(),
        "[weights] {}: `{}` is {} and `{}` {}, expected as many numbers", file.path(), kEdmMean,
        to_string(mean->shape), kEdmDeviation, to_string(deviation->shape));
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

}  // namespace kinema::model_files
