#include "kinema/mesh/placement.h"

#include <algorithm>

#include "kinema/core/error.h"
#include "kinema/graph/ops.h"

namespace kinema::mesh {
namespace {

std::vector<std::string> strings(std::initializer_list<std::string_view> names) {
  return {names.begin(), names.end()};
}

}  // namespace

Placement::Placement(Mesh mesh, AxisRules rules, std::string_view key) {
  for (const Rule& rule : rules.rules()) {
    for (const std::string& axis : rule.mesh_axes) {
      check(mesh.has(axis), "[mesh] {} puts `{}` on `{}`, which is not an axis of the mesh {}", key,
            rule.logical, axis, axes_text(mesh.axes));
    }
  }
  data_ = std::make_shared<const Data>(Data{std::move(mesh), std::move(rules)});
}

bool Placement::operator==(const Placement& other) const {
  return data_ == other.data_ || (data_ && other.data_ && *data_ == *other.data_);
}

const Mesh& Placement::mesh() const {
  static const Mesh kNone;
  return active() ? data_->mesh : kNone;
}

const AxisRules& Placement::rules() const {
  static const AxisRules kNone;
  return data_ == nullptr ? kNone : data_->rules;
}

std::vector<std::string> Placement::axes_of(std::string_view logical) const {
  const std::string name(logical);
  const Sharding found = constraint(std::span(&name, 1), {0});
  return found.dims.empty() ? std::vector<std::string>() : found.dims.front();
}

int64_t Placement::parts(std::string_view logical) const { return mesh().size(axes_of(logical)); }

Placement Placement::for_samples(int64_t samples) const {
  const std::vector<std::string> axes = axes_of("activation_batch");
  const bool moves =
      samples % mesh().size(axes) != 0 && std::ranges::find(axes, "fsdp") != axes.end();
  return moves ? Placement(mesh(), rules().with_tokens_on_fsdp()) : *this;
}

Tensor Placement::rounded(Tensor x) const { return active() ? optimization_barrier({x})[0] : x; }

Sharding Placement::constraint(std::span<const std::string> logical, const Dims& dims) const {
  check(logical.size() == dims.size(), "[mesh] {} logical axes were given for {}", logical.size(),
        to_string(dims));
  if (!active()) {
    return {};
  }
  Sharding out{rules().assign(logical)};
  for (std::vector<std::string>& axes : out.dims) {
    std::erase_if(axes, [&](const std::string& axis) { return mesh().size(axis) == 1; });
  }
  return out;
}

Sharding Placement::sharding(std::span<const std::string> logical, const Dims& dims) const {
  Sharding out = constraint(logical, dims);
  for (size_t d = 0; d < out.dims.size(); ++d) {
    while (dims[d] % mesh().size(out.dims[d]) != 0) {
      out.dims[d].pop_back();
    }
  }
  return out;
}

Sharding Placement::sharding(std::initializer_list<std::string_view> logical,
                             const Dims& dims) const {
  return sharding(strings(logical), dims);
}

Sharding Placement::whole(const Dims& dims) const {
  Sharding out;
  if (active()) {
    out.dims.resize(dims.size());
  }
  return out;
}

Tensor Placement::operator()(Tensor x, std::span<const std::string_view> logical) const {
  if (!active()) {
    return x;
  }
  const std::vector<std::string> names(logical.begin(), logical.end());
  return with_sharding(x, constraint(names, x.shape().dims));
}

}  // namespace kinema::mesh
