// The formats: github.com/pytorch/pytorch, torch/serialization.py, _save and _legacy_save.
#include "kinema/io/pickle_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/core/printable.h"
#include "kinema/io/pickle.h"
#include "kinema/io/zip.h"

namespace kinema::io {
namespace {

constexpr std::string_view kBigEndian =
    "is big-endian, which is not read\n  save it on a little-endian machine, as safetensors";

/// The number that begins torch's files before its zip format.
constexpr std::array<uint8_t, 10> kTorchMagic{0x6c, 0xfc, 0x9c, 0x46, 0xf9,
                                              0x20, 0x6a, 0xa8, 0x50, 0x19};

bool is_text(const PickleValue& value) {
  return value.kind == PickleKind::TEXT || value.kind == PickleKind::BYTES;
}

std::string shown_name(std::string_view name) {
  constexpr size_t kMost = 120;
  return printable_line(name.substr(0, kMost)) + (name.size() > kMost ? "..." : "");
}

/// Whether the elements are in order without gaps.
bool is_contiguous(const PickleTensor& tensor) {
  int64_t expected = 1;
  for (size_t i = tensor.dims.size(); i > 0; --i) {
    if (tensor.dims[i - 1] != 1 && tensor.strides[i - 1] != expected) {
      return false;
    }
    expected *= tensor.dims[i - 1];
  }
  return true;
}

/// The place of the last element; nothing if it overflows, or if elements may overlap: ordered by
/// stride, each stride must be greater than what the axes with smaller strides span.
std::optional<int64_t> last_element(const PickleTensor& tensor) {
  std::vector<std::pair<int64_t, int64_t>> axes;  // stride, size
  for (size_t i = 0; i < tensor.dims.size(); ++i) {
    if (tensor.dims[i] > 1) {
      axes.emplace_back(tensor.strides[i], tensor.dims[i]);
    }
  }
  std::ranges::sort(axes);
  int64_t last = 0;
  for (const auto& [stride, size] : axes) {
    int64_t span = 0;
    if (stride <= last || __builtin_mul_overflow(stride, size - 1, &span) ||
        __builtin_add_overflow(last, span, &last)) {
      return std::nullopt;
    }
  }
  return __builtin_add_overflow(last, tensor.offset, &last) ? std::nullopt : std::optional(last);
}

/// The elements in order: axis by axis from the outermost, rows of the last one at a time.
std::vector<std::byte> gathered(std::span<const std::byte> source, const PickleTensor& tensor) {
  const auto width = static_cast<size_t>(byte_size(tensor.dtype));
  const int64_t elements = checked_elements(tensor.dims);
  std::vector<std::byte> out(static_cast<size_t>(elements) * width);
  Dims at(tensor.dims.size());
  int64_t from = tensor.offset;
  for (int64_t i = 0; i < elements; ++i) {
    std::memcpy(out.data() + static_cast<size_t>(i) * width,
                source.data() + static_cast<size_t>(from) * width, width);
    for (size_t axis = at.size(); axis > 0; --axis) {
      from += tensor.strides[axis - 1];
      if (++at[axis - 1] < tensor.dims[axis - 1]) {
        break;
      }
      from -= at[axis - 1] * tensor.strides[axis - 1];
      at[axis - 1] = 0;
    }
  }
  return out;
}

}  // namespace

class PickleFileReader {
 public:
  PickleFileReader(std::span<const std::byte> bytes, const std::string& source)
      : bytes_(bytes), source_(source) {
    out_.path_ = source;
  }

  PickleFile read() {
    if (is_zip(bytes_)) {
      read_zip();
    } else {
      check(bytes_.empty() || bytes_[0] != std::byte{'<'},
            "[pickle] {} is a web page, not weights\n  the server answered with it in the file's "
            "place: it says why",
            source_);
      pickle_ = Pickle::read(bytes_, source_);
      if (is_torch_magic(pickle_[pickle_.root])) {
        read_legacy();
      }
    }
    add_all();
    // Texts of old protocols hold the bytes of arrays.
    std::ranges::move(pickle_.made, std::back_inserter(out_.copies_));
    return std::move(out_);
  }

 private:
  void read_zip() {
    const ZipArchive zip = ZipArchive::parse(bytes_, source_);
    constexpr std::string_view kPickle = "data.pkl";
    std::string folder;
    bool found = false;
    for (const auto& [name, file] : zip.files()) {
      const bool inside = name.ends_with(std::string("/") + std::string(kPickle)) &&
                          name.find('/') + 1 + kPickle.size() == name.size();
      if (inside || name == kPickle) {
        check(!found, "[torch] {} has several files {}", source_, kPickle);
        found = true;
        folder = name.substr(0, name.size() - kPickle.size());
      }
    }
    check(found, "[torch] {} is a zip archive without {}, expected a file of torch.save", source_,
          kPickle);
    check(!zip.has(folder + "constants.pkl"),
          "[torch] {} is a program of torch.jit.save, which is not read\n"
          "  save its tensors: torch.save(torch.jit.load(FILE).state_dict(), FILE)",
          source_);
    const auto order = zip.find(folder + "byteorder");
    check(order.empty() || order[0] != std::byte{'b'}, "[torch] {} {}", source_, kBigEndian);
    pickle_ = Pickle::read(zip.find(folder + std::string(kPickle)), source_);
    const std::string data = folder + "data/";
    for (const auto& [name, file] : zip.files()) {
      if (name.starts_with(data)) {
        storages_.emplace(name.substr(data.size()), zip.find(name));
      }
    }
  }

  static bool is_torch_magic(const PickleValue& value) {
    return value.kind == PickleKind::LONG && value.bytes.size() == kTorchMagic.size() &&
           std::memcmp(value.bytes.data(), kTorchMagic.data(), kTorchMagic.size()) == 0;
  }

  /// Pickles of: the number, a version, the machine, the tensors, the storages' keys. The storages
  /// follow, each after its count of elements.
  void read_legacy() {
    size_t at = pickle_.size;
    const auto next = [&] {
      Pickle out = Pickle::read(bytes_.subspan(at), source_);
      at += out.size;
      return out;
    };
    const Pickle version = next();
    constexpr int64_t kVersion = 1001;
    check(version[version.root].kind == PickleKind::INT && version[version.root].number == kVersion,
          "[torch] {} is of an unknown version of torch's old format, expected {}", source_,
          kVersion);
    const Pickle machine = next();
    const PickleValue* little = machine.find(machine[machine.root], "little_endian");
    check(little == nullptr || little->number != 0, "[torch] {} {}", source_, kBigEndian);
    pickle_ = next();
    std::map<std::string_view, int64_t> widths;
    for (const PickleValue& value : pickle_.values) {
      if (value.kind == PickleKind::STORAGE) {
        widths.emplace(value.text(), value.dtype ? byte_size(*value.dtype) : 1);
      }
    }
    const Pickle keys = next();
    for (const PickleId id : keys[keys.root].items) {
      const auto width = widths.find(keys[id].text());
      check(width != widths.end(), "[torch] {} has a storage `{}` that no tensor has", source_,
            shown_name(keys[id].text()));
      int64_t count = 0;
      check(bytes_.size() - at >= sizeof(count),
            "[torch] {} ends before its storages (is it "
            "truncated?)",
            source_);
      std::memcpy(&count, bytes_.data() + at, sizeof(count));
      at += sizeof(count);
      check(count >= 0 && static_cast<uint64_t>(count) <=
                              (bytes_.size() - at) / static_cast<uint64_t>(width->second),
            "[torch] {}: a storage of {} elements goes beyond its end (is it truncated?)", source_,
            count);
      const auto size = static_cast<size_t>(count * width->second);
      storages_.emplace(keys[id].text(), bytes_.subspan(at, size));
      at += size;
    }
  }

  /// The dict with the tensors becomes the tensors; what is beside it, the metadata.
  void add_all() {
    const PickleValue& root = pickle_[pickle_.root];
    check(root.kind == PickleKind::DICT,
          "[pickle] {} has no dict of tensors\n  save one: torch.save(model.state_dict(), FILE)",
          source_);
    const PickleValue* with_tensors = nullptr;
    for (const char* key : {"state_dict", "model_state_dict", "model", "module", "params"}) {
      const PickleValue* inner = pickle_.find(root, key);
      if (with_tensors == nullptr && inner != nullptr && has_tensors(*inner)) {
        with_tensors = inner;
      }
    }
    add_dict(with_tensors == nullptr ? root : *with_tensors, "", nullptr, 0);
    if (with_tensors != nullptr) {
      only_texts_ = true;
      add_dict(root, "", with_tensors, 0);
    }
    check(!out_.tensors_.empty(), "[pickle] {} has no tensors in its dict", source_);
  }

  bool has_tensors(const PickleValue& dict) const {
    return dict.kind == PickleKind::DICT && std::ranges::any_of(dict.items, [&](PickleId id) {
             return pickle_[id].kind == PickleKind::TENSOR;
           });
  }

  /// Adds the values of a dict, except for one.
  void add_dict(const PickleValue& dict, const std::string& prefix, const PickleValue* except,
                int depth) {
    constexpr int kDeepest = 32;
    check(depth < kDeepest, "[pickle] {} is nested more than {} levels deep", source_, kDeepest);
    for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
      // A dict that is used many times has many names.
      constexpr size_t kMostEntries = 1'000'000;
      check(++entries_ <= kMostEntries, "[pickle] {} has more than {} entries", source_,
            kMostEntries);
      const PickleValue& key = pickle_[dict.items[i]];
      const PickleValue& value = pickle_[dict.items[i + 1]];
      if ((!is_text(key) && key.kind != PickleKind::INT) || &value == except) {
        continue;
      }
      constexpr size_t kLongest = 1024;
      check(prefix.size() + key.bytes.size() <= kLongest,
            "[pickle] {}: a name has more than {} bytes", source_, kLongest);
      std::string name =
          prefix + (is_text(key) ? std::string(key.text()) : std::to_string(key.number));
      if (value.kind == PickleKind::DICT) {
        add_dict(value, name + ".", except, depth + 1);
      } else if (value.kind == PickleKind::TENSOR && !only_texts_) {
        add_tensor(std::move(name), pickle_.tensors[value.tensor]);
      } else {
        add_text(std::move(name), value);
      }
    }
  }

  void add_text(std::string name, const PickleValue& value) {
    constexpr size_t kMostTexts = 10'000;
    constexpr size_t kLongest = 4096;
    if (out_.metadata_.size() >= kMostTexts) {
      return;
    }
    if (value.kind == PickleKind::INT) {
      out_.metadata_.emplace(std::move(name), std::to_string(value.number));
    } else if (value.kind == PickleKind::FLOAT) {
      out_.metadata_.emplace(std::move(name), fmt::format("{}", value.real));
    } else if (value.kind == PickleKind::TEXT && value.bytes.size() <= kLongest) {
      out_.metadata_.emplace(std::move(name), std::string(value.text()));
    }
  }

  std::span<const std::byte> source_of(const PickleTensor& tensor, const std::string& name) const {
    const PickleValue& source = pickle_[tensor.source];
    if (source.kind == PickleKind::BYTES) {
      return source.bytes;
    }
    const auto found = storages_.find(source.text());
    check(found != storages_.end(), "[torch] {}: the storage of `{}` is not in the file", source_,
          shown_name(name));
    return found->second;
  }

  void add_tensor(std::string name, const PickleTensor& tensor) {
    const auto source = source_of(tensor, name);
    const auto width = byte_size(tensor.dtype);
    const bool is_empty = std::ranges::find(tensor.dims, 0) != tensor.dims.end() &&
                          checked_elements(tensor.dims) == 0;
    const std::optional<int64_t> last = is_empty ? std::optional<int64_t>(0) : last_element(tensor);
    check(last.has_value(),
          "[pickle] {}: elements of `{}` {} with strides {} overlap, expected separate ones\n"
          "  save a copy of it: tensor.contiguous()",
          source_, shown_name(name), to_string(tensor.dims), to_string(tensor.strides));
    const auto there = static_cast<int64_t>(source.size()) / width;
    check(is_empty || *last < there,
          "[pickle] {}: `{}` {} ends at element {} of a storage of {} (is it truncated?)", source_,
          shown_name(name), to_string(tensor.dims), *last, there);
    const Shape shape{tensor.dtype, tensor.dims};
    std::span<const std::byte> bytes;
    if (!is_empty && is_contiguous(tensor)) {
      bytes = source.subspan(static_cast<size_t>(tensor.offset * width),
                             static_cast<size_t>(shape.bytes()));
    } else if (!is_empty) {
      copied_ += static_cast<size_t>(shape.bytes());
      check(copied_ <= bytes_.size(),
            "[pickle] {}: tensors that are not in order in the file make more bytes than it has\n"
            "  save copies of them: tensor.contiguous()",
            source_);
      bytes = out_.copies_.emplace_back(gathered(source, tensor));
    }
    check(out_.index_.emplace(name, out_.tensors_.size()).second,
          "[pickle] {}: the name `{}` comes twice", source_, shown_name(name));
    out_.tensors_.push_back({std::move(name), shape, bytes});
  }

  std::span<const std::byte> bytes_;
  const std::string& source_;
  Pickle pickle_;
  std::map<std::string, std::span<const std::byte>, std::less<>> storages_;
  PickleFile out_;
  size_t entries_ = 0;
  size_t copied_ = 0;
  bool only_texts_ = false;
};

PickleFile PickleFile::open(const std::filesystem::path& path) {
  MappedFile file = MappedFile::open(path);
  PickleFile out = file.parsed([&](auto bytes) { return parse(bytes, path.string()); });
  out.file_ = std::move(file);
  return out;
}

PickleFile PickleFile::parse(std::span<const std::byte> bytes, const std::string& source) {
  return PickleFileReader(bytes, source).read();
}

}  // namespace kinema::io
