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

/// Where tensors lie: a mesh and the rules of one network. A cheap handle to pass to model code,
/// which names logical axes only. Without a mesh it leaves every tensor as it is.
class Placement {
 public:
  /// One device.
  Placement() = default;
  /// Throws an Error when a rule names an axis that the mesh does not have; `key` names the rules.
  Placement(Mesh mesh, AxisRules rules, std::string_view key = "logical_axis_rules");

  /// Of equal meshes and rules.
  bool operator==(const Placement& other) const;

  /// More than one device.
  bool active() const { return data_ != nullptr && data_->mesh.devices() > 1; }
  int64_t devices() const { return active() ? data_->mesh.devices() : 1; }
  /// Of an inactive one: no axes, no devices.
  const Mesh& mesh() const;
  const AxisRules& rules() const;

  /// The mesh axes of more than one device that a logical axis lies on, major first; and how many
  /// devices those are.
  std::vector<std::string> axes_of(std::string_view logical) const;
  int64_t parts(std::string_view logical) const;

  /// The placement for a batch of this many samples: where they do not divide over the mesh axes of
  /// `activation_batch`, `fsdp` splits their tokens instead (AxisRules::with_tokens_on_fsdp).
  /// Weights lie as before. Whether the samples divide then is check_batch's.
  Placement for_samples(int64_t samples) const;

  /// How an array that the program takes or gives is split: by the rules, less the last of a
  /// dimension's mesh axes that its size does not divide over. Axes of one device are left out.
  /// `logical` has a name per dimension ("": none). Without a mesh: empty.
  Sharding sharding(std::span<const std::string> logical, const Dims& dims) const;
  Sharding sharding(std::initializer_list<std::string_view> logical, const Dims& dims) const;
  /// The same for values inside a program, where the compiler pads what does not divide.
  Sharding constraint(std::span<const std::string> logical, const Dims& dims) const;
  /// That every device holds all of an array, said so that the compiler does not split it.
  Sharding whole(const Dims& dims) const;

  /// x, asked to lie as the rules say; x itself without a mesh, or where they say nothing of it.
  Tensor operator()(Tensor x, std::span<const std::string_view> logical) const;
  Tensor operator()(Tensor x, std::initializer_list<std::string_view> logical) const {
    return (*this)(x, std::span(logical.begin(), logical.size()));
  }

  /// x, a rounded product, as what its readers read; x itself without a mesh. Partitioned products
  /// leave f32 sums, and without a wall readers round those again, which stay in memory in place of
  /// the rounded values.
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
