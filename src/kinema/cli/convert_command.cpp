#include <fmt/core.h>

#include <memory>
#include <optional>
#include <string>

#include "kinema/cli/commands.h"
#include "kinema/cli/observing.h"
#include "kinema/core/error.h"
#include "kinema/jobs/convert.h"

namespace kinema::cli {
namespace {

struct Words {
  std::string source;
  std::string target;
  std::string to;
  std::string dtype;
  double shard_gib = 10;
};

std::optional<DType> dtype_of(const Words& words) {
  if (words.dtype.empty()) {
    return std::nullopt;
  }
  const std::optional<DType> dtype = dtype_from_string(words.dtype);
  check(dtype.has_value() && is_float(*dtype) && *dtype != DType::F64 && !is_f8(*dtype),
        "[convert] --dtype is `{}`, expected float32, bfloat16 or float16", words.dtype);
  return dtype;
}

int convert(const Words& words) {
  const std::optional<DType> dtype = dtype_of(words);
  check(words.shard_gib > 0, "[convert] --shard-gib is {}, expected a positive number",
        words.shard_gib);
  constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
  Observer observer;
  show_on_console(observer, /*with_lines=*/true);
  const jobs::ConvertResult made =
      jobs::convert(words.source, words.target,
                    {.to = words.to,
                     .dtype = dtype,
                     .max_shard_bytes = static_cast<int64_t>(words.shard_gib * kGiB),
                     .job = job_options()},
                    observer);
  fmt::print("{} -> {}\n", made.source, made.target);
  return 0;
}

}  // namespace

void add_convert(Program& program) {
  Command command = program.add("convert",
                                "Write a transformer, a UNet, a whole checkpoint or a LoRA file "
                                "with the names and layout of another program");
  const auto words = std::make_shared<Words>();
  command
      .option("SOURCE", words->source,
              "a diffusers or original folder, a pipeline, a checkpoint, or a safetensors, GGUF or "
              "torch file with any of these names; a LoRA file or PEFT folder")
      .required();
  command
      .option("TARGET", words->target, "a folder, or a file that ends with .safetensors or .gguf")
      .required();
  command.option("--to", words->to,
                 "diffusers | original | comfyui | fp8 | int8 | gguf; for LoRA files also kohya; "
                 "without it, a pickle (.pth, .pt, .ckpt, .bin, .pkl) becomes safetensors");
  command.option("--dtype", words->dtype,
                 "float32 | bfloat16 | float16; default: each tensor's own");
  command.option("--shard-gib", words->shard_gib, "maximum size of a folder's files");
  command.run([words] { return convert(*words); });
}

}  // namespace kinema::cli
