#include "kinema/http/multipart.h"

#include <fmt/format.h>

#include <map>

#include "kinema/core/error.h"
#include "kinema/http/message.h"

namespace kinema::http {
namespace {

constexpr size_t kMaxParts = 256;
constexpr size_t kMaxHeader = 8192;
constexpr size_t kMaxBoundary = 70;  // RFC 2046, 5.1.1

std::string_view without_blanks(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == text.npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::string in_lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return out;
}

/// A field's value with its parameters: `form-data; name="a"; filename="b.png"`.
struct FieldValue {
  std::string value;
  std::map<std::string, std::string> parameters;
};

/// The quoted or plain value at the start of `text`, which is moved behind it.
std::string take_parameter(std::string_view& text) {
  std::string out;
  if (!text.starts_with('"')) {
    out = without_blanks(text.substr(0, text.find(';')));
    text.remove_prefix(std::min(text.find(';'), text.size()));
    return out;
  }
  size_t i = 1;
  for (; i < text.size() && text[i] != '"'; ++i) {
    // Browsers write a quote as %22 and leave a backslash alone; others escape a quote by one.
    if (text[i] == '\\' && i + 1 < text.size() && text[i + 1] == '"') {
      ++i;
    }
    out += text[i];
  }
  text.remove_prefix(std::min(i + 1, text.size()));
  text.remove_prefix(std::min(text.find(';'), text.size()));
  return out;
}

FieldValue read_field(std::string_view text) {
  FieldValue out;
  out.value = in_lower_case(without_blanks(text.substr(0, text.find(';'))));
  text.remove_prefix(std::min(text.find(';'), text.size()));
  while (text.starts_with(';')) {
    text.remove_prefix(1);
    const size_t equals = text.find_first_of("=;");
    if (equals == text.npos || text[equals] == ';') {
      text.remove_prefix(std::min(equals, text.size()));
      continue;
    }
    const std::string name = in_lower_case(without_blanks(text.substr(0, equals)));
    text.remove_prefix(equals + 1);
    const size_t blank = text.find_first_not_of(" \t");
    text.remove_prefix(std::min(blank, text.size()));
    out.parameters.emplace(name, take_parameter(text));
  }
  return out;
}

FormPart read_part(std::string_view headers, std::string_view content) {
  FormPart out{.content = content};
  bool has_name = false;
  while (!headers.empty()) {
    const std::string_view line = headers.substr(0, headers.find("\r\n"));
    headers.remove_prefix(std::min(line.size() + 2, headers.size()));
    const size_t colon = line.find(':');
    if (colon == line.npos) {
      continue;
    }
    const std::string_view name = line.substr(0, colon);
    const FieldValue field = read_field(line.substr(colon + 1));
    if (equal_without_case(name, "content-type")) {
      out.type = field.value;
    } else if (equal_without_case(name, "content-disposition")) {
      const auto of = field.parameters.find("name");
      const auto file = field.parameters.find("filename");
      has_name = field.value == "form-data" && of != field.parameters.end();
      out.name = of == field.parameters.end() ? "" : of->second;
      out.file_name = file == field.parameters.end() ? "" : file->second;
    }
  }
  check(has_name,
        "[http] a part of the form has no name, expected Content-Disposition: form-data; "
        "name=\"...\"");
  return out;
}

std::string boundary_of(std::string_view content_type) {
  const FieldValue type = read_field(content_type);
  check(type.value == "multipart/form-data",
        "[http] the body is of type `{}`, expected multipart/form-data", type.value);
  const auto found = type.parameters.find("boundary");
  check(found != type.parameters.end() && !found->second.empty() &&
            found->second.size() <= kMaxBoundary,
        "[http] the form's type has no boundary of 1 to {} characters", kMaxBoundary);
  return "--" + found->second;
}

}  // namespace

std::vector<FormPart> read_multipart(std::string_view content_type, std::string_view body) {
  const std::string first = boundary_of(content_type);
  const std::string delimiter = "\r\n" + first;
  // Text before the first boundary is ignored (RFC 2046, 5.1.1).
  size_t at = body.starts_with(first) ? first.size() : body.find(delimiter);
  check(at != body.npos, "[http] the form does not contain its boundary");
  at += body.starts_with(first) ? 0 : delimiter.size();
  std::vector<FormPart> out;
  while (!body.substr(at).starts_with("--")) {
    const size_t line = body.find("\r\n", at);
    check(line != body.npos && without_blanks(body.substr(at, line - at)).empty(),
          "[http] the form ends within a boundary");
    check(out.size() < kMaxParts, "[http] the form has more than {} parts", kMaxParts);
    // Without headers, the empty line follows at once.
    const size_t blank = body.substr(line).find("\r\n\r\n");
    check(blank != body.npos && blank <= kMaxHeader,
          "[http] the headers of a part of the form do not end within {} bytes", kMaxHeader);
    const size_t begin = line + blank + 4;
    // The delimiter may begin with the line break that ends the headers: an empty part.
    const size_t end = body.find(delimiter, begin - 2);
    check(end != body.npos, "[http] the form ends before its last boundary");
    const std::string_view headers =
        blank == 0 ? std::string_view() : body.substr(line + 2, blank - 2);
    out.push_back(
        read_part(headers, end < begin ? std::string_view() : body.substr(begin, end - begin)));
    at = end + delimiter.size();
  }
  return out;
}

}  // namespace kinema::http
