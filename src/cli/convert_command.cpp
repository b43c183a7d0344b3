#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/progress.h"
#include "core/error.h"
#include "io/folder.h"
#include "weights/convert.h"

namespace kinema::cli {
namespace {

namespace fs = std::filesystem;

struct Words {
  std::string source;
  std::string target;
  std::string to;
  std::string dtype;
  double shard_gib = 10;
};

/// The transformer of a pipeline's folder, a checkpoint's or a run's step; else the path itself.
fs::path transformer_of(const fs::path& source) {
  std::error_code ignored;
  const fs::path inside = source / "transformer";
  return fs::is_directory(inside, ignored) ? inside : source;
}

int convert(const Words& words) {
  weights::ConvertOptions options{.to = weights::format_from_string(words.to)};
  if (!words.dtype.empty()) {
    options.dtype = dtype_from_string(words.dtype);
    check(options.dtype.has_value() && is_float(*options.dtype) && *options.dtype != DType::F64,
          "[convert] `{}` is no dtype of weights: float32, bfloat16 and float16 are", words.dtype);
  }
  check(words.shard_gib > 0, "[convert] --shard-gib is {}, expected a positive number",
        words.shard_gib);
  constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
  options.max_shard_bytes = static_cast<int64_t>(words.shard_gib * kGiB);
  const fs::path source = transformer_of(words.source);
  const fs::path target = words.target;
  io::make_folder(target.parent_path());
  std::unique_ptr<Progress> progress;
  options.progress = [&](int64_t done, int64_t total) {
    if (!progress) {
      progress = std::make_unique<Progress>("converting", total);
    }
    progress->update(done);
  };
  weights::convert_transformer(source, target, options);
  progress.reset();
  fmt::print("{} -> {}\n", source.string(), target.string());
  return 0;
}

}  // namespace

void add_convert(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "convert", "Write a Wan transformer in the names and layout of another program");
  const auto words = std::make_shared<Words>();
  command
      ->add_option("SOURCE", words->source,
                   "a diffusers or original Wan folder, a pipeline, a checkpoint, or a safetensors "
                   "file in any of these names")
      ->required();
  command->add_option("TARGET", words->target, "a folder, or a file that ends with .safetensors")
      ->required();
  command->add_option("--to", words->to, "diffusers | original | comfyui")->required();
  command->add_option("--dtype", words->dtype,
                      "float32 | bfloat16 | float16; each tensor keeps its own when absent");
  command->add_option("--shard-gib", words->shard_gib, "size of a folder's files at most");
  command->callback([=, &action] { action = [words] { return convert(*words); }; });
}

}  // namespace kinema::cli
