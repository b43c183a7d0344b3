#include "kinema/nn/adapter.h"

#include <cmath>
#include <utility>

#include "kinema/nn/linear.h"

namespace kinema::nn {
namespace {

/// x [..., in], w [out, in] -> [..., out] in `sums`.
Tensor rows_product(Tensor x, Tensor w, Precision precision, DType sums) {
  return dot_general(x, as(w, x.dtype()), {.lhs_contract = {x.rank() - 1}, .rhs_contract = {1}},
                     precision, sums);
}

/// F32, or F64 for F64.
Tensor wide(Tensor x) { return as(x, x.dtype() == DType::F64 ? DType::F64 : DType::F32); }

/// a [n, r], b [r, m] -> [n, m], both wide.
Tensor matrix_product(Tensor a, Tensor b) {
  return dot_general(a, b, {.lhs_contract = {1}, .rhs_contract = {0}}, Precision::HIGHEST);
}

/// a [n, r], b [m, r] -> [n, m], both wide.
Tensor product_of_rows(Tensor a, Tensor b) {
  return dot_general(a, b, {.lhs_contract = {1}, .rhs_contract = {1}}, Precision::HIGHEST);
}

}  // namespace

std::pair<int64_t, int64_t> kronecker_sizes(int64_t size, int64_t factor) {
  if (factor > 0 && size % factor == 0) {
    return std::minmax(factor, size / factor);
  }
  const int64_t most = factor < 0 ? size : factor;
  int64_t small = 1;
  int64_t large = size;
  while (small < large) {
    int64_t next = small + 1;
    while (size % next != 0) {
      ++next;
    }
    if (next + size / next > small + large || next > most) {
      break;
    }
    small = next;
    large = size / next;
  }
  return std::minmax(small, large);
}

std::optional<LinearAdapter> LinearAdapter::open(const Params& params, int64_t in, int64_t out,
                                                 const std::string& in_axis,
                                                 const std::string& out_axis) {
  LinearAdapter it;
  it.form_ = params.adapter_form(out, in);
  const int64_t rank = it.form_.rank;
  if (rank == 0) {
    return std::nullopt;
  }
  it.dropout_ = params.low_rank_dropout();
  it.place_ = params.place();
  // One of the factors is zero at the start, so that training starts from the unchanged model. The
  // others are initialised as in PEFT (kaiming_uniform with a = sqrt 5) and in LyCORIS.
  const auto uniform = [](int64_t inputs) {
    return Init::uniform(1.0 / std::sqrt(static_cast<double>(inputs)));
  };
  switch (it.form_.kind) {
    case AdapterKind::LORA:
    case AdapterKind::DORA:
      it.a_ = params.weight("lora_A.weight", {rank, in}, {"", in_axis}, uniform(in));
      it.b_ = params.weight("lora_B.weight", {out, rank}, {out_axis, ""}, Init::zeros());
      it.scale_ = params.weight("lora_scale", {rank}, {""}, Init::ones());
      if (it.form_.kind == AdapterKind::DORA) {
        // The rows' norms at the start; see weights::load_adapted.
        it.c_ = params.weight("lora_magnitude_vector", {out}, {out_axis}, Init::ones());
      }
      return it;
    case AdapterKind::LOHA:
      it.a_ = params.weight("hada_w1_a", {out, rank}, {out_axis, ""}, Init::normal(0.1));
      it.b_ = params.weight("hada_w1_b", {rank, in}, {"", in_axis}, Init::normal(1));
      it.c_ = params.weight("hada_w2_a", {out, rank}, {out_axis, ""}, Init::zeros());
      it.d_ = params.weight("hada_w2_b", {rank, in}, {"", in_axis}, Init::normal(1));
      break;
    case AdapterKind::LOKR: {
      const int64_t l = it.form_.w1_rows;
      const int64_t m = it.form_.w1_columns;
      it.a_ = params.weight("lokr_w1", {l, m}, {"", ""}, uniform(m));
      if (it.form_.whole_w2) {
        it.b_ = params.weight("lokr_w2", {out / l, in / m}, {"", ""}, Init::zeros());
      } else {
        it.b_ = params.weight("lokr_w2_a", {out / l, rank}, {"", ""}, uniform(rank));
        it.c_ = params.weight("lokr_w2_b", {rank, in / m}, {"", ""}, Init::zeros());
      }
      break;
    }
  }
  it.scale_ = params.weight("lora_scale", {1}, {""}, Init::ones());
  return it;
}

Tensor LinearAdapter::low_rank(Tensor x, Precision precision, DType sums) const {
  const Tensor inner = rows_product(x, a_, precision, sums) * as(scale_, sums);
  return rows_product(as(inner, x.dtype()), b_, precision, sums);
}

/// |W + up diag(s) down| by rows, [out]. The squares of a row are those of W, twice the product
/// with the change, and those of the change:
///
///   |W|^2 + 2 sum_r u_r (W down^T)_r + u (down down^T) u^T,  u = up diag(s)
///
/// so that the change itself, as large as W, is never made.
Tensor LinearAdapter::norms(Tensor w, const std::optional<Tensor>& w_scale) const {
  const Tensor up = wide(b_) * wide(scale_);
  const Tensor down = wide(a_);
  const Tensor weight = as(w, down.dtype());
  Tensor own = sum(square(weight), {1});
  Tensor mixed = product_of_rows(weight, down);
  if (w_scale) {
    const Tensor scales = as(*w_scale, down.dtype());
    own = own * square(scales);
    mixed = mixed * expand_dims(scales, Axis(1));
  }
  const Tensor of_change = sum(matrix_product(up, product_of_rows(down, down)) * up, {1});
  return sqrt(maximum(own + 2.0 * sum(mixed * up, {1}) + of_change, 0.0));
}

Tensor LinearAdapter::hadamard(Tensor x, Precision precision, DType sums) const {
  const Tensor change = matrix_product(wide(a_), wide(b_)) * matrix_product(wide(c_), wide(d_));
  return rows_product(x, change, precision, sums) * as(scale_, sums);
}

/// (w1 (x) w2) x of x [..., m n], as w1 X w2^T of X [m, n].
Tensor LinearAdapter::kronecker(Tensor x, Precision precision, DType sums) const {
  const int64_t m = form_.w1_columns;
  Dims dims = x.shape().dims;
  const int64_t in = dims.back();
  dims.back() = m;
  dims.push_back(in / m);
  Tensor inner = reshape(x, dims);
  if (c_) {
    inner = as(rows_product(inner, c_, precision, sums), x.dtype());
  }
  inner = as(rows_product(inner, b_, precision, sums), x.dtype());  // [..., m, k]
  const Tensor y = dot_general(inner, as(a_, x.dtype()),
                               {.lhs_contract = {inner.rank() - 2}, .rhs_contract = {1}}, precision,
                               sums);  // [..., k, l]
  std::vector<int64_t> order(static_cast<size_t>(y.rank()));
  for (size_t i = 0; i < order.size(); ++i) {
    order[i] = static_cast<int64_t>(i);
  }
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  Dims out(x.shape().dims.begin(), x.shape().dims.end() - 1);
  out.push_back(y.dim(y.rank() - 1) * y.dim(y.rank() - 2));
  return reshape(transpose(y, order), out) * as(scale_, sums);
}

Tensor LinearAdapter::operator()(Tensor y, Tensor x, Tensor w, const std::optional<Tensor>& w_scale,
                                 Precision precision) const {
  const DType sums = y.dtype();
  const Tensor dropped = dropout_(x, place_);
  switch (form_.kind) {
    case AdapterKind::LORA:
      return y + low_rank(dropped, precision, sums);
    case AdapterKind::DORA: {
      const Tensor factor = wide(c_) / stop_gradient(norms(w, w_scale));
      return (y + low_rank(dropped, precision, sums)) * as(factor, sums);
    }
    case AdapterKind::LOHA:
      return y + hadamard(dropped, precision, sums);
    case AdapterKind::LOKR:
      return y + kronecker(dropped, precision, sums);
  }
  return y;
}

}  // namespace kinema::nn
