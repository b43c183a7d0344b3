#include "kinema/nn/attention.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kinema/core/error.h"
#include "kinema/graph/manual.h"
#include "kinema/graph/scan.h"
#include "kinema/kernels/block_sizes.h"
#include "kinema/nn/attention_parts.h"
#include "kinema/nn/attention_plain.h"
#include "kinema/nn/linear.h"

namespace kinema::nn {
namespace {

void check_shapes(Tensor q, Tensor k, Tensor v) {
  check(q.rank() == 4 && k.rank() == 4 && k.shape() == v.shape() && q.dtype() == k.dtype() &&
            q.dim(0) == k.dim(0) && q.dim(2) == k.dim(2) && q.dim(3) == k.dim(3),
        "[attention] q {}, k {}, v {} do not fit: q is [b, s, n, d], k and v are [b, t, n, d]",
        to_string(q.shape()), to_string(k.shape()), to_string(v.shape()));
}

/// Heads folded into the batch: [b, s, n, d] -> [b n, s, 1, d], and back.
Tensor fold_heads(Tensor x) {
  return reshape(transpose(x, {0, 2, 1, 3}), {x.dim(0) * x.dim(2), x.dim(1), 1, x.dim(3)});
}
Tensor unfold_heads(Tensor x, int64_t heads) {
  return transpose(reshape(x, {x.dim(0) / heads, heads, x.dim(1), x.dim(3)}), {0, 2, 1, 3});
}

// ---- Plain ---------------------------------------------------------------------------------

/// XLA's partitioner inserts the collectives.
Tensor plain(Tensor q, Tensor k, Tensor v, const AttentionOptions& options, double scale) {
  const auto dot_product = [&](Tensor q, Tensor k, Tensor v, Tensor bias) {
    return options.quantized
               ? quantized_dot_product(q, k, v, bias, options.precision, scale, *options.quantized)
               : nn::dot_product(q, k, v, bias, options.precision, scale);
  };
  if (!options.split_heads && !options.bias) {
    return unfold_heads(dot_product(fold_heads(q), fold_heads(k), fold_heads(v), {}), q.dim(2));
  }
  const AttentionAxes& axes = options.axes;
  if (!axes.mesh.axes.empty()) {
    const Sharding rows{{axes.batch, axes.sequence, axes.heads, {}}};
    const Sharding keys{{axes.batch, {}, axes.heads, {}}};
    const Tensor y = dot_product(with_sharding(q, rows), with_sharding(k, keys),
                                 with_sharding(v, keys), options.bias);
    return with_sharding(y, rows);
  }
  return dot_product(q, k, v, options.bias);
}

/// With a bias all scores are computed. If nothing is differentiated, a kernel of the target that
/// stores fewer may replace this.
Tensor biased(Tensor q, Tensor k, Tensor v, Tensor bias, Precision precision, double scale) {
  Dims dims = bias.shape().dims;
  dims.insert(dims.begin(), static_cast<size_t>(4 - bias.rank()), 1);
  return fused("attention", kernels::AttentionSettings{scale},
               {q, k, v, reshape(as(bias, DType::F32), dims)},
               [&](std::span<const Tensor> in) -> std::vector<Tensor> {
                 return {dot_product(in[0], in[1], in[2], in[3], precision, scale)};
               })[0];
}

// ---- In blocks, on one device or on parts ---------------------------------------------------

/// The groups of devices, and how q, k, v and the result are sharded.
struct Split {
  PartPlan plan;
  ManualSpec forward;
  ManualSpec backward;
  // Sizes are padded to multiples of these.
  int64_t batch, sequence, keys, heads;
};

DeviceGroups alone() { return {.axes = {}, .members = {{0}}}; }

/// The groups of a kind within the devices along the sequence. `heads`: the heads that these
/// devices share; 0: not known yet.
void set_groups(PartPlan& plan, const DeviceGroups& line, int64_t heads,
                const AttentionOptions& options) {
  if (line.size() == 1) {
    return;
  }
  if (options.replicated_keys) {
    plan.copies = line;
    return;
  }
  switch (options.kind) {
    case AttentionKind::RING:
      plan.ring = line;
      return;
    case AttentionKind::ULYSSES: {
      // Heads that do not divide would need padding, which wastes work: they are exchanged among
      // fewer devices, and keys are gathered across these groups.
      const int64_t shards = heads == 0 ? line.size() : std::gcd(heads, line.size());
      plan.exchange = subgroups(line, shards, 1);
      plan.gather = subgroups(line, line.size() / shards, shards);
      return;
    }
    case AttentionKind::ULYSSES_RING: {
      const int64_t shards = options.ulysses_shards;
      check(
          shards > 0 && line.size() % shards == 0,
          "[attention] ulysses_ring splits the sequence over {} devices and exchanges heads among "
          "ulysses_shards={} of them\n  set ulysses_shards to a divisor of {}",
          line.size(), shards, line.size());
      plan.exchange = subgroups(line, shards, 1);
      plan.ring = subgroups(line, line.size() / shards, shards);
      return;
    }
    case AttentionKind::DOT_PRODUCT:
    case AttentionKind::FLASH:
      plan.gather = line;
  }
}

int64_t devices_along(const AttentionAxes& axes, const std::vector<std::string>& names) {
  return device_groups(axes.mesh, names).size();
}

Split split_of(const AttentionOptions& options, const FlashOptions& flash, int64_t keys,
               int64_t heads) {
  const AttentionAxes& axes = options.axes;
  check(options.ulysses_chunks > 0, "[attention] ulysses_chunks is {} but must be positive",
        options.ulysses_chunks);
  Split split{.plan = {.gather = alone(),
                       .exchange = alone(),
                       .ring = alone(),
                       .copies = alone(),
                       .keys = keys,
                       .chunks = options.ulysses_chunks,
                       .flash = flash}};
  const DeviceGroups line = device_groups(axes.mesh, axes.sequence);
  const int64_t beside = devices_along(axes, axes.heads);
  set_groups(split.plan, line, (heads + beside - 1) / beside, options);
  split.batch = devices_along(axes, axes.batch);
  split.sequence = line.size();
  split.keys = options.replicated_keys ? 1 : line.size();
  split.heads = beside * split.plan.exchange.size();
  const Sharding q{{axes.batch, axes.sequence, axes.heads, {}}};
  const Sharding k{{axes.batch,
                    options.replicated_keys ? std::vector<std::string>{} : axes.sequence,
                    axes.heads,
                    {}}};
  const Sharding lse{{axes.batch, axes.heads, axes.sequence}};
  split.forward = {axes.mesh, {q, k, k}, {q, lse}};
  split.backward = {axes.mesh, {q, k, k, lse, lse, q, q}, {q, k, k}};
  return split;
}

Tensor filled_up(Tensor x, int64_t axis, int64_t multiple) {
  const int64_t missing = (multiple - x.dim(axis) % multiple) % multiple;
  return missing == 0 ? x : pad(x, Axis(axis), 0, missing);
}

Tensor cut_back(Tensor x, const Dims& dims) {
  for (int64_t i = 0; i < x.rank(); ++i) {
    const int64_t size = dims[static_cast<size_t>(i)];
    x = x.dim(i) == size ? x : slice(x, Axis(i), 0, size);
  }
  return x;
}

Tensor fill_up(Tensor x, const Split& split, int64_t sequence) {
  return filled_up(filled_up(filled_up(x, 0, split.batch), 1, sequence), 2, split.heads);
}

/// With one device no manual region is needed.
std::vector<Tensor> on_parts(
    const std::vector<Tensor>& inputs, const ManualSpec& spec,
    const std::function<std::vector<Tensor>(std::span<const Tensor>)>& body) {
  return spec.mesh.axes.empty() ? body(inputs) : manual(inputs, spec, body);
}

Tensor in_blocks(Tensor q, Tensor k, Tensor v, const AttentionOptions& options, double scale) {
  const FlashOptions flash{.scale = scale,
                           .precision = options.precision,
                           .blocks = options.blocks,
                           .mask_padding = options.mask_padding,
                           .base2 = options.base2};
  const Split split = split_of(options, flash, k.dim(1), k.dim(2));
  const auto forward = [&](std::span<const Tensor> in) {
    const std::vector<Tensor> whole{fill_up(in[0], split, split.sequence),
                                    fill_up(in[1], split, split.keys),
                                    fill_up(in[2], split, split.keys)};
    std::vector<Tensor> ys =
        on_parts(whole, split.forward, [&](std::span<const Tensor> part) -> std::vector<Tensor> {
          const FlashResult result = part_forward(part[0], part[1], part[2], split.plan);
          return {result.y, result.lse};
        });
    ys[0] = cut_back(ys[0], in[0].shape().dims);
    return ys;
  };
  // The scores are not stored: the rule computes them again, block by block.
  const auto backward = [split](std::span<const Tensor> in, std::span<const Tensor> ys,
                                std::span<const Tensor> dys) {
    const Tensor y = fill_up(ys[0], split, split.sequence);
    const Tensor dy = dys[0] ? fill_up(dys[0], split, split.sequence) : zeros_like(y);
    Tensor delta = flash_delta(y, dy);
    PartPlan plan = split.plan;
    if (dys[1]) {
      delta = delta - dys[1];  // a gradient of a gradient: d lse / d s = p
      plan.flash.delta_of_y = false;
    }
    const std::vector<Tensor> whole{fill_up(in[0], split, split.sequence),
                                    fill_up(in[1], split, split.keys),
                                    fill_up(in[2], split, split.keys),
                                    ys[1],
                                    delta,
                                    dy,
                                    y};
    std::vector<Tensor> grads =
        on_parts(whole, split.backward, [&](std::span<const Tensor> part) -> std::vector<Tensor> {
          const FlashGradients result =
              part_backward(part[0], part[1], part[2], part[3], part[4], part[5], part[6], plan);
          return {result.dq, result.dk, result.dv};
        });
    for (size_t i = 0; i < grads.size(); ++i) {
      grads[i] = cut_back(grads[i], in[i].shape().dims);
    }
    return grads;
  };
  return with_gradient({q, k, v}, forward, backward)[0];
}

/// The kind that is computed for the requested one.
AttentionKind kind_for(int64_t queries, int64_t keys, const AttentionOptions& options) {
  const bool is_short = std::min(queries, keys) < options.min_length;
  const bool goes_round = options.kind == AttentionKind::RING && !options.replicated_keys;
  return is_short && !goes_round ? AttentionKind::DOT_PRODUCT : options.kind;
}

}  // namespace

void check_attention(const AttentionOptions& options, int64_t queries, int64_t keys) {
  if (kind_for(queries, keys, options) == AttentionKind::DOT_PRODUCT) {
    return;
  }
  split_of(options, {}, keys, /*heads=*/0);
  kernels::check_block_sizes(options.blocks);
}

Tensor attention(Tensor q, Tensor k, Tensor v, const AttentionOptions& options) {
  check_shapes(q, k, v);
  const double scale =
      options.scale != 0.0 ? options.scale : 1.0 / std::sqrt(static_cast<double>(q.dim(3)));
  const AttentionKind kind = kind_for(q.dim(1), k.dim(1), options);
  if (kind == AttentionKind::DOT_PRODUCT) {
    return plain(q, k, v, options, scale);
  }
  if (options.bias) {
    check(kind == AttentionKind::FLASH && options.axes.mesh.axes.empty(),
          "[attention] a bias is for dot_product and, on one device, flash");
    return biased(q, k, v, options.bias, options.precision, scale);
  }
  kernels::check_block_sizes(options.blocks);
  return in_blocks(q, k, v, options, scale);
}

}  // namespace kinema::nn
