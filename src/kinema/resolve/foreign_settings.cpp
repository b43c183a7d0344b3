#include "kinema/resolve/foreign_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "kinema/config/scalar.h"
#include "kinema/core/error.h"
#include "kinema/core/printable.h"

namespace kinema::resolve {
namespace {

using io::Json;

std::string_view trim_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t first = text.find_first_not_of(kBlanks);
  return first == std::string_view::npos
             ? ""
             : text.substr(first, text.find_last_not_of(kBlanks) + 1 - first);
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

using Fields = std::map<std::string, std::string, std::less<>>;

/// `Steps: 20, Sampler: "a, b", Size: 512x768`; commas in quotes belong to a value.
Fields fields_of(std::string_view line) {
  Fields out;
  while (!line.empty()) {
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) {
      break;
    }
    const std::string name(trim_blanks(line.substr(0, colon)));
    line.remove_prefix(colon + 1);
    const size_t begin = std::min(line.find_first_not_of(' '), line.size());
    size_t end = begin;
    if (begin < line.size() && line[begin] == '"') {
      for (++end; end < line.size() && line[end] != '"'; ++end) {
        end += line[end] == '\\' ? 1 : 0;
      }
      end = std::min(end, line.size());
    }
    end = std::min(line.find(',', end), line.size());
    out.emplace(name, trim_blanks(line.substr(begin, end - begin)));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return out;
}

std::optional<int64_t> whole(const Fields& fields, std::string_view name) {
  const auto found = fields.find(name);
  return found == fields.end() ? std::nullopt : config::to_int(found->second);
}

/// Sets noise_levels by a schedule's name, unless it is the sampler's own.
void take_levels(std::string_view name, std::string_view setting, ForeignSettings& out) {
  std::string small(name);
  std::ranges::transform(small, small.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  if (small == "karras" || small == "exponential" || small == "beta" || small == "ays") {
    out.keys.set("noise_levels", small);
  } else if (small == "align your steps") {
    out.keys.set("noise_levels", "ays");
  } else if (!small.empty() && small != "automatic" && small != "normal") {
    out.not_read.push_back(fmt::format("{} {}", setting, printable(std::string(name))));
  }
}

/// A node of ComfyUI's graph.
class ComfyGraph {
 public:
  ComfyGraph(Json json, std::string source) : json_(std::move(json)), source_(std::move(source)) {
    check(json_.is_object(), "[generate] {}: `prompt` is {}, expected ComfyUI's nodes", source_,
          json_.describe());
  }

  /// The only node of this class.
  const Json& only(std::string_view type) const {
    const Json* out = nullptr;
    for (const auto& [name, node] : json_.members()) {
      if (type_of(node) == type) {
        check(out == nullptr, "[generate] {}: ComfyUI's graph has several nodes {}, expected one",
              source_, type);
        out = &node;
      }
    }
    check(out != nullptr,
          "[generate] {}: ComfyUI's graph has no node {}\n  graphs with KSampler, CLIPTextEncode, "
          "EmptyLatentImage and CheckpointLoaderSimple are read",
          source_, type);
    return *out;
  }

  const Json& input(const Json& node, std::string_view name) const {
    const Json* inputs = node.find("inputs");
    const Json* out = inputs != nullptr && inputs->is_object() ? inputs->find(name) : nullptr;
    check(out != nullptr, "[generate] {}: a node {} of ComfyUI's graph has no input `{}`", source_,
          printable(type_of(node)), name);
    return *out;
  }

  /// The node that an input comes from, which must be of this class.
  const Json& node_at(const Json& node, std::string_view name, std::string_view type) const {
    const Json& link = input(node, name);
    const bool is_link = link.is_array() && link.items().size() == 2 && link.items()[0].is_string();
    const Json* out = is_link ? json_.find(link.items()[0].as_string()) : nullptr;
    check(out != nullptr, "[generate] {}: the input `{}` of ComfyUI's graph comes from no node",
          source_, name);
    check(type_of(*out) == type,
          "[generate] {}: the input `{}` comes from a node {}, and only {} is read\n"
          "  give the settings of such a graph as keys",
          source_, name, printable(type_of(*out)), type);
    return *out;
  }

  /// The text, number or word of an input.
  Json value(const Json& node, std::string_view name) const {
    const Json& out = input(node, name);
    check(!out.is_array() && !out.is_object(),
          "[generate] {}: the input `{}` of a node {} comes from another node, which is not read",
          source_, name, printable(type_of(node)));
    return out;
  }

  /// Classes of nodes other than those that are read, or that only show and save.
  std::vector<std::string> others() const {
    constexpr std::array<std::string_view, 8> kKnown{
        "KSampler",  "CLIPTextEncode", "EmptyLatentImage", "CheckpointLoaderSimple",
        "VAEDecode", "SaveImage",      "PreviewImage",     "Note"};
    std::vector<std::string> out;
    for (const auto& [name, node] : json_.members()) {
      if (const std::string type = type_of(node); std::ranges::find(kKnown, type) == kKnown.end()) {
        out.push_back("node " + printable(type));
      }
    }
    return out;
  }

  static std::string type_of(const Json& node) {
    const Json* type = node.is_object() ? node.find("class_type") : nullptr;
    return type != nullptr && type->is_string() ? type->as_string() : "";
  }

 private:
  Json json_;
  std::string source_;
};

/// ComfyUI writes NaN outside of strings, which JSON does not have.
std::string without_nan(std::string_view text) {
  constexpr std::string_view kNaN = "NaN";
  std::string out;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && quoted && i + 1 < text.size()) {
      out += text[i++];
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && text.substr(i).starts_with(kNaN)) {
      out += "null";
      i += kNaN.size() - 1;
      continue;
    }
    out += text[i];
  }
  return out;
}

/// A seed of up to 64 bits, of which seeds here have 63.
int64_t seed_of(const Json& value, const std::string& source) {
  constexpr double kMost = 9223372036854775808.0;
  if (value.kind() == Json::Kind::Integer && value.as_int() >= 0) {
    return value.as_int();
  }
  check(value.kind() == Json::Kind::Number && value.as_number() >= kMost &&
            value.as_number() <= 2 * kMost,
        "[generate] {}: seed is {}, expected an integer below 2^64", source, value.describe());
  return static_cast<int64_t>(std::min(value.as_number() - kMost, kMost - 1024));
}

/// ComfyUI's weights are those of a1111 without square brackets.
std::string with_text_brackets(const std::string& prompt) {
  std::string out;
  for (const char c : prompt) {
    out += c == '[' || c == ']' ? "\\" : "";
    out += c;
  }
  return out;
}

}  // namespace

ForeignSettings settings_of_parameters(std::string_view text, const std::string& source) {
  std::vector<std::string_view> lines = lines_of(trim_blanks(text));
  const Fields fields = lines.empty() ? Fields() : fields_of(lines.back());
  check(fields.size() >= 3 && fields.contains("Steps"),
        "[generate] {}: `parameters` has no line `Steps: 20, Sampler: ..., CFG scale: ...`",
        source);
  lines.pop_back();
  constexpr std::string_view kNegative = "Negative prompt:";
  std::array<std::string, 2> prompts;
  size_t which = 0;
  for (std::string_view line : lines) {
    if (which == 0 && line.starts_with(kNegative)) {
      which = 1;
      line.remove_prefix(kNegative.size());
    }
    prompts[which] += (prompts[which].empty() ? "" : "\n") + std::string(trim_blanks(line));
  }
  ForeignSettings made{.keys = Json::object()};
  Json& out = made.keys;
  out.set("prompt", prompts[0]).set("negative_prompt", prompts[1]).set("prompt_syntax", "a1111");
  for (const auto& [name, key] : {std::pair("Steps", "num_inference_steps"), {"Seed", "seed"}}) {
    if (const auto number = whole(fields, name)) {
      out.set(key, *number);
    }
  }
  const auto text_of = [&](std::string_view name) {
    const auto found = fields.find(name);
    return found == fields.end() ? std::string() : found->second;
  };
  if (const auto scale = config::to_double(text_of("CFG scale"))) {
    out.set("guidance_scale", *scale);
  }
  if (const std::string sampler = text_of("Sampler"); !sampler.empty()) {
    out.set("scheduler", sampler);
  }
  take_levels(text_of("Schedule type"), "Schedule type", made);
  const std::string size = text_of("Size");
  const size_t cross = size.find('x');
  const auto width = config::to_int(size.substr(0, cross));
  const auto height =
      cross == std::string::npos ? std::nullopt : config::to_int(size.substr(cross + 1));
  if (width && height) {
    out.set("width", *width).set("height", *height);
  }
  made.model = text_of("Model");
  constexpr std::array<std::string_view, 12> kRead{
      "Steps", "Sampler",    "Schedule type", "CFG scale",   "Seed",      "Size",
      "Model", "Model hash", "Version",       "Lora hashes", "TI hashes", "Hashes"};
  for (const auto& [name, value] : fields) {
    if (std::ranges::find(kRead, name) == kRead.end()) {
      made.not_read.push_back(printable(name));
    }
  }
  return made;
}

ForeignSettings settings_of_comfyui(std::string_view text, const std::string& source) {
  const ComfyGraph graph(Json::parse(without_nan(text), source + " (`prompt`)"), source);
  const Json& sampler = graph.only("KSampler");
  const Json& loader = graph.node_at(sampler, "model", "CheckpointLoaderSimple");
  ForeignSettings made{.keys = Json::object()};
  if (const Json name = graph.value(loader, "ckpt_name"); name.is_string()) {
    made.model = name.as_string();
  }
  Json& out = made.keys;
  for (const auto& [input, key] :
       {std::pair("positive", "prompt"), {"negative", "negative_prompt"}}) {
    const Json& encoder = graph.node_at(sampler, input, "CLIPTextEncode");
    graph.node_at(encoder, "clip", "CheckpointLoaderSimple");
    const Json words = graph.value(encoder, "text");
    check(words.is_string(), "[generate] {}: the {} prompt is {}, expected text", source, input,
          words.describe());
    out.set(key, with_text_brackets(words.as_string()));
  }
  out.set("prompt_syntax", "a1111");
  const Json& latents = graph.node_at(sampler, "latent_image", "EmptyLatentImage");
  for (const char* key : {"width", "height"}) {
    out.set(key, graph.value(latents, key));
  }
  if (const Json batch = graph.value(latents, "batch_size");
      batch.kind() == Json::Kind::Integer && batch.as_int() > 1) {
    out.set("num_images_per_prompt", batch);
  }
  const Json denoise = graph.value(sampler, "denoise");
  const bool is_number =
      denoise.kind() == Json::Kind::Integer || denoise.kind() == Json::Kind::Number;
  check(is_number && denoise.as_number() == 1.0,
        "[generate] {}: denoise is {}, and only 1 is read, from noise", source, denoise.describe());
  out.set("seed", seed_of(graph.value(sampler, "seed"), source));
  for (const auto& [input, key] : {std::pair("steps", "num_inference_steps"),
                                   {"cfg", "guidance_scale"},
                                   {"sampler_name", "scheduler"}}) {
    out.set(key, graph.value(sampler, input));
  }
  const Json levels = graph.value(sampler, "scheduler");
  if (levels.is_string()) {
    take_levels(levels.as_string(), "scheduler", made);
  }
  std::ranges::copy(graph.others(), std::back_inserter(made.not_read));
  return made;
}

}  // namespace kinema::resolve
