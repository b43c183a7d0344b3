#include <algorithm>
#include <optional>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/io/json.h"
#include "kinema/text/bpe.h"
#include "kinema/text/unicode.h"

namespace kinema::text {
namespace {

// Several times the largest vocabulary in use.
constexpr int64_t kMostTokens = 1 << 20;
constexpr std::string_view kVersion = "#version";

/// `a b`; nothing if there are not two tokens.
std::optional<Merge> merge_of(std::string_view line) {
  const size_t space = line.find(' ');
  const bool two = space != std::string_view::npos && space > 0 && space + 1 < line.size() &&
                   line.find(' ', space + 1) == std::string_view::npos;
  return two ? std::optional(Merge(line.substr(0, space), line.substr(space + 1))) : std::nullopt;
}

}  // namespace

std::vector<std::string> parse_vocabulary(std::string_view json, const std::string& source) {
  const io::Json file = io::Json::parse(json, source);
  check(!file.members().empty(), "[text] {} holds no token", source);
  // The number of tokens, and some unused ids: a file must not create a list that is much longer
  // than itself.
  const int64_t most =
      std::min(kMostTokens, 2 * static_cast<int64_t>(file.members().size()) + 1024);
  std::vector<std::string> out;
  for (const auto& [text, value] : file.members()) {
    const int64_t id = value.as_int();
    check(id >= 0 && id < most, "[text] {} is {}, expected an id from 0 to {}", value.where(), id,
          most - 1);
    const auto at = static_cast<size_t>(id);
    out.resize(std::max(out.size(), at + 1));
    check(!text.empty(), "[text] {}: the token of {} is empty", source, id);
    check(out[at].empty(), "[text] {} is {}, as `{}` is", value.where(), id, out[at]);
    out[at] = text;
  }
  return out;
}

std::vector<Merge> parse_merges(std::string_view text, const std::string& source) {
  const size_t wrong = invalid_utf8_at(text);
  check(wrong == std::string_view::npos, "[text] {} is not UTF-8: byte {}", source, wrong);
  std::vector<Merge> out;
  int64_t number = 0;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    std::string_view line = text.substr(start, end - start);
    start = end + 1;
    ++number;
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    if (line.empty() || (number == 1 && line.starts_with(kVersion))) {
      continue;
    }
    std::optional<Merge> merge = merge_of(line);
    check(merge.has_value(), "[text] {}: line {} is not two tokens with a space between", source,
          number);
    out.push_back(std::move(*merge));
  }
  return out;
}

std::vector<Merge> parse_merges(const io::Json& list) {
  std::vector<Merge> out;
  for (const io::Json& each : list.items()) {
    std::optional<Merge> merge;
    if (!each.is_array()) {
      merge = merge_of(each.as_string());
    } else if (each.items().size() == 2) {
      merge = Merge(each.items()[0].as_string(), each.items()[1].as_string());
    }
    check(merge.has_value(), "[text] {} is not two tokens", each.where());
    out.push_back(std::move(*merge));
  }
  return out;
}

}  // namespace kinema::text
