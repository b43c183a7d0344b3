#include "kinema/networks/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/core/host_array.h"
#include "kinema/io/gguf.h"
#include "kinema/io/model_folder.h"
#include "kinema/io/safetensors.h"
#include "kinema/model_files/checkpoint.h"
#include "kinema/model_files/names.h"
#include "kinema/networks/convert_entries.h"
#include "kinema/networks/open.h"
#include "kinema/weights/folder.h"

namespace kinema::networks {
namespace {

namespace fs = std::filesystem;
using io::Json;

struct Word {
  std::string_view word;
  Format format;
};
constexpr Word kWords[] = {{"diffusers", Format::DIFFUSERS}, {"original", Format::ORIGINAL},
                           {"comfyui", Format::COMFYUI},     {"fp8", Format::FP8},
                           {"int8", Format::INT8},           {"gguf", Format::GGUF}};

io::GgmlType ggml_type(DType dtype) {
  return dtype == DType::BF16  ? io::GgmlType::BF16
         : dtype == DType::F16 ? io::GgmlType::F16
                               : io::GgmlType::F32;
}

/// Matrices whose rows are not multiples of Q8_0's blocks of 32 stay floats. Other tensors are F32:
/// diffusers and ComfyUI decode dtypes that torch does not have in linear layers only.
void write_gguf(const fs::path& target, const std::vector<Written>& tensors,
                const ConvertOptions& options) {
  std::vector<io::GgufEntry> entries;
  const auto total = static_cast<int64_t>(tensors.size());
  int64_t matrices = 0;
  int64_t floats = 0;  // of the matrices
  for (const Written& tensor : tensors) {
    const bool codes = !options.dtype && tensor.as_codes &&
                       io::gguf_can_write(io::GgmlType::Q8_0, tensor.shape.dims);
    matrices += !options.dtype && tensor.as_codes ? 1 : 0;
    floats += !options.dtype && tensor.as_codes && !codes ? 1 : 0;
    const DType dtype =
        tensor.shape.rank() == 2 ? options.dtype.value_or(tensor.shape.dtype) : DType::F32;
    const auto at = static_cast<int64_t>(entries.size());
    entries.push_back({.name = tensor.name,
                       .dims = tensor.shape.dims,
                       .type = codes ? io::GgmlType::Q8_0 : ggml_type(dtype),
                       .values = [tensor, &options, at, total, dtype] {
                         if (options.progress) {
                           options.progress(at, total);
                         }
                         const HostArray values = convert(tensor.values(dtype), DType::F32);
                         const auto all = values.as<float>();
                         return std::vector<float>(all.begin(), all.end());
                       }});
  }
  if (floats > 0 && options.notice) {
    options.notice(fmt::format(
        "{} of {} matrices are not quantized: their rows are not multiples of Q8_0's blocks of 32",
        floats, matrices));
  }
  io::write_gguf(target, entries, {{"general.architecture", "wan"}});
}

/// Keys that are written as codes: those that the family stores as codes with weights_storage. They
/// are nearly all of a network's bytes, and rounding matters least in them.
Keys narrow_keys(const Network& network) {
  Keys out;
  for (const nn::ParamSpec& spec :
       network->parameters({.scan_layers = false, .weights_storage = DType::S8})) {
    if (spec.shape.dtype == DType::S8) {
      out.insert(spec.name);
    }
  }
  return out;
}

bool is_file(const fs::path& target) { return target.extension() == ".safetensors"; }

/// Throws an Error if a single file of the network would be read as another one: a file contains
/// shapes, but no configuration.
void check_read_back(const Network& network, const model_files::Checkpoint& source,
                     const fs::path& target) {
  const auto refuse = [&](std::string_view reason) {
    fail(
        "[weights] {} would not be read as the same network as {}: {}\n  --to diffusers writes a "
        "config.json; or copy the model's config.json into {} first",
        target.string(), source.path(), reason,
        target.has_parent_path() ? target.parent_path().string() : "this folder");
  };
  const Json beside =
      model_files::adjacent_config(target, {}, model_files::find_family(source)->names);
  Json read;
  try {
    read = (beside.is_object() ? from_config(beside) : from_shapes(source))->config();
  } catch (const Error& error) {
    const std::string_view reason = error.what();
    refuse(reason.substr(0, reason.find('\n')));
  }
  const Json own = network->config();
  for (const auto& [key, value] : own.members()) {
    const Json& other = read.at(key);
    if (other.dump() != value.dump() && key != "sample_size") {  // only the default picture size
      refuse(fmt::format("`{}` is {}, and would be read as {}", key, value.brief(), other.brief()));
    }
  }
}

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
  const auto* const found = std::ranges::find(kWords, name, &Word::word);
  check(found != std::end(kWords),
        "[weights] `{}` is not a format, expected diffusers, original, comfyui, fp8, int8 or gguf",
        name);
  return found->format;
}

void convert_transformer(const fs::path& source, const fs::path& target,
                         const ConvertOptions& options) {
  const model_files::Checkpoint checkpoint = model_files::Checkpoint::open(source);
  check_is_network(checkpoint);
  const Network network = open(checkpoint);
  weights::check_tensors(checkpoint, network->parameters({}));
  const bool is_wan = model_files::find_family(checkpoint)->names == &model_files::kWanNames;
  check(is_wan || options.to != Format::GGUF, "[weights] only Wan is written as GGUF; {} is {}",
        source.string(), model_files::find_family(checkpoint)->name);
  check(options.to != Format::DIFFUSERS || !is_file(target),
        "[weights] {} is a file name, but diffusers needs a folder with a config.json",
        target.string());
  check((options.to != Format::COMFYUI && !is_stored(options.to)) || is_file(target),
        "[weights] ComfyUI needs a single file: {} must end with .safetensors", target.string());
  check((options.to == Format::GGUF) == model_files::is_gguf(target),
        "[weights] {}: --to gguf writes files that end with .gguf, other formats do not",
        target.string());
  const bool is_folder = !is_file(target) && options.to != Format::GGUF;
  if (!is_folder) {
    check_read_back(network, checkpoint, target);
  }
  const Json config = options.to == Format::DIFFUSERS ? network->config()
                      : is_folder                     ? network->original_config()
                                                      : Json();
  std::error_code ignored;
  check(!fs::exists(fs::symlink_status(target, ignored)),
        "[weights] {} exists already\n  remove it, or choose another path", target.string());
  try {
    const std::vector<Written> tensors = written(checkpoint, options.to, narrow_keys(network));
    if (options.to == Format::GGUF) {
      write_gguf(target, tensors, options);
    } else {
      write(target, config, entries_of(tensors, options), options);
    }
    checkpoint.check_intact();
  } catch (...) {
    fs::remove_all(target, ignored);  // did not exist before
    throw;
  }
}

}  // namespace kinema::networks
