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
  const std::string extension = lower_extension(name);
  return extension == ".heic" || extension == ".heif" || extension == ".hif" ? "HEIC"
         : extension == ".jxl"                                               ? "JPEG XL"
                                                                             : "";
}

}  // namespace kinema::media
