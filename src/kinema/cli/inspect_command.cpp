#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include "kinema/cli/command.h"
#include "kinema/cli/commands.h"
#include "kinema/cli/inspect_clips.h"
#include "kinema/cli/observing.h"
#include "kinema/core/error.h"
#include "kinema/core/quantities.h"
#include "kinema/data/wan_record.h"
#include "kinema/io/check.h"
#include "kinema/io/event_file.h"
#include "kinema/io/example_proto.h"
#include "kinema/io/json.h"
#include "kinema/io/model_folder.h"
#include "kinema/io/safetensors.h"
#include "kinema/io/tfrecord.h"
#include "kinema/networks/check_path.h"
#include "kinema/networks/open.h"
#include "kinema/runs/stores.h"
#include "kinema/sample/pipeline_folder.h"
#include "kinema/text/tokenizer.h"
#include "kinema/training/checkpoint_folder.h"
#include "kinema/weights/checkpoint.h"
#include "kinema/weights/weights.h"

namespace kinema::cli {
namespace {

namespace fs = std::filesystem;
using io::Json;

/// What a path holds: one line for it, one a part, and the parts for `--json`.
struct Contents {
  std::string summary;
  std::vector<std::string> lines;
  Json parts = Json::array();
  Json left_out;  // of data sets of clips

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

/// A line a module: what changes it, at which rank and alpha.
Contents list_lora(const fs::path& path) {
  const weights::Lora lora = weights::Lora::open(path);
  Contents out{.summary = "LoRA: " + lora.summary()};
  for (int64_t expert = 0; expert < (lora.has_two_parts() ? 2 : 1); ++expert) {
    const std::string prefix =
        lora.has_two_parts() ? (expert == 0 ? "transformer." : "transformer_2.") : "";
    for (const auto& [module, target] : lora.targets(expert)) {
      std::string line = fmt::format("{:<60}", prefix + module);
      if (target.down != nullptr) {
        line += fmt::format(" rank {}, alpha {}", target.rank(),
                            target.factor * static_cast<double>(target.rank()));
      }
      line += target.diff != nullptr ? " diff" : "";
      line += target.diff_bias != nullptr || target.up_bias != nullptr ? " bias" : "";
      out.add(std::move(line));
    }
  }
  for (const std::string& key : lora.unknown()) {
    out.add(fmt::format("{:<60} is no key of a Wan transformer", key));
  }
  return out;
}

Contents list_safetensors(const fs::path& path) {
  if (weights::file_kind(path) == weights::FileKind::LORA) {
    return list_lora(path);
  }
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
  weights::check_folder(path, networks::open(path)->parameters({}));
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

/// The transformers of a pipeline or checkpoint that are there.
std::vector<fs::path> transformers(const fs::path& path) {
  std::vector<fs::path> out;
  for (const char* name :
       {"transformer", "transformer_2", "transformer_ema", "transformer_2_ema"}) {
    if (fs::is_directory(path / name)) {
      out.push_back(path / name);
    }
  }
  check(!out.empty(), "{} holds no transformer/", path.string());
  return out;
}

/// Every record must be one that training reads. Returns how many there are.
int64_t check_records(const fs::path& path) {
  const io::TfRecordFile file = io::TfRecordFile::open(path);
  for (int64_t i = 0; i < file.size(); ++i) {
    data::parse_wan_record(file.at(i), file.where(i));
  }
  return file.size();
}

/// Files of a folder, in order of name.
std::vector<fs::path> files_of(const fs::path& path) {
  std::vector<fs::path> out;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.is_regular_file()) {
      out.push_back(entry.path());
    }
  }
  std::ranges::sort(out);
  return out;
}

/// A folder of nothing but TFRecords and notes.
std::string check_records_folder(const fs::path& path) {
  int64_t records = 0;
  const std::vector<fs::path> files = files_of(path);
  check(!files.empty(), "{} is empty", path.string());
  std::vector<std::string> names;
  for (const fs::path& file : files) {
    names.push_back(file.filename().string());
  }
  names = io::shards_of(std::move(names));
  for (const std::string& name : names) {
    try {
      records += check_records(path / name);
    } catch (const Error&) {  // records may have any name, and be packed by gzip
      check(io::path_kind(path / name) == io::PathKind::TfRecord,
            "{} is no model folder, pipeline, run or data set: {} is no TFRecord file",
            path.string(), name);
      throw;
    }
  }
  check(!names.empty(), "{} is no model folder, pipeline, run or data set", path.string());
  check(records > 0, "{} holds no records", path.string());
  return fmt::format("data set: {} in {}", counted(records, "record"),
                     counted(static_cast<int64_t>(names.size()), "file"));
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

/// A line a tag: how many values, over which steps, and the last one.
Contents list_events(const fs::path& path) {
  struct Tag {
    int64_t count = 0;
    int64_t first = 0;
    io::EventValue last;
  };
  std::map<std::string, Tag> tags;
  for (io::EventValue& each : io::read_event_file(path)) {
    Tag& tag = tags[each.tag];
    tag.first = tag.count++ == 0 ? each.step : tag.first;
    tag.last = std::move(each);
  }
  Contents out{.summary = fmt::format("TensorBoard events: {} tags", tags.size())};
  for (const auto& [name, tag] : tags) {
    std::string line =
        fmt::format("{:<40} {} values, steps {} to {}", name, tag.count, tag.first, tag.last.step);
    switch (tag.last.kind) {
      case io::EventValue::Kind::SCALAR:
        line += fmt::format(", last {:.6g}", tag.last.scalar);
        break;
      case io::EventValue::Kind::IMAGE:
        line += fmt::format(", last a picture of {} bytes", tag.last.bytes.size());
        break;
      case io::EventValue::Kind::TEXT:
        line += fmt::format(", last a text of {} bytes", tag.last.bytes.size());
        break;
      case io::EventValue::Kind::OTHER:
        break;
    }
    out.add(std::move(line));
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

bool is_peft_folder(const fs::path& path) {
  return fs::exists(path / "adapter_config.json") && fs::exists(path / "adapter_model.safetensors");
}

bool is_checkpoint(const fs::path& path) { return fs::exists(path / "train_state.json"); }

/// A folder of checkpoints, newest last, each valid or not.
Contents list_checkpoints(const fs::path& path) {
  const training::CheckpointFolder folder(path);
  Contents out{.summary = fmt::format("{} checkpoints", folder.steps().size())};
  for (const int64_t step : folder.steps()) {
    const std::string problem = training::manifest_problem(folder.path(step));
    out.add(fmt::format("step {}: {}", step, problem.empty() ? "valid" : problem));
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
    case io::PathKind::Events:
      return list_events(path);
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
  if (fs::is_directory(path) && !training::CheckpointFolder(path).steps().empty()) {
    return list_checkpoints(path);
  }
  if (is_peft_folder(path)) {
    return list_lora(path);
  }
  weights::refuse_other_formats(path);
  if (std::optional<ClipTable> table = inspect_clips(path, /*verify=*/false)) {
    return {std::move(table->summary), std::move(table->lines), table->report.at("clips"),
            table->report.at("left_out")};
  }
  check(fs::is_directory(path),
        "{} is no safetensors or TFRecord file, video, model folder, pipeline, run or data set",
        path.string());
  Contents out{.summary = check_records_folder(path)};
  for (const fs::path& file : files_of(path)) {
    out.add(file.filename().string());
  }
  return out;
}

/// One line when the path would be accepted; throws otherwise.
std::string accept(const fs::path& path) {
  const io::PathKind kind = io::path_kind(path);
  if (kind == io::PathKind::ModelFolder) {
    return "accepted: " + networks::check_path(path);
  }
  if (kind == io::PathKind::Pipeline && !is_checkpoint(path)) {
    const sample::PipelineFolder pipeline = sample::read_pipeline_folder(path);
    if (!pipeline.tokenizer.empty()) {
      text::Tokenizer::open(pipeline.tokenizer);
    }
    return "accepted: " + networks::check_path(path);
  }
  if (is_checkpoint(path)) {
    const std::string problem = training::manifest_problem(path);
    check(problem.empty(), "{}: {}", path.string(), problem);
    for (const fs::path& transformer : transformers(path)) {
      check_transformer(transformer);
    }
    return "accepted: the transformers of " + path.string();
  }
  if (kind == io::PathKind::Safetensors && weights::file_kind(path) != weights::FileKind::OTHER) {
    return "accepted: " + networks::check_path(path);
  }
  if (kind == io::PathKind::TfRecord) {
    const int64_t records = check_records(path);
    check(records > 0, "{} holds no records", path.string());
    return fmt::format("accepted: TFRecord file of {}", counted(records, "record"));
  }
  if (is_peft_folder(path)) {
    return "accepted: LoRA: " + weights::Lora::open(path).summary();
  }
  weights::refuse_other_formats(path);
  if (kind == io::PathKind::Unknown && fs::is_directory(path)) {
    return "accepted: " + check_records_folder(path);
  }
  return "accepted: " + io::check_path(path);
}

/// Whether `list` and `accept` leave a path to inspect_clips.
bool may_be_clips(const fs::path& path) {
  const bool is_folder = fs::is_directory(path);
  return io::path_kind(path) == io::PathKind::Unknown && !is_checkpoint(path) &&
         !is_peft_folder(path) &&
         !(is_folder && (fs::is_directory(path / "checkpoints") ||
                         !training::CheckpointFolder(path).steps().empty()));
}

/// All clips that cannot be used, each on a line, and whether there are any.
int check_clips(const std::string& path, ClipTable table, bool json) {
  const bool ok = table.bad.empty();
  if (json) {
    Json report = Json::object();
    report.set("path", path)
        .set("ok", ok)
        .set("summary", (ok ? "accepted: " : "") + table.summary)
        .set("clips", table.report.at("clips"))
        .set("left_out", table.report.at("left_out"));
    fmt::print("{}\n", report.dump());
    return ok ? 0 : 1;
  }
  for (const std::string& line : table.bad) {
    fmt::print("{}\n", line);
  }
  for (const Json& each : table.report.at("left_out").items()) {
    fmt::print("left out: {}: {}\n", each.at("file").as_string(), each.at("reason").as_string());
  }
  std::fflush(stdout);
  check(ok, "[data] {}: {} of {} clips cannot be used", path, table.bad.size(),
        table.report.at("clips").items().size());
  fmt::print("accepted: {}\n", table.summary);
  return 0;
}

int inspect(const std::string& path, bool only_check, bool json) {
  if (only_check) {
    const fs::path local = runs::local_copy(path, console_job());
    if (may_be_clips(local)) {
      weights::refuse_other_formats(local);
      if (std::optional<ClipTable> table = inspect_clips(local, /*verify=*/true)) {
        return check_clips(path, std::move(*table), json);
      }
    }
    const std::string line = accept(local);
    if (json) {
      Json report = Json::object();
      report.set("path", path).set("ok", true).set("summary", line);
      fmt::print("{}\n", report.dump());
    } else {
      fmt::print("{}\n", line);
    }
    return 0;
  }
  const Contents contents = list(runs::local_copy(path, console_job()));
  if (json) {
    Json report = Json::object();
    report.set("path", path).set("summary", contents.summary).set("parts", contents.parts);
    if (!contents.left_out.is_null()) {
      report.set("left_out", contents.left_out);
    }
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

void add_inspect(Program& program) {
  Command command =
      program.add("inspect", "Print what a file or folder holds, or whether it is accepted");
  const auto path = std::make_shared<std::string>();
  const auto only_check = std::make_shared<bool>(false);
  const auto json = std::make_shared<bool>(false);
  command
      .option("PATH", *path,
              "safetensors or TFRecord file, video, folder or tar of clips, Parquet file, model "
              "folder, pipeline, run or checkpoint")
      .required();
  command.flag("--check", *only_check,
               "only say whether it would be accepted: exit 0, or 1 and why; clips are decoded to "
               "their ends");
  command.flag("--json", *json, "print JSON");
  command.run([path, only_check, json] { return inspect(*path, *only_check, *json); });
}

}  // namespace kinema::cli
