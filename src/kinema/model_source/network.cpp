#include "kinema/model_source/network.h"

#include <concepts>
#include <filesystem>
#include <string>
#include <type_traits>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/io/json.h"
#include "kinema/model_source/model_paths.h"
#include "kinema/networks/open.h"

namespace kinema::model_source {
namespace {

namespace fs = std::filesystem;
using io::Json;

/// The types of size keys. Other keys with config::Given are not sizes.
template <typename T>
constexpr bool is_size = std::is_arithmetic_v<T> || std::same_as<T, std::vector<int64_t>> ||
                         std::same_as<T, std::string>;

/// Calls visit(key, member) for the keys of a network's sizes: those that its config.json also has.
template <typename Keys, typename Visitor>
void for_sizes(Keys& keys, const Json& network, const Visitor& visit) {
  config::ModelConfig::fields(
      keys, [&](std::string_view key, auto& member, config::OnResume, const config::Field&) {
        using Member = std::remove_cvref_t<decltype(member)>;
        if constexpr (config::is_given<Member> &&
                      is_size<std::remove_cvref_t<decltype(config::value_of(member))>>) {
          if (network.find(key) != nullptr) {
            visit(key, member);
          }
        }
      });
}

template <typename T>
Json json_of(const T& value) {
  if constexpr (std::same_as<T, std::vector<int64_t>>) {
    return Json::array({value.begin(), value.end()});
  } else if constexpr (std::same_as<T, int64_t>) {
    return value == 0 ? Json() : Json(value);  // null: no such size
  } else {
    return Json(value);
  }
}

template <typename T>
void read(const Json& from, T& value) {
  if constexpr (std::same_as<T, std::vector<int64_t>>) {
    value = from.as_ints();
  } else if constexpr (std::same_as<T, int64_t>) {
    value = from.is_null() ? 0 : from.as_int();
  } else if constexpr (std::same_as<T, bool>) {
    value = from.as_bool();
  } else {
    value = from.as_number();
  }
}

}  // namespace

networks::Network scratch_network(const config::Loaded& loaded) {
  if (const std::string& file = loaded.config.model.network_config; !file.empty()) {
    return networks::from_config(Json::read(file));
  }
  Json sizes = networks::default_config();
  config::ModelConfig keys = loaded.config.model;
  if (keys.autoencoder == config::Autoencoder::SPACE_TO_DEPTH) {
    for (config::Given<int64_t>* channels : {&keys.in_channels, &keys.out_channels}) {
      if (!channels->given) {
        *channels = model_source::space_to_depth(loaded.config).channels();
      }
    }
  }
  for_sizes(keys, sizes, [&](std::string_view key, const auto& member) {
    sizes.set(key, json_of(member.value));
  });
  return networks::from_config(sizes);
}

networks::Network planned_network(const config::Loaded& loaded) {
  const config::ModelConfig& m = loaded.config.model;
  const std::string& own = m.wan_transformer_pretrained_model_name_or_path;
  const std::string& name = own.empty() ? m.pretrained_model_name_or_path : own;
  if (name.empty()) {
    return scratch_network(loaded);
  }
  std::error_code ignored;
  if (fs::exists(name, ignored)) {
    return networks::open(trained_transformer(loaded.config));
  }
  std::optional<Json> sizes = networks::released_config(name);
  check(sizes.has_value(),
        "[plan] the model `{}` is not on this machine, and its sizes are unknown\n"
        "  give a folder with its config.json, or num_layers=..., ffn_dim=... without a name",
        name);
  const Json released = *sizes;
  for_sizes(m, released, [&](std::string_view key, const auto& member) {
    if (member.given) {
      sizes->set(key, json_of(member.value));
    }
  });
  return networks::from_config(*sizes);
}

void set_sizes(config::ModelConfig& keys, const networks::Network& network) {
  const Json sizes = network->config();
  if (sizes.at("_class_name").as_string() !=
      networks::default_config().at("_class_name").as_string()) {
    return;  // keys of another family
  }
  for_sizes(keys, sizes,
            [&](std::string_view key, auto& member) { read(sizes.at(key), member.value); });
}

}  // namespace kinema::model_source
