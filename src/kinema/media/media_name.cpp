#include "kinema/media/media_name.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <string_view>

namespace kinema::media {
namespace {

constexpr std::array<std::string_view, 18> kVideoExtensions = {
    ".mp4", ".m4v",  ".mov", ".avi", ".mkv", ".webm", ".gif", ".mpg", ".mpeg",
    ".ts",  ".m2ts", ".mts", ".wmv", ".flv", ".ogv",  ".3gp", ".y4m", ".ivf"};
constexpr std::array<std::string_view, 10> kImageExtensions = {
    ".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".webp", ".avif", ".tif", ".tiff", ".bmp"};

std::string lower_extension(const std::string& name) {
  std::string out = std::filesystem::path(name).extension().string();
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

}  // namespace

bool is_video_name(const std::string& name) {
  return std::ranges::find(kVideoExtensions, lower_extension(name)) != kVideoExtensions.end();
}

bool is_image_name(const std::string& name) {
  return std::ranges::find(kImageExtensions, lower_extension(name)) != kImageExtensions.end();
}

std::string unread_image_name(const std::string& name) {
  struct Format {
    std::string_view name;
    std::array<std::string_view, 10> extensions;
  };
  constexpr std::array<Format, 7> kUnread{{
      {"HEIC", {".heic", ".heif", ".hif"}},
      {"JPEG XL", {".jxl"}},
      {"JPEG 2000", {".jp2", ".j2k", ".j2c", ".jpc", ".jpf", ".jpx"}},
      {"Photoshop", {".psd", ".psb"}},
      {"HDR", {".exr", ".hdr"}},
      {"SVG", {".svg"}},
      {"raw", {".cr2", ".cr3", ".nef", ".arw", ".dng", ".raf", ".orf", ".rw2", ".pef", ".srw"}},
  }};
  const std::string extension = lower_extension(name);
  const auto* found = std::ranges::find_if(kUnread, [&](const Format& each) {
    return !extension.empty() &&
           std::ranges::find(each.extensions, extension) != each.extensions.end();
  });
  return found == kUnread.end() ? "" : std::string(found->name);
}

}  // namespace kinema::media
