#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/shape.h"
#include "graph/tensor.h"

namespace kinema::nn {

/// How a parameter starts when training from scratch.
struct Init {
  enum class Kind { ZEROS, CONSTANT, NORMAL, XAVIER_UNIFORM };
  Kind kind = Kind::ZEROS;
  double scale = 0.0;  // CONSTANT: the value; NORMAL: standard deviation; XAVIER_UNIFORM: gain
};

/// One parameter as it lives on the device.
struct ParamSpec {
  /// The checkpoint's key (diffusers naming). With `layers` > 0, `{}` stands for the layer number.
  std::string name;
  /// Stored shape, dtype included; stacked parameters have a leading axis of size `layers`.
  Shape shape;
  /// > 0: the layers 0 .. layers-1 of a scanned stack in one tensor.
  int64_t layers = 0;
  /// Logical axis per dimension of one layer ("" = none), for the sharding rules.
  std::vector<std::string> axes;
  Init init;
};

/// A place in the parameter tree: weights are opened by the checkpoint's own key path,
/// `(params / "attn1" / "to_q").weight("weight", {d, d}, ...)`.
class Params {
 public:
  /// What stands behind the tree: records specs, or hands out the tensors of a graph.
  class Source {
   public:
    virtual ~Source() = default;
    virtual Tensor parameter(const std::string& key, const Dims& dims,
                             const std::vector<std::string>& axes, const Init& init) = 0;
  };

  Params(Source& source, std::string prefix) : source_(&source), prefix_(std::move(prefix)) {}

  Params operator/(std::string_view name) const;
  /// The parameter `prefix.name`, with torch's layout (linear weights [out, in]).
  Tensor weight(std::string_view name, Dims dims, std::vector<std::string> axes, Init init) const;

 private:
  Source* source_;
  std::string prefix_;
};

}  // namespace kinema::nn
