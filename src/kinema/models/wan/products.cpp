#include "kinema/models/wan/products.h"

#include <algorithm>
#include <array>
#include <utility>

namespace kinema::wan {

std::string module_path(std::string_view key) {
  // Scanned layers have no number in the path; others have.
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kNames{{
      {".{}.", "."},
      {".image_embedder.ff.net.0.proj", ".image_embedder.ff.net_0"},
      {".image_embedder.ff.net.2", ".image_embedder.ff.net_2"},
      {".to_q", ".query"},
      {".to_k", ".key"},
      {".to_v", ".value"},
      {".to_out.0", ".proj_attn"},
      {".ffn.net.0.proj", ".ffn.act_fn.proj"},
      {".ffn.net.2", ".ffn.proj_out"},
  }};
  std::string path(key);
  for (const auto& [ours, theirs] : kNames) {
    if (const size_t at = path.find(ours); at != std::string::npos) {
      path.replace(at, ours.size(), theirs);
    }
  }
  std::ranges::replace(path, '.', '/');
  return path;
}

}  // namespace kinema::wan
