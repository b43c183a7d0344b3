#include "kinema/networks/convert.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/core/host_array.h"
#include "kinema/io/gguf.h"
#include "kinema/io/model_folder.h"
#include "kinema/io/safetensors.h"
#include "kinema/networks/open.h"
#include "kinema/weights/checkpoint.h"
#include "kinema/weights/folder.h"
#include "kinema/weights/names.h"
#include "kinema/weights/stored.h"

namespace kinema::networks {
namespace {

namespace fs = std::filesystem;
using io::Json;

constexpr std::string_view kComfyPrefix = "model.diffusion_model.";

struct Word {
  std::string_view word;
  Format format;
};
constexpr Word kWords[] = {{"diffusers", Format::DIFFUSERS}, {"original", Format::ORIGINAL},
                           {"comfyui", Format::COMFYUI},     {"fp8", Format::FP8},
                           {"int8", Format::INT8},           {"gguf", Format::GGUF}};

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

bool is_bare(Format format) { return format == Format::ORIGINAL || format == Format::GGUF; }
bool is_stored(Format format) { return format == Format::FP8 || format == Format::INT8; }

/// A tensor as it is written: one of the checkpoint's, or those that the original release joins.
struct Written {
  std::string name;
  std::string key;  // of the first
  Shape shape;      // in the dtype of the first
  std::vector<const io::TensorView*> parts;
  weights::Cut cut = weights::Cut::WHOLE;

  bool is_plain() const { return parts.size() == 1 && cut == weights::Cut::WHOLE; }
  /// Their values, rounded where no finite one becomes infinite.
  HostArray values(DType dtype) const {
    HostArray out(Shape{dtype, shape.dims});
    auto to = out.bytes.begin();
    for (const io::TensorView* part : parts) {
      const HostArray own = narrowed(*part, dtype, name);
      to = std::ranges::copy(own.bytes, to).out;
    }
    if (cut == weights::Cut::SWAPPED) {
      const auto half = static_cast<std::ptrdiff_t>(out.bytes.size() / 2);
      std::ranges::rotate(out.bytes, out.bytes.begin() + half);
    }
    return out;
  }
};

/// All tensors under the names of the format, in the checkpoint's order.
std::vector<Written> written(const weights::Checkpoint& checkpoint, Format format) {
  const weights::NameTable& table = *weights::family_of(checkpoint)->names;
  std::vector<std::string_view> keys;
  for (const weights::Checkpoint::Entry& each : checkpoint.tensors()) {
    keys.push_back(each.key);
  }
  const weights::Layout layout = weights::layout_of(table, keys);
  const std::string prefix =
      format == Format::DIFFUSERS || is_bare(format) ? "" : std::string(kComfyPrefix);
  struct Part {
    int64_t number;
    const io::TensorView* view;
  };
  std::vector<Written> out;
  std::map<std::string, size_t> places;
  std::map<std::string, std::vector<Part>> parts;
  for (const auto& [key, view] : checkpoint.tensors()) {
    weights::Piece piece{.name = key};
    if (format != Format::DIFFUSERS) {
      const auto original = weights::original_key(table, key, layout);
      check(original.has_value(), "[weights] the original release has no name for `{}`", key);
      piece = *original;
    }
    if (places.emplace(piece.name, out.size()).second) {
      Shape shape = view->shape;
      shape.dtype = checkpoint.float_type(*view);
      out.push_back({prefix + piece.name, key, shape, {}, piece.cut});
    }
    parts[piece.name].push_back({piece.part, view});
  }
  for (auto& [name, own] : parts) {
    Written& tensor = out[places.at(name)];
    std::ranges::sort(own, {}, &Part::number);
    tensor.shape.dims = own[0].view->shape.dims;
    for (const Part& part : own) {
      tensor.shape.dims[0] += tensor.parts.empty() ? 0 : part.view->shape.dims[0];
      tensor.parts.push_back(part.view);
    }
  }
  return out;
}

/// What is written as codes: where nearly all of a network's bytes are, and rounding shows least.
bool is_block_weight(const Written& tensor) {
  return tensor.key.find("blocks.") != std::string::npos && tensor.key.ends_with(".weight") &&
         tensor.shape.rank() == 2;
}

/// The codes of a weight [out, in], with a scale each or (`one`) one for all.
weights::StoredCodes codes_of(const Written& tensor, DType codes, bool one) {
  HostArray values = tensor.values(DType::F32);
  const Dims dims = values.shape.dims;
  if (one) {
    values.shape.dims = {1, values.shape.elements()};
  }
  weights::StoredCodes out = weights::stored_codes(values, codes, tensor.parts[0]->name);
  out.values.shape.dims = dims;
  out.scale.shape.dims = one ? Dims{} : Dims{dims[0], 1};
  return out;
}

/// A weight as codes, and its scales beside it under ComfyUI's name for them.
std::vector<io::TensorEntry> stored_entries(const Written& tensor, Format format) {
  const bool one = format == Format::FP8;
  const DType codes = one ? DType::F8E4M3FN : DType::S8;
  const Dims scales = one ? Dims{} : Dims{tensor.shape.dims[0], 1};
  const std::string module =
      tensor.name.substr(0, tensor.name.size() - std::string_view("weight").size());
  return {
      io::TensorEntry::lazy(tensor.name, {codes, tensor.shape.dims},
                            [tensor, codes, one] { return codes_of(tensor, codes, one).values; }),
      io::TensorEntry::lazy(module + "scale_weight", {DType::F32, scales},
                            [tensor, codes, one] { return codes_of(tensor, codes, one).scale; })};
}

std::vector<io::TensorEntry> entries_of(const weights::Checkpoint& checkpoint,
                                        const ConvertOptions& options) {
  std::vector<io::TensorEntry> entries;
  const std::vector<Written> tensors = written(checkpoint, options.to);
  const auto total = static_cast<int64_t>(tensors.size());
  for (const Written& tensor : tensors) {
    if (is_stored(options.to) && is_block_weight(tensor)) {
      for (io::TensorEntry& entry : stored_entries(tensor, options.to)) {
        entries.push_back(std::move(entry));
      }
      continue;
    }
    Shape shape = tensor.shape;
    shape.dtype = options.dtype.value_or(shape.dtype);
    const io::TensorEntry plain =
        tensor.is_plain() && shape.dtype == tensor.parts[0]->shape.dtype
            ? io::TensorEntry::of(tensor.name, *tensor.parts[0])
            : io::TensorEntry::lazy(tensor.name, shape,
                                    [tensor, dtype = shape.dtype] { return tensor.values(dtype); });
    const auto at = static_cast<int64_t>(entries.size());
    entries.push_back({tensor.name, shape, [plain, at, total, &options](const io::ByteSink& sink) {
                         if (options.progress) {
                           options.progress(at, total);
                         }
                         plain.write(sink);
                       }});
  }
  if (options.to == Format::FP8) {
    // Its dtype tells ComfyUI what the codes are.
    entries.push_back(
        io::TensorEntry::lazy(std::string(kComfyPrefix) + "scaled_fp8", {DType::F8E4M3FN, {0}}, [] {
          return HostArray(Shape{DType::F8E4M3FN, {0}});
        }));
  }
  return entries;
}

io::GgmlType ggml_type(DType dtype) {
  return dtype == DType::BF16  ? io::GgmlType::BF16
         : dtype == DType::F16 ? io::GgmlType::F16
                               : io::GgmlType::F32;
}

/// Rows that Q8_0's blocks of 32 do not divide stay floats. What is no matrix is F32: diffusers and
/// ComfyUI decode types that torch has not in linear layers only.
void write_gguf(const fs::path& target, const weights::Checkpoint& checkpoint,
                const ConvertOptions& options) {
  std::vector<io::GgufEntry> entries;
  const std::vector<Written> tensors = written(checkpoint, options.to);
  const auto total = static_cast<int64_t>(tensors.size());
  for (const Written& tensor : tensors) {
    const bool codes = !options.dtype && is_block_weight(tensor) &&
                       io::gguf_can_write(io::GgmlType::Q8_0, tensor.shape.dims);
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
  io::write_gguf(target, entries, {{"general.architecture", "wan"}});
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
  const auto* const found = std::ranges::find(kWords, name, &Word::word);
  check(found != std::end(kWords),
        "[weights] `{}` is no format: diffusers, original, comfyui, fp8, int8 and gguf are", name);
  return found->format;
}

void convert_transformer(const fs::path& source, const fs::path& target,
                         const ConvertOptions& options) {
  const weights::Checkpoint checkpoint = weights::Checkpoint::open(source);
  check(weights::is_transformer(checkpoint), "[weights] {} holds no transformer: none of {}",
        source.string(), weights::transformer_classes());
  const Network network = open(checkpoint);
  weights::check_tensors(checkpoint, network->parameters({}));
  const bool is_wan = weights::family_of(checkpoint)->names == &weights::kWanNames;
  // A file has none; but Wan's tells whether its sizes could be read from it.
  const Json config = options.to == Format::DIFFUSERS || (!is_wan && is_file(target))
                          ? network->config()
                          : network->original_config();
  check(is_wan || options.to != Format::GGUF,
        "[weights] GGUF files are written of Wan only; {} is {}", source.string(),
        weights::family_of(checkpoint)->name);
  check(options.to != Format::DIFFUSERS || !is_file(target),
        "[weights] {} is a file's name, but diffusers wants a folder with its config.json",
        target.string());
  check((options.to != Format::COMFYUI && !is_stored(options.to)) || is_file(target),
        "[weights] ComfyUI wants one file: {} must end with .safetensors", target.string());
  check((options.to == Format::GGUF) == weights::is_gguf(target),
        "[weights] {}: files that end with .gguf, and no others, are written with --to gguf",
        target.string());
  std::error_code ignored;
  check(!fs::exists(fs::symlink_status(target, ignored)),
        "[weights] {} is there already\n  remove it, or name another place", target.string());
  try {
    if (options.to == Format::GGUF) {
      write_gguf(target, checkpoint, options);
    } else {
      write(target, config, entries_of(checkpoint, options), options);
    }
    checkpoint.check_intact();
  } catch (...) {
    fs::remove_all(target, ignored);  // was not there before
    throw;
  }
}

}  // namespace kinema::networks
