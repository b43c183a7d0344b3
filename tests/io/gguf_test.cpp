#include "kinema/io/gguf.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "arrays.h"
#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/mapped_file.h"
#include "kinema/io/safetensors.h"

namespace kinema::io {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

// Written by the package `gguf` (tools/golden/make_gguf.py), with the values that it decodes.
TEST(Gguf, DecodesEveryTypeAsTheReferenceDoes) {
  const GgufFile file = GgufFile::open(golden("gguf/types.gguf"));
  const SafetensorsFile expected = SafetensorsFile::open(golden("gguf/types.safetensors"));
  EXPECT_EQ(file.texts().at("general.architecture"), "wan");
  ASSERT_EQ(file.tensors().size(), 14U);
  for (const TensorView& tensor : file.tensors()) {
    SCOPED_TRACE(tensor.name);
    const HostArray found = convert(tensor.copy(), DType::F32);
    const HostArray wanted = expected.at(tensor.name).copy();
    ASSERT_EQ(found.shape, wanted.shape);
    for (size_t i = 0; i < wanted.as<float>().size(); ++i) {
      // Each value is a product, or a difference of two: f32 rounds each once, in the same order.
      ASSERT_EQ(found.as<float>()[i], wanted.as<float>()[i]) << i;
    }
  }
}

TEST(Gguf, EncodesQ8AsTheReferenceDoes) {
  const SafetensorsFile file = SafetensorsFile::open(golden("gguf/types.safetensors"));
  const HostArray values = file.at("to_q8_0").copy();
  const HostArray wanted = file.at("q8_0").copy();
  std::vector<std::byte> found(wanted.bytes.size());
  ggml_encode_q8_0(values.as<float>(), found);
  EXPECT_EQ(found, wanted.bytes);
}

std::vector<float> floats(const HostArray& array) {
  return {array.as<float>().begin(), array.as<float>().end()};
}

TEST(Gguf, ReadsWhatItWrites) {
  const Scratch scratch;
  const HostArray matrix = normal({5, 64}, 1);
  const HostArray five = normal({3, 2, 1, 2, 2}, 2);
  const HostArray bias = normal({7}, 3);
  const std::vector<GgufEntry> entries{
      {"q", matrix.shape.dims, GgmlType::Q8_0, [&] { return floats(matrix); }},
      {"half", matrix.shape.dims, GgmlType::F16, [&] { return floats(matrix); }},
      {"five", five.shape.dims, GgmlType::F32, [&] { return floats(five); }},
      {"bias", bias.shape.dims, GgmlType::BF16, [&] { return floats(bias); }}};
  write_gguf(scratch / "a.gguf", entries, {{"general.architecture", "wan"}});

  const GgufFile file = GgufFile::open(scratch / "a.gguf");
  ASSERT_EQ(file.tensors().size(), 4U);
  const HostArray q = file.tensors()[0].copy();
  ASSERT_EQ(q.shape, matrix.shape);
  for (size_t i = 0; i < q.as<float>().size(); ++i) {
    // Half a code, which is a 127th of the largest of 32 normal values, below 5.
    EXPECT_NEAR(q.as<float>()[i], matrix.as<float>()[i], 0.5 * 5 / 127);
  }
  EXPECT_EQ(file.tensors()[1].copy().bytes, convert(matrix, DType::F16).bytes);
  EXPECT_EQ(file.tensors()[2].shape, five.shape);
  EXPECT_EQ(file.tensors()[2].copy().bytes, five.bytes);
  // With its own dimensions, not merged to four with the shape in metadata, which diffusers does
  // not read.
  EXPECT_EQ(read_text(scratch / "a.gguf").find("orig_shape"), std::string::npos);
  EXPECT_EQ(file.tensors()[3].copy().bytes, convert(bias, DType::BF16).bytes);
  EXPECT_EQ(fs::file_size(scratch / "a.gguf") % 32, 0U);
  EXPECT_THAT(
      [&] {
        write_gguf(scratch / "b.gguf", std::vector<GgufEntry>{{"x", {2, 33}, GgmlType::Q8_0, {}}},
                   {});
      },
      ThrowsMessage<Error>(HasSubstr("`x` [2,33] cannot be written")));
  EXPECT_FALSE(fs::exists(scratch / "b.gguf"));
}

/// Marks a file as one of a split model: adds metadata of a multiple of the alignment, after the
/// counts.
void mark_split(const fs::path& path, uint16_t number, uint16_t count, int32_t tensors) {
  std::string added;
  const auto add = [&](const auto& value) {
    added.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  const auto key = [&](const std::string& name, uint32_t type) {
    add(uint64_t{name.size()});
    added += name;
    add(type);
  };
  key("split.no", 2);
  add(number);
  key("split.count", 2);
  add(count);
  key("split.tensors.count", 5);
  add(tensors);
  key("padding", 8);
  const size_t padding = (32 - (added.size() + 8) % 32) % 32;
  add(uint64_t{padding});
  added.append(padding, 'x');
  std::string text = read_text(path);
  constexpr size_t kEntries = 16;  // their count, and its end
  uint64_t entries = 0;
  std::memcpy(&entries, text.data() + kEntries, sizeof(entries));
  entries += 4;
  std::memcpy(text.data() + kEntries, &entries, sizeof(entries));
  write_file(path, text.insert(kEntries + 8, added));
}

TEST(Gguf, ReadsAllFilesOfASplitModel) {
  const Scratch scratch;
  const auto part = [&](int number) {
    return scratch / fmt::format("wan-{:05}-of-00003.gguf", number + 1);
  };
  const auto write = [&](int number, const std::string& name, uint16_t said, int32_t tensors = 3) {
    const std::vector<GgufEntry> one{{name, {2}, GgmlType::F32, [number] {
                                        return std::vector<float>(2, static_cast<float>(number));
                                      }}};
    write_gguf(part(number), one, {});
    mark_split(part(number), said, 3, tensors);
  };
  write(0, "a", 0);
  write(2, "c", 2);
  EXPECT_THAT([&] { open_gguf(part(0)); },
              ThrowsMessage<Error>(AllOf(HasSubstr("one of 3 files of a model"),
                                         HasSubstr("wan-00002-of-00003.gguf is missing"))));
  write(1, "b", 1);
  for (const int given : {0, 1, 2}) {
    const std::vector<GgufFile> files = open_gguf(part(given));
    ASSERT_EQ(files.size(), 3U);
    for (size_t i = 0; i < files.size(); ++i) {
      ASSERT_EQ(files[i].tensors().size(), 1U);
      EXPECT_EQ(files[i].tensors()[0].name, std::string(1, static_cast<char>('a' + i)));
      EXPECT_EQ(files[i].tensors()[0].copy().as<float>()[0], static_cast<float>(i));
    }
  }
  write(1, "a", 1);
  EXPECT_THAT([&] { open_gguf(part(0)); },
              ThrowsMessage<Error>(HasSubstr("00002-of-00003.gguf: `a` is also in an earlier")));
  write(1, "b", 2);
  EXPECT_THAT([&] { open_gguf(part(0)); },
              ThrowsMessage<Error>(HasSubstr("is file 2 of 3 by its name, but 3 of 3")));
  write(1, "b", 1);
  write(0, "a", 0, 4);
  EXPECT_THAT([&] { open_gguf(part(0)); },
              ThrowsMessage<Error>(HasSubstr("have 3 tensors, expected 4")));
  fs::rename(part(0), scratch / "wan.gguf");
  EXPECT_THAT([&] { open_gguf(scratch / "wan.gguf"); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("is file 1 of 3"), HasSubstr("NAME-00001-of-00003.gguf"))));
}

/// A file of one tensor, whose fields can be changed one by one.
struct Fields {
  std::string magic = "GGUF";
  uint32_t version = 3;
  uint64_t tensors = 1, entries = 0;
  uint64_t name_length = 1;
  uint32_t axes = 1;
  uint64_t size = 32;
  uint32_t type = 8;
  uint64_t offset = 0;
  size_t data = 34;

  std::string bytes() const {
    std::string out = magic;
    const auto add = [&](const auto& value) {
      out.append(reinterpret_cast<const char*>(&value), sizeof(value));
    };
    add(version);
    add(tensors);
    add(entries);
    add(name_length);
    out += "x";
    add(axes);
    for (uint32_t i = 0; i < std::min(axes, 9U); ++i) {
      add(size);
    }
    add(type);
    add(offset);
    out.append((32 - out.size() % 32) % 32, '\0');
    return out.append(data, '\1');
  }
};

void refuses(const Fields& fields, const std::string& why) {
  SCOPED_TRACE(why);
  const std::string text = fields.bytes();
  EXPECT_THAT([&] { GgufFile::parse(std::as_bytes(std::span(text)), "input"); },
              ThrowsMessage<Error>(HasSubstr(why)));
}

TEST(Gguf, NamesWhatIsWrong) {
  const std::string good = Fields{}.bytes();
  EXPECT_EQ(GgufFile::parse(std::as_bytes(std::span(good)), "input").tensors().size(), 1U);
  for (size_t cut = 0; cut < good.size(); ++cut) {
    EXPECT_THROW(GgufFile::parse(std::as_bytes(std::span(good).first(cut)), "input"), Error) << cut;
  }
  refuses({.magic = "GGML"}, "does not begin with GGUF");
  refuses({.version = 1}, "version 1");
  refuses({.version = 0x03000000}, "is big-endian");
  refuses({.tensors = uint64_t{1} << 60}, "claims");
  refuses({.entries = uint64_t{1} << 60}, "claims");
  refuses({.name_length = ~uint64_t{0}}, "truncated");
  refuses({.axes = 0}, "has 0 axes");
  refuses({.axes = 9}, "has 9 axes");
  refuses({.size = 33}, "not a multiple of Q8_0's 32");
  refuses({.size = uint64_t{1} << 62}, "long");
  refuses({.axes = 8, .size = 1 << 10}, "");
  refuses({.type = 16}, "ggml type 16, which is not supported");
  refuses({.offset = 1, .data = 64}, "offset 1, expected a multiple of the alignment 32");
  refuses({.offset = 32}, "has 34 bytes");
  refuses({.offset = ~uint64_t{0}}, "has 34 bytes");
  refuses({.data = 33}, "has 34 bytes");
}

// An infinite scale with code 0, and a NaN scale.
TEST(Gguf, NamesTheTensorWhoseScaleIsNotFinite) {
  for (const uint16_t half : {0x7c00, 0x7e00, 0xfc00}) {
    Fields fields;
    std::string text = fields.bytes();
    text.replace(text.size() - 34, 3,
                 {static_cast<char>(half & 0xff), static_cast<char>(half >> 8), '\0'});
    const GgufFile file = GgufFile::parse(std::as_bytes(std::span(text)), "input");
    EXPECT_THAT([&] { file.tensors()[0].copy(); },
                ThrowsMessage<Error>(HasSubstr("input: `x`: a scale of block 0 of 1")));
    EXPECT_THAT([&] { file.check_scales(); },
                ThrowsMessage<Error>(HasSubstr("input: `x`: a scale of block 0 of 1")));
  }
}

// Infinity at every position of a block: where it changes anything it is a scale, and every scale
// is checked.
TEST(Gguf, ReadsTheScalesOfEveryTypeWithoutItsValues) {
  const GgufFile file = GgufFile::open(golden("gguf/types.gguf"));
  EXPECT_NO_THROW(file.check_scales());
  size_t scales = 0;
  for (const GgmlType type :
       {GgmlType::Q4_0, GgmlType::Q4_1, GgmlType::Q5_0, GgmlType::Q5_1, GgmlType::Q8_0,
        GgmlType::Q2_K, GgmlType::Q3_K, GgmlType::Q4_K, GgmlType::Q5_K, GgmlType::Q6_K}) {
    const GgmlLayout& layout = *ggml_layout(static_cast<uint32_t>(type));
    SCOPED_TRACE(layout.name);
    const auto size = static_cast<size_t>(layout.bytes);
    for (size_t at = 0; at + 1 < size; at += 2) {
      std::vector<std::byte> bytes(2 * size, std::byte{1});
      bytes[size + at] = std::byte{0};
      bytes[size + at + 1] = std::byte{0x7c};
      std::vector<float> values(static_cast<size_t>(2 * layout.values));
      const auto throws = [&](const auto& read) {
        try {
          read();
          return false;
        } catch (const Error& error) {
          EXPECT_THAT(error.what(), HasSubstr("x: a scale of block 1 of 2 is not finite"));
          return true;
        }
      };
      const bool is_scale = throws([&] { ggml_decode(type, bytes, values, "x"); });
      EXPECT_EQ(throws([&] { ggml_check_scales(type, bytes, "x"); }), is_scale) << at;
      scales += is_scale ? 1 : 0;
    }
  }
  EXPECT_EQ(scales, 15U) << "one of Q4_0, Q5_0, Q8_0, Q3_K and Q6_K, two of the others";
}

TEST(Gguf, RefusesQ8OfNonFiniteValues) {
  std::vector<std::byte> bytes(68);
  for (const float value : {NAN, INFINITY, -INFINITY, 1e7F}) {
    std::vector<float> values(64, 1.0F);
    values[40] = value;
    EXPECT_THAT([&] { ggml_encode_q8_0(values, bytes, "`x`"); },
                ThrowsMessage<Error>(HasSubstr("`x`: values")));
  }
  // The smallest numbers have no finite inverse.
  const std::vector<float> values(64, 1e-43F);
  ggml_encode_q8_0(values, bytes);
  EXPECT_EQ(bytes, std::vector<std::byte>(68));
}

// Two tensors of 64 bytes each; the second one's offset lies within the first.
TEST(Gguf, RefusesOverlappingTensors) {
  const Scratch scratch;
  const HostArray values = normal({16}, 1);
  const std::vector<GgufEntry> entries{
      {"one", {16}, GgmlType::F32, [&] { return floats(values); }},
      {"two", {16}, GgmlType::F32, [&] { return floats(values); }}};
  write_gguf(scratch / "a.gguf", entries, {});
  std::string text = read_text(scratch / "a.gguf");
  const size_t at = text.find("two") + 3 + 4 + 8 + 4;  // after axes, size, type
  ASSERT_EQ(text[at], 64);
  text[at] = 32;
  EXPECT_THAT([&] { GgufFile::parse(std::as_bytes(std::span(text)), "input"); },
              ThrowsMessage<Error>(HasSubstr("`two` overlaps `one`")));
}

}  // namespace
}  // namespace kinema::io
