#include "kinema/io/tensor_file.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "kinema/core/error.h"
#include "kinema/io/pickle_file.h"
#include "kinema/io/safetensors.h"

namespace kinema::io {

HostArray TensorView::copy() const {
  bring(bytes);
  HostArray out(shape);
  if (decode) {
    decode(out.as<float>());
    check_intact(bytes, name);
  } else if (!bytes.empty()) {
    std::memcpy(out.bytes.data(), bytes.data(), bytes.size());
    check_intact(bytes, name);
  }
  return out;
}

TensorFile TensorFile::open(const std::filesystem::path& path) {
  if (is_pickle_name(path)) {
    return PickleFile::open(path);
  }
  return SafetensorsFile::open(path);
}

const TensorView* TensorFile::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

const TensorView& TensorFile::at(std::string_view name) const {
  const TensorView* tensor = find(name);
  check(tensor != nullptr, "[safetensors] {} has no tensor `{}` among its {}", path_, name,
        tensors_.size());
  return *tensor;
}

bool is_pickle_name(const std::filesystem::path& path) {
  constexpr std::array<std::string_view, 5> kEnds{".pth", ".pt", ".ckpt", ".bin", ".pkl"};
  return std::ranges::find(kEnds, path.extension().string()) != kEnds.end();
}

}  // namespace kinema::io
