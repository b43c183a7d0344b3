#include "kinema/flags/environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace kinema::flags {
namespace {

constexpr std::string_view kSpace = " \t\r\n\v\f";
constexpr size_t kShown = 80;

std::string shortened(const std::string& text) {
  return text.size() > kShown ? text.substr(0, kShown) + "..." : text;
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> out;
  size_t at = text.find_first_not_of(kSpace);
  while (at != std::string_view::npos) {
    const size_t end = std::min(text.find_first_of(kSpace, at), text.size());
    out.emplace_back(text.substr(at, end - at));
    at = text.find_first_not_of(kSpace, end);
  }
  return out;
}

/// A word that would be a flag if it were written correctly.
bool looks_like_flag(std::string_view word) {
  const size_t first = word.find_first_not_of("-\"'");
  return first != std::string_view::npos && word.substr(first).starts_with("xla_");
}

/// Such a word as a correct flag: `"--xla_a=1"` and `xla_a=1` become `--xla_a=1`.
std::string as_flag(std::string_view word) {
  word.remove_prefix(word.find_first_not_of("-\"'"));
  return "--" + std::string(word.substr(0, word.find_last_not_of("\"'") + 1));
}

void report_stray(EnvironmentFlags& out, const std::string& word) {
  if (word == "\\") {
    return;  // the end of a line continued inside quotes; harmless
  }
  const bool quoted = word.front() == '"' || word.front() == '\'';
  const bool flag = looks_like_flag(word);
  Finding finding{.id = quoted ? "quoted-flags"
                        : flag ? "no-dashes"
                               : "stray-word",
                  .severity = flag ? Severity::ERROR : Severity::WARNING,
                  .drop = {word}};
  finding.what =
      fmt::format("`{}` in {} is silently left out: {}", shortened(word), to_string(out.variable),
                  quoted ? "quotes around flags make them one word that is not a flag"
                         : "a flag begins with two dashes");
  finding.remedy = quoted ? "take the quotes away"
                   : flag ? fmt::format("write --{}", shortened(word))
                          : "";
  if (flag) {
    finding.add = {{out.variable, as_flag(word)}};
  }
  out.findings.push_back(std::move(finding));
}

/// NAME and VALUE of `NAME=VALUE`.
EnvironmentFlag flag_of(std::string_view body, const std::string& word) {
  const size_t equals = body.find('=');
  return {.name = std::string(body.substr(0, equals)),
          .value = equals == std::string_view::npos ? "true" : std::string(body.substr(equals + 1)),
          .word = word};
}

void read_undefok(EnvironmentFlags& out, std::string names) {
  std::ranges::replace(names, ',', ' ');
  for (std::string& name : split(names)) {
    out.tolerated.push_back(std::move(name));
  }
}

/// True when a flag without `=` takes the next word as its value: all but switches do.
bool takes_next(std::string_view name) {
  const Flag* flag = find_flag(name);
  return flag != nullptr && flag->type != Type::BOOL;
}

std::string unquoted(std::string value) {
  if (value.size() >= 2 && (value.front() == '"' || value.front() == '\'') &&
      value.back() == value.front()) {
    return value.substr(1, value.size() - 2);
  }
  return value;
}

/// Words of XLA_FLAGS: a value may be in quotes, with spaces inside.
std::vector<std::string> split_quoted(std::string_view text) {
  std::vector<std::string> out;
  size_t at = text.find_first_not_of(kSpace);
  while (at != std::string_view::npos) {
    size_t end = std::min(text.find_first_of(kSpace, at), text.size());
    const size_t equals = text.find('=', at);
    if (text.substr(at).starts_with("--") && equals != std::string_view::npos && equals < end &&
        equals + 1 < text.size() && (text[equals + 1] == '"' || text[equals + 1] == '\'')) {
      const size_t close = text.find(text[equals + 1], equals + 2);
      end = close == std::string_view::npos ? text.size() : close + 1;
    }
    out.emplace_back(text.substr(at, end - at));
    at = text.find_first_not_of(kSpace, end);
  }
  return out;
}

/// The flags in a text that lacks dashes or has quotes around its flags.
std::vector<std::pair<Variable, std::string>> meant_flags(const std::string& text) {
  std::vector<std::pair<Variable, std::string>> out;
  for (const std::string& word : split(text)) {
    if (looks_like_flag(word)) {
      out.emplace_back(Variable::XLA_FLAGS, as_flag(word));
    }
  }
  return out;
}

/// The text of the file that XLA_FLAGS names; an unreadable file becomes a finding.
std::string flags_in_file(EnvironmentFlags& out, std::string_view text) {
  std::string name(text.substr(0, text.find_last_not_of(kSpace) + 1));
  constexpr std::streamsize kLargest = 1 << 20;
  std::ifstream in(name, std::ios::binary);
  std::string content(kLargest, '\0');
  in.read(content.data(), kLargest);
  content.resize(static_cast<size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  if (!content.empty()) {
    return content;
  }
  const bool quoted = name.front() == '"' || name.front() == '\'';
  const bool flag = looks_like_flag(name);
  out.findings.push_back(
      {.id = quoted ? "quoted-flags"
             : flag ? "no-dashes"
                    : "flags-file",
       .severity = Severity::ERROR,
       .what = fmt::format("XLA_FLAGS begins with `{}`, which is taken as the name of a file with "
                           "flags, which does not exist: the process ends",
                           shortened(name)),
       .remedy = quoted ? "take the quotes away"
                 : flag ? "begin each flag with two dashes"
                        : "",
       .drop = split(name),
       .add = meant_flags(name)});
  return "";
}

}  // namespace

EnvironmentFlags read_libtpu_init_args(std::string_view text) {
  EnvironmentFlags out{.variable = Variable::LIBTPU_INIT_ARGS, .words = split(text)};
  for (size_t i = 0; i < out.words.size(); ++i) {
    const std::string& word = out.words[i];
    const size_t dashes = word.find_first_not_of('-');
    if (dashes == 0 || dashes > 2) {  // also a word of only dashes
      report_stray(out, word);
      continue;
    }
    EnvironmentFlag flag = flag_of(std::string_view(word).substr(dashes), word);
    if (flag.name == "undefok") {
      read_undefok(out, flag.value);
      continue;
    }
    const bool bare = word.find('=') == std::string::npos;
    if (bare && takes_next(flag.name) && i + 1 < out.words.size()) {
      flag.value = out.words[++i];
      flag.word += " " + flag.value;
    } else if (bare && find_flag(flag.name) == nullptr && flag.name.starts_with("no") &&
               find_flag(flag.name.substr(2)) != nullptr) {
      flag.name.erase(0, 2);
      flag.value = "false";
    } else if (bare && takes_next(flag.name)) {
      flag.value.clear();
    }
    out.flags.push_back(std::move(flag));
  }
  return out;
}

EnvironmentFlags read_xla_flags(std::string_view text) {
  EnvironmentFlags out{.variable = Variable::XLA_FLAGS};
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) {
    return out;
  }
  std::string from_file;
  text.remove_prefix(first);
  if (!text.starts_with("--") && !text.starts_with("-xla_")) {
    from_file = flags_in_file(out, text);
    text = from_file;
  }
  out.words = split_quoted(text);
  for (const std::string& word : out.words) {
    if (word.starts_with("--") && word.size() > 2) {
      EnvironmentFlag flag = flag_of(std::string_view(word).substr(2), word);
      flag.value = unquoted(flag.value);
      out.flags.push_back(std::move(flag));
    } else if (word.front() == '-') {
      out.findings.push_back(
          {.id = "unknown-flag",
           .severity = Severity::ERROR,
           .what = fmt::format("`{}` in XLA_FLAGS ends the process: flags have two dashes there",
                               shortened(word)),
           .remedy = fmt::format("write -{}", shortened(word)),
           .drop = {word},
           .add = {{out.variable, "-" + word}}});
    } else {
      report_stray(out, word);
    }
  }
  return out;
}

}  // namespace kinema::flags
