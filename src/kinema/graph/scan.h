#pragma once

#include <any>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "kinema/graph/tensor.h"

namespace kinema {

/// The values of a block that the backward pass keeps; the others are rematerialized.
struct RematPolicy {
  enum class Kind {
    NONE,                  // rematerialize plain arithmetic only
    FULL,                  // keep the block's inputs only
    MATMUL_WITHOUT_BATCH,  // keep results of dots without batch axes
    FLUX_OPTIMIZED,  // the named values that Flux's blocks choose; other models have the same names
    CUSTOM,          // keep values named with `named`
  };
  Kind kind = Kind::NONE;
  /// CUSTOM: names kept on the device.
  std::vector<std::string> saved;
  /// CUSTOM: names offloaded to host memory, if the device has it (kept on the device on CPU).
  std::vector<std::string> offloaded;
  /// MATMUL_WITHOUT_BATCH: offload the kept dots to host memory.
  bool offload = false;
  bool operator==(const RematPolicy&) const = default;
};

/// The policy for the value of the key `remat_policy` (any case): NONE, FULL, MATMUL_WITHOUT_BATCH,
/// OFFLOAD_MATMUL_WITHOUT_BATCH, HIDDEN_STATE_WITH_OFFLOAD, FLUX_OPTIMIZED, CUSTOM. Throws an Error
/// that lists the policies for another name.
RematPolicy remat_policy(const std::string& name, std::vector<std::string> saved = {},
                         std::vector<std::string> offloaded = {});

struct ScanResult {
  std::vector<Tensor> carry;
  std::vector<Tensor> ys;  // each with a leading axis of the scan's length
};

struct ScanOptions {
  int64_t length;  // number of steps; the leading size of every x
  bool reverse = false;
  RematPolicy remat = {};
  /// y -> x whose stack each step of y overwrites, after the step's slice was read. No second stack
  /// is allocated if the first may be overwritten. y has the Memory of x.
  std::map<size_t, size_t> in_place = {};
};

/// `carry, ys[i] = body(carry, xs[i])` for i = 0 .. length-1 as one loop in the program, whose size
/// does not depend on the length. Outer tensors that the body uses are captured and can be
/// differentiated.
ScanResult scan(std::vector<Tensor> carry, std::vector<Tensor> xs, ScanOptions options,
                const std::function<ScanResult(std::span<const Tensor> carry,
                                               std::span<const Tensor> xs)>& body);

/// `body(inputs)` as one unit, which a target's kernel of this name may replace; inlined without a
/// kernel. `settings`: parameters of the kernel in addition to the inputs. It is differentiated
/// through the body, which is then computed again.
std::vector<Tensor> fused(std::string kernel, std::any settings, std::vector<Tensor> inputs,
                          const std::function<std::vector<Tensor>(std::span<const Tensor>)>& body);

/// The backward pass of `with_gradient`: returns a gradient per input, empty for inputs without,
/// from the inputs, the results and their cotangents (empty for a result without). Graph code.
using GradientRule = std::function<std::vector<Tensor>(
    std::span<const Tensor> inputs, std::span<const Tensor> ys, std::span<const Tensor> dys)>;

/// `body(inputs)`, inlined, differentiated by `rule` and not through the body. The results that the
/// rule reads are kept for the backward pass; values inside the body are not. The body may not use
/// outer tensors other than its inputs. With `is_product`, remat policies treat the call as a dot
/// without batch axes.
std::vector<Tensor> with_gradient(
    std::vector<Tensor> inputs,
    const std::function<std::vector<Tensor>(std::span<const Tensor>)>& body, GradientRule rule,
    bool is_product = false);

/// `body(inputs)`, inlined; the backward pass keeps or rematerializes its intermediate values
/// according to the policy.
std::vector<Tensor> checkpoint(
    std::vector<Tensor> inputs, RematPolicy policy,
    const std::function<std::vector<Tensor>(std::span<const Tensor>)>& body);

}  // namespace kinema
