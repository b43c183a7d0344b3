#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "kinema/adapters/methods/methods.h"
#include "kinema/core/error.h"
#include "kinema/core/finite.h"
#include "kinema/model_files/names.h"
#include "kinema/weights/lora.h"
#include "kinema/weights/lora_match.h"

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

/// The family of the network with these parameters; null for other models.
const model_files::Family* find_family(const Shapes& shapes) {
  return model_files::family_with([&](std::string_view mark) { return shapes.contains(mark); });
}

/// False if a file of one family cannot be for the other. A file without modules of its own is
/// taken for the first family with its names; its shapes are compared later.
bool may_be_for(const model_files::Family& made_for, const model_files::Family& family) {
  const bool may_fit =
      made_for.transformer_class == family.transformer_class || made_for.names == family.names;
  return &made_for == &family || (may_fit && made_for.own_modules.empty());
}

/// The adapter's file, read with this model's sizes if its names depend on them.
std::shared_ptr<const Lora> fitted(const Adapter& adapter, const Shapes& shapes) {
  const model_files::Family* family = find_family(shapes);
  const Lora& lora = *adapter.lora;
  if (adapter.member != LoraMember::NETWORK || family == nullptr || lora.family() == nullptr ||
      !may_be_for(*lora.family(), *family) || !lora.counts_by_layout()) {
    return adapter.lora;
  }
  std::vector<std::string_view> names;
  for (const auto& [name, shape] : shapes) {
    names.emplace_back(name);
  }
  const model_files::Layout layout = model_files::layout_of(*family->names, names);
  return layout == model_files::Layout()
             ? adapter.lora
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

/// Changes a weight of the model's sizes, which is turned to the file's order for it.
void change_by_method(const Lora::Target& target, const Dims& dims, double scale,
                      std::span<float> values) {
  const auto turn = [&](std::span<const float> from, std::span<float> to, const Dims& sizes) {
    if (target.cut == model_files::Cut::SWAPPED) {
      std::ranges::rotate_copy(from, from.begin() + static_cast<std::ptrdiff_t>(from.size() / 2),
                               to.begin());
      return;
    }
    const auto rows = static_cast<size_t>(sizes[0]);
    const auto columns = static_cast<size_t>(sizes[1]);
    for (size_t i = 0; i < rows; ++i) {
      for (size_t j = 0; j < columns; ++j) {
        to[j * rows + i] = from[i * columns + j];
      }
    }
  };
  const Dims stored = in_file(dims, target.cut);
  const bool turned =
      target.cut == model_files::Cut::SWAPPED || target.cut == model_files::Cut::TRANSPOSED;
  std::vector<float> other(turned ? values.size() : 0);
  if (turned) {
    turn(values, other, dims);
  }
  adapters::change_weight(*target.method, target.parts, target.factor, scale,
                          {.first = target.first_row,
                           .count = stored[0],
                           .inputs = stored[1],
                           .values = turned ? std::span<float>(other) : values});
  if (turned) {
    turn(other, values, stored);
  }
}

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
      for (const io::TensorView* view : target.parts) {
        if (view != nullptr && is_float(view->shape.dtype)) {
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
  const model_files::Family* family = find_family(shapes);
  for (const Adapter& given : adapters) {
    check(std::isfinite(given.scale), "[lora] {}: the scale is {}", given.lora->path(),
          given.scale);
    const model_files::Family* made_for = given.lora->family();
    check(family == nullptr || made_for == nullptr || may_be_for(*made_for, *family),
          "[lora] {} is for {}, but the model is {}", given.lora->path(),
          made_for == nullptr ? "" : made_for->name, family == nullptr ? "" : family->name);
    Adapter adapter = given;
    adapter.lora = fitted(given, shapes);
    Matcher matcher(adapter, shapes);
    int64_t parameters = 0;
    int64_t apart = 0;
    for (const auto& [name, target] : adapter.targets()) {
      const std::string module = name_in_model(name, adapter.member, shapes);
      if (is_ignored(module)) {
        continue;
      }
      const Matcher::Keys found = matcher.match(module, target);
      if (!found.weight.empty()) {
        Part part = target.method != nullptr ? Part::METHOD : Part::WEIGHT;
        if (apply_separately(module, target, adapter.scale, shapes)) {
          ++apart;
          part = Part::DIFF;
        }
        if (part != Part::DIFF || target.diff != nullptr) {
          const auto shape = shapes.find(found.weight);
          changes_[found.weight].push_back(
              {.target = &target,
               .scale = adapter.scale,
               .part = part,
               .dims = shape == shapes.end() ? Dims() : shape->second.dims});
        }
        ++parameters;
      }
      // PEFT's factors of rows are of the layer's output, which includes the bias.
      const std::string bias = module + ".bias";
      if (!found.weight.empty() && target.rows > 0 && shapes.contains(bias) &&
          target.parts[static_cast<size_t>(adapters::LoraPart::IA3_FACTOR)] != nullptr) {
        changes_[bias].push_back({.target = &target,
                                  .scale = adapter.scale,
                                  .part = Part::METHOD,
                                  .dims = {target.rows, 1}});
      }
      if (!found.bias.empty()) {
        changes_[found.bias].push_back({&target, adapter.scale, Part::BIAS});
        ++parameters;
      }
    }
    matcher.finish();
    files_.push_back(adapter.lora);
    if (matcher.is_empty()) {  // a file for text encoders only, which another line reports
      continue;
    }
    report_.push_back(fmt::format(
        "{}: {}, {} parameters{}, scale {} ({})",
        fs::path(adapter.lora->path()).filename().string(), matcher.summary(), parameters,
        apart > 0 ? fmt::format(", {} low-rank pairs not merged", apart) : "", adapter.scale,
        adapter.lora->summary()));
  }
}

bool Adapters::apply_separately(const std::string& module, const Lora::Target& target, double scale,
                                const std::map<std::string, Shape, std::less<>>& shapes) {
  const auto room = shapes.find(module + ".lora_scale");
  if (target.method != nullptr) {
    return apply_method_separately(module, target, scale, shapes);
  }
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

bool Adapters::apply_method_separately(const std::string& module, const Lora::Target& target,
                                       double scale, const Shapes& shapes) {
  if (!adapters::trained_kind(*target.method, target.parts)) {
    return false;
  }
  std::vector<std::pair<std::string, const io::TensorView*>> pieces;
  for (size_t i = 0; i < target.parts.size(); ++i) {
    const auto part = static_cast<adapters::LoraPart>(i);
    if (target.parts[i] == nullptr || part == adapters::LoraPart::ALPHA) {
      continue;
    }
    const std::string key = module + "." + std::string(adapters::trained_part(part));
    const auto found = shapes.find(key);
    if (found == shapes.end()) {
      return false;  // the model has no adapter here, or one of another kind
    }
    check(found->second.elements() == target.parts[i]->shape.elements(),
          "[lora] `{}` is {}, but the trained adapter's `{}` is {}", target.parts[i]->name,
          to_string(target.parts[i]->shape), key, to_string(found->second));
    pieces.emplace_back(key, target.parts[i]);
  }
  check(taken_[module]++ == 0, "[lora] `{}` has several adapters of {}", module,
        target.method->name);
  for (const auto& [key, view] : pieces) {
    changes_[key].push_back({.target = &target, .scale = 1, .part = Part::AS_IT_IS, .view = view});
  }
  changes_[module + ".lora_scale"].push_back(
      {.target = &target, .scale = scale, .part = Part::SCALE});
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
      case Part::METHOD:
        change_by_method(t, change.dims, change.scale, values);
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
        std::ranges::fill(values.subspan(first, t.method == nullptr ? static_cast<size_t>(t.rank())
                                                                    : values.size()),
                          product);
        break;
      case Part::AS_IT_IS:
        add_scaled(*change.view, 1.0F, values);
        break;
    }
  }
}

}  // namespace kinema::weights
