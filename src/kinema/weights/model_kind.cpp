#include "kinema/weights/model_kind.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/io/gguf.h"
#include "kinema/io/json.h"
#include "kinema/io/model_folder.h"
#include "kinema/model_files/checkpoint.h"
#include "kinema/model_files/family.h"
#include "kinema/model_files/file_names.h"
#include "kinema/model_files/single_file.h"
#include "kinema/weights/lora.h"
#include "kinema/weights/lora_key.h"

namespace kinema::weights {
namespace {

namespace fs = std::filesystem;
using Views = std::span<const io::TensorView* const>;

std::vector<std::string_view> words(std::string_view list) {
  std::vector<std::string_view> out;
  while (!list.empty()) {
    const size_t blank = std::min(list.find(' '), list.size());
    if (blank > 0) {
      out.push_back(list.substr(0, blank));
    }
    list.remove_prefix(std::min(blank + 1, list.size()));
  }
  return out;
}

/// The facts about a path that the table is compared with.
struct Facts {
  std::string class_name;
  const model_files::Family* network = nullptr;
  int64_t in_channels = 0;  // of the network; 0: unknown
  int64_t out_channels = 0;
  int64_t text_dim = 0;         // of a UNet; 0: unknown
  std::string channels_source;  // the source of the number of channels
  size_t tensors = 0;
  /// By name, with and without a network's prefix; sorted.
  std::vector<std::pair<std::string_view, const io::TensorView*>> names = {};

  const io::TensorView* find(std::string_view word) const;
};

/// The first tensor that matches a pattern with stars; null if there is none.
const io::TensorView* Facts::find(std::string_view word) const {
  const bool begins = word.ends_with('*');
  const bool ends = word.starts_with('*');
  const std::string_view text =
      word.substr(ends ? 1 : 0, word.size() - (begins ? 1 : 0) - (ends ? 1 : 0));
  if (ends) {
    const auto found = std::ranges::find_if(names, [&](const auto& each) {
      return begins ? each.first.find(text) != std::string_view::npos : each.first.ends_with(text);
    });
    return found == names.end() ? nullptr : found->second;
  }
  const auto found =
      std::ranges::lower_bound(names, text, {}, [](const auto& each) { return each.first; });
  const bool fits =
      found != names.end() && (begins ? found->first.starts_with(text) : found->first == text);
  return fits ? found->second : nullptr;
}

constexpr const char* kUNetText = "mid_block.attentions.0.transformer_blocks.0.attn2.to_k.weight";

/// Reads the numbers of input and output channels from a network's tensors.
void read_channels(const model_files::FileNames& file, Facts& facts) {
  const auto size = [&](const char* key, size_t axis) -> int64_t {
    const io::TensorView* found = facts.find(file.in_file(key).substr(file.prefix.size()));
    if (found == nullptr || axis >= found->shape.dims.size()) {
      return 0;
    }
    if (axis == 1) {
      facts.channels_source =
          fmt::format("`{}` {}", found->name, kinema::to_string(found->shape.dims));
    }
    return found->shape.dims[axis];
  };
  if (facts.network->names == &model_files::kWanNames) {
    facts.in_channels = size("patch_embedding.weight", 1);
    const int64_t voxels = size("patch_embedding.weight", 2) * size("patch_embedding.weight", 3) *
                           size("patch_embedding.weight", 4);
    const int64_t out = size("proj_out.weight", 0);
    facts.out_channels = voxels > 0 ? out / voxels : 0;
  } else if (facts.network->names == &model_files::kFluxNames) {
    facts.in_channels = size("x_embedder.weight", 1);
    facts.out_channels = size("proj_out.weight", 0);
  } else if (facts.network->names == &model_files::kZImageNames) {
    facts.in_channels = size("all_x_embedder.2-1.weight", 1);
    facts.out_channels = size("all_final_layer.2-1.linear.weight", 0);
  } else {
    facts.in_channels = size("conv_in.weight", 1);
    facts.out_channels = size("conv_out.weight", 0);
    const io::TensorView* text = facts.find(file.in_file(kUNetText).substr(file.prefix.size()));
    facts.text_dim = text == nullptr || text->shape.rank() != 2 ? 0 : text->shape.dims[1];
  }
}

Facts facts_of(Views tensors) {
  Facts out{.class_name = "", .tensors = tensors.size()};
  constexpr std::array<std::string_view, 4> kPrefixes{"model.diffusion_model.", "diffusion_model.",
                                                      "transformer.", "module."};
  for (const io::TensorView* tensor : tensors) {
    const std::string_view name = tensor->name;
    out.names.emplace_back(name, tensor);
    for (const std::string_view prefix : kPrefixes) {
      if (name.starts_with(prefix)) {
        out.names.emplace_back(name.substr(prefix.size()), tensor);
        break;
      }
    }
  }
  std::ranges::sort(out.names, {}, [](const auto& each) { return each.first; });
  const model_files::FileNames file = model_files::find_names(tensors, "");
  const auto family = std::ranges::find_if(
      model_files::families(),
      [&](const model_files::Family& each) { return each.names == file.table; });
  if (family != model_files::families().end()) {
    out.network = &*family;
    read_channels(file, out);
  }
  return out;
}

int64_t number_in(const io::Json& config, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    const io::Json* value = config.find(key);
    if (value != nullptr && value->kind() == io::Json::Kind::Integer) {
      return value->as_int();
    }
  }
  return 0;
}

Facts facts_of(const io::Json& config) {
  Facts out{.class_name = model_files::class_of_model(config)};
  if (!config.is_object()) {
    return out;
  }
  out.network = model_files::family_of_config(config);
  const io::Json* added = config.find("addition_embed_type");
  if (out.network != nullptr && added != nullptr && added->is_string() &&
      added->as_string() != out.network->addition_embed_type) {
    out.network = nullptr;  // a UNet of another family
  }
  out.text_dim = number_in(config, {"cross_attention_dim"});
  out.in_channels = number_in(config, {"in_channels", "in_dim"});
  out.out_channels = number_in(config, {"out_channels", "out_dim"});
  out.channels_source = fmt::format("in_channels {}", out.in_channels);
  return out;
}

/// Why the tensors are of the kind; nothing if they are not.
std::optional<std::string> kind_by_tensors(const ModelKind& kind, const Facts& facts) {
  std::string because;
  bool asked = false;  // the kind has a condition on tensors
  if (!kind.network.empty()) {
    if (facts.network == nullptr || facts.network->name != kind.network) {
      return std::nullopt;
    }
    asked = true;
    because = fmt::format("names of {}", kind.network);
  }
  if (!kind.any.empty()) {
    const io::TensorView* found = nullptr;
    for (const std::string_view word : words(kind.any)) {
      found = found != nullptr ? found : facts.find(word);
    }
    if (found == nullptr ||
        (kind.rank_of_any > 0 && found->shape.dims.size() != kind.rank_of_any)) {
      return std::nullopt;
    }
    asked = true;
    because = fmt::format("`{}`", found->name);
  }
  for (const std::string_view word : words(kind.all)) {
    const io::TensorView* found = facts.find(word);
    if (found == nullptr) {
      return std::nullopt;
    }
    because = asked ? because : fmt::format("`{}`", found->name);
    asked = true;
  }
  if (kind.input.times > 0) {
    const int64_t wanted = kind.input.times * facts.out_channels + kind.input.more;
    if (facts.out_channels <= 0 || facts.in_channels != wanted) {
      return std::nullopt;
    }
    because = facts.channels_source;
  }
  if (kind.text_dim > 0 && facts.text_dim != kind.text_dim) {
    return std::nullopt;
  }
  if (!kind.size.tensors.empty()) {
    const io::TensorView* found = nullptr;
    for (const std::string_view word : words(kind.size.tensors)) {
      found = found != nullptr ? found : facts.find(word);
    }
    if (found == nullptr || kind.size.axis >= found->shape.dims.size() ||
        found->shape.dims[kind.size.axis] != kind.size.value) {
      return std::nullopt;
    }
    asked = true;
    because = fmt::format("`{}` {}", found->name, kinema::to_string(found->shape.dims));
  }
  if (kind.known_modules && std::ranges::none_of(facts.names, [](const auto& each) {
        return read_lora_key(each.first).has_value();
      })) {
    return std::nullopt;
  }
  const bool few = kind.most_tensors == 0 || facts.tensors <= kind.most_tensors;
  return asked && few ? std::optional(because) : std::nullopt;
}

std::optional<FoundKind> find_kind(const Facts& facts) {
  for (const ModelKind& kind : model_kinds()) {
    const std::vector<std::string_view> classes = words(kind.classes);
    if (!facts.class_name.empty() &&
        std::ranges::find(classes, facts.class_name) != classes.end()) {
      return FoundKind{&kind, fmt::format("class `{}`", facts.class_name)};
    }
    if (std::optional<std::string> because = kind_by_tensors(kind, facts)) {
      return FoundKind{&kind, *std::move(because)};
    }
  }
  return std::nullopt;
}

template <typename Tensors>
std::vector<const io::TensorView*> views(const Tensors& tensors) {
  std::vector<const io::TensorView*> out;
  for (const io::TensorView& tensor : tensors) {
    out.push_back(&tensor);
  }
  return out;
}

template <typename Files>
std::vector<const io::TensorView*> all_views(const Files& files) {
  std::vector<const io::TensorView*> out;
  for (const auto& file : files) {
    const std::vector<const io::TensorView*> own = views(file.tensors());
    out.insert(out.end(), own.begin(), own.end());
  }
  return out;
}

std::optional<FoundKind> kind_of_file(const fs::path& path) {
  if (model_files::is_gguf(path)) {
    const std::vector<io::GgufFile> files = io::open_gguf(path);
    return find_kind(facts_of(all_views(files)));
  }
  const std::vector<io::TensorFile> shards = io::open_shards(path);
  return find_kind(facts_of(all_views(shards)));
}

std::string_view word_of(Role role) {
  switch (role) {
    case Role::NETWORK:
      return "a transformer or UNet";
    case Role::PIPELINE:
      return "a whole pipeline";
    case Role::VAE:
      return "an autoencoder";
    case Role::ADAPTER:
      return "a LoRA";
    case Role::PART:
      return "a part of a pipeline";
    case Role::MODULE:
      return "a module";
    case Role::LATENTS:
      return "latents";
    case Role::CONTROL:
      return "a ControlNet";
  }
  return "";
}

}  // namespace

std::optional<FoundKind> detect_kind(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    for (const char* file : {"model_index.json", "config.json"}) {
      if (fs::is_regular_file(path / file, ignored)) {
        return find_kind(facts_of(io::Json::read(path / file)));
      }
    }
    for (const char* file : {kPeftFile, kLoraFile}) {
      if (fs::is_regular_file(path / file, ignored)) {
        return kind_of_file(path / file);
      }
    }
    return std::nullopt;
  }
  const bool is_weights =
      path.extension() == ".safetensors" || model_files::is_gguf(path) || io::is_pickle_name(path);
  const bool is_there = fs::is_regular_file(path, ignored) ||
                        fs::is_regular_file(path.string() + ".index.json", ignored);
  return is_weights && is_there ? kind_of_file(path) : std::nullopt;
}

std::optional<FoundKind> detect_tensor_kind(std::span<const io::TensorView> tensors) {
  return find_kind(facts_of(views(tensors)));
}

/// The key for a text encoder's file.
std::string_view text_encoder_key(const ModelKind& kind) {
  return kind.name == "CLIP-G" || kind.name == "T5-XXL encoder" ? "text_encoder_2_file"
                                                                : "text_encoder_file";
}

/// True if the pipelines of the family with this name have a second text encoder.
bool has_two_encoders(std::string_view family) {
  return std::ranges::any_of(model_files::families(), [&](const model_files::Family& each) {
    return each.name == family && !each.text_encoder_2_class.empty();
  });
}

/// The keys to set for missing parts of a whole pipeline's file, which has `two` text encoders or
/// one; empty for a folder.
std::string keys_for_missing(const std::vector<std::string_view>& parts, bool two) {
  const auto has = [&](std::string_view part) { return std::ranges::count(parts, part) > 0; };
  std::string out;
  if (!has(model_files::kVae)) {
    out += "; it holds no autoencoder: vae_file=FILE names one";
  }
  for (const std::string_view part : {model_files::kTextEncoder, model_files::kTextEncoder2}) {
    if (!has(part) && (part == model_files::kTextEncoder || two)) {
      out += fmt::format("; it holds no {0}: {0}_file=FILE names one", part);
    }
  }
  return out;
}

std::string accepting_commands(const ModelKind& kind, const fs::path& path) {
  const std::string name = path.string();
  std::vector<std::string> out;
  std::error_code ignored;
  const bool is_file = fs::is_regular_file(path, ignored);
  const std::vector<std::string_view> parts = is_file && kind.is(Role::NETWORK)
                                                  ? model_files::parts_in(path)
                                                  : std::vector<std::string_view>();
  if (kind.is(Role::PIPELINE)) {
    out.push_back(fmt::format(
        "generate {}, {}convert{}", name,
        kind.is_trained ? fmt::format("train pretrained_model_name_or_path={}, ", name) : "",
        is_file ? keys_for_missing(parts, has_two_encoders(kind.network)) : ""));
  } else if (kind.is(Role::NETWORK)) {
    out.push_back(
        fmt::format("generate and train by wan_transformer_pretrained_model_name_or_path={} with a "
                    "pipeline, convert",
                    name));
  }
  if (kind.is(Role::VAE) &&
      (!is_file || !kind.is(Role::NETWORK) || std::ranges::count(parts, model_files::kVae) > 0)) {
    out.push_back(fmt::format("wan_vae_pretrained_model_name_or_path={}", name));
  }
  if (kind.is(Role::ADAPTER)) {
    out.push_back(fmt::format("generate and train by lora={}, convert", name));
  }
  if (kind.is(Role::CONTROL)) {
    out.push_back(fmt::format("generate by controlnet={} and control_image=FILE", name));
  }
  if (kind.is(Role::MODULE)) {
    out.push_back(fmt::format("generate and train by transformer_module={}", name));
  }
  if (kind.is(Role::LATENTS)) {
    out.push_back(fmt::format("generate by initial_latents={}", name));
  }
  if (kind.is(Role::PART) && fs::is_directory(path, ignored)) {
    out.emplace_back("the folder of a pipeline that it is a part of");
  } else if (kind.is(Role::PART) && is_file) {
    out.push_back(fmt::format("generate and train by {}={}, with a pipeline or a network",
                              text_encoder_key(kind), name));
  }
  return fmt::format("{}", fmt::join(out, "; "));
}

void check_role(const fs::path& path, std::initializer_list<Role> roles, std::string_view key) {
  const std::optional<FoundKind> found = detect_kind(path);
  if (!found || std::ranges::any_of(roles, [&](Role role) { return found->kind->is(role); })) {
    return;
  }
  const ModelKind& kind = *found->kind;
  const std::string takers = accepting_commands(kind, path);
  check(!takers.empty(), "[weights] {} is not supported: {} ({})\n  {}", path.string(), kind.name,
        found->because,
        kind.remedy.empty() ? "supported are networks of Wan 2.1 and 2.2, Flux.1, Z-Image and "
                              "Stable Diffusion 1, 2 and XL"
                            : kind.remedy);
  std::string expected;
  for (const Role role : roles) {
    expected += (expected.empty() ? "" : " or ") + std::string(word_of(role));
  }
  fail("[weights] {}{} is {} ({}), where {} was expected\n  {} is taken by {}",
       key.empty() ? "" : fmt::format("{}: ", key), path.string(), kind.name, found->because,
       expected, path.filename().string(), takers);
}

}  // namespace kinema::weights
