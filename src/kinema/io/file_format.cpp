#include "kinema/io/file_format.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "kinema/io/descriptor.h"

namespace kinema::io {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kToGgufName = "its name must end with .gguf";
constexpr size_t kEnough = 512;

constexpr std::string_view kUnpack = "unpack it";
constexpr std::string_view kToPicture = "save it as PNG, JPEG or AVIF";
constexpr std::string_view kToSafetensors = "save its tensors as safetensors";

struct Signature {
  std::string_view bytes;
  FileFormat format;
  size_t at = 0;
};

// Each is from its format's specification.
constexpr Signature kSignatures[] = {
    {"PK\x03\x04"sv, {"a ZIP archive", kUnpack}},
    {"PK\x05\x06"sv, {"a ZIP archive", kUnpack}},  // an empty one
    {"7z\xbc\xaf\x27\x1c"sv, {"a 7z archive", kUnpack}},
    {"Rar!\x1a\x07"sv, {"a RAR archive", kUnpack}},
    {"\x1f\x8b\x08"sv, {"a gzip file", kUnpack}},
    {"\xfd"
     "7zXZ\0"sv,
     {"an xz file", kUnpack}},
    {"BZh"sv, {"a bzip2 file", kUnpack}},
    {"\x28\xb5\x2f\xfd"sv, {"a zstd file", kUnpack}},
    {"ustar"sv, {"a tar archive", kUnpack}, 257},
    {"\0\0\0\x0cjP  \r\n\x87\n"sv, {"a JPEG 2000 picture", kToPicture}},
    {"\xff\x4f\xff\x51"sv, {"a JPEG 2000 picture", kToPicture}},  // a codestream without a box
    {"\0\0\0\x0cJXL \r\n\x87\n"sv, {"a JPEG XL picture", kToPicture}},
    {"\xff\x0a"sv, {"a JPEG XL picture", kToPicture}},
    {"8BPS"sv, {"a Photoshop picture", kToPicture}},
    {"\x76\x2f\x31\x01"sv, {"an OpenEXR picture", kToPicture}},
    {"#?RADIANCE"sv, {"a Radiance HDR picture", kToPicture}},
    {"#?RGBE"sv, {"a Radiance HDR picture", kToPicture}},
    {"DDS "sv, {"a DDS texture", kToPicture}},
    {"\x89PNG\r\n\x1a\n"sv, {"a PNG picture", "", true}},
    {"\xff\xd8\xff"sv, {"a JPEG picture", "", true}},
    {"GIF8"sv, {"a GIF", "", true}},
    {"BM"sv, {"a BMP picture", "", true}},
    {"II*\0"sv, {"a TIFF picture", "", true}},
    {"MM\0*"sv, {"a TIFF picture", "", true}},
    {"\x1a\x45\xdf\xa3"sv, {"a Matroska or WebM video", "", true}},
    {"%PDF-"sv, {"a PDF document", "save its pages as PNG"}},
    {"ID3"sv, {"an MP3 sound", ""}},
    {"fLaC"sv, {"a FLAC sound", ""}},
    {"\x93NUMPY"sv, {"a NumPy array", kToSafetensors}},
    {"\x89HDF\r\n\x1a\n"sv, {"an HDF5 file", kToSafetensors}},
    {"GGUF"sv, {"a GGUF file", kToGgufName}},
    {"PAR1"sv, {"a Parquet file", "dataset_type=hf reads it"}},
    {"ARROW1"sv, {"an Arrow file", "dataset_type=hf reads it"}},
    {"SQLite format 3\0"sv, {"an SQLite database", ""}},
    {"\x80\x02"sv, {"a pickle", kToSafetensors}},
    {"\x80\x03"sv, {"a pickle", kToSafetensors}},
    {"\x80\x04"sv, {"a pickle", kToSafetensors}},
    {"\x80\x05"sv, {"a pickle", kToSafetensors}},
};

/// Files of ISO/IEC 14496-12 by their brand.
FileFormat by_brand(std::string_view brand) {
  constexpr std::array kHeic = {"heic"sv, "heix"sv, "hevc"sv, "heim"sv, "heis"sv, "mif1"sv};
  if (std::ranges::find(kHeic, brand) != kHeic.end()) {
    return {"a HEIC picture", kToPicture};
  }
  return brand == "avif"sv || brand == "avis"sv ? FileFormat{"an AVIF picture", "", true}
         : brand == "crx "sv                    ? FileFormat{"a camera's raw picture", kToPicture}
                                                : FileFormat{"an MP4 or MOV video", "", true};
}

/// True for safetensors: eight bytes with the header's length, whose first may be those of other
/// formats, then its JSON.
bool is_safetensors(std::string_view text) {
  return text.size() > 8 && text[8] == '{' && text.substr(5, 3) == "\0\0\0"sv;
}

FileFormat by_text(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  const size_t begin = lower.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos || lower[begin] != '<') {
    return {};
  }
  if (lower.find("<html") != std::string::npos ||
      lower.find("<!doctype html") != std::string::npos) {
    return {"a web page", "the server answered with it in the file's place: it says why"};
  }
  return lower.find("<svg") != std::string::npos ? FileFormat{"an SVG drawing", kToPicture}
                                                 : FileFormat{};
}

}  // namespace

FileFormat file_format(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                              std::min(bytes.size(), kEnough));
  if (is_safetensors(text)) {
    return {};
  }
  const auto found = std::ranges::find_if(kSignatures, [&](const Signature& each) {
    return text.size() > each.at && text.substr(each.at).starts_with(each.bytes);
  });
  if (found != std::end(kSignatures)) {
    return found->format;
  }
  if (text.size() >= 12 && text.substr(4, 4) == "ftyp") {
    return by_brand(text.substr(8, 4));
  }
  if (text.size() >= 12 && text.starts_with("RIFF")) {
    const std::string_view kind = text.substr(8, 4);
    return kind == "WEBP"   ? FileFormat{"a WebP picture", "", true}
           : kind == "WAVE" ? FileFormat{"a WAV sound", ""}
                            : FileFormat{"an AVI video", "", true};
  }
  return by_text(text);
}

FileFormat file_format(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) {
    return {};
  }
  const Descriptor file = Descriptor::open(path, O_RDONLY);
  std::array<std::byte, kEnough> bytes{};
  const ssize_t count = file ? ::read(file.get(), bytes.data(), bytes.size()) : 0;
  return file_format(std::span(bytes).first(static_cast<size_t>(std::max<ssize_t>(count, 0))));
}

std::string wrong_format_text(const std::string& path, const FileFormat& format,
                              std::string_view expected) {
  if (!format) {
    return "";
  }
  const bool has_its_name = format.remedy == kToGgufName && path.ends_with(".gguf");
  const std::string_view remedy =
      has_its_name ? "it holds no model that kinema reads" : format.remedy;
  return fmt::format("{} is {}, expected {}{}{}", path, format.name, expected,
                     remedy.empty() ? "" : "\n  ", remedy);
}

}  // namespace kinema::io
