#include "kinema/weights/peft_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <system_error>

#include "kinema/adapters/methods/methods.h"
#include "kinema/core/error.h"
#include "kinema/weights/model_kind.h"

namespace kinema::weights {
namespace {

namespace fs = std::filesystem;
using io::Json;

// Each is compared with every module; the largest network has some 500.
constexpr size_t kMostPatterns = 4096;

}  // namespace

double ConfiguredAlpha::factor(const std::string& module, int64_t rank,
                               PatternBudget& budget) const {
  auto own = of_modules.begin();
  try {
    while (own != of_modules.end() && !own->first.matches(module, budget)) {
      ++own;
    }
  } catch (const Error& error) {
    fail("[lora] {}: alpha_pattern: {}\n  patterns that are names without operators take no time",
         path, error.what());
  }
  const std::optional<double> value = own == of_modules.end() ? alpha : own->second;
  const auto r = static_cast<double>(rank);
  return value ? *value / (by_root ? std::sqrt(r) : r) : 1.0;
}

ConfiguredAlpha read_alpha(const Json& json, const std::string& prefix, const std::string& path,
                           PatternBudget& budget) {
  ConfiguredAlpha out{.path = path};
  const auto find = [&](const char* key) {
    const Json* value = json.find(prefix + key);
    return value == nullptr || value->is_null() ? nullptr : value;
  };
  const Json* type = find("peft_type");
  const bool is_lycoris = type != nullptr && type->is_string() &&
                          (type->as_string() == "LOHA" || type->as_string() == "LOKR");
  if (const Json* alpha = find(is_lycoris ? "alpha" : "lora_alpha")) {
    out.alpha = alpha->as_number();
  }
  if (const Json* rank = find("r"); is_lycoris && rank != nullptr) {
    out.rank = static_cast<int64_t>(rank->as_number());
  }
  if (const Json* pattern = find("alpha_pattern")) {
    check(pattern->members().size() <= kMostPatterns,
          "[lora] alpha_pattern has {} entries, expected at most {}", pattern->members().size(),
          kMostPatterns);
    for (const auto& [module, alpha] : pattern->members()) {
      try {
        out.of_modules.emplace_back(Pattern(module, Pattern::Fits::END, budget), alpha.as_number());
      } catch (const Error& error) {
        fail("[lora] {}: alpha_pattern: {}", path, error.what());
      }
    }
  }
  if (const Json* by_root = find("use_rslora")) {
    out.by_root = by_root->as_bool();
  }
  return out;
}

void check_init(const Json& json, const std::string& prefix, const std::string& path) {
  constexpr std::array<std::string_view, 5> kChangeBase{"pissa", "olora", "corda", "loftq",
                                                        "lora_ga"};
  const Json* init = json.find(prefix + "init_lora_weights");
  const std::string word = init != nullptr && init->is_string() ? init->as_string() : "";
  const bool changes = std::ranges::any_of(
      kChangeBase, [&](std::string_view method) { return word.starts_with(method); });
  check(!changes,
        "[lora] {} was made with init_lora_weights `{}`, which changes the model too\n  PEFT's "
        "save_pretrained(..., path_initial_model_for_weight_conversion=...) writes it as plain "
        "LoRA",
        path, word);
}

void set_oft(const Json& json, const std::string& prefix, const std::string& path,
             Lora::Targets& targets) {
  const auto find = [&](const char* key) {
    const Json* value = json.find(prefix + key);
    return value == nullptr || value->is_null() ? nullptr : value;
  };
  const Json* series = find("use_cayley_neumann");
  const Json* terms = find("num_cayley_neumann_terms");
  const Json* constrained = find("coft");
  const bool exact = series != nullptr && !series->as_bool();
  for (auto& [module, target] : targets) {
    if (target.method != &adapters::kPeftOft) {
      continue;
    }
    check(exact || terms == nullptr || terms->as_int() == 5,
          "[lora] {} has num_cayley_neumann_terms {}, expected 5, PEFT's default", path,
          terms == nullptr ? 0 : terms->as_int());
    check(constrained == nullptr || !constrained->as_bool(),
          "[lora] {} is of constrained OFT (coft), which is not supported", path);
    if (exact) {
      target.method = &adapters::kExactPeftOft;
    }
  }
}

void check_peft_type(const fs::path& config, const io::TensorFile& file) {
  std::error_code ignored;
  if (!fs::exists(config, ignored) || detect_tensor_kind(file.tensors())) {
    return;
  }
  const Json configured = Json::read(config);
  const Json* type = configured.find("peft_type");
  const std::string word = type == nullptr || !type->is_string() ? "LORA" : type->as_string();
  constexpr std::array<std::string_view, 5> kRead{"LORA", "LOHA", "LOKR", "IA3", "OFT"};
  check(
      std::ranges::count(kRead, word) > 0,
      "[lora] {} is an adapter of PEFT's type {}, which is not supported\n  adapters of the types "
      "LORA, LOHA, LOKR, IA3 and OFT are",
      file.path(), word);
}

std::string metadata_prefix(const Json& metadata, LoraMember member) {
  const auto begins = [&](std::string_view prefix) {
    return std::ranges::any_of(metadata.members(),
                               [&](const auto& each) { return each.first.starts_with(prefix); });
  };
  constexpr std::array<std::string_view, 5> kAll{"transformer.", "transformer_2.", "unet.",
                                                 "text_encoder.", "text_encoder_2."};
  if (std::ranges::none_of(kAll, begins)) {
    return "";
  }
  switch (member) {
    case LoraMember::NETWORK:
      return begins("unet.") ? "unet." : "transformer.";
    case LoraMember::SECOND_NETWORK:
      return "transformer_2.";
    case LoraMember::TEXT_ENCODER:
      return "text_encoder.";
    case LoraMember::TEXT_ENCODER_2:
      return "text_encoder_2.";
  }
  return "";
}

}  // namespace kinema::weights
