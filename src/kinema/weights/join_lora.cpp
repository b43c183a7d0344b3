#include "kinema/weights/join_lora.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/model_files/cut.h"

namespace kinema::weights {
namespace {

const io::TensorView* keep(Joined& out, const std::string& name, HostArray array, DType dtype) {
  const HostArray& kept =
      out.arrays.emplace_back(dtype == DType::F32 ? std::move(array) : convert(array, dtype));
  return &out.views.emplace_back(
      io::TensorView{.name = name, .shape = kept.shape, .bytes = kept.bytes});
}

HostArray f32(const io::TensorView& view) { return convert(view.copy(), DType::F32); }

/// Restores the original's order of halves: swapping is its own inverse.
Joined swapped(const std::string& original, const JoinedPart& part, const std::string& path) {
  Joined out;
  out.target = *part.target;
  for (const io::TensorView** slot :
       {&out.target.up, &out.target.up_bias, &out.target.diff, &out.target.diff_bias}) {
    if (*slot != nullptr) {
      const auto turned = model_files::transposed_view(**slot, part.piece, path);
      *slot = keep(out, original, turned->copy(),
                   out.target.down == nullptr ? DType::F32 : out.target.down->shape.dtype);
    }
  }
  return out;
}

/// A part of the original: the file's target for it, or null, and its rows.
struct RowsOf {
  const Lora::Target* target;
  int64_t count;
};

/// The rows of a part that the file does not have. Halves and thirds have equal lengths; squares
/// are as long as the original is wide; the rest after squares is Flux's feed-forward layer, of
/// four times the width.
int64_t rows_of_missing(const model_files::Piece& piece, int64_t columns, int64_t rows_of_others) {
  constexpr int64_t kFeedForward = 4;
  const bool equal = piece.cut == model_files::Cut::THIRD || piece.cut == model_files::Cut::HALF;
  return equal                                   ? rows_of_others
         : piece.cut == model_files::Cut::SQUARE ? columns
                                                 : kFeedForward * columns;
}

/// The parts in the original's order, including those that the file does not have.
std::vector<RowsOf> in_order(const model_files::NameTable& names, const std::string& original,
                             std::span<const JoinedPart> parts, const std::string& path) {
  const std::optional<model_files::NamedModule> all = model_files::read_module(names, original);
  check(all.has_value(), "[lora] {}: the original release has no `{}`", path, original);
  const int64_t columns = parts[0].target->down->shape.dims[1];
  const int64_t rows = parts[0].target->up->shape.dims[0];
  std::vector<RowsOf> out;
  for (const model_files::Piece& piece : all->pieces) {
    const auto found = std::ranges::find(parts, piece.name, &JoinedPart::module);
    const int64_t wanted = rows_of_missing(piece, columns, rows);
    if (found == parts.end()) {
      out.push_back({nullptr, wanted});
      continue;
    }
    const Dims& down = found->target->down->shape.dims;
    const Dims& up = found->target->up->shape.dims;
    check(down[1] == columns,
          "[lora] {}: `{}` takes {} and `{}` {} inputs, but the original release joins them", path,
          parts[0].module, columns, piece.name, down[1]);
    check(piece.cut == model_files::Cut::REST || up[0] == wanted,
          "[lora] {}: `{}` has {} outputs, expected {}: the original release joins it with others "
          "in `{}`",
          path, piece.name, up[0], wanted, original);
    out.push_back({found->target, up[0]});
  }
  return out;
}

}  // namespace

Joined join(const model_files::NameTable& names, const std::string& original,
            std::span<const JoinedPart> parts, const std::string& path) {
  if (parts[0].piece.cut == model_files::Cut::SWAPPED) {
    return swapped(original, parts[0], path);
  }
  for (const JoinedPart& part : parts) {
    const Lora::Target& target = *part.target;
    check(target.down != nullptr && target.up_bias == nullptr && target.diff == nullptr &&
              target.diff_bias == nullptr && target.down->shape.rank() == 2 &&
              target.up->shape.rank() == 2,
          "[lora] {}: `{}` is more than a low-rank pair, and the original release joins it with "
          "others\n  --to diffusers can store it",
          path, part.module);
  }
  const std::vector<RowsOf> all = in_order(names, original, parts, path);
  const Lora::Target& first = *parts[0].target;
  const DType dtype = first.down->shape.dtype;
  const int64_t columns = first.down->shape.dims[1];
  const bool shared = std::ranges::all_of(parts, [&](const JoinedPart& part) {
    return part.target->down == first.down && part.target->factor == first.factor;
  });
  const bool scaled = std::ranges::any_of(
      parts, [&](const JoinedPart& part) { return part.target->factor != first.factor; });
  int64_t rows = 0;
  int64_t rank = shared ? first.rank() : 0;
  for (const RowsOf& part : all) {
    rows += part.count;
    rank += shared || part.target == nullptr ? 0 : part.target->rank();
  }
  Joined out;
  HostArray down(Shape{DType::F32, {rank, columns}});
  HostArray up(Shape{DType::F32, {rows, rank}});
  int64_t row = 0;
  int64_t column = 0;
  for (const auto& [target, count] : all) {
    if (target == nullptr) {
      row += count;
      continue;
    }
    const HostArray own_down = f32(*target->down);
    std::ranges::copy(own_down.as<float>(), down.as<float>().begin() + column * columns);
    const HostArray own_up = f32(*target->up);
    const float factor = scaled ? static_cast<float>(target->factor) : 1.0F;
    for (int64_t i = 0; i < count; ++i, ++row) {
      for (int64_t j = 0; j < target->rank(); ++j) {
        up.as<float>()[static_cast<size_t>(row * rank + column + j)] =
            factor * own_up.as<float>()[static_cast<size_t>(i * target->rank() + j)];
      }
    }
    column += shared ? 0 : target->rank();
  }
  out.target.factor = scaled ? 1.0 : first.factor;
  out.target.down = keep(out, original + " (down)", std::move(down), dtype);
  out.target.up = keep(out, original + " (up)", std::move(up), dtype);
  return out;
}

}  // namespace kinema::weights
