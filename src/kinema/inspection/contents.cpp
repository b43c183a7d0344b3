#include "kinema/inspection/contents.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "kinema/checkpoints/checkpoint_folder.h"
#include "kinema/core/error.h"
#include "kinema/core/quantities.h"
#include "kinema/inspection/folders.h"
#include "kinema/io/file_format.h"
#include "kinema/io/model_folder.h"
#include "kinema/io/safetensors.h"
#include "kinema/media/check.h"
#include "kinema/model_files/checkpoint.h"
#include "kinema/model_files/single_file.h"
#include "kinema/records/event_file.h"
#include "kinema/records/example_proto.h"
#include "kinema/records/tfrecord.h"
#include "kinema/weights/lora.h"
#include "kinema/weights/model_kind.h"
#include "kinema/weights/weights.h"

namespace kinema::inspection {
namespace {

namespace fs = std::filesystem;
using io::Json;

std::string as_gigabytes(uint64_t bytes) {
  return bytes >= 100'000'000 ? fmt::format("{:.2f} GB", static_cast<double>(bytes) / 1e9)
                              : fmt::format("{:.1f} kB", static_cast<double>(bytes) / 1e3);
}

template <typename Tensors>
void add_tensors(Contents& out, const Tensors& tensors) {
  int64_t elements = 0;
  uint64_t bytes = 0;
  for (const io::TensorView* tensor : tensors) {
    out.add_tensor(tensor->name, tensor->shape);
    elements += tensor->shape.elements();
    bytes += tensor->bytes.size();
  }
  out.summary +=
      fmt::format("{} tensors, {} elements, {}", tensors.size(), elements, as_gigabytes(bytes));
}

std::string line_of(const std::string& module, const weights::Lora::Target& target) {
  std::string line = fmt::format("{:<60}", module);
  if (target.method != nullptr) {
    line += fmt::format(" {}", adapters::method_name(*target.method, target.parts));
    if (const int64_t rank = target.method->rank(target.parts); rank > 0) {
      line += fmt::format(" rank {}, alpha {}", rank, target.factor * static_cast<double>(rank));
    }
  }
  if (target.down != nullptr) {
    line += fmt::format(" rank {}, alpha {}", target.rank(),
                        target.factor * static_cast<double>(target.rank()));
  }
  line += target.diff != nullptr ? " diff" : "";
  line += target.diff_bias != nullptr || target.up_bias != nullptr ? " bias" : "";
  return line;
}

/// One line per module: what changes it, with its rank and alpha.
Contents list_lora(const fs::path& path) {
  const weights::Lora lora = weights::Lora::open(path);
  Contents out{.summary = "LoRA: " + lora.summary()};
  for (int64_t expert = 0; expert < (lora.has_two_parts() ? 2 : 1); ++expert) {
    const std::string prefix =
        lora.has_two_parts() ? (expert == 0 ? "transformer." : "transformer_2.") : "";
    for (const auto& [module, target] : lora.targets(expert)) {
      out.add(line_of(prefix + module, target));
    }
  }
  for (const auto& [member, prefix] :
       {std::pair(weights::LoraMember::TEXT_ENCODER, "text_encoder."),
        std::pair(weights::LoraMember::TEXT_ENCODER_2, "text_encoder_2.")}) {
    for (const auto& [module, target] : lora.targets(member)) {
      out.add(line_of(prefix + module, target));
    }
  }
  for (const std::string& key : lora.unknown()) {
    out.add(fmt::format("{:<60} is not a key of its family", key));
  }
  return out;
}

Contents list_weights(const fs::path& path) {
  const std::optional<weights::FoundKind> kind = weights::detect_kind(path);
  if (kind && kind->kind->is(weights::Role::ADAPTER)) {
    return list_lora(path);
  }
  const io::TensorFile file = io::TensorFile::open(path);
  const bool is_read = !kind || kind->kind->roles != 0;
  const std::string models = is_read ? model_files::models_in(path) : "";
  const std::string name = kind ? std::string(kind->kind->name) : "";
  const std::string what = name + (name.empty() || models.empty() ? "" : "; ") + models;
  const std::string format = io::is_pickle_name(path) ? "pickle" : "safetensors file";
  Contents out{.summary = format + (what.empty() ? ": " : " (" + what + "): ")};
  std::vector<const io::TensorView*> tensors;
  for (const io::TensorView& tensor : file.tensors()) {
    tensors.push_back(&tensor);
  }
  add_tensors(out, tensors);
  return out;
}

Contents list_gguf(const fs::path& path) {
  const std::vector<io::GgufFile> files = io::open_gguf(path);
  Contents out{.summary = files.size() == 1 ? "GGUF file: "
                                            : fmt::format("GGUF in {} files: ", files.size())};
  std::vector<const io::TensorView*> tensors;
  for (const io::GgufFile& file : files) {
    for (const io::TensorView& tensor : file.tensors()) {
      tensors.push_back(&tensor);
    }
  }
  add_tensors(out, tensors);
  return out;
}

Contents list_model(const fs::path& path) {
  const io::ModelFolder folder = io::ModelFolder::open(path);
  const Json* name = folder.config().find("_class_name");
  Contents out{.summary = fmt::format("model folder of {}: ", name != nullptr && name->is_string()
                                                                  ? name->as_string()
                                                                  : "unknown class")};
  add_tensors(out, folder.tensors());
  return out;
}

Contents list_folder(const fs::path& path, std::string kind) {
  Contents out{.summary = std::move(kind) + ":"};
  std::vector<fs::path> parts;
  for (const auto& entry : fs::directory_iterator(path)) {
    parts.push_back(entry.path());
  }
  std::ranges::sort(parts);
  for (const fs::path& part : parts) {
    out.summary += " " + part.filename().string();
    if (fs::is_directory(part) && fs::exists(part / "config.json")) {
      out.add(part.filename().string() + ": " + media::check_path(part));
    }
  }
  return out;
}

/// What a checkpoint is of, as the beginning of a summary.
std::string checkpoint_kind(const fs::path& path) {
  const fs::path file = path / "train_state.json";
  const Json state = Json::read(file);
  std::string out = "checkpoint";
  for (const auto& [key, before, after] :
       {std::tuple("step", " after ", " steps"), std::tuple("updates", ", ", " updates"),
        std::tuple("data_position", ", ", " samples"), std::tuple("seed", ", seed ", "")}) {
    if (const Json* value = state.find(key);
        value != nullptr && value->kind() == Json::Kind::Integer) {
      out += fmt::format("{}{}{}", before, value->as_int(), after);
    }
  }
  const Json* settings = state.find("settings");
  const Json* optimizer = settings == nullptr ? nullptr : settings->find("optimizer");
  return optimizer != nullptr && optimizer->is_string() ? out + ", " + optimizer->as_string() : out;
}

/// One line per tag: the number of values, their steps, and the last one.
Contents list_events(const fs::path& path) {
  struct Tag {
    int64_t count = 0;
    int64_t first = 0;
    records::EventValue last;
  };
  std::map<std::string, Tag> tags;
  for (records::EventValue& each : records::read_event_file(path)) {
    Tag& tag = tags[each.tag];
    tag.first = tag.count++ == 0 ? each.step : tag.first;
    tag.last = std::move(each);
  }
  Contents out{.summary = fmt::format("TensorBoard events: {} tags", tags.size())};
  for (const auto& [name, tag] : tags) {
    std::string line =
        fmt::format("{:<40} {} values, steps {} to {}", name, tag.count, tag.first, tag.last.step);
    switch (tag.last.kind) {
      case records::EventValue::Kind::SCALAR:
        line += fmt::format(", last {:.6g}", tag.last.scalar);
        break;
      case records::EventValue::Kind::IMAGE:
        line += fmt::format(", last a picture of {} bytes", tag.last.bytes.size());
        break;
      case records::EventValue::Kind::TEXT:
        line += fmt::format(", last a text of {} bytes", tag.last.bytes.size());
        break;
      case records::EventValue::Kind::OTHER:
        break;
    }
    out.add(std::move(line));
  }
  return out;
}

Contents list_records(const fs::path& path) {
  const records::TfRecordFile file = records::TfRecordFile::open(path);
  Contents out{.summary = fmt::format("TFRecord file: {} records", file.size())};
  for (int64_t i = 0; i < file.size(); ++i) {
    std::string line = fmt::format("record {}:", i);
    for (const records::FeatureSummary& each :
         records::summarize_example(file.at(i), file.where(i))) {
      line += fmt::format(
          " {} ({})", each.name,
          each.tensor ? to_string(*each.tensor) : fmt::format("{} {}", each.count, each.kind));
    }
    out.add(std::move(line));
  }
  return out;
}

/// A folder of checkpoints, newest last, with their validity.
Contents list_checkpoints(const fs::path& path) {
  const checkpoints::CheckpointFolder folder(path);
  const std::vector<int64_t> steps = folder.steps();
  Contents out{.summary = counted(std::ssize(steps), "checkpoint")};
  std::vector<checkpoints::CorruptCheckpoint> damaged;
  for (const int64_t step : steps) {
    const std::string problem = checkpoints::manifest_problem(folder.path(step));
    out.add(fmt::format("step {}: {}", step, problem.empty() ? "valid" : problem));
    if (!problem.empty()) {
      damaged.push_back({folder.path(step), problem});
    }
  }
  if (!damaged.empty()) {
    out.summary += fmt::format(", {} corrupt", damaged.size());
  }
  if (!steps.empty() && damaged.size() == steps.size()) {
    out.problem = fmt::format("[inspect] {} has no valid checkpoint\n  {}", path.string(),
                              checkpoints::damage_text(damaged));
  }
  return out;
}

}  // namespace

void Contents::add_tensor(const std::string& name, const Shape& shape) {
  lines.push_back(fmt::format("{:<70} {}", name, to_string(shape)));
  Json part = Json::object();
  part.set("name", name).set("shape", to_string(shape));
  parts.append(std::move(part));
}

void Contents::add(std::string line) {
  parts.append(line);
  lines.push_back(std::move(line));
}

Contents contents(const fs::path& path, const ClipProgress& progress) {
  switch (media::path_kind(path)) {
    case media::PathKind::Weights:
      return list_weights(path);
    case media::PathKind::ModelFolder:
      return list_model(path);
    case media::PathKind::TfRecord:
      return list_records(path);
    case media::PathKind::Events:
      return list_events(path);
    case media::PathKind::Pipeline:
      return list_folder(path, "pipeline");
    case media::PathKind::Video:
    case media::PathKind::Picture:
      return {.summary = media::check_path(path)};
    case media::PathKind::Unknown:
      break;
  }
  if (is_checkpoint(path)) {
    return list_folder(path, checkpoint_kind(path));
  }
  if (is_pipeline_without_index(path)) {
    return list_folder(path, "pipeline without a model_index.json");
  }
  if (fs::is_directory(path / "checkpoints")) {
    return list_checkpoints(path / "checkpoints");
  }
  if (fs::is_directory(path) && !checkpoints::CheckpointFolder(path).steps().empty()) {
    return list_checkpoints(path);
  }
  if (weights::is_lora_folder(path)) {
    return list_lora(path);
  }
  if (model_files::is_gguf(path)) {
    return list_gguf(path);
  }
  if (std::optional<ClipTable> table = clip_table(path, /*verify=*/false, progress)) {
    return {std::move(table->summary),    std::move(table->lines),    table->report.at("clips"),
            table->report.at("left_out"), table->report.at("causes"), std::ssize(table->bad)};
  }
  const io::FileFormat format = io::file_format(path);
  check(!format, "[inspect] {}",
        io::wrong_format_text(path.string(), format, "weights, clips, a run or a data set"));
  check(fs::is_directory(path),
        "{} is not a safetensors, torch or TFRecord file, video, model folder, pipeline, run or "
        "data set",
        path.string());
  Contents out{.summary = check_records_folder(path)};
  for (const fs::path& file : files_of(path)) {
    out.add(file.filename().string());
  }
  return out;
}

}  // namespace kinema::inspection
