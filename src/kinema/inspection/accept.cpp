#include "kinema/inspection/accept.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <string>
#include <vector>

#include "kinema/checkpoints/checkpoint_folder.h"
#include "kinema/core/error.h"
#include "kinema/core/finite.h"
#include "kinema/core/quantities.h"
#include "kinema/inspection/folders.h"
#include "kinema/io/model_folder.h"
#include "kinema/io/safetensors.h"
#include "kinema/media/check.h"
#include "kinema/model_files/checkpoint.h"
#include "kinema/model_files/single_file.h"
#include "kinema/networks/check_path.h"
#include "kinema/networks/controlled.h"
#include "kinema/networks/open.h"
#include "kinema/sample/pipeline_folder.h"
#include "kinema/text/clip_tokenizer.h"
#include "kinema/text/tokenizer.h"
#include "kinema/training/checkpoint.h"
#include "kinema/weights/clip.h"
#include "kinema/weights/folder.h"
#include "kinema/weights/lora.h"
#include "kinema/weights/model_kind.h"
#include "kinema/weights/weights.h"

namespace kinema::inspection {
namespace {

namespace fs = std::filesystem;

/// Throws if a training or sampling run would not accept the folder.
void check_transformer(const fs::path& path) {
  weights::check_folder(path, networks::open(path)->parameters({}));
}

/// Checks the text encoders of a checkpoint that were trained with its network.
void check_texts(const fs::path& path) {
  for (const std::string_view part : {model_files::kTextEncoder, model_files::kTextEncoder2}) {
    const std::string name(part);
    for (const fs::path& folder : {path / name, path / training::average_part(name)}) {
      if (fs::is_directory(folder)) {
        const auto files = model_files::Checkpoint::open(folder, part);
        weights::check_clip_text_tensors(files, weights::clip_text_config(files));
      }
    }
  }
}

/// Checks the files of words of textual inversion.
void check_words(const fs::path& folder) {
  for (const auto& each : fs::directory_iterator(folder)) {
    const auto file = io::SafetensorsFile::open(each.path());
    for (const io::TensorView& tensor : file.tensors()) {
      check(all_finite(tensor.bytes, tensor.shape.dtype) && tensor.shape.rank() == 2,
            "{}: `{}` {} is not a matrix of finite numbers", file.path(), tensor.name,
            to_string(tensor.shape));
    }
  }
}

void check_control(const fs::path& folder) {
  const networks::ControlNet control = networks::open_control(folder);
  weights::check_tensors(model_files::Checkpoint::open(folder), control->parameters({}));
}

/// Checks the networks of a checkpoint.
void check_weights(const fs::path& path) {
  bool has_weights = false;
  check_texts(path);
  for (const std::string& part : training::weights_parts(path)) {
    for (const fs::path& folder : {path / part, path / training::average_part(part)}) {
      if (!fs::is_directory(folder)) {
        continue;
      }
      has_weights = true;
      if (part == training::kWords) {
        check_words(folder);
      } else if (part == training::kControl) {
        check_control(folder);
      } else if (weights::is_lora_folder(folder)) {
        weights::Lora::open(folder).check_finite();
      } else {
        check_transformer(folder);
      }
    }
  }
  check(has_weights, "{} holds neither transformer/ nor adapter/", path.string());
}

/// Checks all parts of a checkpoint.
void check_checkpoint(const fs::path& path) {
  const std::string problem = checkpoints::manifest_problem(path);
  check(problem.empty(), "{}: {}", path.string(), problem);
  check_weights(path);
}

/// The folder of a run's checkpoints, from the run's folder or itself; empty for other folders.
fs::path checkpoints_of(const fs::path& path) {
  if (fs::is_directory(path / "checkpoints")) {
    return path / "checkpoints";
  }
  const bool are_these =
      fs::is_directory(path) && !checkpoints::CheckpointFolder(path).steps().empty();
  return are_these ? path : fs::path();
}

std::string accept_checkpoints(const fs::path& path) {
  const checkpoints::CheckpointFolder folder(path);
  const std::vector<int64_t> steps = folder.steps();
  check(!steps.empty(), "{} has no checkpoint of a run", path.string());
  std::vector<checkpoints::CorruptCheckpoint> damaged;
  for (const int64_t step : steps) {
    if (const std::string problem = checkpoints::manifest_problem(folder.path(step));
        !problem.empty()) {
      damaged.push_back({folder.path(step), problem});
    }
  }
  check(damaged.empty(), "[inspect] {} of {} cannot be used\n  {}", damaged.size(),
        counted(std::ssize(steps), "checkpoint"), checkpoints::damage_text(damaged));
  for (const int64_t step : steps) {
    check_weights(folder.path(step));
  }
  return counted(std::ssize(steps), "checkpoint") + " of " + path.string();
}

/// An empty path needs no check.
void check_tokenizer(const fs::path& folder, const fs::path& encoder) {
  if (folder.empty()) {
    return;
  }
  std::error_code ignored;
  const bool of_clip = fs::exists(encoder / "config.json", ignored) &&
                       weights::is_clip_text(io::Json::read(encoder / "config.json"));
  if (of_clip || text::ClipTokenizer::is_in(folder)) {
    text::ClipTokenizer::open(folder);
  } else {
    text::Tokenizer::open(folder);
  }
}

/// The commands and keys for a path of a known kind, as an ending; else empty. `sampled_only`: the
/// reason why the model is not trained or converted.
std::string takers(const fs::path& path, std::string_view sampled_only = "") {
  const std::optional<weights::FoundKind> found = weights::detect_kind(path);
  if (!found) {
    return "";
  }
  if (sampled_only.empty()) {
    return "; taken by " + weights::accepting_commands(*found->kind, path);
  }
  return fmt::format("; taken by generate alone{}, as {}",
                     found->kind->is(weights::Role::PIPELINE)
                         ? ""
                         : " (wan_transformer_pretrained_model_name_or_path, with a pipeline)",
                     sampled_only);
}

/// The same for a pipeline: as for its network if that is not trained.
std::string takers_of_pipeline(const fs::path& path, const sample::PipelineFolder& pipeline) {
  const std::optional<weights::FoundKind> found = weights::detect_kind(pipeline.transformer);
  return found && !found->kind->is_trained
             ? "; taken by " + weights::accepting_commands(*found->kind, path)
             : takers(path, pipeline.schedule ? schedulers::why_not_trained(*pipeline.schedule)
                                              : std::string_view());
}

/// A description of a weights file, with the commands that accept it.
std::string accept_file(const fs::path& path) {
  using weights::Role;
  weights::check_role(path, {Role::NETWORK, Role::PIPELINE, Role::VAE, Role::ADAPTER, Role::PART,
                             Role::LATENTS, Role::CONTROL});
  const std::optional<weights::FoundKind> found = weights::detect_kind(path);
  const bool is_network = weights::file_kind(path) == weights::FileKind::TRANSFORMER;
  if (!found && !is_network) {
    fail(
        "[weights] {} holds no model, LoRA or latents that are known here ({})\n  no command takes "
        "it; `kinema inspect` lists its tensors",
        path.string(), media::check_path(path));
  }
  std::string out;
  try {
    out = found && found->kind->is(Role::LATENTS) ? media::check_path(path)
                                                  : networks::check_path(path);
  } catch (const Error& error) {
    check(found.has_value(), "{}", error.what());
    fail("{}\n  the file is {} ({})", error.what(), found->kind->name, found->because);
  }
  if (found && !out.starts_with(found->kind->name)) {
    out = fmt::format("{}: {}", found->kind->name, out);
  }
  out = "accepted: " + out;
  const model_files::ObjectiveMarks marks = model_files::objective_marks(path);
  if (marks.any()) {
    out += "; it learned " + to_string(marks);
  }
  const std::vector<std::string> unread = model_files::unused_tensors(path);
  if (!unread.empty()) {
    out += fmt::format("; {} {} not read: {}",
                       counted(static_cast<int64_t>(unread.size()), "left-over tensor"),
                       unread.size() == 1 ? "is" : "are", fmt::join(unread, ", "));
  }
  schedulers::ScheduleConfig learned;
  learned.noise = marks.edm ? schedulers::Noise::EDM : schedulers::Noise::DIFFUSION;
  return out + takers(path, marks.edm ? schedulers::why_not_trained(learned) : "");
}

/// The sampler that `generate` needs if it cannot use the pipeline's scheduler; else empty.
std::string needed_scheduler(const sample::PipelineFolder& pipeline) {
  if (!pipeline.schedule) {
    return "";
  }
  const schedulers::ScheduleConfig& schedule = *pipeline.schedule;
  const std::string others = schedulers::other_samplers(schedule);
  if (!schedule.unknown_class.empty()) {
    return fmt::format("; its scheduler, {}, is not supported: generate needs scheduler={}",
                       schedule.unknown_class, others);
  }
  return schedule.unsupported.empty()
             ? ""
             : fmt::format("; {}: generate needs scheduler={}", schedule.unsupported, others);
}

}  // namespace

std::string accept(const fs::path& path) {
  const media::PathKind kind = media::path_kind(path);
  if (kind == media::PathKind::ModelFolder) {
    return "accepted: " + networks::check_path(path) + takers(path);
  }
  if ((kind == media::PathKind::Pipeline || is_pipeline_without_index(path)) &&
      !is_checkpoint(path)) {
    const sample::PipelineFolder pipeline = sample::read_pipeline_folder(path);
    check_tokenizer(pipeline.tokenizer, pipeline.text_encoder);
    check_tokenizer(pipeline.tokenizer_2, pipeline.text_encoder_2);
    sample::check_schedule(pipeline);
    std::string out = "accepted: " + networks::check_path(path) + needed_scheduler(pipeline);
    for (const std::string& warning : sample::warnings(pipeline)) {
      out += "; " + warning;
    }
    return out + takers_of_pipeline(path, pipeline);
  }
  if (is_checkpoint(path)) {
    check_checkpoint(path);
    return "accepted: the weights of " + path.string();
  }
  check(!io::is_comfyui_folder(path),
        "[inspect] {0} is a folder of ComfyUI's models, expected a model\n  comfyui_folder={0} "
        "searches it for the files of a command; inspect one of them",
        path.string());
  if (const fs::path checkpoints = checkpoints_of(path); !checkpoints.empty()) {
    return "accepted: " + accept_checkpoints(checkpoints);
  }
  if (model_files::is_gguf(path) || kind == media::PathKind::Weights) {
    return accept_file(path);
  }
  if (kind == media::PathKind::TfRecord) {
    const int64_t records = check_records(path);
    check(records > 0, "{} holds no records", path.string());
    return fmt::format("accepted: TFRecord file of {}", counted(records, "record"));
  }
  if (weights::is_lora_folder(path)) {
    return "accepted: " + networks::check_lora(path) + takers(path);
  }
  if (kind == media::PathKind::Unknown && fs::is_directory(path)) {
    return "accepted: " + check_records_folder(path);
  }
  return "accepted: " + media::check_path(path);
}

bool may_be_clips(const fs::path& path) {
  return media::path_kind(path) == media::PathKind::Unknown && !is_checkpoint(path) &&
         !is_pipeline_without_index(path) && !weights::is_lora_folder(path) &&
         checkpoints_of(path).empty();
}

}  // namespace kinema::inspection
