#include "kinema/runs/convert.h"

#include <fmt/format.h>

#include <filesystem>

#include "kinema/core/error.h"
#include "kinema/io/folder.h"
#include "kinema/networks/convert.h"
#include "kinema/weights/convert_lora.h"
#include "kinema/weights/lora.h"
#include "kinema/weights/weights.h"

namespace kinema::runs {
namespace {

namespace fs = std::filesystem;

/// The transformer of a pipeline's folder, a checkpoint's or a run's step; else the path itself.
fs::path transformer_of(const fs::path& source) {
  std::error_code ignored;
  const fs::path inside = source / "transformer";
  return fs::is_directory(inside, ignored) ? inside : source;
}

/// A file of low-rank or other differences, or PEFT's folder of one.
bool is_lora(const fs::path& source) {
  std::error_code ignored;
  return fs::exists(source / weights::kPeftFile, ignored) ||
         (fs::is_regular_file(source, ignored) &&
          weights::file_kind(source) == weights::FileKind::LORA);
}

/// The file in the folder that diffusers' save_lora_weights writes, or in a checkpoint's adapter/;
/// else the path itself.
std::string lora_file_in(const std::string& source) {
  std::error_code ignored;
  for (const fs::path& folder : {fs::path(source), fs::path(source) / "adapter"}) {
    if (const fs::path inside = folder / weights::kLoraFile; fs::exists(inside, ignored)) {
      return inside.string();
    }
  }
  return source;
}

/// Tells which transformers of a pipeline or checkpoint stay as they are.
void name_others(const fs::path& folder, const fs::path& converted, const Job& job) {
  for (const char* name :
       {"transformer", "transformer_2", "transformer_ema", "transformer_2_ema"}) {
    std::error_code ignored;
    const fs::path other = folder / name;
    if (other != converted && fs::is_directory(other, ignored)) {
      job.notice(fmt::format("{0} is there too and is not converted: kinema convert {0} does it",
                             other.string()));
    }
  }
}

}  // namespace

ConvertResult convert(const std::string& given, const std::string& target,
                      const ConvertOptions& options, const Observer& observer) {
  const Job job(observer, options.job);
  job.check_stop();
  check(!given.empty() && !target.empty(),
        "[convert] the {} has no name: a file or folder was expected",
        given.empty() ? "source" : "target");
  check(options.max_shard_bytes > 0, "[convert] shards of {} bytes: at least 1 was expected",
        options.max_shard_bytes);
  const std::string named = lora_file_in(given);
  if (is_lora(named)) {
    const weights::LoraFormat to = weights::lora_format_from_string(options.to);
    io::make_folder(fs::path(target).parent_path());
    weights::convert_lora(named, target, to, options.dtype);
    return {.source = named, .target = target};
  }
  const fs::path source = transformer_of(named);
  const networks::ConvertOptions settings{
      .to = networks::format_from_string(options.to),
      .dtype = options.dtype,
      .max_shard_bytes = options.max_shard_bytes,
      .progress = [job, told = job.progress("converting")](int64_t done, int64_t total) {
        job.check_stop();  // what was begun is removed
        told(done, total);
      }};
  io::make_folder(fs::path(target).parent_path());
  networks::convert_transformer(source, target, settings);
  if (source != fs::path(named)) {
    name_others(named, source, job);
  }
  return {.source = source.string(), .target = target};
}

}  // namespace kinema::runs
