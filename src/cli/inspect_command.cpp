#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "core/error.h"
#include "io/check.h"
#include "io/example_proto.h"
#include "io/json.h"
#include "io/model_folder.h"
#include "io/safetensors.h"
#include "io/tfrecord.h"
#include "models/wan/transformer.h"
#include "sample/pipeline_folder.h"
#include "train/checkpoint_folder.h"
#include "weights/config.h"
#include "weights/weights.h"

namespace kinema::cli {
namespace {

namespace fs = std::filesystem;
using io::Json;

/// What a path holds: one line for it, one a part, and the parts for `--json`.
struct Contents {
  std::string summary;
  std::vector<std::string> lines;
  Json parts = Json::array();

  void add_tensor(const std::string& name, const Shape& shape) {
    lines.push_back(fmt::format("{:<70} {}", name, to_string(shape)));
    Json part = Json::object();
    part.set("name", name).set("shape", to_string(shape));
    parts.append(std::move(part));
  }
  void add(std::string line) {
    parts.append(line);
    lines.push_back(std::move(line));
  }
};

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

Contents list_safetensors(const fs::path& path) {
  const io::SafetensorsFile file = io::SafetensorsFile::open(path);
  Contents out{.summary = "safetensors file: "};
  std::vector<const io::TensorView*> tensors;
  for (const io::TensorView& tensor : file.tensors()) {
    tensors.push_back(&tensor);
  }
  add_tensors(out, tensors);
  return out;
}

/// Throws where a training or sampling run would refuse the folder.
void check_transformer(const fs::path& path) {
  const wan::TransformerConfig config = weights::read_config(path);
  weights::check_folder(path, wan::parameters(config, {}));
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

/// The transformers of a pipeline or checkpoint.
std::vector<fs::path> transformers(const fs::path& path) {
  const sample::PipelineFolder folder = sample::read_pipeline_folder(path);
  std::vector<fs::path> out = {folder.transformer};
  if (folder.has_two_experts()) {
    out.push_back(folder.transformer_2);
  }
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
      out.add(part.filename().string() + ": " + io::check_path(part));
    }
  }
  return out;
}

Contents list_records(const fs::path& path) {
  const io::TfRecordFile file = io::TfRecordFile::open(path);
  Contents out{.summary = fmt::format("TFRecord file: {} records", file.size())};
  for (int64_t i = 0; i < file.size(); ++i) {
    std::string line = fmt::format("record {}:", i);
    for (const io::FeatureSummary& each : io::summarize_example(file.at(i), file.where(i))) {
      line += fmt::format(
          " {} ({})", each.name,
          each.tensor ? to_string(*each.tensor) : fmt::format("{} {}", each.count, each.kind));
    }
    out.add(std::move(line));
  }
  return out;
}

bool is_checkpoint(const fs::path& path) { return fs::exists(path / "train_state.json"); }

/// A folder of checkpoints, newest last, each sound or not.
Contents list_checkpoints(const fs::path& path) {
  const train::CheckpointFolder folder(path);
  Contents out{.summary = fmt::format("{} checkpoints", folder.steps().size())};
  for (const int64_t step : folder.steps()) {
    const std::string problem = train::manifest_problem(folder.path(step));
    out.add(fmt::format("step {}: {}", step, problem.empty() ? "sound" : problem));
  }
  return out;
}

Contents list(const fs::path& path) {
  switch (io::path_kind(path)) {
    case io::PathKind::Safetensors:
      return list_safetensors(path);
    case io::PathKind::ModelFolder:
      return list_model(path);
    case io::PathKind::TfRecord:
      return list_records(path);
    case io::PathKind::Pipeline:
      return list_folder(path, "pipeline");
    case io::PathKind::Video:
      return {.summary = io::check_path(path)};
    case io::PathKind::Unknown:
      break;
  }
  if (is_checkpoint(path)) {
    return list_folder(path, "checkpoint");
  }
  if (fs::is_directory(path / "checkpoints")) {
    return list_checkpoints(path / "checkpoints");
  }
  if (fs::is_directory(path) && !train::CheckpointFolder(path).steps().empty()) {
    return list_checkpoints(path);
  }
  fail("{} is no safetensors or TFRecord file, video, model folder, pipeline or run",
       path.string());
}

/// One line when the path would be accepted; throws otherwise.
std::string accept(const fs::path& path) {
  const io::PathKind kind = io::path_kind(path);
  if (kind == io::PathKind::ModelFolder) {
    check_transformer(path);
  } else if (kind == io::PathKind::Pipeline || is_checkpoint(path)) {
    if (is_checkpoint(path)) {
      const std::string problem = train::manifest_problem(path);
      check(problem.empty(), "{}: {}", path.string(), problem);
    }
    for (const fs::path& transformer : transformers(path)) {
      check_transformer(transformer);
    }
    return "accepted: the transformers of " + path.string();
  }
  return "accepted: " + io::check_path(path);
}

int inspect(const std::string& path, bool only_check, bool json) {
  if (only_check) {
    const std::string line = accept(path);
    if (json) {
      Json report = Json::object();
      report.set("path", path).set("ok", true).set("summary", line);
      fmt::print("{}\n", report.dump());
    } else {
      fmt::print("{}\n", line);
    }
    return 0;
  }
  const Contents contents = list(path);
  if (json) {
    Json report = Json::object();
    report.set("path", path).set("summary", contents.summary).set("parts", contents.parts);
    fmt::print("{}\n", report.dump());
    return 0;
  }
  for (const std::string& line : contents.lines) {
    fmt::print("{}\n", line);
  }
  fmt::print("{}\n", contents.summary);
  return 0;
}

}  // namespace

void add_inspect(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("inspect", "Print what a file or folder holds, or whether it is accepted");
  const auto path = std::make_shared<std::string>();
  const auto only_check = std::make_shared<bool>(false);
  const auto json = std::make_shared<bool>(false);
  command
      ->add_option("PATH", *path,
                   "safetensors or TFRecord file, video, model folder, pipeline, run or checkpoint")
      ->required();
  command->add_flag("--check", *only_check,
                    "only say whether it would be accepted: exit 0, or 1 and why");
  command->add_flag("--json", *json, "print JSON");
  command->callback([=, &action] {
    action = [path, only_check, json] { return inspect(*path, *only_check, *json); };
  });
}

}  // namespace kinema::cli
