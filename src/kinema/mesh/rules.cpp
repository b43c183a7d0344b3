#include "kinema/mesh/rules.h"

#include <algorithm>
#include <optional>
#include <set>

#include "kinema/core/error.h"
#include "kinema/io/json.h"

namespace kinema::mesh {
namespace {

Rule parse_rule(const io::Json& entry, std::string_view key) {
  check(entry.is_array() && entry.items().size() == 2 && entry.items()[0].is_string(),
        "[mesh] {} has the entry {}, expected [LOGICAL AXIS, mesh axis, list of them or null]", key,
        entry.dump(-1));
  Rule rule{entry.items()[0].as_string(), {}};
  const io::Json& axes = entry.items()[1];
  if (axes.is_string()) {
    rule.mesh_axes.push_back(axes.as_string());
  } else if (axes.is_array()) {
    for (const io::Json& axis : axes.items()) {
      check(axis.is_string(), "[mesh] {}: `{}` lies on {}, expected names of mesh axes", key,
            rule.logical, axes.dump(-1));
      rule.mesh_axes.push_back(axis.as_string());
    }
  } else {
    check(axes.is_null(), "[mesh] {}: `{}` lies on {}, expected names of mesh axes or null", key,
          rule.logical, axes.dump(-1));
  }
  const std::set<std::string> distinct(rule.mesh_axes.begin(), rule.mesh_axes.end());
  check(distinct.size() == rule.mesh_axes.size(), "[mesh] {}: `{}` names a mesh axis twice: {}",
        key, rule.logical, axes.dump(-1));
  return rule;
}

}  // namespace

AxisRules AxisRules::parse(const io::JsonText& list, std::string_view key) {
  const io::Json tree = io::Json::parse(list.json, key);
  std::vector<Rule> rules;
  if (tree.is_null()) {
    return AxisRules();
  }
  check(tree.is_array(), "[mesh] {} is {}, expected a list of [LOGICAL AXIS, mesh axes]", key,
        tree.describe());
  for (const io::Json& entry : tree.items()) {
    rules.push_back(parse_rule(entry, key));
  }
  return AxisRules(std::move(rules));
}

std::vector<std::vector<std::string>> AxisRules::assign(
    std::span<const std::string> logical) const {
  for (size_t i = 0; i < logical.size(); ++i) {
    check(logical[i].empty() || std::ranges::count(logical, logical[i]) == 1,
          "[mesh] a tensor has the logical axis `{}` twice", logical[i]);
  }
  std::vector<std::optional<std::vector<std::string>>> dims(logical.size());
  std::set<std::string> taken;
  for (const Rule& rule : rules_) {
    const auto at = std::ranges::find(logical, rule.logical);
    if (rule.logical.empty() || at == logical.end()) {
      continue;
    }
    auto& dim = dims[static_cast<size_t>(at - logical.begin())];
    const bool free = std::ranges::none_of(
        rule.mesh_axes, [&](const std::string& axis) { return taken.contains(axis); });
    if (!dim && free) {
      dim = rule.mesh_axes;
      taken.insert(rule.mesh_axes.begin(), rule.mesh_axes.end());
    }
  }
  std::vector<std::vector<std::string>> out;
  for (auto& dim : dims) {
    out.push_back(dim ? std::move(*dim) : std::vector<std::string>());
  }
  return out;
}

std::vector<std::string> AxisRules::axes_of(std::string_view logical) const {
  const std::string name(logical);
  return assign(std::span(&name, 1)).front();
}

bool AxisRules::has(std::string_view logical) const {
  return std::ranges::any_of(rules_, [&](const Rule& rule) { return rule.logical == logical; });
}

AxisRules AxisRules::for_attention(std::string_view attention, bool uniform) const {
  std::vector<Rule> base = rules_;
  if (!has("activation_length")) {
    base.push_back({"activation_length", {"context"}});
  }
  const bool moves_keys = attention.find("ring") != std::string_view::npos ||
                          attention.find("ulysses") != std::string_view::npos;
  if (!moves_keys && !uniform) {
    return AxisRules(std::move(base));
  }
  const AxisRules known(base);
  const std::vector<std::string> length = known.axes_of("activation_length");
  const std::vector<std::string> heads = known.axes_of("activation_heads");
  std::vector<Rule> all = {{"activation_self_attn_q_length", length},
                           {"activation_self_attn_heads", heads},
                           {"activation_cross_attn_q_length", length},
                           {"activation_cross_attn_heads", heads}};
  all.insert(all.end(), base.begin(), base.end());
  return AxisRules(std::move(all));
}

AxisRules AxisRules::with_tokens_on_fsdp() const {
  const std::string fsdp = "fsdp";
  const auto behind_context = [&](Rule& rule) {
    const auto context = std::ranges::find(rule.mesh_axes, "context");
    if (context != rule.mesh_axes.end() && std::ranges::count(rule.mesh_axes, fsdp) == 0) {
      rule.mesh_axes.insert(context + 1, fsdp);
    }
  };
  if (std::ranges::count(axes_of("activation_length"), "context") == 0) {
    return *this;
  }
  std::vector<Rule> out = rules_;
  for (Rule& rule : out) {
    if (rule.logical == "activation_batch") {
      std::erase(rule.mesh_axes, fsdp);
    } else if (rule.logical.starts_with("activation_")) {
      behind_context(rule);
    }
  }
  return AxisRules(std::move(out));
}

}  // namespace kinema::mesh
