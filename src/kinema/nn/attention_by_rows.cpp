#include "kinema/nn/attention_by_rows.h"

#include <algorithm>
#include <vector>

#include "kinema/nn/attention.h"

namespace kinema::nn {
namespace {

/// Scores of one block of queries, at most.
constexpr int64_t kScores = int64_t{1} << 24;

}  // namespace

Tensor attention_by_rows(Tensor q, Tensor k, Tensor v, Precision precision) {
  const int64_t tokens = q.dim(1);
  const int64_t blocks = (tokens * tokens + kScores - 1) / kScores;
  const int64_t rows = (tokens + blocks - 1) / blocks;
  std::vector<Tensor> parts;
  for (int64_t at = 0; at < tokens; at += rows) {
    const Tensor some = slice(q, Axis(1), at, std::min(rows, tokens - at));
    parts.push_back(attention(some, k, v, {.precision = precision}));
  }
  return parts.size() == 1 ? parts[0] : concatenate(parts, Axis(1));
}

}  // namespace kinema::nn
