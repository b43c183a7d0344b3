// The format: github.com/ggml-org/ggml, docs/gguf.md.
#include "kinema/io/gguf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "kinema/core/bf16.h"
#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/file_format.h"

namespace kinema::io {

namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr uint64_t kAlignment = 32;
constexpr size_t kMostAxes = 8;
/// Prefix of the metadata with shapes of more than ggml's four axes, in some writers.
constexpr std::string_view kShapeKey = "comfy.gguf.orig_shape.";

constexpr std::string_view kSplitKey = "split.";

/// Type numbers of metadata.
enum class Kind : uint32_t { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 };

size_t width(Kind kind) {
  constexpr std::array<size_t, 13> kWidths{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kWidths[static_cast<size_t>(kind)];
}

bool is_integer(Kind kind) { return kind <= Kind::I32; }

}  // namespace

class GgufReader {
 public:
  GgufReader(std::span<const std::byte> bytes, std::string source)
      : bytes_(bytes), source_(std::move(source)) {}

  GgufFile read() {
    const FileFormat format = file_format(bytes_);
    const bool is_gguf = take(4) == kMagic;
    check(is_gguf || !format, "[gguf] {}", wrong_format_text(source_, format, "GGUF"));
    check(is_gguf, "[gguf] {} does not begin with GGUF", source_);
    const auto version = number<uint32_t>();
    constexpr uint32_t kSwapped2 = 0x02000000;
    constexpr uint32_t kSwapped3 = 0x03000000;
    check(version != kSwapped2 && version != kSwapped3,
          "[gguf] {} is big-endian, which is not supported\n  gguf-py's gguf_convert_endian.py "
          "makes it "
          "little-endian",
          source_);
    check(version == 2 || version == 3, "[gguf] {} is of version {}: 2 and 3 are read", source_,
          version);
    const auto tensors = number<uint64_t>();
    const auto entries = number<uint64_t>();
    // The minimum size of each kind of entry bounds the counts.
    check(tensors <= left() / 24 && entries <= left() / 12,
          "[gguf] {} claims {} tensors and {} entries in {} bytes", source_, tensors, entries,
          bytes_.size());
    for (uint64_t i = 0; i < entries; ++i) {
      metadata();
    }
    std::vector<Info> infos;
    for (uint64_t i = 0; i < tensors; ++i) {
      infos.push_back(info());
    }
    const uint64_t start = (at_ + alignment_ - 1) / alignment_ * alignment_;
    std::set<std::string> names;
    for (const Info& each : infos) {
      check(names.insert(each.name).second, "[gguf] {}: the tensor `{}` appears twice", source_,
            each.name);
      add(each, start);
    }
    check_overlaps();
    out_.path_ = source_;
    return std::move(out_);
  }

 private:
  struct Info {
    std::string name;
    Dims dims;
    uint32_t type;
    uint64_t offset;
  };

  size_t left() const { return bytes_.size() - at_; }

  std::string_view take(uint64_t count) {
    check(count <= left(),
          "[gguf] {}: {} bytes are needed at {}, but {} are left (is it truncated?)", source_,
          count, at_, left());
    const auto* text = reinterpret_cast<const char*>(bytes_.data()) + at_;
    at_ += count;
    return {text, static_cast<size_t>(count)};
  }

  template <typename T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }

  std::string_view text() { return take(number<uint64_t>()); }

  Kind kind() {
    const auto read = number<uint32_t>();
    check(read <= static_cast<uint32_t>(Kind::F64), "[gguf] {}: metadata of the unknown type {}",
          source_, read);
    return static_cast<Kind>(read);
  }

  void metadata() {
    const std::string key(text());
    const Kind type = kind();
    if (type == Kind::STRING) {
      out_.texts_.emplace(key, text());
    } else if (type == Kind::ARRAY) {
      array(key);
    } else if (key == "general.alignment" && type == Kind::U32) {
      alignment_ = number<uint32_t>();
      check(std::has_single_bit(alignment_) && alignment_ <= (1U << 20),
            "[gguf] {}: the alignment {} is not a power of two", source_, alignment_);
    } else if (key.starts_with(kSplitKey) && is_integer(type)) {
      split(key.substr(kSplitKey.size()), integer(type));
    } else {
      take(width(type));
    }
  }

  /// A number of at most four bytes, as the splits' are.
  int64_t integer(Kind type) {
    switch (type) {
      case Kind::U8:
        return number<uint8_t>();
      case Kind::U16:
        return number<uint16_t>();
      case Kind::U32:
        return number<uint32_t>();
      case Kind::I8:
        return number<int8_t>();
      case Kind::I16:
        return number<int16_t>();
      default:
        return number<int32_t>();
    }
  }

  void split(std::string_view key, int64_t value) {
    GgufFile::Split& split = out_.split_;
    split.number = key == "no" ? value : split.number;
    split.count = key == "count" ? value : split.count;
    split.tensors = key == "tensors.count" ? value : split.tensors;
  }

  void array(const std::string& key) {
    const Kind type = kind();
    const auto count = number<uint64_t>();
    check(type != Kind::ARRAY, "[gguf] {}: `{}` is an array of arrays", source_, key);
    if (type == Kind::STRING) {
      check(count <= left() / 8, "[gguf] {}: `{}` claims {} texts", source_, key, count);
      for (uint64_t i = 0; i < count; ++i) {
        text();
      }
      return;
    }
    check(count <= left() / width(type), "[gguf] {}: `{}` claims {} values", source_, key, count);
    if (key.starts_with(kShapeKey) && type == Kind::I32 && count <= kMostAxes) {
      Dims dims;
      for (uint64_t i = 0; i < count; ++i) {
        dims.push_back(number<int32_t>());
      }
      shapes_[key.substr(kShapeKey.size())] = std::move(dims);
    } else {
      take(count * width(type));
    }
  }

  Info info() {
    Info out{.name = std::string(text())};
    const auto axes = number<uint32_t>();
    check(axes >= 1 && axes <= kMostAxes, "[gguf] {}: `{}` has {} axes", source_, out.name, axes);
    for (uint32_t i = 0; i < axes; ++i) {
      const auto size = number<uint64_t>();
      check(size <= bytes_.size() * 2 * 32, "[gguf] {}: axis {} of `{}` is {} long", source_, i,
            out.name, size);
      out.dims.insert(out.dims.begin(),
                      static_cast<int64_t>(size));  // the file has the fastest axis first
    }
    out.type = number<uint32_t>();
    out.offset = number<uint64_t>();
    return out;
  }

  /// The original shape in the metadata, if it has the same number of elements.
  Dims shape_of(const Info& info, int64_t elements) const {
    const auto found = shapes_.find(info.name);
    if (found == shapes_.end()) {
      return info.dims;
    }
    check(std::ranges::all_of(found->second, [](int64_t size) { return size > 0; }) &&
              checked_elements(found->second) == elements,
          "[gguf] {}: `{}` is {}, which is not the shape {} in the metadata", source_, info.name,
          to_string(info.dims), to_string(found->second));
    return found->second;
  }

  void add(const Info& info, uint64_t start) {
    const GgmlLayout* layout = ggml_layout(info.type);
    check(
        layout != nullptr,
        "[gguf] {}: `{}` is of ggml type {}, which is not supported\n  F32, F16, BF16, Q2_K to "
        "Q6_K, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL and IQ4_XS are: take such a file of the model",
        source_, info.name, info.type);
    const int64_t elements = checked_elements(info.dims);
    check(info.dims.back() % layout->values == 0,
          "[gguf] {}: rows of `{}` are {} long, not a multiple of {}'s {}", source_, info.name,
          info.dims.back(), layout->name, layout->values);
    const uint64_t size =
        static_cast<uint64_t>(elements / layout->values) * static_cast<uint64_t>(layout->bytes);
    check(start <= bytes_.size() && info.offset <= bytes_.size() - start &&
              size <= bytes_.size() - start - info.offset,
          "[gguf] {}: `{}` is at {} and has {} bytes, but the file has {} (is it truncated?)",
          source_, info.name, start + info.offset, size, bytes_.size());
    check(info.offset % alignment_ == 0,
          "[gguf] {}: `{}` has the offset {}, expected a multiple of the alignment {}", source_,
          info.name, info.offset, alignment_);
    const auto data = bytes_.subspan(start + info.offset, size);
    const auto type = static_cast<GgmlType>(info.type);
    TensorView view{.name = info.name,
                    .shape = {plain_dtype(type).value_or(DType::F32), shape_of(info, elements)},
                    .bytes = data};
    if (!plain_dtype(type)) {
      view.decode = [type, data, what = source_ + ": `" + info.name + "`"](
                        std::span<float> values) { ggml_decode(type, data, values, what); };
    }
    out_.tensors_.push_back(std::move(view));
    out_.types_.push_back(type);
  }

  void check_overlaps() const {
    std::vector<const TensorView*> order;
    for (const TensorView& tensor : out_.tensors_) {
      order.push_back(&tensor);
    }
    std::ranges::stable_sort(order, {}, [](const TensorView* t) { return t->bytes.data(); });
    for (size_t i = 1; i < order.size(); ++i) {
      const TensorView& before = *order[i - 1];
      check(order[i]->bytes.data() >= before.bytes.data() + before.bytes.size(),
            "[gguf] {}: `{}` overlaps `{}`, expected separate bytes", source_, order[i]->name,
            before.name);
    }
  }

  static std::optional<DType> plain_dtype(GgmlType type) {
    switch (type) {
      case GgmlType::F32:
        return DType::F32;
      case GgmlType::F16:
        return DType::F16;
      case GgmlType::BF16:
        return DType::BF16;
      default:
        return std::nullopt;
    }
  }

  std::span<const std::byte> bytes_;
  std::string source_;
  size_t at_ = 0;
  uint64_t alignment_ = kAlignment;
  std::map<std::string, Dims> shapes_;
  GgufFile out_;
};

GgufFile GgufFile::open(const std::filesystem::path& path) {
  MappedFile file = MappedFile::open(path);
  GgufFile out = file.parsed([&](auto bytes) { return parse(bytes, path.string()); });
  out.file_ = std::move(file);
  return out;
}

GgufFile GgufFile::parse(std::span<const std::byte> bytes, const std::string& source) {
  return GgufReader(bytes, source).read();
}

namespace {

class Writer {
 public:
  explicit Writer(AtomicFile& file) : file_(file) {}

  template <typename T>
  void number(T value) {
    char raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    file_.write(std::string_view(raw, sizeof(T)));
  }
  void text(std::string_view value) {
    number<uint64_t>(value.size());
    file_.write(value);
  }
  void pad() {
    file_.write(std::string((kAlignment - file_.written() % kAlignment) % kAlignment, '\0'));
  }

 private:
  AtomicFile& file_;
};

uint64_t written_bytes(const GgufEntry& entry) {
  const GgmlLayout& layout = *ggml_layout(static_cast<uint32_t>(entry.type));
  return static_cast<uint64_t>(checked_elements(entry.dims) / layout.values * layout.bytes);
}

std::vector<std::byte> encoded(const GgufEntry& entry, std::span<const float> values) {
  std::vector<std::byte> out(written_bytes(entry));
  if (entry.type == GgmlType::Q8_0) {
    ggml_encode_q8_0(values, out, "`" + entry.name + "`");
    return out;
  }
  const DType dtype = entry.type == GgmlType::F32   ? DType::F32
                      : entry.type == GgmlType::F16 ? DType::F16
                                                    : DType::BF16;
  convert(std::as_bytes(values), DType::F32, out, dtype);
  return out;
}

}  // namespace

void GgufFile::check_scales() const {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    ggml_check_scales(types_[i], tensors_[i].bytes, path_ + ": `" + tensors_[i].name + "`");
    release_pages(tensors_[i].bytes);
  }
}

bool gguf_can_write(GgmlType type, const Dims& dims) {
  return type == GgmlType::F32 || type == GgmlType::F16 || type == GgmlType::BF16 ||
         (type == GgmlType::Q8_0 && !dims.empty() && dims.back() % 32 == 0);
}

void write_gguf(const std::filesystem::path& path, std::span<const GgufEntry> entries,
                const std::map<std::string, std::string>& texts) {
  std::set<std::string_view> names;
  for (const GgufEntry& entry : entries) {
    check(names.insert(entry.name).second, "[gguf] {}: the tensor name `{}` appears twice",
          path.string(), entry.name);
    check(gguf_can_write(entry.type, entry.dims), "[gguf] `{}` {} cannot be written as type {}",
          entry.name, to_string(entry.dims), static_cast<uint32_t>(entry.type));
  }
  AtomicFile file(path);
  Writer out(file);
  file.write(kMagic);
  out.number<uint32_t>(3);
  out.number<uint64_t>(entries.size());
  out.number<uint64_t>(texts.size());
  for (const auto& [key, value] : texts) {
    out.text(key);
    out.number(Kind::STRING);
    out.text(value);
  }
  uint64_t offset = 0;
  for (const GgufEntry& entry : entries) {
    // All axes, although ggml has four: published Wan files have five, and their readers expect
    // them.
    const Dims dims = entry.dims.empty() ? Dims{1} : entry.dims;
    out.text(entry.name);
    out.number(static_cast<uint32_t>(dims.size()));
    for (auto size = dims.rbegin(); size != dims.rend(); ++size) {
      out.number(static_cast<uint64_t>(*size));
    }
    out.number(entry.type);
    out.number(offset);
    offset += (written_bytes(entry) + kAlignment - 1) / kAlignment * kAlignment;
  }
  out.pad();
  for (const GgufEntry& entry : entries) {
    const std::vector<float> values = entry.values();
    check(static_cast<int64_t>(values.size()) == checked_elements(entry.dims),
          "[gguf] `{}` is {} but has {} values", entry.name, to_string(entry.dims), values.size());
    file.write(encoded(entry, values));
    out.pad();
  }
  file.commit();
}

}  // namespace kinema::io
