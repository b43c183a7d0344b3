#include "kinema/adapters/lora_method.h"

#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kinema/adapters/methods/methods.h"
#include "kinema/core/error.h"
#include "kinema/core/finite.h"
#include "kinema/core/host_array.h"

namespace kinema::adapters {
namespace {

constexpr const LoraMethod* kMethods[] = {&kLoha,    &kLokr,  &kBoft, &kOft,
                                          &kPeftOft, &kGlora, &kIa3,  &kPair};

const io::TensorView* at(const LoraParts& parts, LoraPart part) {
  return parts[static_cast<size_t>(part)];
}

/// A tensor of the module, for messages.
const io::TensorView& any_of(const LoraParts& parts) {
  return **std::ranges::find_if(parts, [](const auto* view) { return view != nullptr; });
}

const io::TensorView* norms_of(const LoraParts& parts) {
  const io::TensorView* magnitude = at(parts, LoraPart::MAGNITUDE);
  return magnitude != nullptr ? magnitude : at(parts, LoraPart::DORA_SCALE);
}

/// Replaces the rows (or columns) of V [count, in, kernel] by m V / |V|.
void rescale_to(const std::vector<float>& norms, bool of_columns, WeightRows v) {
  const auto rows = static_cast<size_t>(v.count);
  const auto inputs = static_cast<size_t>(v.inputs);
  const auto kernel = static_cast<size_t>(v.kernel());
  std::vector<double> squares(of_columns ? inputs : rows);
  const auto group = [&](size_t row, size_t input) { return of_columns ? input : row; };
  const auto for_each_run = [&](auto&& use) {
    for (size_t row = 0; row < rows; ++row) {
      for (size_t input = 0; input < inputs; ++input) {
        use(group(row, input), v.values.subspan((row * inputs + input) * kernel, kernel));
      }
    }
  };
  for_each_run([&](size_t g, std::span<float> run) {
    for (const float x : run) {
      squares[g] += static_cast<double>(x) * x;
    }
  });
  std::vector<float> factors(squares.size());
  for (size_t g = 0; g < squares.size(); ++g) {
    const size_t first = of_columns ? 0 : static_cast<size_t>(v.first);
    // LyCORIS' guard against weights of only zeros.
    constexpr float kLeast = std::numeric_limits<float>::epsilon();
    factors[g] = norms[first + g] / (static_cast<float>(std::sqrt(squares[g])) + kLeast);
  }
  for_each_run([&](size_t g, std::span<float> run) {
    for (float& x : run) {
      x *= factors[g];
    }
  });
}

}  // namespace

const LoraMethod* method_of(const LoraParts& parts) {
  for (const LoraMethod* method : kMethods) {
    const auto mark = std::ranges::find_if(
        method->marks, [&](LoraPart part) { return at(parts, part) != nullptr; });
    if (mark == method->marks.end() ||
        (method->axes > 0 && at(parts, *mark)->shape.dims.size() != method->axes)) {
      continue;
    }
    constexpr std::array kOfAll{LoraPart::ALPHA, LoraPart::DIFF_BIAS, LoraPart::DORA_SCALE,
                                LoraPart::MAGNITUDE};
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto part = static_cast<LoraPart>(i);
      check(parts[i] == nullptr || std::ranges::count(kOfAll, part) > 0 ||
                std::ranges::count(method->parts, part) > 0,
            "[lora] `{}` does not belong to {}, which the module's other tensors are of",
            parts[i] == nullptr ? "" : parts[i]->name, method->name);
    }
    check(at(parts, LoraPart::DORA_SCALE) == nullptr || at(parts, LoraPart::MAGNITUDE) == nullptr,
          "[lora] `{}`: the module has norms twice, as dora_scale and as lora_magnitude_vector",
          any_of(parts).name);
    return method;
  }
  return nullptr;
}

bool is_dora(const LoraParts& parts) { return norms_of(parts) != nullptr; }

std::string_view method_name(const LoraMethod& method, const LoraParts& parts) {
  if (!is_dora(parts)) {
    return method.name;
  }
  return &method == &kPair   ? "DoRA"
         : &method == &kLoha ? "LoHa with DoRA"
         : &method == &kLokr ? "LoKr with DoRA"
                             : method.name;
}

bool norms_are_of_columns(const LoraParts& parts, const WeightSize& size) {
  const io::TensorView& norms = *norms_of(parts);
  const Dims& dims = norms.shape.dims;
  const int64_t count = norms.shape.elements();
  const bool one_axis =
      std::ranges::count_if(dims, [](int64_t dim) { return dim != 1; }) <= 1 && count > 0;
  // A vector, or a column, is of rows; kohya's [1, in, 1, 1] is of columns.
  const bool of_columns = at(parts, LoraPart::MAGNITUDE) == nullptr && dims.size() > 1 &&
                          dims[0] == 1 && size.rows != 1;
  const int64_t wanted = of_columns ? size.inputs : size.rows;
  check(one_axis && (wanted == 0 || count == wanted),
        "[lora] `{}` is {}, expected one norm for each of the weight's {} {}", norms.name,
        to_string(norms.shape), wanted, of_columns ? "columns" : "rows");
  return of_columns;
}

void change_weight(const LoraMethod& method, const LoraParts& parts, double factor, double scale,
                   WeightRows weight) {
  if (!is_dora(parts)) {
    method.add(parts, static_cast<float>(scale * factor), weight);
    return;
  }
  const bool is_peft = at(parts, LoraPart::MAGNITUDE) != nullptr;
  std::vector<float> changed(weight.values.begin(), weight.values.end());
  WeightRows v = weight;
  v.values = changed;
  method.add(parts, static_cast<float>(is_peft ? scale * factor : factor), v);
  const WeightSize size{
      .rows = method.size(parts).rows, .columns = weight.columns(), .inputs = weight.inputs};
  rescale_to(finite_values(*norms_of(parts)), norms_are_of_columns(parts, size), v);
  const float keep = is_peft ? 0.0F : static_cast<float>(1 - scale);
  const float share = is_peft ? 1.0F : static_cast<float>(scale);
  for (size_t i = 0; i < changed.size(); ++i) {
    weight.values[i] = keep * weight.values[i] + share * changed[i];
  }
}

std::string_view part_name(LoraPart part) {
  static constexpr std::array<std::string_view, kLoraParts> kNames{"lora_down.weight",
                                                                   "lora_up.weight",
                                                                   "lora_B.bias",
                                                                   "alpha",
                                                                   "diff",
                                                                   "diff_b",
                                                                   "lora_mid.weight",
                                                                   "hada_w1_a",
                                                                   "hada_w1_b",
                                                                   "hada_w2_a",
                                                                   "hada_w2_b",
                                                                   "hada_t1",
                                                                   "hada_t2",
                                                                   "lokr_w1",
                                                                   "lokr_w1_a",
                                                                   "lokr_w1_b",
                                                                   "lokr_w2",
                                                                   "lokr_w2_a",
                                                                   "lokr_w2_b",
                                                                   "lokr_t2",
                                                                   "oft_blocks",
                                                                   "oft_R.weight",
                                                                   "rescale",
                                                                   "a1.weight",
                                                                   "a2.weight",
                                                                   "b1.weight",
                                                                   "b2.weight",
                                                                   "bm.weight",
                                                                   "weight",
                                                                   "on_input",
                                                                   "ia3_l",
                                                                   "dora_scale",
                                                                   "lora_magnitude_vector"};
  return kNames[static_cast<size_t>(part)];
}

std::optional<nn::AdapterKind> trained_kind(const LoraMethod& method, const LoraParts& parts) {
  const auto has_none = [&](std::initializer_list<LoraPart> some) {
    return std::ranges::none_of(some, [&](LoraPart part) { return at(parts, part) != nullptr; });
  };
  if (&method == &kPair && is_dora(parts) && has_none({LoraPart::MID}) &&
      !norms_are_of_columns(parts, kPair.size(parts))) {
    return nn::AdapterKind::DORA;
  }
  if (&method == &kLoha && !is_dora(parts) && has_none({LoraPart::HADA_T1, LoraPart::HADA_T2})) {
    return nn::AdapterKind::LOHA;
  }
  if (&method == &kLokr && !is_dora(parts) &&
      has_none({LoraPart::LOKR_T2, LoraPart::LOKR_W1_A, LoraPart::LOKR_W1_B})) {
    return nn::AdapterKind::LOKR;
  }
  return std::nullopt;
}

std::string_view trained_part(LoraPart part) {
  switch (part) {
    case LoraPart::DOWN:
      return "lora_A.weight";
    case LoraPart::UP:
      return "lora_B.weight";
    case LoraPart::DORA_SCALE:
    case LoraPart::MAGNITUDE:
      return "lora_magnitude_vector";
    default:
      return part_name(part);
  }
}

const io::TensorView& need(const LoraParts& parts, LoraPart part) {
  const io::TensorView* view = at(parts, part);
  check(view != nullptr, "[lora] `{}`: the module has no {}", any_of(parts).name, part_name(part));
  return *view;
}

Matrix matrix_of(const io::TensorView& tensor) {
  constexpr int64_t kMost = int64_t{1} << 31;
  const Dims& dims = tensor.shape.dims;
  const int64_t elements = tensor.shape.elements();
  check(dims.size() >= 2 && elements > 0, "[lora] `{}` is {}, expected a matrix or a kernel",
        tensor.name, to_string(tensor.shape));
  const Matrix out{dims[0], elements / dims[0]};
  check(out.rows < kMost && out.columns < kMost, "[lora] `{}` is {}, larger than any weight",
        tensor.name, to_string(tensor.shape));
  return out;
}

void misfit(const io::TensorView& a, const io::TensorView& b) {
  fail("[lora] `{}` is {} and `{}` is {}: they do not fit together", a.name, to_string(a.shape),
       b.name, to_string(b.shape));
}

double number_of(const io::TensorView& tensor) {
  return is_float(tensor.shape.dtype)
             ? convert(tensor.copy(), DType::F64).as<double>()[0]
             : static_cast<double>(convert(tensor.copy(), DType::S64).as<int64_t>()[0]);
}

std::vector<float> finite_values(const io::TensorView& tensor) {
  const HostArray array = convert(tensor.copy(), DType::F32);
  check(all_finite(array), "[lora] `{}` {} holds values that are not finite", tensor.name,
        to_string(tensor.shape));
  const auto values = array.as<float>();
  return {values.begin(), values.end()};
}

void product(int64_t rows, int64_t columns, int64_t inner, float factor, Operand a, Operand b,
             float keep, float* c) {
  const dnnl_status_t status = dnnl_sgemm(
      a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', rows, columns, inner, factor, a.values,
      a.transposed ? rows : inner, b.values, b.transposed ? inner : columns, keep, c, columns);
  check(status == dnnl_success, "[lora] a product {} x {} x {} failed in oneDNN ({})", rows, inner,
        columns, static_cast<int>(status));
}

std::vector<float> core_times_right(const io::TensorView& core, const io::TensorView& right) {
  const Dims& dims = core.shape.dims;
  const Matrix factor = matrix_of(right);
  const int64_t kernel = matrix_of(core).columns / dims[1];
  // Larger than any adapter's: sizes of a corrupt file could multiply to more than memory.
  constexpr int64_t kMost = int64_t{1} << 31;
  check(dims[0] <= kMost / factor.columns / kernel, "[lora] `{}` is {}, too large for `{}` {}",
        core.name, to_string(core.shape), right.name, to_string(right.shape));
  const std::vector<float> cores = finite_values(core);
  const std::vector<float> rights = finite_values(right);
  std::vector<float> out(static_cast<size_t>(dims[0] * factor.columns * kernel));
  for (int64_t i = 0; i < dims[0]; ++i) {
    product(factor.columns, kernel, dims[1], 1.0F, {rights.data(), true},
            {cores.data() + i * dims[1] * kernel}, 0.0F, out.data() + i * factor.columns * kernel);
  }
  return out;
}

}  // namespace kinema::adapters
