#pragma once

#include <any>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "kinema/graph/tensor.h"

namespace kinema {

/// Which values of a block the backward pass keeps; the others are computed again.
struct RematPolicy {
  enum class Kind {
    NONE,                  // compute nothing again but plain arithmetic
    FULL,                  // keep the block's inputs only
    MATMUL_WITHOUT_BATCH,  // keep results of dots without batch axes
    FLUX_OPTIMIZED,        // what the blocks of Flux say themselves; elsewhere the same
    CUSTOM,                // keep values named with `named`
  };
  Kind kind = Kind::NONE;
  /// CUSTOM: names kept on the device.
  std::vector<std::string> saved;
  /// CUSTOM: names moved to host memory where the device has such (kept on the device on CPU).
  std::vector<std::string> offloaded;
  /// MATMUL_WITHOUT_BATCH: move the kept dots to host memory.
  bool offload = false;
  bool operator==(const RematPolicy&) const = default;
};

/// The policy of a configuration's `remat_policy` (any case): NONE, FULL, MATMUL_WITHOUT_BATCH,
/// OFFLOAD_MATMUL_WITHOUT_BATCH, HIDDEN_STATE_WITH_OFFLOAD, FLUX_OPTIMIZED, CUSTOM. Throws an Error
/// naming the known policies for another word.
RematPolicy remat_policy(const std::string& name, std::vector<std::string> saved = {},
                         std::vector<std::string> offloaded = {});

struct ScanResult {
  std::vector<Tensor> carry;
  std::vector<Tensor> ys;  // each with a leading axis of the scan's length
};

struct ScanOptions {
  int64_t length;  // number of steps; every x has it as leading size
  bool reverse = false;
  RematPolicy remat = {};
  /// y -> x whose stack it is written into, step by step, after its slice was read: no second stack
  /// is made where the first one may be given up. It lies where that one lies (Memory).
  std::map<size_t, size_t> in_place = {};
};

/// `carry, ys[i] = body(carry, xs[i])` for i = 0 .. length-1 as one loop in the program, whose size
/// does not depend on the length. Tensors that the body uses from outside are captured and may be
/// differentiated too.
ScanResult scan(std::vector<Tensor> carry, std::vector<Tensor> xs, ScanOptions options,
                const std::function<ScanResult(std::span<const Tensor> carry,
                                               std::span<const Tensor> xs)>& body);

/// `body(inputs)` as one unit that a target's kernel of this name may take over; inlined where
/// there is none. `settings` is what the kernel needs to know beside the inputs. Differentiated
/// through the body, which is then computed again.
std::vector<Tensor> fused(std::string kernel, std::any settings, std::vector<Tensor> inputs,
                          const std::function<std::vector<Tensor>(std::span<const Tensor>)>& body);

/// The backward pass of `with_gradient`: a gradient per input, empty where there is none, from the
/// inputs, the results and their cotangents (empty where a result got none). Graph code.
using GradientRule = std::function<std::vector<Tensor>(
    std::span<const Tensor> inputs, std::span<const Tensor> ys, std::span<const Tensor> dys)>;

/// `body(inputs)`, inlined, differentiated by `rule` and not through the body. What the rule reads
/// of the results is kept for the backward pass, nothing from inside. The body uses its inputs
/// only. With `is_product`, remat policies take the call for a dot without batch axes.
std::vector<Tensor> with_gradient(
    std::vector<Tensor> inputs,
    const std::function<std::vector<Tensor>(std::span<const Tensor>)>& body, GradientRule rule,
    bool is_product = false);

/// `body(inputs)`, inlined, whose intermediate values the backward pass keeps or computes again
/// according to the policy.
std::vector<Tensor> checkpoint(
    std::vector<Tensor> inputs, RematPolicy policy,
    const std::function<std::vector<Tensor>(std::span<const Tensor>)>& body);

}  // namespace kinema
