#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/parallel.h"
#include "kinema/io/mapped_file.h"
#include "kinema/mesh/blocks.h"
#include "kinema/model_files/stored.h"
#include "kinema/pjrt/upload.h"
#include "kinema/runtime/reshard.h"
#include "kinema/weights/folder.h"
#include "kinema/weights/weights.h"

namespace kinema::weights {
namespace {

/// Bytes of a file that are read before their pages are released. A multiple of every dtype's
/// width.
constexpr size_t kChunk = size_t{16} << 20;

/// A tensor of the file and its key; without a view if only adapters contribute.
struct Source {
  const io::TensorView* view = nullptr;
  std::string key;

  std::span<const std::byte> bytes() const {
    return view == nullptr ? std::span<const std::byte>() : view->bytes;
  }
};

/// Devices with the same part of a parameter, and the transfers to them.
struct Target {
  mesh::Block block;  // of the whole parameter, all layers
  std::vector<size_t> devices;
  std::vector<pjrt::Upload> uploads;

  void write(std::span<const std::byte> bytes) {
    for (pjrt::Upload& upload : uploads) {
      upload.write(bytes);
    }
  }
};

/// The bytes from the first to the last element of a part.
std::span<const std::byte> around(const mesh::Block& part, const io::TensorView& view) {
  int64_t first = 0;
  int64_t last = 0;
  for (size_t d = 0; d < part.start.size(); ++d) {
    first = first * view.shape.dims[d] + part.start[d];
    last = last * view.shape.dims[d] + part.start[d] + part.size[d] - 1;
  }
  const int64_t width = byte_size(view.shape.dtype);
  return view.bytes.subspan(static_cast<size_t>(first * width),
                            static_cast<size_t>((last + 1 - first) * width));
}

/// A parameter during its upload.
struct Loading {
  const nn::ParamSpec& spec;
  std::vector<mesh::Block> blocks;  // each device's part
  std::vector<Target> targets;      // of the devices that read their part from the file
};

/// Loads one parameter after the other; several loaders run in parallel.
class Loader {
 public:
  Loader(const model_files::Checkpoint& checkpoint, const Adapters& adapters,
         const runtime::Devices& devices)
      : checkpoint_(checkpoint), adapters_(adapters), devices_(devices) {}

  runtime::Array floats(const nn::ParamSpec& spec) {
    Loading loading = begin(spec);
    if (!loading.targets.empty()) {
      for_each_layer(
          spec, [&](const Source& source, int64_t layer) { read_floats(source, layer, loading); });
    }
    return finish(loading);
  }

  /// A weight that is stored as codes, and its scales, from one read.
  std::pair<runtime::Array, runtime::Array> codes(const nn::ParamSpec& weight,
                                                  const nn::ParamSpec& scales) {
    Loading codes = begin(weight);
    Loading their_scales = begin(scales);
    if (!codes.targets.empty() || !their_scales.targets.empty()) {
      for_each_layer(weight, [&](const Source& source, int64_t layer) {
        const model_files::StoredWeight stored = stored_weight(source, weight);
        write(stored.codes, layer, codes);
        write(stored.scales, layer, their_scales);
      });
    }
    runtime::Array loaded = finish(codes);
    return {std::move(loaded), finish(their_scales)};
  }

 private:
  Loading begin(const nn::ParamSpec& spec) const {
    std::vector<mesh::Block> blocks =
        devices_.blocks(spec.sharding(devices_.placement()), spec.shape.dims);
    std::vector<Target> targets = targets_of(blocks, spec);
    for (const Target& target : targets) {
      devices_.count_read(target.block.elements() * byte_size(spec.shape.dtype));
    }
    return {spec, std::move(blocks), std::move(targets)};
  }

  runtime::Array finish(Loading& loading) const {
    std::vector<pjrt::Buffer> shards(loading.blocks.size());
    for (Target& target : loading.targets) {
      for (size_t i = 0; i < target.devices.size(); ++i) {
        shards[target.devices[i]] = target.uploads[i].finish();
      }
    }
    const nn::ParamSpec& spec = loading.spec;
    for (size_t d = 0; d < shards.size(); ++d) {
      if (!shards[d]) {  // another device uploads it
        const HostArray zeros(Shape{spec.shape.dtype, loading.blocks[d].size});
        shards[d] = devices_.client().to_device(zeros.bytes, zeros.shape, devices_[d],
                                                devices_.memory_kind(spec.memory));
      }
    }
    return {spec.shape, std::move(loading.blocks), std::move(shards)};
  }

  std::vector<Target> targets_of(std::span<const mesh::Block> blocks,
                                 const nn::ParamSpec& spec) const {
    const pjrt::MemoryKind memory = devices_.memory_kind(spec.memory);
    const Sharding sharding = spec.sharding(devices_.placement());
    std::vector<Target> targets;
    for (mesh::Holders& part : mesh::holders_of(blocks)) {
      std::erase_if(part.devices, [&](size_t device) { return !devices_.reads(device, sharding); });
      if (part.devices.empty()) {
        continue;
      }
      Target target{std::move(part.block), std::move(part.devices), {}};
      for (const size_t device : target.devices) {
        target.uploads.emplace_back(devices_.client(), Shape{spec.shape.dtype, target.block.size},
                                    devices_[device], memory);
      }
      targets.push_back(std::move(target));
    }
    return targets;
  }

  Source source_of(const nn::ParamSpec& spec, int64_t layer) const {
    std::string key = spec.key(layer);
    return {spec.is_low_rank() ? checkpoint_.find(key) : &checkpoint_.at(key), std::move(key)};
  }

  /// Calls read(source, layer) in order.
  template <typename Read>
  void for_each_layer(const nn::ParamSpec& spec, const Read& read) const {
    Source source = source_of(spec, 0);
    for (int64_t layer = 0; layer < spec.count(); ++layer) {
      Source next = layer + 1 < spec.count() ? source_of(spec, layer + 1) : Source{};
      io::will_read(next.bytes());  // reads ahead while this layer is converted
      read(source, layer);
      io::release_pages(source.bytes());
      io::check_intact(source.bytes(), checkpoint_.path());
      source = std::move(next);
    }
  }

  /// Passes its part of one layer to every target.
  void read_floats(const Source& source, int64_t layer, Loading& loading) {
    if (source.view == nullptr || source.view->decode || adapters_.change(source.key)) {
      write(merge(source, loading.spec), layer, loading);
      return;
    }
    for (Target& target : loading.targets) {
      if (const std::optional<mesh::Block> part = part_of(layer, target.block, loading.spec)) {
        io::bring(around(*part, *source.view));
        copy(source.view->bytes, source.view->shape, *part, loading.spec.shape.dtype, target,
             /*release=*/loading.targets.size() == 1);
      }
    }
  }

  /// The same for an array of the layer's shape.
  void write(const HostArray& array, int64_t layer, Loading& loading) {
    for (Target& target : loading.targets) {
      if (const std::optional<mesh::Block> part = part_of(layer, target.block, loading.spec)) {
        copy(array.bytes, array.shape, *part, loading.spec.shape.dtype, target, /*release=*/false);
      }
    }
  }

  /// The part of one layer that is in a block of a parameter.
  static std::optional<mesh::Block> part_of(int64_t layer, mesh::Block block,
                                            const nn::ParamSpec& spec) {
    if (spec.layers > 0) {
      if (layer < block.start[0] || layer >= block.start[0] + block.size[0]) {
        return std::nullopt;
      }
      block.start.erase(block.start.begin());
      block.size.erase(block.size.begin());
    }
    return block;
  }

  /// Writes a part of an array, converted, in pieces. Runs shorter than a piece are gathered.
  void copy(std::span<const std::byte> bytes, const Shape& shape, const mesh::Block& part,
            DType dtype, Target& target, bool release) {
    const auto width = static_cast<size_t>(byte_size(shape.dtype));
    gathered_.clear();
    const auto flush = [&] {
      target.write(cast(gathered_, shape.dtype, dtype));
      gathered_.clear();
    };
    mesh::for_each_run(shape.dims, part, [&](int64_t offset, int64_t count) {
      auto run =
          bytes.subspan(static_cast<size_t>(offset) * width, static_cast<size_t>(count) * width);
      const bool alone = count == part.elements();
      while (!run.empty()) {
        const auto piece = run.first(std::min(run.size(), kChunk - gathered_.size()));
        if (alone || piece.size() == kChunk) {
          target.write(cast(piece, shape.dtype, dtype));
          if (release) {
            io::release_pages(piece);
          }
        } else {
          gathered_.insert(gathered_.end(), piece.begin(), piece.end());
          if (gathered_.size() == kChunk) {
            flush();
          }
        }
        run = run.subspan(piece.size());
      }
    });
    if (!gathered_.empty()) {
      flush();
    }
  }

  /// A tensor's values plus those of the adapters, in f32.
  HostArray merge(const Source& source, const nn::ParamSpec& spec) const {
    HostArray values = source.view == nullptr
                           ? HostArray(Shape{DType::F32, spec.layer_shape().dims})
                           : convert(source.view->copy(), DType::F32);
    io::release_pages(source.bytes());
    adapters_.add_to(source.key, values.as<float>());
    return values;
  }

  model_files::StoredWeight stored_weight(const Source& source, const nn::ParamSpec& spec) const {
    const DType codes = spec.shape.dtype;
    const std::string name = checkpoint_.name_in_file(source.key);
    if (source.view->decode || adapters_.change(source.key)) {
      if (std::optional<model_files::StoredWeight> kept = kept_codes(source, codes)) {
        return std::move(*kept);
      }
      const HostArray values = merge(source, spec);
      return model_files::store({values.shape, values.bytes, name}, codes);
    }
    return model_files::store({source.view->shape, source.view->bytes, name}, codes);
  }

  /// The file's codes if they have the requested dtype: nothing is rounded twice.
  std::optional<model_files::StoredWeight> kept_codes(const Source& source, DType codes) const {
    const model_files::Checkpoint::Codes* found =
        adapters_.change(source.key) ? nullptr : checkpoint_.codes(*source.view);
    if (found == nullptr || found->shape.dtype != codes) {
      return std::nullopt;
    }
    model_files::StoredWeight kept{HostArray(found->shape),
                                   HostArray(Shape{DType::F32, {found->shape.dims[0]}})};
    std::ranges::copy(found->bytes, kept.codes.bytes.begin());
    const auto all = found->scales.as<float>();
    for (size_t i = 0; i < kept.scales.as<float>().size(); ++i) {
      kept.scales.as<float>()[i] = all[all.size() == 1 ? 0 : i];
    }
    return kept;
  }

  /// The piece itself, or its values in another dtype, which the next call overwrites.
  std::span<const std::byte> cast(std::span<const std::byte> piece, DType from, DType to) {
    if (from == to) {
      return piece;
    }
    check(is_float(from) && is_float(to), "[weights] {}: {} cannot be read as {}",
          checkpoint_.path(), to_string(from), to_string(to));
    const auto in = static_cast<size_t>(byte_size(from));
    const auto out = static_cast<size_t>(byte_size(to));
    const size_t elements = piece.size() / in;
    cast_.resize(elements * out);
    const std::span<std::byte> result(cast_);
    for_ranges_in_parallel(static_cast<int64_t>(elements), 1 << 18,
                           [&](int64_t first, int64_t last) {
                             const auto begin = static_cast<size_t>(first);
                             const auto count = static_cast<size_t>(last - first);
                             convert(piece.subspan(begin * in, count * in), from,
                                     result.subspan(begin * out, count * out), to);
                           });
    return result;
  }

  const model_files::Checkpoint& checkpoint_;
  const Adapters& adapters_;
  const runtime::Devices& devices_;
  std::vector<std::byte> gathered_;
  std::vector<std::byte> cast_;
};

std::vector<runtime::Array> load_changed(const model_files::Checkpoint& checkpoint,
                                         std::span<const nn::ParamSpec> specs,
                                         const runtime::Devices& devices, const Adapters& changes) {
  std::map<std::string_view, size_t> scales;  // by the weight's name
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].is_stored_scale()) {
      scales.emplace(specs[i].weight_of_scale(), i);
    }
  }
  std::vector<runtime::Array> arrays(specs.size());
  // Pages are mapped, copied and converted on the host, where one core cannot use the memory's
  // bandwidth.
  const auto threads = std::min(processor_threads(), 8);
  for_each_in_parallel(specs.size(), threads, [&](size_t i) {
    Loader loader(checkpoint, changes, devices);
    const auto scale = scales.find(specs[i].name);
    if (scale != scales.end()) {
      std::tie(arrays[i], arrays[scale->second]) = loader.codes(specs[i], specs[scale->second]);
    } else if (!specs[i].is_stored_scale()) {
      arrays[i] = loader.floats(specs[i]);
    }
  });
  checkpoint.check_intact();
  if (devices.has_one_reader()) {
    runtime::Resharder spread(devices);
    for (size_t i = 0; i < specs.size(); ++i) {
      arrays[i] = spread(std::move(arrays[i]), specs[i].sharding(devices.placement()));
    }
  }
  return arrays;
}

}  // namespace

std::vector<runtime::Array> load_arrays(const model_files::Checkpoint& checkpoint,
                                        std::span<const nn::ParamSpec> specs,
                                        const runtime::Devices& devices,
                                        std::span<const Adapter> adapters) {
  return load_changed(checkpoint, specs, devices, Adapters(adapters, specs));
}

std::vector<pjrt::Buffer> load_tensors(const model_files::Checkpoint& checkpoint,
                                       std::span<const nn::ParamSpec> specs,
                                       const pjrt::Client& client,
                                       std::span<const Adapter> adapters) {
  return load_tensors(checkpoint, specs, client, Adapters(adapters, specs));
}

std::vector<pjrt::Buffer> load_tensors(const model_files::Checkpoint& checkpoint,
                                       std::span<const nn::ParamSpec> specs,
                                       const pjrt::Client& client, const Adapters& adapters) {
  std::vector<pjrt::Buffer> buffers;
  for (runtime::Array& array : load_changed(checkpoint, specs, client, adapters)) {
    buffers.push_back(std::move(array).take());
  }
  return buffers;
}

std::vector<pjrt::Buffer> load(const std::filesystem::path& path,
                               std::span<const nn::ParamSpec> specs, pjrt::Client& client,
                               std::span<const Adapter> adapters) {
  const model_files::Checkpoint checkpoint = model_files::Checkpoint::open(path);
  check_tensors(checkpoint, specs);
  return load_tensors(checkpoint, specs, client, adapters);
}

std::vector<runtime::Array> load(const std::filesystem::path& path,
                                 std::span<const nn::ParamSpec> specs,
                                 const runtime::Devices& devices,
                                 std::span<const Adapter> adapters) {
  const model_files::Checkpoint checkpoint = model_files::Checkpoint::open(path);
  check_tensors(checkpoint, specs);
  return load_arrays(checkpoint, specs, devices, adapters);
}

}  // namespace kinema::weights
