#include "kinema/networks/convert.h"

#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/core/host_array.h"
#include "kinema/io/model_folder.h"
#include "kinema/io/safetensors.h"
#include "kinema/networks/open.h"
#include "kinema/weights/checkpoint.h"
#include "kinema/weights/folder.h"
#include "kinema/weights/names.h"

namespace kinema::networks {
namespace {

namespace fs = std::filesystem;
using io::Json;

constexpr std::string_view kComfyPrefix = "model.diffusion_model.";
/// Rounded, where no finite value becomes infinite.
HostArray narrowed(const io::TensorView& view, DType dtype, const std::string& name) {
  HostArray from = view.copy();
  HostArray to = convert(from, dtype);
  // Only F16 has less range than what checkpoints hold.
  if (dtype == DType::F16) {
    const HostArray before = convert(from, DType::F32);
    const HostArray after = convert(to, DType::F32);
    const auto x = before.as<float>();
    const auto y = after.as<float>();
    for (size_t i = 0; i < x.size(); ++i) {
      check(!std::isfinite(x[i]) || std::isfinite(y[i]),
            "[weights] `{}` holds {}, which float16 does not reach\n  --dtype bfloat16 does", name,
            x[i]);
    }
  }
  return to;
}

std::string name_in(Format format, const std::string& key) {
  if (format == Format::DIFFUSERS) {
    return key;
  }
  const std::optional<std::string> name = weights::original_key(key);
  check(name.has_value(), "[weights] the original release has no name for `{}`", key);
  return (format == Format::COMFYUI ? std::string(kComfyPrefix) : "") + *name;
}

std::vector<io::TensorEntry> entries_of(const weights::Checkpoint& checkpoint,
                                        const ConvertOptions& options) {
  std::vector<io::TensorEntry> entries;
  const auto total = static_cast<int64_t>(checkpoint.tensors().size());
  for (const weights::Checkpoint::Entry& each : checkpoint.tensors()) {
    const std::string name = name_in(options.to, each.key);
    const io::TensorView& view = *each.view;
    Shape shape = view.shape;
    shape.dtype = options.dtype.value_or(shape.dtype);
    const io::TensorEntry plain =
        shape.dtype == view.shape.dtype
            ? io::TensorEntry::of(name, view)
            : io::TensorEntry::lazy(name, shape, [&view, name, dtype = shape.dtype] {
                return narrowed(view, dtype, name);
              });
    const auto at = static_cast<int64_t>(entries.size());
    entries.push_back({name, shape, [plain, at, total, &options](const io::ByteSink& sink) {
                         if (options.progress) {
                           options.progress(at, total);
                         }
                         plain.write(sink);
                       }});
  }
  return entries;
}

bool is_file(const fs::path& target) { return target.extension() == ".safetensors"; }

void write(const fs::path& target, const Json& config, std::span<const io::TensorEntry> entries,
           const ConvertOptions& options) {
  if (is_file(target)) {
    io::write_safetensors(target, entries, {{"format", "pt"}});
  } else {
    io::write_model_folder(target, config, entries, {.max_shard_bytes = options.max_shard_bytes});
  }
}

}  // namespace

Format format_from_string(const std::string& name) {
  if (name == "diffusers") {
    return Format::DIFFUSERS;
  }
  if (name == "original") {
    return Format::ORIGINAL;
  }
  check(name == "comfyui", "[weights] `{}` is no format: diffusers, original and comfyui are",
        name);
  return Format::COMFYUI;
}

void convert_transformer(const fs::path& source, const fs::path& target,
                         const ConvertOptions& options) {
  const weights::Checkpoint checkpoint = weights::Checkpoint::open(source);
  check(weights::is_transformer(checkpoint), "[weights] {} holds no transformer: none of {}",
        source.string(), weights::transformer_classes());
  const Network network = open(checkpoint);
  weights::check_tensors(checkpoint, network->parameters({}));
  const Json config =
      options.to == Format::DIFFUSERS ? network->config() : network->original_config();
  check(options.to != Format::DIFFUSERS || !is_file(target),
        "[weights] {} is a file's name, but diffusers wants a folder with its config.json",
        target.string());
  check(options.to != Format::COMFYUI || is_file(target),
        "[weights] ComfyUI wants one file: {} must end with .safetensors", target.string());
  std::error_code ignored;
  check(!fs::exists(fs::symlink_status(target, ignored)),
        "[weights] {} is there already\n  remove it, or name another place", target.string());
  try {
    write(target, config, entries_of(checkpoint, options), options);
    checkpoint.check_intact();
  } catch (...) {
    fs::remove_all(target, ignored);  // was not there before
    throw;
  }
}

}  // namespace kinema::networks
