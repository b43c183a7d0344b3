#include <algorithm>
#include <utility>

#include "core/error.h"
#include "io/mapped_file.h"
#include "pjrt/upload.h"
#include "weights/folder.h"
#include "weights/parallel.h"
#include "weights/weights.h"

namespace kinema::weights {
namespace {

/// Bytes of a file that are read before their pages are given back. A multiple of every dtype's
/// width.
constexpr size_t kPiece = size_t{16} << 20;

/// A tensor of the file and what becomes of it.
struct Source {
  const io::TensorView* view;
  std::string key;
};

class Loader {
 public:
  Loader(const Checkpoint& checkpoint, std::span<const nn::ParamSpec> specs,
         const Adapters& adapters, const pjrt::Client& client)
      : checkpoint_(checkpoint), specs_(specs), adapters_(adapters), client_(client) {
    for (const nn::ParamSpec& spec : specs_) {
      for (int64_t layer = 0; layer < spec.count(); ++layer) {
        const std::string key = spec.key(layer);
        sources_.push_back({&checkpoint.at(key), key});
      }
    }
  }

  std::vector<pjrt::Buffer> operator()() {
    std::vector<pjrt::Buffer> buffers;
    buffers.reserve(specs_.size());
    size_t next = 0;
    for (const nn::ParamSpec& spec : specs_) {
      pjrt::Upload upload(client_, spec.shape);
      for (int64_t layer = 0; layer < spec.count(); ++layer) {
        const Source& source = sources_[next++];
        if (next < sources_.size()) {
          io::will_read(sources_[next].view->bytes);  // the disk works while this one is cast
        }
        read(source, spec.shape.dtype, upload);
        io::check_intact(source.view->bytes, checkpoint_.path());
      }
      buffers.push_back(upload.finish());
    }
    checkpoint_.check_intact();
    return buffers;
  }

 private:
  void read(const Source& source, DType dtype, pjrt::Upload& upload) {
    if (adapters_.change(source.key)) {
      merge(source, dtype, upload);
      return;
    }
    const std::span<const std::byte> bytes = source.view->bytes;
    for (size_t at = 0; at < bytes.size(); at += kPiece) {
      const auto piece = bytes.subspan(at, std::min(kPiece, bytes.size() - at));
      upload.write(cast(piece, source.view->shape.dtype, dtype));
      io::release_pages(piece);
    }
  }

  /// With what adapters add: computed in f32 and rounded once.
  void merge(const Source& source, DType dtype, pjrt::Upload& upload) const {
    HostArray values = convert(source.view->copy(), DType::F32);
    io::release_pages(source.view->bytes);
    adapters_.add_to(source.key, values.as<float>());
    upload.write(dtype == DType::F32 ? values.bytes : convert(values, dtype).bytes);
  }

  /// The piece itself, or its values as another dtype, which the next call overwrites.
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
    in_parallel(static_cast<int64_t>(elements), 1 << 18, [&](int64_t first, int64_t last) {
      const auto begin = static_cast<size_t>(first);
      const auto count = static_cast<size_t>(last - first);
      convert(piece.subspan(begin * in, count * in), from, result.subspan(begin * out, count * out),
              to);
    });
    return result;
  }

  const Checkpoint& checkpoint_;
  std::span<const nn::ParamSpec> specs_;
  const Adapters& adapters_;
  const pjrt::Client& client_;
  std::vector<Source> sources_;  // in the order in which they are read
  std::vector<std::byte> cast_;
};

}  // namespace

std::vector<pjrt::Buffer> load_tensors(const Checkpoint& checkpoint,
                                       std::span<const nn::ParamSpec> specs,
                                       const pjrt::Client& client,
                                       std::span<const Adapter> adapters) {
  const Adapters changes(adapters, specs);
  return Loader(checkpoint, specs, changes, client)();
}

std::vector<pjrt::Buffer> load(const std::filesystem::path& path,
                               std::span<const nn::ParamSpec> specs, pjrt::Client& client,
                               std::span<const Adapter> adapters) {
  const Checkpoint checkpoint = Checkpoint::open(path);
  check_tensors(checkpoint, specs);
  return load_tensors(checkpoint, specs, client, adapters);
}

}  // namespace kinema::weights
