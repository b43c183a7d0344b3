#include "kinema/data/caption_rules.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "kinema/core/threefry.h"
#include "kinema/core/trimmed.h"
#include "kinema/data/clip_set.h"

namespace kinema::data {
namespace {

/// The parts between separators, without surrounding blanks; empty parts are left out.
std::vector<std::string> parts_of(const std::string& text, const std::string& separator) {
  std::vector<std::string> out;
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t end = separator.empty() ? std::string::npos : text.find(separator, begin);
    const size_t length = end == std::string::npos ? std::string::npos : end - begin;
    if (std::string part(trimmed(text.substr(begin, length))); !part.empty()) {
      out.push_back(std::move(part));
    }
    if (end == std::string::npos) {
      break;
    }
    begin = end + separator.size();
  }
  return out;
}

size_t one_of(RandomStream& random, size_t count) {
  return std::min(static_cast<size_t>(random.uniform() * static_cast<float>(count)), count - 1);
}

/// One of the choices of each `{a|b|c}`. A brace without a partner is a letter.
std::string with_choices(const std::string& text, RandomStream& random) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool twice = i + 1 < text.size() && text[i + 1] == text[i];
    if ((text[i] == '{' || text[i] == '}') && twice) {
      out += text[i++];
      continue;
    }
    const size_t end = text[i] == '{' ? text.find('}', i) : std::string::npos;
    if (end == std::string::npos) {
      out += text[i];
      continue;
    }
    std::vector<std::string> choices;
    size_t begin = i + 1;
    while (true) {
      const size_t bar = std::min(text.find('|', begin), end);
      choices.push_back(text.substr(begin, bar - begin));
      if (bar == end) {
        break;
      }
      begin = bar + 1;
    }
    out += choices[one_of(random, choices.size())];
    i = end;
  }
  return out;
}

/// The tags in a random order, without some.
std::string with_tags(const std::string& caption, const CaptionRules& rules, RandomStream& random) {
  std::vector<std::string> kept;
  std::string rest = caption;
  const size_t mark =
      rules.keep_separator.empty() ? std::string::npos : caption.find(rules.keep_separator);
  if (mark != std::string::npos) {
    kept = parts_of(caption.substr(0, mark), rules.separator);
    rest = caption.substr(mark + rules.keep_separator.size());
  }
  std::vector<std::string> tags = parts_of(rest, rules.separator);
  if (rules.keep_separator.empty()) {
    const auto count = std::min(static_cast<size_t>(rules.keep), tags.size());
    const auto last = tags.begin() + static_cast<ptrdiff_t>(count);
    kept.assign(tags.begin(), last);
    tags.erase(tags.begin(), last);
  }
  if (rules.shuffle) {
    for (size_t i = tags.size(); i > 1; --i) {
      std::swap(tags[i - 1], tags[one_of(random, i)]);
    }
  }
  for (std::string& tag : tags) {
    if (rules.dropout <= 0.0 || static_cast<double>(random.uniform()) >= rules.dropout) {
      kept.push_back(std::move(tag));
    }
  }
  std::string out;
  for (const std::string& tag : kept) {
    out += out.empty() ? tag : rules.separator + " " + tag;
  }
  return out;
}

}  // namespace

std::string varied_caption(const std::string& caption, const CaptionRules& rules, int64_t variant) {
  if (!rules.varies()) {
    return caption;
  }
  RandomStream random(
      random_key(rules.seed, "variant of " + caption, static_cast<uint64_t>(variant)));
  std::string out = caption;
  if (rules.any_line) {
    const std::vector<std::string> lines = parts_of(out, "\n");
    out = lines.empty() ? "" : lines[one_of(random, lines.size())];
  }
  if (rules.wildcards) {
    out = with_choices(out, random);
  }
  return rules.shuffle || rules.dropout > 0.0 ? with_tags(out, rules, random) : out;
}

std::string varied_caption(const ClipSet& clips, int64_t clip, const CaptionRules& rules,
                           int64_t variant) {
  return varied_caption(clips.caption(clip), clips.caption_rules(clip, rules), variant);
}

}  // namespace kinema::data
