#include "kinema/resolve/prompts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "kinema/config/lora.h"
#include "kinema/core/edit_distance.h"
#include "kinema/core/error.h"
#include "kinema/core/folders.h"
#include "kinema/io/tensor_file.h"
#include "kinema/resolve/load.h"
#include "kinema/text/a1111_prompt.h"
#include "kinema/text/compel_prompt.h"
#include "kinema/text/prompt_syntax.h"
#include "kinema/text/unicode.h"

namespace kinema::resolve {
namespace {

namespace fs = std::filesystem;

/// True if `prompt` overrides `prompt_file` because it was given later.
bool prompt_wins(const config::Loaded& loaded) {
  return wins_over_files(loaded, "prompt") && !on_command_line(loaded, "prompt_file");
}

std::vector<text::LoraTag> loras_of(const std::string& prompt, config::PromptSyntax syntax) {
  return syntax == config::PromptSyntax::A1111 ? text::lora_tags(prompt)
                                               : text::parse_compel(prompt).loras;
}

/// The file of lora_folder, or of a folder in it, whose name without its ending is `name`.
fs::path find_lora(const std::string& folder, const std::string& name) {
  check(!folder.empty(),
        "[generate] the prompt names the LoRA `{}`, but lora_folder is empty\n"
        "  lora_folder=FOLDER is searched for it",
        name);
  std::error_code error;
  check(fs::is_directory(folder, error), "[config] lora_folder {} {}", folder,
        not_a_folder(folder));
  std::vector<fs::path> found;
  std::string nearest;
  for (auto each = fs::recursive_directory_iterator(
           folder, fs::directory_options::skip_permission_denied, error);
       !error && each != fs::recursive_directory_iterator(); each.increment(error)) {
    const fs::path& path = each->path();
    const bool is_file = path.extension() == ".safetensors" || io::is_pickle_name(path);
    const std::string stem = path.stem().string();
    if (is_file && (stem == name || path.filename() == name)) {
      found.push_back(path);
    } else if (is_file && is_near(name, stem) &&
               (nearest.empty() || edit_distance(name, stem) < edit_distance(name, nearest))) {
      nearest = stem;
    }
  }
  check(!found.empty(),
        "[generate] lora_folder {} has no file {}.safetensors, which the prompt "
        "names{}",
        folder, name,
        nearest.empty() ? "" : fmt::format("\n  the most similar name is `{}`", nearest));
  check(found.size() == 1, "[generate] the prompt names the LoRA `{}`, but there are {} and {}",
        name, found[0].string(), found.back().string());
  return found[0];
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

text::PromptSyntax prompt_syntax(const config::Config& config) {
  switch (config.generate.prompt_syntax) {
    case config::PromptSyntax::PLAIN:
      break;
    case config::PromptSyntax::A1111:
      return text::PromptSyntax::A1111;
    case config::PromptSyntax::COMPEL:
      return text::PromptSyntax::COMPEL;
  }
  return text::PromptSyntax::PLAIN;
}

config::Loaded with_prompt_loras(config::Loaded loaded) {
  const config::GenerateConfig& g = loaded.config.generate;
  if (g.prompt_syntax == config::PromptSyntax::PLAIN) {
    return loaded;
  }
  std::vector<text::LoraTag> all;
  bool is_first = true;
  for (const std::string& prompt : read_prompts(loaded)) {
    std::vector<text::LoraTag> own = loras_of(prompt, g.prompt_syntax);
    check(std::exchange(is_first, false) || all == own,
          "[generate] prompts of one command name different LoRAs, but the model has one set\n"
          "  give prompts with the same LoRAs in a command");
    all = std::move(own);
  }
  for (const text::LoraTag& tag : all) {
    config::ModelConfig& model = loaded.config.model;
    model.enable_lora = true;
    model.lora_config.json = config::with_lora_files(
        model.lora_config.json,
        fmt::format("{}:{}", find_lora(g.lora_folder, tag.name).string(), tag.scale));
  }
  return loaded;
}

namespace {

/// True if a folder has a file of this name, with or without its ending, in any case.
bool has_embedding(const std::string& folder, const std::string& name) {
  const auto is_equal = [&](const fs::path& file) {
    const auto lower = [](const std::string& text) {
      std::string out(text);
      std::ranges::transform(out, out.begin(), [](unsigned char c) { return std::tolower(c); });
      return out;
    };
    return lower(file.string()) == lower(name);
  };
  std::error_code error;
  for (auto each = fs::recursive_directory_iterator(
           folder, fs::directory_options::skip_permission_denied, error);
       !error && each != fs::recursive_directory_iterator(); each.increment(error)) {
    if (is_equal(each->path().filename()) || is_equal(each->path().stem())) {
      return true;
    }
  }
  return false;
}

/// A line for each `embedding:name` without a file.
std::vector<std::string> missing_embeddings(std::span<const std::string> prompts,
                                            const std::string& folder) {
  std::vector<std::string> out;
  for (const std::string& prompt : prompts) {
    for (const std::string& name : text::embedding_names(prompt)) {
      if (folder.empty()) {
        out.push_back(
            fmt::format("`embedding:{}` in prompts is used as plain text: "
                        "embeddings_folder=FOLDER is searched for embeddings",
                        name));
      } else if (!has_embedding(folder, name)) {
        out.push_back(
            fmt::format("`embedding:{}` in prompts is used as plain text: embeddings_folder {} has "
                        "no such file",
                        name, folder));
      }
    }
  }
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace

std::vector<std::string> prompt_notices(const config::Loaded& loaded) {
  const config::GenerateConfig& g = loaded.config.generate;
  std::vector<std::string> prompts = read_prompts(loaded);
  prompts.insert(prompts.end(), {g.negative_prompt, g.prompt_2.value, g.negative_prompt_2.value});
  std::vector<std::string> out = missing_embeddings(prompts, g.embeddings_folder);
  if (g.prompt_syntax != config::PromptSyntax::PLAIN) {
    if (g.prompt_syntax == config::PromptSyntax::A1111 &&
        std::ranges::any_of(prompts, text::has_and)) {
      out.emplace_back("`AND` in prompts is used as plain text: prompts are not combined");
    }
    return out;
  }
  std::vector<std::string> found;
  for (const std::string& prompt : prompts) {
    for (const std::string& each : text::prompt_syntax(prompt)) {
      if (std::ranges::find(found, each) == found.end()) {
        found.push_back(each);
      }
    }
  }
  constexpr size_t kNamed = 4;
  if (!found.empty()) {
    const size_t named = std::min(kNamed, found.size());
    out.push_back(
        fmt::format("`{}`{} in prompts {} used as plain text: prompt_syntax=a1111 or compel reads "
                    "weights, BREAK and names of LoRAs",
                    fmt::join(std::span(found).first(named), "`, `"),
                    found.size() > named ? " and others" : "", found.size() == 1 ? "is" : "are"));
  }
  return out;
}

std::vector<std::string> default_prompt_notice(const config::Loaded& loaded) {
  const config::GenerateConfig& keys = loaded.config.generate;
  const bool is_animation = !keys.pose_video.empty() || !keys.pose_video_path.empty() ||
                            !keys.animate_folder.empty();  // set_animate_defaults has another
  if (!keys.prompt_file.empty() || loaded.is_set("prompt") || is_animation) {
    return {};
  }
  return {fmt::format("no prompt is given: `{}` is used", keys.prompt)};
}

}  // namespace kinema::resolve
