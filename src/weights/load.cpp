#include <cstring>
#include <utility>

#include "io/model_folder.h"
#include "weights/folder.h"
#include "weights/weights.h"

namespace kinema::weights {
namespace {

/// The checkpoint's tensors of one parameter as it lives on the device.
HostArray gather(const io::ModelFolder& folder, const nn::ParamSpec& spec) {
  HostArray all(spec.shape);
  const auto bytes = static_cast<size_t>(spec.layer_shape().bytes());
  for (int64_t layer = 0; layer < spec.count(); ++layer) {
    const io::TensorView& view = folder.at(spec.key(layer));
    std::byte* to = all.bytes.data() + static_cast<size_t>(layer) * bytes;
    if (view.shape.dtype == spec.shape.dtype) {
      std::memcpy(to, view.bytes.data(), bytes);
    } else {
      std::memcpy(to, convert(view.copy(), spec.shape.dtype).bytes.data(), bytes);
    }
  }
  return all;
}

}  // namespace

std::vector<pjrt::Buffer> load(const std::filesystem::path& folder,
                               std::span<const nn::ParamSpec> specs, pjrt::Client& client) {
  const io::ModelFolder files = io::ModelFolder::open(folder);
  check_tensors(files, specs);
  std::vector<pjrt::Buffer> buffers;
  buffers.reserve(specs.size());
  for (const nn::ParamSpec& spec : specs) {
    if (spec.layers == 0 && files.at(spec.name).shape.dtype == spec.shape.dtype) {
      buffers.push_back(client.to_device(files.at(spec.name).bytes, spec.shape));
    } else {
      buffers.push_back(client.to_device(gather(files, spec)));
    }
  }
  return buffers;
}

}  // namespace kinema::weights
