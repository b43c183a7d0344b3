// Models in several files, as llama.cpp's gguf-split writes them.
#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/io/gguf.h"

namespace kinema::io {
namespace {

/// `NAME-00002-of-00003.gguf`
struct PartName {
  std::string stem;  // `NAME`
  int64_t count = 0;

  std::string file(int64_t number) const {
    return fmt::format("{}-{:05}-of-{:05}.gguf", stem, number + 1, count);
  }
};

std::optional<PartName> part_name(const std::string& file) {
  constexpr std::string_view kEnd = "-00000-of-00000.gguf";
  if (file.size() <= kEnd.size()) {
    return std::nullopt;
  }
  const std::string_view end = std::string_view(file).substr(file.size() - kEnd.size());
  int64_t count = 0;
  for (size_t i = 0; i < kEnd.size(); ++i) {
    const bool is_digit = end[i] >= '0' && end[i] <= '9';
    if (kEnd[i] == '0' ? !is_digit : end[i] != kEnd[i]) {
      return std::nullopt;
    }
    constexpr size_t kCount = 10;  // the position of its digits
    count = i >= kCount && is_digit ? 10 * count + (end[i] - '0') : count;
  }
  return PartName{file.substr(0, file.size() - kEnd.size()), count};
}

/// Throws an Error unless the files are all of one split model.
void check_parts(const std::vector<GgufFile>& parts, const std::filesystem::path& path) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < parts.size(); ++i) {
    const GgufFile::Split& split = parts[i].split();
    check(
        split.count == std::ssize(parts) && split.number == static_cast<int64_t>(i),
        "[gguf] {} is file {} of {} by its name, but {} of {} by its metadata\n  give it the name "
        "that it was published under",
        parts[i].path(), i + 1, parts.size(), split.number + 1, split.count);
    for (const TensorView& tensor : parts[i].tensors()) {
      check(names.insert(tensor.name).second, "[gguf] {}: `{}` is also in an earlier file",
            parts[i].path(), tensor.name);
    }
  }
  const int64_t wanted = parts.front().split().tensors;
  check(wanted < 0 || wanted == std::ssize(names),
        "[gguf] the {} files of {} have {} tensors, expected {}\n  download them again",
        parts.size(), path.string(), names.size(), wanted);
}

}  // namespace

std::vector<GgufFile> open_gguf(const std::filesystem::path& path) {
  std::vector<GgufFile> out;
  const std::optional<PartName> name = part_name(path.filename().string());
  if (!name || name->count <= 1) {
    out.push_back(GgufFile::open(path));
    const GgufFile::Split& split = out[0].split();
    check(split.count <= 1,
          "[gguf] {} is file {} of {}, which its name does not tell\n  give all of them their "
          "names: NAME-{:05}-of-{:05}.gguf for this one",
          path.string(), split.number + 1, split.count, split.number + 1, split.count);
    return out;
  }
  for (int64_t i = 0; i < name->count; ++i) {
    const std::filesystem::path part = path.parent_path() / name->file(i);
    std::error_code ignored;
    check(std::filesystem::exists(part, ignored),
          "[gguf] {} is one of {} files of a model, of which {} is missing\n  download all of them "
          "into one folder",
          path.string(), name->count, part.filename().string());
    out.push_back(GgufFile::open(part));
  }
  check_parts(out, path);
  return out;
}

}  // namespace kinema::io
