#include "kinema/jobs/convert.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <vector>

#include "kinema/checkpoints/checkpoint_folder.h"
#include "kinema/core/error.h"
#include "kinema/core/host_array.h"
#include "kinema/io/folder.h"
#include "kinema/io/safetensors.h"
#include "kinema/jobs/convert_pipeline.h"
#include "kinema/model_files/single_file.h"
#include "kinema/model_source/model_schedule.h"
#include "kinema/networks/convert.h"
#include "kinema/sample/pipeline_folder.h"
#include "kinema/training/checkpoint.h"
#include "kinema/weights/convert_lora.h"
#include "kinema/weights/lora.h"
#include "kinema/weights/model_kind.h"
#include "kinema/weights/weights.h"

namespace kinema::jobs {
namespace {

namespace fs = std::filesystem;

/// The transformer folder of a pipeline, a checkpoint or a run's step; else the path itself.
fs::path transformer_of(const fs::path& source) {
  std::error_code ignored;
  for (const char* part : {"transformer", "unet"}) {
    if (const fs::path inside = source / part; fs::is_directory(inside, ignored)) {
      return inside;
    }
  }
  return source;
}

/// True for a LoRA file (also LoKr, LoHa and weight differences) or a PEFT folder.
bool is_lora(const fs::path& source) {
  std::error_code ignored;
  return fs::exists(source / weights::kPeftFile, ignored) ||
         (fs::is_regular_file(source, ignored) &&
          weights::file_kind(source) == weights::FileKind::LORA);
}

/// The file in a folder of diffusers' save_lora_weights, or in a checkpoint's adapter/; else the
/// path itself.
std::string lora_file_in(const std::string& source) {
  std::error_code ignored;
  for (const fs::path& folder : {fs::path(source), fs::path(source) / "adapter"}) {
    if (const fs::path inside = folder / weights::kLoraFile; fs::exists(inside, ignored)) {
      return inside.string();
    }
  }
  return source;
}

/// The parameter folders of a checkpoint; empty for other paths.
std::vector<std::string> checkpoint_parts(const fs::path& source) {
  std::error_code ignored;
  return fs::exists(source / "train_state.json", ignored) ? training::weights_parts(source)
                                                          : std::vector<std::string>();
}

/// `high_2.safetensors` for `high.safetensors`.
std::string second_target(const fs::path& target) {
  fs::path out = target;
  if (!out.has_filename()) {  // NAME/
    out = out.parent_path();
  }
  out.replace_filename(out.stem().string() + "_2" + out.extension().string());
  return out.string();
}

/// Prints which transformers or adapters of a pipeline or checkpoint are not converted.
void name_others(const fs::path& folder, std::span<const fs::path> converted, const Job& job) {
  std::vector<std::string> names = training::weights_parts(folder);
  for (const std::string& part : training::weights_parts(folder)) {
    names.push_back(training::average_part(part));
  }
  for (const std::string& name : names) {
    std::error_code ignored;
    const fs::path other = folder / name;
    if (std::ranges::find(converted, other) == converted.end() &&
        fs::is_directory(other, ignored)) {
      job.notice(fmt::format("{0} is there too and is not converted: kinema convert {0} does it",
                             other.string()));
    }
  }
  std::error_code ignored;
  if (fs::exists(folder / "train_state.json", ignored)) {
    for (const std::string_view part : {model_files::kTextEncoder, model_files::kTextEncoder2}) {
      if (const fs::path text = folder / part; fs::is_directory(text, ignored)) {
        job.notice(
            fmt::format("{} was trained with the network and is not converted: it is in "
                        "diffusers' format",
                        text.string()));
      }
    }
  }
}

/// Throws an Error if generate and train would reject the scheduler of a pipeline or checkpoint:
/// the converted file would lose the information that its network was trained with another
/// objective.
void check_schedule_of(const fs::path& source) {
  std::error_code ignored;
  if (const fs::path beside = model_source::adjacent_scheduler_config(source); !beside.empty()) {
    sample::read_scheduler_config(beside);
  } else if (fs::exists(source / "model_index.json", ignored)) {
    sample::read_pipeline_folder(source, sample::RequiredParts::SOME);
  } else if (fs::exists(source / sample::kSchedulerConfig, ignored)) {
    sample::read_scheduler_config(source / sample::kSchedulerConfig);
  }
  check(!model_files::objective_marks(source).edm,
        "[convert] {}: models whose input and output are scaled as in EDM are sampled, but not "
        "trained or converted",
        source.string());
}

/// Throws an Error that names the steps that a run has if one of another step was given.
void check_exists(const fs::path& source) {
  std::error_code ignored;
  if (fs::exists(source, ignored)) {
    return;
  }
  const std::vector<int64_t> steps = checkpoints::CheckpointFolder(source.parent_path()).steps();
  check(steps.empty(), "[convert] {} does not exist: the run has checkpoints of steps {}",
        source.string(), fmt::join(steps, ", "));
  fail("[convert] {} does not exist", source.string());
}

/// Writes a pickle's tensors as they are, with its numbers and texts as metadata.
ConvertResult convert_pickle(const fs::path& source, const fs::path& target,
                             const ConvertOptions& options, const Job& job) {
  check(
      io::is_pickle_name(source),
      "[convert] {} needs a format: without --to, only pickles (.pth, .pt, .ckpt, .bin, .pkl) "
      "are converted, to safetensors\n  --to diffusers, original, comfyui, fp8, int8 or gguf; for "
      "LoRA files also kohya",
      source.string());
  check(target.extension() == ".safetensors", "[convert] {} must end with .safetensors",
        target.string());
  std::error_code ignored;
  check(!fs::exists(fs::symlink_status(target, ignored)),
        "[convert] {} exists already\n  remove it, or choose another path", target.string());
  const io::TensorFile file = io::TensorFile::open(source);
  const auto told = job.progress("converting");
  const int64_t total = std::ssize(file.tensors());
  std::vector<io::TensorEntry> entries;
  for (const io::TensorView& tensor : file.tensors()) {
    const DType own = tensor.shape.dtype;
    const bool is_kept = !options.dtype || !is_float(own) || is_f8(own);
    const Shape shape{is_kept ? own : *options.dtype, tensor.shape.dims};
    entries.push_back(io::TensorEntry::lazy(
        tensor.name, shape, [&, &tensor = tensor, shape, done = std::ssize(entries) + 1] {
          job.check_stop();  // partial files are removed
          told(done, total);
          return kinema::convert(tensor.copy(), shape.dtype);
        }));
  }
  io::make_folder(target.parent_path());
  io::write_safetensors(target, entries, file.metadata());
  return {.source = source.string(), .target = target.string()};
}

ConvertResult convert_one(const std::string& given, const std::string& target,
                          const ConvertOptions& options, const Job& job) {
  if (options.to.empty()) {
    return convert_pickle(given, target, options, job);
  }
  std::error_code ignored;
  check(!fs::is_directory(fs::path(given) / training::kWords, ignored),
        "[convert] {} contains words of textual inversion, whose files other programs read as they "
        "are: {}",
        given, (fs::path(given) / training::kWords).string());
  const std::string named = lora_file_in(given);
  using weights::Role;
  weights::check_role(named, {Role::NETWORK, Role::PIPELINE, Role::ADAPTER});
  if (is_lora(named)) {
    const weights::LoraFormat to = weights::lora_format_from_string(options.to);
    io::make_folder(fs::path(target).parent_path());
    weights::convert_lora(named, target, to, options.dtype);
    if (const fs::path folder = fs::path(named).parent_path();
        folder == fs::path(given) / "adapter") {
      name_others(given, std::array{folder}, job);
    }
    return {.source = named, .target = target};
  }
  check(options.to != "kohya",
        "[convert] {} is not a LoRA file, and `kohya` is a format of LoRA files only", named);
  const fs::path source = transformer_of(named);
  check_schedule_of(named);
  // Another dtype or shard size requires writing the network again.
  check(options.to != "diffusers" || options.dtype ||
            options.max_shard_bytes != ConvertOptions{}.max_shard_bytes ||
            !fs::exists(fs::path(named) / "model_index.json"),
        "[convert] {} is a diffusers folder already: there is nothing to convert\n"
        "  --dtype or --shard-gib writes its {} again, `cp -r` copies the folder",
        named, source.filename().string());
  const networks::ConvertOptions settings{
      .to = networks::format_from_string(options.to),
      .dtype = options.dtype,
      .max_shard_bytes = options.max_shard_bytes,
      .progress =
          [job, told = job.progress("converting")](int64_t done, int64_t total) {
            job.check_stop();  // partial files are removed
            told(done, total);
          },
      .notice = [&job](const std::string& line) { job.notice(line); }};
  io::make_folder(fs::path(target).parent_path());
  job.notice(model_source::file_notices(source));
  if (holds_pipeline(source)) {
    if (settings.to == networks::Format::DIFFUSERS) {
      convert_pipeline(source, target, settings, job);
      return {.source = source.string(), .target = target};
    }
    job.notice(fmt::format(
        "only the network of {} is converted: {} are skipped, which --to diffusers also writes",
        source.string(), fmt::join(model_files::parts_in(source), ", ")));
  }
  networks::convert_transformer(source, target, settings);
  if (source != fs::path(named)) {
    name_others(named, std::array{source}, job);
  }
  return {.source = source.string(), .target = target};
}

}  // namespace

ConvertResult convert(const std::string& given, const std::string& target,
                      const ConvertOptions& options, const Observer& observer) {
  const Job job(observer, options.job);
  job.check_stop();
  check(!given.empty() && !target.empty(), "[convert] the {} is empty, expected a file or folder",
        given.empty() ? "source" : "target");
  check(options.max_shard_bytes > 0, "[convert] shards of {} bytes, expected at least 1",
        options.max_shard_bytes);
  for (fs::path above = fs::absolute(target).lexically_normal(); above.has_relative_path();
       above = above.parent_path()) {
    check(checkpoint_parts(above.parent_path()).empty(),
          "[convert] {} is in the checkpoint {}, which is valid only without other files\n"
          "  choose a path outside",
          target, above.parent_path().string());
  }
  check_exists(given);
  for (const fs::path& folder : {fs::path(given) / "checkpoints", fs::path(given)}) {
    const std::vector<int64_t> steps = checkpoints::CheckpointFolder(folder).steps();
    check(steps.empty(), "[convert] {} holds a run's checkpoints, expected one\n  {} is its newest",
          given, (folder / fmt::format("{}", steps.empty() ? 0 : steps.back())).string());
  }
  const std::vector<std::string> parts = checkpoint_parts(given);
  if (parts.size() < 2) {
    return convert_one(given, target, options, job);
  }
  const std::string second = second_target(target);
  std::error_code ignored;
  check(!fs::exists(fs::symlink_status(second, ignored)),
        "[convert] {} exists already, but it is the path for the low-noise expert of {}\n"
        "  remove it, or choose another path",
        second, given);
  const auto of_part = [&](size_t place, const std::string& to) {
    return convert_one((fs::path(given) / parts[place]).string(), to, options, job);
  };
  ConvertResult out = of_part(0, target);
  const ConvertResult low = of_part(1, second);
  job.line(fmt::format("{} -> {}", low.source, low.target));
  name_others(given, std::array{fs::path(given) / parts[0], fs::path(given) / parts[1]}, job);
  return out;
}

}  // namespace kinema::jobs
