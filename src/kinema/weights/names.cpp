#include "kinema/weights/names.h"

#include <algorithm>
#include <array>
#include <span>

namespace kinema::weights {
namespace {

struct Pair {
  std::string_view original;
  std::string_view diffusers;
};

// Outside the blocks. `head.modulation` and `img_emb.emb_pos` are parameters, not modules.
constexpr std::array kOutside{
    Pair{"patch_embedding", "patch_embedding"},
    Pair{"text_embedding.0", "condition_embedder.text_embedder.linear_1"},
    Pair{"text_embedding.2", "condition_embedder.text_embedder.linear_2"},
    Pair{"time_embedding.0", "condition_embedder.time_embedder.linear_1"},
    Pair{"time_embedding.2", "condition_embedder.time_embedder.linear_2"},
    Pair{"time_projection.1", "condition_embedder.time_proj"},
    Pair{"img_emb.proj.0", "condition_embedder.image_embedder.norm1"},
    Pair{"img_emb.proj.1", "condition_embedder.image_embedder.ff.net.0.proj"},
    Pair{"img_emb.proj.3", "condition_embedder.image_embedder.ff.net.2"},
    Pair{"img_emb.proj.4", "condition_embedder.image_embedder.norm2"},
    Pair{"img_emb.emb_pos", "condition_embedder.image_embedder.pos_embed"},
    Pair{"head.head", "proj_out"},
    Pair{"head.modulation", "scale_shift_table"},
};

// Inside a block. The original norm3, before cross-attention, is diffusers' norm2; the other two
// norms of a block have no parameters. `modulation` is a parameter.
constexpr std::array kInside{
    Pair{"self_attn.q", "attn1.to_q"},
    Pair{"self_attn.k", "attn1.to_k"},
    Pair{"self_attn.v", "attn1.to_v"},
    Pair{"self_attn.o", "attn1.to_out.0"},
    Pair{"self_attn.norm_q", "attn1.norm_q"},
    Pair{"self_attn.norm_k", "attn1.norm_k"},
    Pair{"cross_attn.q", "attn2.to_q"},
    Pair{"cross_attn.k", "attn2.to_k"},
    Pair{"cross_attn.v", "attn2.to_v"},
    Pair{"cross_attn.o", "attn2.to_out.0"},
    Pair{"cross_attn.norm_q", "attn2.norm_q"},
    Pair{"cross_attn.norm_k", "attn2.norm_k"},
    Pair{"cross_attn.k_img", "attn2.add_k_proj"},
    Pair{"cross_attn.v_img", "attn2.add_v_proj"},
    Pair{"cross_attn.norm_q_img", "attn2.norm_added_q"},
    Pair{"cross_attn.norm_k_img", "attn2.norm_added_k"},
    Pair{"ffn.0", "ffn.net.0.proj"},
    Pair{"ffn.2", "ffn.net.2"},
    Pair{"norm3", "norm2"},
    Pair{"modulation", "scale_shift_table"},
};

bool same(std::string_view plain, std::string_view given) { return plain == given; }

bool same_underscored(std::string_view plain, std::string_view given) {
  return std::ranges::equal(plain, given, [](char a, char b) { return (a == '.' ? '_' : a) == b; });
}

using Same = bool (*)(std::string_view, std::string_view);

std::optional<ModuleName> find(std::span<const Pair> table, std::string_view name, Same equal,
                               const std::string& prefix) {
  // Names of diffusers first: `norm2` is a module with parameters there only, and what both name
  // alike counts as theirs.
  for (const Pair& pair : table) {
    if (equal(pair.diffusers, name)) {
      return ModuleName{prefix + std::string(pair.diffusers), Naming::DIFFUSERS};
    }
  }
  for (const Pair& pair : table) {
    if (equal(pair.original, name)) {
      return ModuleName{prefix + std::string(pair.diffusers), Naming::ORIGINAL};
    }
  }
  return std::nullopt;
}

/// `blocks.12.rest` in two: the number as written, at most four digits, and the rest.
struct InBlock {
  std::string_view number;
  std::string_view rest;
};

std::optional<InBlock> split_block(std::string_view name, char separator) {
  constexpr std::string_view kBlocks = "blocks";
  if (!name.starts_with(kBlocks)) {
    return std::nullopt;
  }
  name.remove_prefix(kBlocks.size());
  const size_t end = name.find(separator, 1);
  if (!name.starts_with(separator) || end == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view number = name.substr(1, end - 1);
  const bool plain = !number.empty() && number.size() <= 4 &&
                     std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; }) &&
                     (number.size() == 1 || number[0] != '0');
  return plain ? std::optional(InBlock{number, name.substr(end + 1)}) : std::nullopt;
}

std::optional<ModuleName> read(std::string_view name, char separator, Same equal) {
  if (const auto block = split_block(name, separator)) {
    return find(kInside, block->rest, equal, "blocks." + std::string(block->number) + ".");
  }
  return find(kOutside, name, equal, "");
}

/// `name` with `.weight` or `.bias` split off; parameters that are no module's have neither.
struct Key {
  std::string_view module;
  std::string_view leaf;  // `.weight`, `.bias` or nothing
};

Key split_key(std::string_view key) {
  for (const std::string_view leaf : {".weight", ".bias"}) {
    if (key.ends_with(leaf)) {
      return {key.substr(0, key.size() - leaf.size()), key.substr(key.size() - leaf.size())};
    }
  }
  return {key, ""};
}

std::optional<std::string> translate(std::string_view key, std::string_view Pair::*from,
                                     std::string_view Pair::*to) {
  const auto [module, leaf] = split_key(key);
  const auto block = split_block(module, '.');
  const std::span<const Pair> table = block ? std::span<const Pair>(kInside) : kOutside;
  const std::string_view name = block ? block->rest : module;
  const auto found =
      std::ranges::find_if(table, [&](const Pair& pair) { return pair.*from == name; });
  if (found == table.end()) {
    return std::nullopt;
  }
  const std::string prefix = block ? "blocks." + std::string(block->number) + "." : "";
  return prefix + std::string((*found).*to) + std::string(leaf);
}

}  // namespace

std::optional<ModuleName> read_module(std::string_view name) { return read(name, '.', same); }

std::optional<ModuleName> read_underscored(std::string_view name) {
  return read(name, '_', same_underscored);
}

std::optional<std::string> diffusers_key(std::string_view original) {
  return translate(original, &Pair::original, &Pair::diffusers);
}

std::optional<std::string> original_key(std::string_view diffusers) {
  return translate(diffusers, &Pair::diffusers, &Pair::original);
}

}  // namespace kinema::weights
