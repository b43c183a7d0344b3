#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kinema/core/shape.h"
#include "kinema/graph/graph.h"
#include "kinema/mesh/mesh.h"
#include "kinema/mesh/rules.h"

namespace kinema::mesh {

/// The sharding of tensors: a mesh and the rules of one network. A cheap handle for model code,
/// which uses logical axes only. Without a mesh it leaves every tensor unchanged.
class Placement {
 public:
  /// One device.
  Placement() = default;
  /// Throws an Error if a rule names an axis that the mesh does not have; `key` is the
  /// configuration key of the rules.
  Placement(Mesh mesh, AxisRules rules, std::string_view key = "logical_axis_rules");

  /// True for equal meshes and rules.
  bool operator==(const Placement& other) const;

  /// True for more than one device.
  bool active() const { return data_ != nullptr && data_->mesh.devices() > 1; }
  int64_t devices() const { return active() ? data_->mesh.devices() : 1; }
  /// Without a mesh: no axes, no devices.
  const Mesh& mesh() const;
  const AxisRules& rules() const;

  /// The mesh axes, of more than one device, over which a logical axis is sharded, major first; and
  /// the number of their devices.
  std::vector<std::string> axes_of(std::string_view logical) const;
  int64_t parts(std::string_view logical) const;

  /// The placement for a batch of this many samples: if they do not divide over the mesh axes of
  /// `activation_batch`, `fsdp` shards their tokens instead (AxisRules::with_tokens_on_fsdp).
  /// Weights keep their sharding. check_batch tests whether the samples then divide.
  Placement for_samples(int64_t samples) const;

  /// The sharding of a program's input or result: by the rules, without the last of a dimension's
  /// mesh axes over which its size does not divide. Axes of one device are omitted. `logical` has
  /// one name per dimension ("": none). Empty without a mesh.
  Sharding sharding(std::span<const std::string> logical, const Dims& dims) const;
  Sharding sharding(std::initializer_list<std::string_view> logical, const Dims& dims) const;
  /// The same for values inside a program, which the compiler pads if they do not divide.
  Sharding constraint(std::span<const std::string> logical, const Dims& dims) const;
  /// Replicated on every device, as an explicit sharding.
  Sharding whole(const Dims& dims) const;

  /// x with a sharding constraint by the rules; x itself without a mesh, or if they have no rule
  /// for it.
  Tensor operator()(Tensor x, std::span<const std::string_view> logical) const;
  Tensor operator()(Tensor x, std::initializer_list<std::string_view> logical) const {
    return (*this)(x, std::span(logical.begin(), logical.size()));
  }

  /// x, a rounded product, for its consumers; x itself without a mesh. Partitioned products give
  /// f32 sums; without a barrier each consumer rounds them again, and the f32 sums stay in memory
  /// instead of the rounded values.
  Tensor rounded(Tensor x) const;

 private:
  struct Data {
    Mesh mesh;
    AxisRules rules;
    bool operator==(const Data&) const = default;
  };
  std::shared_ptr<const Data> data_;
};

}  // namespace kinema::mesh
