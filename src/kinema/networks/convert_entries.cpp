#include "kinema/networks/convert_entries.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/model_files/stored.h"

namespace kinema::networks {

void check_is_network(const model_files::Checkpoint& checkpoint) {
  check(
      model_files::is_transformer(checkpoint),
      "[weights] {} contains no transformer: none of {}\n  autoencoders and text encoders are only "
      "converted in a file with a transformer; separate ones need no conversion",
      checkpoint.path(), model_files::transformer_classes());
}

namespace {

constexpr std::string_view kComfyPrefix = "model.diffusion_model.";

/// Converted; throws an Error if a finite value becomes infinite.
HostArray narrowed(const io::TensorView& view, DType dtype, const std::string& name) {
  HostArray from = view.copy();
  HostArray to = convert(from, dtype);
  // Of the dtypes, only F16 has a smaller range than checkpoints' dtypes.
  if (dtype == DType::F16) {
    const HostArray before = convert(from, DType::F32);
    const HostArray after = convert(to, DType::F32);
    const auto x = before.as<float>();
    const auto y = after.as<float>();
    for (size_t i = 0; i < x.size(); ++i) {
      check(!std::isfinite(x[i]) || std::isfinite(y[i]),
            "[weights] `{}` holds {}, which is infinite in float16\n  use --dtype bfloat16", name,
            x[i]);
    }
  }
  return to;
}

bool is_bare(Format format) { return format == Format::ORIGINAL || format == Format::GGUF; }

/// The values of a weight [out, in], with one row per scale.
HostArray rows_of(const Written& tensor, bool one) {
  HostArray values = tensor.values(DType::F32);
  if (one) {
    values.shape.dims = {1, values.shape.elements()};
  }
  return values;
}

/// A weight as codes, and its scales as a second tensor under ComfyUI's name.
std::vector<io::TensorEntry> stored_entries(const Written& tensor, Format format) {
  const bool one = format == Format::FP8;
  const DType codes = one ? DType::F8E4M3FN : DType::S8;
  const Dims scales = one ? Dims{} : Dims{tensor.shape.dims[0], 1};
  const std::string module =
      tensor.name.substr(0, tensor.name.size() - std::string_view("weight").size());
  const auto stored = [=] {
    const HostArray rows = rows_of(tensor, one);
    return model_files::store({rows.shape, rows.bytes, tensor.parts[0]->name}, codes);
  };
  const auto values = [=] {
    HostArray out = stored().codes;
    out.shape.dims = tensor.shape.dims;
    return out;
  };
  const auto scale = [=] {
    HostArray out = stored().scales;
    out.shape.dims = scales;
    return out;
  };
  return {io::TensorEntry::lazy(tensor.name, {codes, tensor.shape.dims}, values),
          io::TensorEntry::lazy(module + "scale_weight", {DType::F32, scales}, scale)};
}

}  // namespace

HostArray Written::values(DType dtype) const {
  HostArray out(Shape{dtype, shape.dims});
  auto to = out.bytes.begin();
  for (const io::TensorView* part : parts) {
    const HostArray own = narrowed(*part, dtype, name);
    to = std::ranges::copy(own.bytes, to).out;
  }
  if (cut == model_files::Cut::SWAPPED) {
    const auto half = static_cast<std::ptrdiff_t>(out.bytes.size() / 2);
    std::rotate(out.bytes.begin(), out.bytes.begin() + half, out.bytes.end());
  }
  return out;
}

std::vector<Written> written(const model_files::Checkpoint& checkpoint, Format format,
                             const Keys& as_codes) {
  const model_files::Family* family = model_files::find_family(checkpoint);
  std::vector<std::string_view> keys;
  for (const model_files::Checkpoint::Entry& each : checkpoint.tensors()) {
    keys.push_back(each.key);
  }
  const model_files::Layout layout =
      family == nullptr ? model_files::Layout() : model_files::layout_of(*family->names, keys);
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
    model_files::Piece piece{.name = key};
    if (format != Format::DIFFUSERS) {
      const auto original = model_files::original_key(*family->names, key, layout);
      check(original.has_value(), "[weights] the original release has no name for `{}`", key);
      piece = *original;
    }
    if (places.emplace(piece.name, out.size()).second) {
      Shape shape = view->shape;
      shape.dtype = checkpoint.float_type(*view);
      out.push_back({prefix + piece.name, shape, {}, piece.cut, as_codes.contains(key)});
    }
    parts[piece.name].push_back({piece.part, view});
  }
  for (auto& [name, own] : parts) {
    Written& tensor = out[places.at(name)];
    std::ranges::sort(own, {}, &Part::number);
    tensor.shape.dims = own[0].view->shape.dims;
    for (const Part& part : own) {
      if (!tensor.parts.empty()) {  // a single part may be a scalar
        tensor.shape.dims[0] += part.view->shape.dims[0];
      }
      tensor.parts.push_back(part.view);
    }
    if (tensor.cut == model_files::Cut::CHANNELS && tensor.shape.rank() == 1) {
      tensor.shape.dims = {1, tensor.shape.dims[0], 1, 1};
    }
  }
  return out;
}

std::vector<io::TensorEntry> entries_of(const std::vector<Written>& tensors,
                                        const ConvertOptions& options) {
  std::vector<io::TensorEntry> entries;
  const auto total = static_cast<int64_t>(tensors.size());
  for (const Written& tensor : tensors) {
    if (is_stored(options.to) && tensor.as_codes) {
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
    // The entry's dtype identifies the codes for ComfyUI.
    entries.push_back(
        io::TensorEntry::lazy(std::string(kComfyPrefix) + "scaled_fp8", {DType::F8E4M3FN, {0}}, [] {
          return HostArray(Shape{DType::F8E4M3FN, {0}});
        }));
  }
  return entries;
}

}  // namespace kinema::networks
