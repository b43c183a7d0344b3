#include <fmt/core.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "kinema/cli/command.h"
#include "kinema/cli/commands.h"
#include "kinema/cli/progress.h"
#include "kinema/core/error.h"
#include "kinema/io/folder.h"
#include "kinema/weights/convert.h"
#include "kinema/weights/convert_lora.h"
#include "kinema/weights/weights.h"

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

/// A file of low-rank or other differences, or PEFT's folder of one.
bool is_lora(const fs::path& source) {
  std::error_code ignored;
  return fs::exists(source / "adapter_model.safetensors", ignored) ||
         (fs::is_regular_file(source, ignored) &&
          weights::file_kind(source) == weights::FileKind::LORA);
}

std::optional<DType> dtype_of(const Words& words) {
  if (words.dtype.empty()) {
    return std::nullopt;
  }
  const std::optional<DType> dtype = dtype_from_string(words.dtype);
  check(dtype.has_value() && is_float(*dtype) && *dtype != DType::F64,
        "[convert] `{}` is no dtype of weights: float32, bfloat16 and float16 are", words.dtype);
  return dtype;
}

/// The file in the folder that diffusers' save_lora_weights writes, else the path itself.
std::string lora_file_in(const std::string& source) {
  std::error_code ignored;
  const fs::path inside = fs::path(source) / "pytorch_lora_weights.safetensors";
  return fs::exists(inside, ignored) ? inside.string() : source;
}

/// Says which transformers of a pipeline or checkpoint stay as they are.
void name_others(const fs::path& folder, const fs::path& converted) {
  for (const char* name :
       {"transformer", "transformer_2", "transformer_ema", "transformer_2_ema"}) {
    std::error_code ignored;
    const fs::path other = folder / name;
    if (other != converted && fs::is_directory(other, ignored)) {
      warn(fmt::format("{0} is there too and is not converted: kinema convert {0} does it",
                       other.string()));
    }
  }
}

int convert(Words words) {
  words.source = lora_file_in(words.source);
  if (is_lora(words.source)) {
    const std::optional<DType> dtype = dtype_of(words);
    const weights::LoraFormat to = weights::lora_format_from_string(words.to);
    io::make_folder(fs::path(words.target).parent_path());
    weights::convert_lora(words.source, words.target, to, dtype);
    fmt::print("{} -> {}\n", words.source, words.target);
    return 0;
  }
  weights::ConvertOptions options{.to = weights::format_from_string(words.to)};
  options.dtype = dtype_of(words);
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
  if (source != fs::path(words.source)) {
    name_others(words.source, source);
  }
  return 0;
}

}  // namespace

void add_convert(Program& program) {
  Command command = program.add(
      "convert",
      "Write a Wan transformer or a LoRA file in the names and layout of another program");
  const auto words = std::make_shared<Words>();
  command
      .option("SOURCE", words->source,
              "a diffusers or original Wan folder, a pipeline, a checkpoint, or a safetensors "
              "file in any of these names; a LoRA file or PEFT folder")
      .required();
  command.option("TARGET", words->target, "a folder, or a file that ends with .safetensors")
      .required();
  command.option("--to", words->to, "diffusers | original | comfyui; of a LoRA file also kohya")
      .required();
  command.option("--dtype", words->dtype,
                 "float32 | bfloat16 | float16; each tensor keeps its own when absent");
  command.option("--shard-gib", words->shard_gib, "size of a folder's files at most");
  command.run([words] { return convert(*words); });
}

}  // namespace kinema::cli
