#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "kinema/core/error.h"
#include "kinema/core/finite.h"
#include "kinema/weights/lora.h"
#include "kinema/weights/names.h"

namespace kinema::weights {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kWeight = ".weight";

/// Some files of Wan contain it, no implementation reads it.
bool is_ignored(const std::string& module) { return module.ends_with(".attn2.norm_added_q"); }

/// The checkpoint keys of a model with the shape of one layer.
std::map<std::string, Shape, std::less<>> shapes_of(std::span<const nn::ParamSpec> specs) {
  std::map<std::string, Shape, std::less<>> out;
  for (const nn::ParamSpec& spec : specs) {
    for (int64_t layer = 0; layer < spec.count(); ++layer) {
      out.emplace(spec.key(layer), spec.layer_shape());
    }
  }
  return out;
}

using Shapes = std::map<std::string, Shape, std::less<>>;

/// The family of the network with these parameters; null for other models.
const Family* find_family(const Shapes& shapes) {
  for (const Family& family : families()) {
    for (const std::string_view mark : family.marks) {
      if (shapes.contains(mark)) {
        return &family;
      }
    }
  }
  return nullptr;
}

/// The adapter's file, read with this model's sizes if its names depend on them.
std::shared_ptr<const Lora> fitted(const Adapter& adapter, const Shapes& shapes) {
  const Family* family = find_family(shapes);
  const Lora& lora = *adapter.lora;
  if (adapter.member != LoraMember::NETWORK || family == nullptr || family != lora.family() ||
      !lora.counts_by_layout()) {
    return adapter.lora;
  }
  std::vector<std::string_view> names;
  for (const auto& [name, shape] : shapes) {
    names.emplace_back(name);
  }
  const Layout layout = layout_of(*family->names, names);
  return layout == Layout() ? adapter.lora
                            : std::make_shared<const Lora>(Lora::open(lora.path(), &layout));
}

/// The model's name for a module: text encoders have the prefix `text_model.` or none.
std::string name_in_model(const std::string& module, LoraMember member, const Shapes& shapes) {
  constexpr std::string_view kText = "text_model.";
  const auto begins = shapes.lower_bound(kText);
  const bool is_bare = member != LoraMember::NETWORK && module.starts_with(kText) &&
                       (begins == shapes.end() || !begins->first.starts_with(kText));
  return is_bare ? module.substr(kText.size()) : module;
}

/// [out, rank, 1...] times [rank, in...]: the shape of the product.
Dims product_dims(const Lora::Target& target) {
  Dims dims = target.down->shape.dims;
  dims[0] = target.up->shape.dims[0];
  return dims;
}

/// Linear weights may be stored as 1x1 convolutions.
Dims without_trailing_ones(Dims dims, size_t rank) {
  while (dims.size() > rank && dims.back() == 1) {
    dims.pop_back();
  }
  return dims;
}

/// values[out, in] += factor up[out, rank] down[rank, in]
void add_product(const HostArray& up, const HostArray& down, float factor,
                 std::span<float> values) {
  const int64_t rank = down.shape.dims[0];
  const int64_t out = up.shape.dims[0];
  const int64_t in = static_cast<int64_t>(values.size()) / out;
  const dnnl_status_t status =
      dnnl_sgemm('N', 'N', out, in, rank, factor, up.as<float>().data(), rank,
                 down.as<float>().data(), in, 1.0F, values.data(), in);
  check(status == dnnl_success, "[lora] the product {} x {} failed in oneDNN ({})",
        to_string(up.shape), to_string(down.shape), static_cast<int>(status));
}

HostArray finite_f32(const io::TensorView& view) {
  HostArray out = convert(view.copy(), DType::F32);
  check(all_finite(out), "[lora] `{}` {} holds values that are not finite", view.name,
        to_string(view.shape));
  return out;
}

void add_scaled(const io::TensorView& view, float factor, std::span<float> values) {
  const HostArray difference = finite_f32(view);
  const auto from = difference.as<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] += factor * from[i];
  }
}

/// Copies the columns of view [out, rank] into those of values [out, ...] from `first` on.
void put_columns(const io::TensorView& view, size_t first, std::span<float> values) {
  const HostArray columns = finite_f32(view);
  const auto from = columns.as<float>();
  const auto out = static_cast<size_t>(view.shape.dims[0]);
  const size_t rank = from.size() / out;
  const size_t width = values.size() / out;
  for (size_t row = 0; row < out; ++row) {
    std::ranges::copy(from.subspan(row * rank, rank), values.begin() + row * width + first);
  }
}

/// Finds the parameters of one file's modules, and reports mismatches.
class Matcher {
 public:
  Matcher(const Lora& lora, const std::map<std::string, Shape, std::less<>>& shapes)
      : lora_(lora), shapes_(shapes) {}

  /// The keys of the weight (or of the parameter itself) and of the bias; empty if unchanged.
  struct Keys {
    std::string weight;
    std::string bias;
  };
  Keys match(const std::string& module, const Lora::Target& target) {
    Keys keys;
    if (target.down != nullptr || target.diff != nullptr) {
      keys.weight = shapes_.contains(module) ? module : module + ".weight";
    }
    if (target.up_bias != nullptr || target.diff_bias != nullptr) {
      keys.bias = module + ".bias";
    }
    if (target.down != nullptr) {
      fit({target.down, target.up, target.alpha}, keys.weight, product_dims(target));
    }
    if (target.diff != nullptr) {
      fit({target.diff}, keys.weight, target.diff->shape.dims);
    }
    for (const io::TensorView* view : {target.up_bias, target.diff_bias}) {
      if (view != nullptr) {
        fit({view}, keys.bias, view->shape.dims);
      }
    }
    return keys;
  }

  /// The number of keys that have a parameter.
  size_t matched() const { return matched_.size(); }

  /// Throws for the first different shape, else for the first key without a parameter.
  void finish() const {
    if (!misfits_.empty()) {
      fail("[lora] {}: {}{}: it was made for another model", lora_.path(), misfits_[0],
           misfits_.size() == 1 ? "" : fmt::format(" ({} more differ too)", misfits_.size() - 1));
    }
    std::vector<std::string> unmatched = lora_.unknown();
    unmatched.insert(unmatched.end(), missing_.begin(), missing_.end());
    check(unmatched.empty(),
          "[lora] {}: {} of {} keys fit no parameter of the model, `{}` for one; the other {} do",
          lora_.path(), unmatched.size(), unmatched.size() + matched_.size(),
          unmatched.empty() ? "" : unmatched[0].substr(0, 200), matched_.size());
  }

 private:
  /// Tensors (the first exists) that together change a parameter by a difference of these sizes.
  void fit(std::initializer_list<const io::TensorView*> tensors, const std::string& key,
           const Dims& dims) {
    const auto found = shapes_.find(key);
    for (const io::TensorView* tensor : tensors) {
      if (tensor != nullptr && found == shapes_.end()) {
        missing_.insert(tensor->name);
      } else if (tensor != nullptr) {
        matched_.insert(tensor->name);
      }
    }
    if (found == shapes_.end()) {
      return;
    }
    const Dims& wanted = found->second.dims;
    const Dims given = without_trailing_ones(dims, wanted.size());
    if (given != wanted) {
      misfits_.push_back(fmt::format("`{}` is for a {} but the model's `{}` is {}",
                                     (*tensors.begin())->name, to_string(given), key,
                                     to_string(wanted)));
    }
  }

  const Lora& lora_;
  const std::map<std::string, Shape, std::less<>>& shapes_;
  // A set of names, because several modules may share a tensor.
  std::set<std::string> matched_;
  std::set<std::string> missing_;
  std::vector<std::string> misfits_;
};

}  // namespace

void Lora::check_finite() const {
  for (const Targets& each : targets_) {
    for (const auto& [module, target] : each) {
      for (const io::TensorView* view :
           {target.down, target.up, target.up_bias, target.diff, target.diff_bias}) {
        if (view != nullptr) {
          finite_f32(*view);
        }
      }
    }
  }
}

nn::LowRanks low_ranks(std::span<const Adapter> adapters, std::span<const nn::ParamSpec> specs) {
  nn::LowRanks ranks;
  const auto module_of = [](const std::string& key) {
    return key.substr(0, key.size() - kWeight.size());
  };
  const Shapes shapes = shapes_of(specs);
  std::vector<Adapter> fitting(adapters.begin(), adapters.end());
  for (Adapter& adapter : fitting) {
    adapter.lora = fitted(adapter, shapes);
  }
  for (const nn::ParamSpec& spec : specs) {
    if (!spec.name.ends_with(kWeight) || spec.layer_shape().rank() != 2) {
      continue;  // not a linear layer's
    }
    int64_t greatest = 0;
    for (int64_t layer = 0; layer < spec.count(); ++layer) {
      int64_t rank = 0;
      for (const Adapter& adapter : fitting) {
        const Lora::Targets& targets = adapter.targets();
        const auto found = targets.find(module_of(spec.key(layer)));
        rank += found == targets.end() ? 0 : found->second.rank();
      }
      greatest = std::max(greatest, rank);
    }
    if (greatest > 0) {
      ranks[module_of(spec.name)] = greatest;
    }
  }
  return ranks;
}

std::vector<Adapter> for_text(std::span<const Adapter> adapters, LoraMember text) {
  std::vector<Adapter> out;
  for (Adapter adapter : adapters) {
    adapter.member = text;
    if (!adapter.targets().empty()) {
      out.push_back(std::move(adapter));
    }
  }
  return out;
}

nn::LowRanks greatest(nn::LowRanks a, const nn::LowRanks& b) {
  for (const auto& [module, rank] : b) {
    a[module] = std::max(a[module], rank);
  }
  return a;
}

Adapters::Adapters(std::span<const Adapter> adapters, std::span<const nn::ParamSpec> specs) {
  if (adapters.empty()) {
    return;
  }
  const auto shapes = shapes_of(specs);
  const Family* family = find_family(shapes);
  for (const Adapter& given : adapters) {
    check(std::isfinite(given.scale), "[lora] {}: the scale is {}", given.lora->path(),
          given.scale);
    const Family* made_for = given.lora->family();
    check(family == nullptr || made_for == nullptr || family == made_for,
          "[lora] {} is for {}, but the model is {}", given.lora->path(),
          made_for == nullptr ? "" : made_for->name, family == nullptr ? "" : family->name);
    Adapter adapter = given;
    adapter.lora = fitted(given, shapes);
    Matcher matcher(*adapter.lora, shapes);
    int64_t parameters = 0;
    int64_t apart = 0;
    for (const auto& [name, target] : adapter.targets()) {
      const std::string module = name_in_model(name, adapter.member, shapes);
      if (is_ignored(module)) {
        continue;
      }
      const Matcher::Keys found = matcher.match(module, target);
      if (!found.weight.empty()) {
        Part part = Part::WEIGHT;
        if (apply_separately(module, target, adapter.scale, shapes)) {
          ++apart;
          part = Part::DIFF;
        }
        if (part == Part::WEIGHT || target.diff != nullptr) {
          changes_[found.weight].push_back({&target, adapter.scale, part});
        }
        ++parameters;
      }
      if (!found.bias.empty()) {
        changes_[found.bias].push_back({&target, adapter.scale, Part::BIAS});
        ++parameters;
      }
    }
    matcher.finish();
    files_.push_back(adapter.lora);
    if (matcher.matched() == 0) {  // a file for text encoders only, which another line reports
      continue;
    }
    report_.push_back(fmt::format(
        "{}: all {} keys matched, {} parameters{}, scale {} ({})",
        fs::path(adapter.lora->path()).filename().string(), matcher.matched(), parameters,
        apart > 0 ? fmt::format(", {} low-rank pairs not merged", apart) : "", adapter.scale,
        adapter.lora->summary()));
  }
}

bool Adapters::apply_separately(const std::string& module, const Lora::Target& target, double scale,
                                const std::map<std::string, Shape, std::less<>>& shapes) {
  const auto room = shapes.find(module + ".lora_scale");
  if (target.down == nullptr || room == shapes.end()) {
    return false;
  }
  int64_t& taken = taken_[module];
  check(taken + target.rank() <= room->second.dims[0],
        "[lora] the adapters of `{}` have {} ranks but the model has room for {}", module,
        taken + target.rank(), room->second.dims[0]);
  changes_[module + ".lora_A.weight"].push_back({&target, scale, Part::DOWN, taken});
  changes_[module + ".lora_B.weight"].push_back({&target, scale, Part::UP, taken});
  changes_[module + ".lora_scale"].push_back({&target, scale, Part::SCALE, taken});
  taken += target.rank();
  return true;
}

void Adapters::add_to(std::string_view key, std::span<float> values) const {
  const auto found = changes_.find(key);
  if (found == changes_.end()) {
    return;
  }
  for (const Change& change : found->second) {
    const Lora::Target& t = *change.target;
    const auto scale = static_cast<float>(change.scale);
    const auto product = static_cast<float>(change.scale * t.factor);
    const auto first = static_cast<size_t>(change.first);
    switch (change.part) {
      case Part::WEIGHT:
        if (t.down != nullptr) {
          add_product(finite_f32(*t.up), finite_f32(*t.down), product, values);
        }
        [[fallthrough]];
      case Part::DIFF:
        if (t.diff != nullptr) {
          add_scaled(*t.diff, scale, values);
        }
        break;
      case Part::BIAS:
        if (t.up_bias != nullptr) {
          add_scaled(*t.up_bias, product, values);
        }
        if (t.diff_bias != nullptr) {
          add_scaled(*t.diff_bias, scale, values);
        }
        break;
      case Part::DOWN: {
        const auto in = static_cast<size_t>(t.down->shape.elements() / t.rank());
        add_scaled(*t.down, 1.0F, values.subspan(first * in, t.down->shape.elements()));
        break;
      }
      case Part::UP:
        put_columns(*t.up, first, values);
        break;
      case Part::SCALE:
        std::ranges::fill(values.subspan(first, static_cast<size_t>(t.rank())), product);
        break;
    }
  }
}

}  // namespace kinema::weights
