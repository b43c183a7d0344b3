#include "kinema/io/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "kinema/core/error.h"
#include "kinema/core/printable.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/file_format.h"

namespace kinema::io {
namespace {

// The format's own limit on the header (safetensors/src/tensor.rs, MAX_HEADER_SIZE).
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr size_t kMaxRank = 64;

struct DTypeName {
  DType dtype;
  std::string_view name;
};
constexpr DTypeName kDTypeNames[] = {
    {DType::PRED, "BOOL"},      {DType::S8, "I8"},
    {DType::S16, "I16"},        {DType::S32, "I32"},
    {DType::S64, "I64"},        {DType::U8, "U8"},
    {DType::U16, "U16"},        {DType::U32, "U32"},
    {DType::U64, "U64"},        {DType::F16, "F16"},
    {DType::BF16, "BF16"},      {DType::F32, "F32"},
    {DType::F64, "F64"},        {DType::F8E4M3FN, "F8_E4M3"},
    {DType::F8E5M2, "F8_E5M2"},
};

std::string_view name_of(DType dtype) {
  for (const DTypeName& known : kDTypeNames) {
    if (known.dtype == dtype) {
      return known.name;
    }
  }
  fail("[safetensors] {} has no name in the format", to_string(dtype));
}

std::optional<DType> dtype_of(std::string_view name) {
  for (const DTypeName& known : kDTypeNames) {
    if (known.name == name) {
      return known.dtype;
    }
  }
  return std::nullopt;
}

/// A name, shortened for messages.
std::string shown(std::string_view text) {
  constexpr size_t kMost = 120;
  return printable(text.substr(0, kMost)) + (text.size() > kMost ? "..." : "");
}

struct HeaderEntry {
  std::string name;
  std::string dtype;
  Dims dims;
  std::vector<uint64_t> offsets;
  bool have_dtype = false;
  bool have_shape = false;
  bool have_offsets = false;
};

// Parses the header as events of a fixed form, so that hostile JSON is an error as soon as it
// leaves that form, and is never built in memory.
struct HeaderReader : nlohmann::json_sax<nlohmann::json> {
  enum class At { Start, Names, Tensor, Shape, Offsets, Metadata, Done };

  explicit HeaderReader(const std::string& path) : path(path) {}

  [[noreturn]] void refuse(std::string_view what) const {
    if (at == At::Start) {
      fail("[safetensors] {}: the header is not a JSON object", path);
    }
    fail("[safetensors] {}: header: {}{}", path,
         name.empty() ? "" : fmt::format("tensor `{}`: ", shown(name)), what);
  }

  bool null() override { refuse("null where the format has no null"); }
  bool boolean(bool /*value*/) override { refuse("a boolean where the format has none"); }
  bool binary(nlohmann::json::binary_t& /*value*/) override { return false; }
  bool number_float(double /*value*/, const std::string& text) override {
    refuse(fmt::format("the number {} must be a whole number of 64 bits", shown(text)));
  }
  bool number_integer(int64_t value) override {
    refuse(fmt::format("{} is negative", value));  // nlohmann reports others as unsigned
  }
  bool number_unsigned(uint64_t value) override {
    if (at == At::Shape) {
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        refuse(fmt::format("the size {} is too large", value));
      }
      if (entries.back().dims.size() >= kMaxRank) {
        refuse(fmt::format("more than {} axes", kMaxRank));
      }
      entries.back().dims.push_back(static_cast<int64_t>(value));
    } else if (at == At::Offsets && entries.back().offsets.size() < 2) {
      entries.back().offsets.push_back(value);
    } else {
      refuse("a number where none was expected");
    }
    return true;
  }
  bool string(std::string& value) override {
    if (at == At::Tensor && field == "dtype") {
      entries.back().dtype = value;
      entries.back().have_dtype = true;
    } else if (at == At::Metadata) {
      if (!metadata.emplace(field, value).second) {
        refuse(fmt::format("the metadata key `{}` appears twice", shown(field)));
      }
    } else {
      refuse("a string where none was expected");
    }
    return true;
  }
  bool start_object(size_t /*size*/) override {
    if (at == At::Start) {
      at = At::Names;
    } else if (at == At::Names && field == "__metadata__") {
      at = At::Metadata;
    } else if (at == At::Names) {
      name = field;
      if (!names.insert(name).second) {
        refuse("the name appears twice");
      }
      entries.emplace_back().name = name;
      at = At::Tensor;
    } else {
      refuse("an object where none was expected");
    }
    field.clear();
    return true;
  }
  bool end_object() override {
    if (at == At::Tensor) {
      const HeaderEntry& entry = entries.back();
      if (!entry.have_dtype || !entry.have_shape || !entry.have_offsets) {
        refuse("needs `dtype`, `shape` and `data_offsets`");
      }
      name.clear();
    }
    at = at == At::Names ? At::Done : At::Names;
    return true;
  }
  bool start_array(size_t /*size*/) override {
    HeaderEntry* entry = at == At::Tensor ? &entries.back() : nullptr;
    if (entry != nullptr && field == "shape" && !entry->have_shape) {
      entry->have_shape = true;
      at = At::Shape;
    } else if (entry != nullptr && field == "data_offsets" && !entry->have_offsets) {
      entry->have_offsets = true;
      at = At::Offsets;
    } else {
      refuse("a list where none was expected");
    }
    return true;
  }
  bool end_array() override {
    if (at == At::Offsets && entries.back().offsets.size() != 2) {
      refuse("`data_offsets` must be two numbers");
    }
    at = At::Tensor;
    return true;
  }
  bool key(std::string& value) override {
    if (at == At::Tensor && value != "dtype" && value != "shape" && value != "data_offsets") {
      refuse(fmt::format("unknown key `{}`", shown(value)));
    }
    if (at == At::Tensor && value == "dtype" && entries.back().have_dtype) {
      refuse("`dtype` appears twice");
    }
    if (at == At::Names && value == "__metadata__" && !names.insert(value).second) {
      refuse("`__metadata__` appears twice");
    }
    field = std::move(value);
    return true;
  }
  bool parse_error(size_t position, const std::string& token,
                   const nlohmann::json::exception& /*error*/) override {
    fail("[safetensors] {}: the header is not JSON (at its byte {}, `{}`)", path, position,
         shown(token));
  }

  const std::string& path;
  At at = At::Start;
  std::string name;   // of the tensor being read
  std::string field;  // the key last seen
  std::set<std::string> names;
  std::vector<HeaderEntry> entries;
  std::map<std::string, std::string> metadata;
};

// Shape and dtype of an entry against its offsets and the size of the data.
Shape checked_shape(const HeaderEntry& entry, uint64_t data_bytes, const std::string& path) {
  const std::string name = shown(entry.name);
  const auto dtype = dtype_of(entry.dtype);
  check(dtype.has_value(), "[safetensors] {}: tensor `{}` has dtype `{}`, which is not supported{}",
        path, name, shown(entry.dtype),
        entry.dtype.starts_with("F8_") ? ": take the bf16, fp16 or fp32 file of this model" : "");
  uint64_t bytes = static_cast<uint64_t>(byte_size(*dtype));
  for (const int64_t size : entry.dims) {
    check(!__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes),
          "[safetensors] {}: the shape {} of tensor `{}` overflows", path, to_string(entry.dims),
          name);
  }
  const uint64_t begin = entry.offsets[0];
  const uint64_t end = entry.offsets[1];
  check(begin <= end, "[safetensors] {}: tensor `{}` ends at byte {} before it begins at {}", path,
        name, end, begin);
  check(end <= data_bytes,
        "[safetensors] {}: tensor `{}` lies at bytes {} to {} but the file has {} bytes of data",
        path, name, begin, end, data_bytes);
  check(end - begin == bytes,
        "[safetensors] {}: tensor `{}` is {}{}, which needs {} bytes, but data_offsets give {}",
        path, name, to_string(*dtype), to_string(entry.dims), bytes, end - begin);
  return {*dtype, entry.dims};
}

// Every byte of the data must belong to exactly one tensor.
void check_cover(const std::vector<HeaderEntry>& entries, uint64_t data_bytes,
                 const std::string& path) {
  uint64_t position = 0;
  for (const HeaderEntry& entry : entries) {
    check(entry.offsets[0] >= position,
          "[safetensors] {}: tensor `{}` begins at byte {} inside the tensor before it", path,
          shown(entry.name), entry.offsets[0]);
    check(entry.offsets[0] == position,
          "[safetensors] {}: bytes {} to {} before tensor `{}` belong to no tensor", path, position,
          entry.offsets[0], shown(entry.name));
    position = entry.offsets[1];
  }
  check(position == data_bytes,
        "[safetensors] {}: {} bytes after the last tensor belong to no tensor", path,
        data_bytes - position);
}

// The length of the header, checked against the file's size before the header is read.
uint64_t header_length(std::span<const std::byte> bytes, const std::string& path) {
  check(bytes.size() >= 8,
        "[safetensors] {} has {} bytes: too short for a safetensors file (is it truncated?)", path,
        bytes.size());
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) {
    length = length << 8 | static_cast<uint64_t>(bytes[static_cast<size_t>(i)]);
  }
  check(length <= kMaxHeaderBytes || bytes[0] != std::byte{'<'},
        "[safetensors] {} is a web page, not weights\n  the server answered with it in the file's "
        "place: it says why",
        path);
  const FileFormat format = file_format(bytes);
  check(length <= bytes.size() - 8 || !format, "[safetensors] {}",
        wrong_format_text(path, format, "safetensors"));
  check(length <= kMaxHeaderBytes,
        "[safetensors] {}: the header claims {} bytes, more than the format's limit of {}", path,
        length, kMaxHeaderBytes);
  check(length <= bytes.size() - 8,
        "[safetensors] {}: the header claims {} bytes but the file has only {} (is it truncated?)",
        path, length, bytes.size());
  return length;
}

}  // namespace

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  MappedFile file = MappedFile::open(path);
  SafetensorsFile out = file.parsed([&](auto bytes) { return parse(bytes, path.string()); });
  out.file_ = std::move(file);
  return out;
}

SafetensorsFile SafetensorsFile::parse(std::span<const std::byte> bytes,
                                       const std::string& source) {
  const uint64_t length = header_length(bytes, source);
  const auto* text = reinterpret_cast<const char*>(bytes.data()) + 8;
  HeaderReader header(source);
  nlohmann::json::sax_parse(text, text + length, &header);

  std::ranges::stable_sort(header.entries, {}, [](const HeaderEntry& e) {
    return std::pair(e.offsets[0], e.offsets[1]);
  });
  const std::span<const std::byte> data = bytes.subspan(8 + length);
  SafetensorsFile out;
  out.path_ = source;
  out.metadata_ = std::move(header.metadata);
  out.tensors_.reserve(header.entries.size());
  for (const HeaderEntry& entry : header.entries) {
    Shape shape = checked_shape(entry, data.size(), source);
    out.index_.emplace(entry.name, out.tensors_.size());
    out.tensors_.push_back({entry.name, std::move(shape),
                            data.subspan(entry.offsets[0], entry.offsets[1] - entry.offsets[0])});
  }
  check_cover(header.entries, data.size(), source);
  return out;
}

TensorEntry TensorEntry::of(std::string name, const HostArray& array) {
  return {std::move(name), array.shape,
          [&array](const ByteSink& sink) { sink(std::span(array.bytes)); }};
}

TensorEntry TensorEntry::of(std::string name, const TensorView& view) {
  if (view.decode) {
    return lazy(std::move(name), view.shape, [&view] { return view.copy(); });
  }
  return {std::move(name), view.shape, [bytes = view.bytes](const ByteSink& sink) { sink(bytes); }};
}

TensorEntry TensorEntry::lazy(std::string name, Shape shape, std::function<HostArray()> make) {
  std::function<void(const ByteSink&)> source = [name, shape,
                                                 make = std::move(make)](const ByteSink& sink) {
    const HostArray array = make();
    check(array.shape == shape, "[safetensors] `{}` was announced as {} but is {}", name,
          to_string(shape), to_string(array.shape));
    sink(std::span(array.bytes));
  };
  return {std::move(name), std::move(shape), std::move(source)};
}

uint64_t write_safetensors(const std::filesystem::path& path, std::span<const TensorEntry> entries,
                           const std::map<std::string, std::string>& metadata) {
  // Wide elements first, so that every tensor is aligned to its element size in a mapping.
  std::vector<const TensorEntry*> order;
  std::set<std::string_view> names;
  for (const TensorEntry& entry : entries) {
    check(entry.name != "__metadata__" && names.insert(entry.name).second,
          "[safetensors] {}: the tensor name `{}` appears twice or is reserved", path.string(),
          entry.name);
    order.push_back(&entry);
  }
  std::ranges::stable_sort(order, std::greater<>(),
                           [](const TensorEntry* entry) { return byte_size(entry->shape.dtype); });

  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) {
    header["__metadata__"] = metadata;
  }
  int64_t offset = 0;
  for (const TensorEntry* entry : order) {
    const int64_t bytes = entry->shape.bytes();
    header[entry->name] = {{"dtype", name_of(entry->shape.dtype)},
                           {"shape", entry->shape.dims},
                           {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  text.append((8 - text.size() % 8) % 8, ' ');

  AtomicFile file(path);
  std::string length(8, '\0');
  for (size_t i = 0; i < 8; ++i) {
    length[i] = static_cast<char>(text.size() >> (8 * i) & 0xff);
  }
  file.write(length);
  file.write(text);
  for (const TensorEntry* entry : order) {
    const uint64_t before = file.written();
    entry->write([&file](std::span<const std::byte> bytes) { file.write(bytes); });
    check(file.written() - before == static_cast<uint64_t>(entry->shape.bytes()),
          "[safetensors] `{}` is {} and needs {} bytes but gave {}", entry->name,
          to_string(entry->shape), entry->shape.bytes(), file.written() - before);
  }
  file.commit();
  return file.written();
}

}  // namespace kinema::io
