#include "kinema/nn/attention_by_rows.h"

#include <algorithm>
#include <vector>

#include "kinema/graph/scan.h"
#include "kinema/nn/attention.h"

namespace kinema::nn {
namespace {

/// More blocks than this become a loop, so that the program does not grow with them.
constexpr int64_t kUnrolled = 4;

/// Blocks of `rows` queries one after the other; the last is padded with zeros.
Tensor by_loop(Tensor q, Tensor k, Tensor v, int64_t rows, Precision precision) {
  const int64_t tokens = q.dim(1);
  const int64_t blocks = (tokens + rows - 1) / rows;
  const Tensor filled = pad(q, Axis(1), 0, blocks * rows - tokens);
  // [b, blocks, rows, heads, width], blocks first.
  const Tensor parts =
      transpose(reshape(filled, {q.dim(0), blocks, rows, q.dim(2), q.dim(3)}), {1, 0, 2, 3, 4});
  const ScanResult made =
      scan({}, {parts}, {.length = blocks},
           [&](std::span<const Tensor> /*carry*/, std::span<const Tensor> xs) -> ScanResult {
             return {{}, {attention(xs[0], k, v, {.precision = precision})}};
           });
  const Tensor joined = reshape(transpose(made.ys[0], {1, 0, 2, 3, 4}),
                                {q.dim(0), blocks * rows, q.dim(2), v.dim(3)});
  return slice(joined, Axis(1), 0, tokens);
}

}  // namespace

Tensor attention_by_rows(Tensor q, Tensor k, Tensor v, Precision precision, int64_t most_scores) {
  const int64_t tokens = q.dim(1);
  const int64_t blocks = (tokens * tokens + most_scores - 1) / most_scores;
  const int64_t rows = (tokens + blocks - 1) / blocks;
  if (blocks > kUnrolled) {
    return by_loop(q, k, v, rows, precision);
  }
  std::vector<Tensor> parts;
  for (int64_t at = 0; at < tokens; at += rows) {
    const Tensor some = slice(q, Axis(1), at, std::min(rows, tokens - at));
    parts.push_back(attention(some, k, v, {.precision = precision}));
  }
  return parts.size() == 1 ? parts[0] : concatenate(parts, Axis(1));
}

}  // namespace kinema::nn
