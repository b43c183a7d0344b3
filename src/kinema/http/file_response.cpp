#include "kinema/http/file_response.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "kinema/http/ranges.h"

namespace kinema::http {
namespace {

/// The fields of every answer with content, and whether the client has it already.
bool is_known(const Request& request, std::string_view type, const std::string& tag,
              Response& out) {
  out.headers.add("Content-Type", type)
      .add("ETag", tag)
      .add("Cache-Control", "private, no-cache")
      .add("Accept-Ranges", "bytes");
  const std::string_view known = request.headers.get("if-none-match");
  if (known == "*" || known.find(tag) != known.npos) {
    out.status = 304;
    return true;
  }
  return false;
}

/// The part that is sent, by `Range` and `If-Range`.
ByteRange chosen_part(const Request& request, const std::string& tag, int64_t size, Response& out) {
  const std::string_view wanted = request.headers.get("if-range");
  const bool is_same = wanted.empty() || wanted == tag;
  ByteRange part = read_range(is_same ? request.headers.get("range") : "", size);
  if (part.kind == ByteRange::Kind::PART) {
    out.status = 206;
    out.headers.add("Content-Range", fmt::format("bytes {}-{}/{}", part.begin, part.end - 1, size));
  } else if (part.kind == ByteRange::Kind::IMPOSSIBLE) {
    out.status = 416;
    out.headers.add("Content-Range", fmt::format("bytes */{}", size));
  }
  return part;
}

}  // namespace

Response file_response(const Request& request, const std::filesystem::path& path,
                       std::string_view type) {
  auto file = std::make_shared<io::Descriptor>(
      io::Descriptor::open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
  struct stat about {};
  if (!*file || fstat(file->get(), &about) != 0 || !S_ISREG(about.st_mode)) {
    throw Refusal(404, "there is no such file");
  }
  const std::string tag = fmt::format("\"{:x}-{:x}-{:x}{:09}\"", about.st_ino, about.st_size,
                                      about.st_mtim.tv_sec, about.st_mtim.tv_nsec);
  Response out;
  if (is_known(request, type, tag, out)) {
    return out;
  }
  const ByteRange part = chosen_part(request, tag, about.st_size, out);
  if (out.status != 416) {
    out.file = {.file = file, .begin = part.begin, .end = part.end};
  }
  return out;
}

Response bytes_response(const Request& request, std::string_view bytes, std::string_view type,
                        std::string_view tag) {
  Response out;
  const std::string quoted = fmt::format("\"{}\"", tag);
  if (is_known(request, type, quoted, out)) {
    return out;
  }
  const ByteRange part = chosen_part(request, quoted, static_cast<int64_t>(bytes.size()), out);
  if (out.status != 416) {
    out.body = bytes.substr(part.begin, part.end - part.begin);
  }
  return out;
}

std::string_view media_type_of(const std::filesystem::path& name) {
  static constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
      {".png", "image/png"},   {".jpg", "image/jpeg"},        {".jpeg", "image/jpeg"},
      {".webp", "image/webp"}, {".gif", "image/gif"},         {".mp4", "video/mp4"},
      {".webm", "video/webm"}, {".json", "application/json"}, {".txt", "text/plain; charset=utf-8"},
  };
  for (const auto& [extension, type] : kTypes) {
    if (equal_without_case(name.extension().native(), extension)) {
      return type;
    }
  }
  return "application/octet-stream";
}

std::string attachment(std::string_view name) {
  std::string plain;
  std::string encoded;
  for (const unsigned char c : name) {
    const bool is_letter = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                           (c >= 'A' && c <= 'Z') || c == '-' || c == '_' || c == '.';
    plain += is_letter ? static_cast<char>(c) : '_';
    encoded += is_letter ? std::string(1, static_cast<char>(c)) : fmt::format("%{:02X}", c);
  }
  return fmt::format("attachment; filename=\"{}\"; filename*=UTF-8''{}", plain, encoded);
}

}  // namespace kinema::http
