#include "kinema/http/message.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "kinema/core/error.h"
#include "kinema/io/atomic_write.h"
#include "kinema/io/folder.h"

namespace kinema::http {
namespace {

namespace fs = std::filesystem;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

bool equal_without_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

Headers::Headers(std::initializer_list<Field> fields) {
  for (const auto& [name, value] : fields) {
    add(name, value);
  }
}

std::string_view Headers::get(std::string_view name) const {
  const auto found = std::ranges::find_if(
      fields_, [&](const Field& field) { return equal_without_case(field.first, name); });
  return found == fields_.end() ? std::string_view() : std::string_view(found->second);
}

bool Headers::contains(std::string_view name) const {
  return std::ranges::any_of(
      fields_, [&](const Field& field) { return equal_without_case(field.first, name); });
}

Headers& Headers::add(std::string_view name, std::string_view value) {
  std::string safe(value);
  std::ranges::replace_if(
      safe, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  fields_.emplace_back(std::string(name), std::move(safe));
  return *this;
}

Headers& Headers::set(std::string_view name, std::string_view value) {
  std::erase_if(fields_, [&](const Field& field) { return equal_without_case(field.first, name); });
  return add(name, value);
}

ReceivedFile::ReceivedFile(const fs::path& folder) {
  io::make_folder(folder);
  std::string name = (folder / "receiving-XXXXXX").string();
  file_ = io::Descriptor(mkostemp(name.data(), O_CLOEXEC));
  check(static_cast<bool>(file_), "[http] no file can be made in {}: {}", folder.string(),
        std::strerror(errno));
  path_ = name;
}

ReceivedFile::~ReceivedFile() {
  if (!path_.empty()) {
    unlink(path_.c_str());
  }
}

void ReceivedFile::keep_as(const fs::path& path) {
  const io::Descriptor file = io::Descriptor::open(path_, O_RDONLY);
  check(file && fsync(file.get()) == 0 && rename(path_.c_str(), path.c_str()) == 0,
        "[http] the received file cannot be stored as {}: {}", path.string(), std::strerror(errno));
  path_.clear();
  io::sync_folder(path.parent_path());
}

std::string Request::argument(const std::string& name) const {
  const auto found = query.find(name);
  return found == query.end() ? std::string() : found->second;
}

std::string Request::media_type() const {
  std::string_view type = headers.get("content-type");
  type = type.substr(0, type.find(';'));
  std::string out;
  for (const char c : type) {
    if (c != ' ' && c != '\t') {
      out += lower(c);
    }
  }
  return out;
}

Response json_response(int status, const io::Json& body) {
  return {.status = status,
          .headers = {{"Content-Type", "application/json"}, {"Cache-Control", "no-store"}},
          .body = body.dump(-1)};
}

Response text_response(int status, std::string text) {
  return {.status = status,
          .headers = {{"Content-Type", "text/plain; charset=utf-8"}, {"Cache-Control", "no-store"}},
          .body = std::move(text)};
}

std::string_view reason(int status) {
  static constexpr std::pair<int, std::string_view> kReasons[] = {
      {100, "Continue"},
      {200, "OK"},
      {201, "Created"},
      {202, "Accepted"},
      {204, "No Content"},
      {206, "Partial Content"},
      {303, "See Other"},
      {304, "Not Modified"},
      {400, "Bad Request"},
      {401, "Unauthorized"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {408, "Request Timeout"},
      {409, "Conflict"},
      {413, "Payload Too Large"},
      {415, "Unsupported Media Type"},
      {416, "Range Not Satisfiable"},
      {421, "Misdirected Request"},
      {422, "Unprocessable Entity"},
      {429, "Too Many Requests"},
      {431, "Request Header Fields Too Large"},
      {500, "Internal Server Error"},
      {503, "Service Unavailable"},
      {507, "Insufficient Storage"},
  };
  const auto* found = std::ranges::find(kReasons, status, &std::pair<int, std::string_view>::first);
  return found == std::end(kReasons) ? "Other" : found->second;
}

}  // namespace kinema::http
