#include "kinema/resolve/prompts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string_view>
#include <system_error>

#include "kinema/core/error.h"
#include "kinema/resolve/load.h"
#include "kinema/text/prompt_syntax.h"
#include "kinema/text/unicode.h"

namespace kinema::resolve {
namespace {

/// True if `prompt` overrides `prompt_file` because it was given later.
bool prompt_wins(const config::Loaded& loaded) {
  return wins_over_files(loaded, "prompt") && !on_command_line(loaded, "prompt_file");
}

}  // namespace

std::vector<std::string> read_prompts(const config::Loaded& loaded) {
  const config::Config& config = loaded.config;
  const std::string& path = config.generate.prompt_file;
  check(
      !on_command_line(loaded, "prompt") || !on_command_line(loaded, "prompt_file") || path.empty(),
      "[generate] prompt and prompt_file are both on the command line: give only one of them");
  if (path.empty() || prompt_wins(loaded)) {
    return {config.generate.prompt};
  }
  std::error_code ignored;
  const bool is_file =
      std::filesystem::is_regular_file(path, ignored);  // reading a pipe would block
  std::ifstream in(is_file ? path : "");
  check(is_file && in.good(), "[generate] prompt_file {} cannot be read{}", path,
        !is_file && std::filesystem::exists(path, ignored) ? ": it is not a regular file" : "");
  std::vector<std::string> prompts;
  int64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
    if (++number == 1 && line.starts_with(kByteOrderMark)) {
      line.erase(0, kByteOrderMark.size());
    }
    if (line.ends_with('\r')) {
      line.pop_back();
    }
    check(text::invalid_utf8_at(line) == std::string_view::npos,
          "[generate] prompt_file {}:{} is not text in UTF-8", path, number);
    check(!line.starts_with('{') || line.find("\"prompt\"") == std::string::npos,
          "[generate] prompt_file {}:{} is JSON, expected a prompt as plain text in each line",
          path, number);
    if (line.find_first_not_of(" \t") != std::string::npos) {
      prompts.push_back(line);
    }
  }
  check(!prompts.empty(), "[generate] prompt_file {} contains no prompt", path);
  return prompts;
}

std::vector<std::string> prompt_notices(const config::Loaded& loaded) {
  const config::GenerateConfig& g = loaded.config.generate;
  std::vector<std::string> prompts = read_prompts(loaded);
  prompts.insert(prompts.end(), {g.negative_prompt, g.prompt_2.value, g.negative_prompt_2.value});
  std::vector<std::string> found;
  for (const std::string& prompt : prompts) {
    for (const std::string& each : text::prompt_syntax(prompt)) {
      if (std::ranges::find(found, each) == found.end()) {
        found.push_back(each);
      }
    }
  }
  constexpr size_t kNamed = 4;
  if (found.empty()) {
    return {};
  }
  const size_t named = std::min(kNamed, found.size());
  return {
      fmt::format("`{}`{} in prompts {} used as plain text: weights, BREAK and file names have no "
                  "meaning (lora=FILE:0.8 adds a LoRA)",
                  fmt::join(std::span(found).first(named), "`, `"),
                  found.size() > named ? " and others" : "", found.size() == 1 ? "is" : "are")};
}

std::vector<std::string> default_prompt_notice(const config::Loaded& loaded) {
  const config::GenerateConfig& keys = loaded.config.generate;
  if (!keys.prompt_file.empty() || loaded.is_set("prompt")) {
    return {};
  }
  return {fmt::format("no prompt is given: `{}` is used", keys.prompt)};
}

}  // namespace kinema::resolve
