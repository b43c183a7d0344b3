#include "kinema/io/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <numeric>
#include <span>
#include <string_view>

#include "io/scratch.h"
#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/file_format.h"
#include "kinema/io/gguf.h"
#include "kinema/io/json.h"
#include "kinema/io/mapped_file.h"

namespace kinema::io {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

HostArray counting(Dims dims) {
  HostArray out(Shape{DType::F32, std::move(dims)});
  std::iota(out.as<float>().begin(), out.as<float>().end(), 0.5F);
  return out;
}

size_t lines(const std::string& text) {
  return 1 + static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

TEST(Safetensors, RefusesEveryDamagedFileAndNamesIt) {
  const Json cases = Json::read(golden("corrupt/cases.json"));
  int refused = 0;
  for (const auto& [name, about] : cases.members()) {
    const Json* file = about.find("file");
    if (file == nullptr) {
      continue;
    }
    SCOPED_TRACE(name);
    const auto path = golden("corrupt") / file->as_string();
    const Json& refuse = about.at("refuse");
    if (refuse.kind() == Json::Kind::Bool && !refuse.as_bool()) {
      EXPECT_NO_THROW(SafetensorsFile::open(path));
      continue;
    }
    try {
      SafetensorsFile::open(path);
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      ++refused;
      EXPECT_THAT(error.what(), HasSubstr(file->as_string()));
      EXPECT_LE(lines(error.what()), 2U);
    }
  }
  EXPECT_EQ(refused, 17);
}

TEST(Safetensors, KnowsWhatIsSentInAFilesPlace) {
  const Scratch scratch;
  write_file(scratch / "page.safetensors", "<!DOCTYPE html><html>Access denied</html>");
  write_file(scratch / "pointer.safetensors",
             "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n");
  const auto refusal = [&](const char* name) {
    try {
      SafetensorsFile::open(scratch / name);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal("page.safetensors"), HasSubstr("page.safetensors is a web page"));
  EXPECT_THAT(refusal("pointer.safetensors"), HasSubstr("git lfs pull"));
}

TEST(Safetensors, NamesTheFormatOfAnotherFile) {
  const Scratch scratch;
  const auto refusal = [&](const std::string& begin, const char* name = "a.safetensors") {
    write_file(scratch / name, begin + std::string(600, '\0'));
    try {
      std::string_view(name).ends_with(".gguf")
          ? static_cast<void>(GgufFile::open(scratch / name))
          : static_cast<void>(SafetensorsFile::open(scratch / name));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal("PK\x03\x04"),
              HasSubstr("a.safetensors is a ZIP archive, expected safetensors\n  unpack it"));
  EXPECT_THAT(refusal("\x89PNG\r\n\x1a\n"), HasSubstr("is a PNG picture, expected safetensors"));
  EXPECT_THAT(refusal("GGUF\x03"), HasSubstr("is a GGUF file"));
  EXPECT_THAT(refusal("\x80\x02}q"), HasSubstr("is a pickle"));
  EXPECT_THAT(refusal(std::string("\0\0\0\x0cjP  \r\n\x87\n", 12)),
              HasSubstr("is a JPEG 2000 picture"));
  EXPECT_THAT(refusal("PK\x03\x04", "a.gguf"), HasSubstr("is a ZIP archive, expected GGUF"));
}

TEST(FileFormat, IsToldByTheFirstBytes) {
  const auto name = [](std::string text) {
    text.resize(600);
    return file_format(std::as_bytes(std::span(text))).name;
  };
  EXPECT_EQ(name("7z\xbc\xaf\x27\x1c"), "a 7z archive");
  EXPECT_EQ(name(std::string(257, '\0') + "ustar"), "a tar archive");
  EXPECT_EQ(name(std::string("\0\0\0\x18", 4) + "ftypheic"), "a HEIC picture");
  EXPECT_EQ(name(std::string("\0\0\0\x18", 4) + "ftypcrx "), "a camera's raw picture");
  EXPECT_EQ(name(std::string("\0\0\0\x18", 4) + "ftypisom"), "an MP4 or MOV video");
  EXPECT_EQ(name("RIFF1234WAVE"), "a WAV sound");
  EXPECT_EQ(name("RIFF1234WEBP"), "a WebP picture");
  EXPECT_EQ(name("\n <!DOCTYPE HTML><html>"), "a web page");
  EXPECT_EQ(name("<?xml version='1.0'?><svg>"), "an SVG drawing");
  EXPECT_EQ(name("a caption"), "");
  // A header of 640 bytes: its length begins as a pickle does.
  EXPECT_EQ(name(std::string("\x80\x02\0\0\0\0\0\0{", 9)), "");
  EXPECT_EQ(name(std::string("\x80\x02}q\0", 5)), "a pickle");
  EXPECT_FALSE(file_format(std::span<const std::byte>()));
  const Scratch scratch;
  EXPECT_FALSE(file_format(scratch.path()));
  EXPECT_FALSE(file_format(scratch / "absent"));
  EXPECT_TRUE(file_format(golden("images/tiff/pages.tiff")).is_media);
}

TEST(Safetensors, ReadsTheReferenceFile) {
  const SafetensorsFile file = SafetensorsFile::open(golden("corrupt/good.safetensors"));

  EXPECT_EQ(file.metadata().at("format"), "pt");
  ASSERT_EQ(file.tensors().size(), 3U);
  EXPECT_EQ(file.tensors()[0].name, "alpha");
  EXPECT_EQ(file.at("gamma").shape, (Shape{DType::F32, {2, 2, 2}}));
  EXPECT_EQ(file.at("gamma").bytes.size(), 32U);
  EXPECT_EQ(file.find("delta"), nullptr);
  EXPECT_THAT([&] { (void)file.at("delta"); },
              ThrowsMessage<Error>(HasSubstr("no tensor `delta`")));
}

TEST(Safetensors, WritesWhatItReadsBack) {
  const Scratch scratch;
  const HostArray wide = counting({2, 3});
  HostArray flags(Shape{DType::PRED, {3}});
  flags.bytes[1] = std::byte{1};
  const HostArray none(Shape{DType::BF16, {0, 4}});
  const HostArray scalar = counting({});
  const std::vector<TensorEntry> entries = {
      TensorEntry::of("flags", flags), TensorEntry::of("wide", wide), TensorEntry::of("none", none),
      TensorEntry::lazy("scalar \"quoted\"", scalar.shape, [&] { return scalar; })};

  const uint64_t size = write_safetensors(scratch / "a.safetensors", entries, {{"step", "7"}});
  const SafetensorsFile file = SafetensorsFile::open(scratch / "a.safetensors");

  EXPECT_EQ(std::filesystem::file_size(scratch / "a.safetensors"), size);
  EXPECT_EQ(file.metadata().at("step"), "7");
  EXPECT_EQ(file.at("wide").copy().bytes, wide.bytes);
  EXPECT_EQ(file.at("flags").copy().bytes, flags.bytes);
  EXPECT_EQ(file.at("none").shape, none.shape);
  EXPECT_EQ(file.at("scalar \"quoted\"").copy().bytes, scalar.bytes);
  for (const TensorView& tensor : file.tensors()) {
    SCOPED_TRACE(tensor.name);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.bytes.data()) %
                  static_cast<uintptr_t>(byte_size(tensor.shape.dtype)),
              0U);
  }
}

TEST(Safetensors, NamesEightBitFloatsAsOthersDo) {
  const Scratch scratch;
  HostArray e4m3(Shape{DType::F8E4M3FN, {2, 3}});
  HostArray e5m2(Shape{DType::F8E5M2, {5}});
  e4m3.bytes[4] = std::byte{0x7e};
  e5m2.bytes[1] = std::byte{0x7b};

  write_safetensors(scratch / "a.safetensors",
                    std::vector{TensorEntry::of("e4m3", e4m3), TensorEntry::of("e5m2", e5m2)});

  const SafetensorsFile file = SafetensorsFile::open(scratch / "a.safetensors");
  EXPECT_EQ(file.at("e4m3").shape, e4m3.shape);
  EXPECT_EQ(file.at("e4m3").copy().bytes, e4m3.bytes);
  EXPECT_EQ(file.at("e5m2").shape, e5m2.shape);
  EXPECT_EQ(file.at("e5m2").copy().bytes, e5m2.bytes);
  const std::string text = read_text(scratch / "a.safetensors");
  EXPECT_THAT(text, HasSubstr("\"dtype\":\"F8_E4M3\""));
  EXPECT_THAT(text, HasSubstr("\"dtype\":\"F8_E5M2\""));
}

TEST(Safetensors, LeavesTheOldFileWhenAnEntryFails) {
  const Scratch scratch;
  const HostArray first = counting({4});
  write_safetensors(scratch / "a.safetensors", std::vector{TensorEntry::of("x", first)});

  const TensorEntry short_entry{"x", Shape{DType::F32, {4}},
                                [](const ByteSink& sink) { sink(std::vector<std::byte>(3)); }};
  EXPECT_THAT([&] { write_safetensors(scratch / "a.safetensors", std::vector{short_entry}); },
              ThrowsMessage<Error>(HasSubstr("needs 16 bytes but gave 3")));

  EXPECT_EQ(SafetensorsFile::open(scratch / "a.safetensors").at("x").copy().bytes, first.bytes);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch.path()), {}), 1);
}

TEST(Safetensors, RefusesANameTwice) {
  const Scratch scratch;
  const HostArray x = counting({1});
  const std::vector entries = {TensorEntry::of("x", x), TensorEntry::of("x", x)};

  EXPECT_THROW(write_safetensors(scratch / "a.safetensors", entries), Error);
}

// The file size limit simulates a full disk: write() fails at the same point.
TEST(Safetensors, ReportsADiskThatRefuses) {
  const Scratch scratch;
  const HostArray large = counting({1 << 20});
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = ::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small { .rlim_cur = 1 << 20, .rlim_max = before.rlim_max };
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);

  EXPECT_THAT(
      [&] {
        write_safetensors(scratch / "a.safetensors", std::vector{TensorEntry::of("x", large)});
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("a.safetensors"), HasSubstr("File too large"))));

  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, old_handler);
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

TEST(Safetensors, RefusesGapsAndHeadersOfAnotherForm) {
  const auto file = [](std::string header, size_t data) {
    std::string out(8, '\0');
    out[0] = static_cast<char>(header.size());
    return out + header + std::string(data, '\0');
  };
  const std::pair<std::string, const char*> cases[] = {
      {file(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2), "belong to no tensor"},
      {file(R"({"a":{"dtype":"U8","shape":[1]}})", 1), "needs `dtype`"},
      {file(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,1]}})", 1), "none was expected"},
      {file(R"({"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})", 1), "whole number"},
      {file(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}})", 1),
       "unknown key `x`"},
      {file(R"({"__metadata__":{"a":1}})", 0), "a number where none"},
      {file(R"({"a":5})", 0), "a number where none"},
      {file(R"("text")", 0), "not a JSON object"},
      {file(R"({"a":{"dtype":{},"shape":[1],"data_offsets":[0,1]}})", 1), "an object where none"},
  };
  for (const auto& [bytes, cause] : cases) {
    SCOPED_TRACE(bytes.substr(8));
    const auto parse = [&b = bytes] {
      SafetensorsFile::parse(std::as_bytes(std::span(b)), "f.safetensors");
    };
    EXPECT_THAT(parse, ThrowsMessage<Error>(AllOf(HasSubstr("f.safetensors"), HasSubstr(cause))));
  }
}

}  // namespace
}  // namespace kinema::io
