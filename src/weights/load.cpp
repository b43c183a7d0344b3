#include <cstring>
#include <utility>

#include "io/model_folder.h"
#include "weights/folder.h"
#include "weights/weights.h"

namespace kinema::weights {
namespace {

/// One layer of a parameter, cast to its dtype, with what adapters add: computed in f32 and rounded
/// once.
void read_layer(const io::TensorView& view, const nn::ParamSpec& spec, int64_t layer,
                const Adapters& adapters, std::span<std::byte> to) {
  const DType dtype = spec.shape.dtype;
  const std::string key = spec.key(layer);
  if (adapters.change(key)) {
    HostArray values = convert(view.copy(), DType::F32);
    adapters.add_to(key, values.as<float>());
    std::memcpy(to.data(), convert(values, dtype).bytes.data(), to.size());
  } else if (view.shape.dtype == dtype) {
    std::memcpy(to.data(), view.bytes.data(), to.size());
  } else {
    std::memcpy(to.data(), convert(view.copy(), dtype).bytes.data(), to.size());
  }
}

/// The checkpoint's tensors of one parameter as it lives on the device.
HostArray gather(const io::ModelFolder& folder, const nn::ParamSpec& spec,
                 const Adapters& adapters) {
  HostArray all(spec.shape);
  const auto bytes = static_cast<size_t>(spec.layer_shape().bytes());
  for (int64_t layer = 0; layer < spec.count(); ++layer) {
    read_layer(folder.at(spec.key(layer)), spec, layer, adapters,
               std::span(all.bytes).subspan(static_cast<size_t>(layer) * bytes, bytes));
  }
  return all;
}

}  // namespace

std::vector<pjrt::Buffer> load_tensors(const io::ModelFolder& files,
                                       std::span<const nn::ParamSpec> specs,
                                       const pjrt::Client& client,
                                       std::span<const Adapter> adapters) {
  const Adapters changes(adapters, specs);
  std::vector<pjrt::Buffer> buffers;
  buffers.reserve(specs.size());
  for (const nn::ParamSpec& spec : specs) {
    const bool as_stored = spec.layers == 0 && !changes.change(spec.name) &&
                           files.at(spec.name).shape.dtype == spec.shape.dtype;
    if (as_stored) {
      buffers.push_back(client.to_device(files.at(spec.name).bytes, spec.shape));
    } else {
      buffers.push_back(client.to_device(gather(files, spec, changes)));
    }
  }
  return buffers;
}

std::vector<pjrt::Buffer> load(const std::filesystem::path& folder,
                               std::span<const nn::ParamSpec> specs, pjrt::Client& client,
                               std::span<const Adapter> adapters) {
  const io::ModelFolder files = io::ModelFolder::open(folder);
  check_tensors(files, specs);
  return load_tensors(files, specs, client, adapters);
}

}  // namespace kinema::weights
