#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kinema/io/descriptor.h"
#include "kinema/io/json.h"

namespace kinema::http {

class EventStream;

/// Header fields in the order of the message; names are compared without case.
class Headers {
 public:
  using Field = std::pair<std::string, std::string>;

  Headers() = default;
  Headers(std::initializer_list<Field> fields);

  /// The first field's value, or empty.
  std::string_view get(std::string_view name) const;
  bool contains(std::string_view name) const;
  /// Adds a field. Line breaks and other control characters in the value become blanks, so that no
  /// value can begin a field of its own.
  Headers& add(std::string_view name, std::string_view value);
  /// Replaces all fields of this name by one.
  Headers& set(std::string_view name, std::string_view value);
  const std::vector<Field>& fields() const { return fields_; }

 private:
  std::vector<Field> fields_;
};

/// True if both are equal but for the case of ASCII letters.
bool equal_without_case(std::string_view a, std::string_view b);

/// A new file in a folder, which the destructor removes unless keep_as has moved it.
class ReceivedFile {
 public:
  /// Throws an Error if the folder does not take files.
  explicit ReceivedFile(const std::filesystem::path& folder);
  ReceivedFile(const ReceivedFile&) = delete;
  ReceivedFile& operator=(const ReceivedFile&) = delete;
  ~ReceivedFile();

  const std::filesystem::path& path() const { return path_; }
  /// The descriptor for writing; empty when it has been taken.
  io::Descriptor& file() { return file_; }
  /// Makes it durable and moves it within the file system. Throws an Error if that fails.
  void keep_as(const std::filesystem::path& path);

 private:
  std::filesystem::path path_;
  io::Descriptor file_;
};

/// A request, whose body lies in `body` or, for routes that say so, in `file`.
struct Request {
  std::string method;                         // GET, HEAD, POST, ...
  std::string target;                         // as sent: path and query
  std::string path;                           // the target's path, as sent
  std::map<std::string, std::string> query;   // decoded; the first of equal names
  std::map<std::string, std::string> params;  // the route's {names}, decoded
  Headers headers;
  std::string body;
  std::shared_ptr<ReceivedFile> file;
  std::string client;        // IP address
  bool is_loopback = false;  // the client is this machine
  bool is_secure = false;    // TLS

  /// A value of the query, or empty.
  std::string argument(const std::string& name) const;
  /// The media type of the body without parameters, in lower case: `application/json`.
  std::string media_type() const;
};

/// Bytes [begin, end) of an open file.
struct FileSlice {
  std::shared_ptr<const io::Descriptor> file;
  int64_t begin = 0;
  int64_t end = 0;
};

/// An answer: its body is a text, a part of a file, or events until the stream ends.
struct Response {
  int status = 200;
  Headers headers;
  std::string body;
  FileSlice file = {};
  std::shared_ptr<EventStream> events = {};
  uint64_t events_after = 0;  // the last event that the client has
};

/// A JSON answer on one line, not to be stored by caches.
Response json_response(int status, const io::Json& body);
/// A plain text answer.
Response text_response(int status, std::string text);
/// The standard phrase of a status: `Not Found`.
std::string_view reason(int status);

/// Thrown by handlers: an answer other than the wanted one, which the server's `error` function
/// turns into the form of the API that was asked.
class Refusal : public std::exception {
 public:
  Refusal(int status, std::string message, std::string param = {}, std::string code = {})
      : status(status),
        message(std::move(message)),
        param(std::move(param)),
        code(std::move(code)) {}
  const char* what() const noexcept override { return message.c_str(); }

  int status;
  std::string message;
  std::string param;  // the field of the request that is at fault; empty: none
  std::string code;   // a word for programs: `queue_full`
  Headers headers = {};
};

}  // namespace kinema::http
