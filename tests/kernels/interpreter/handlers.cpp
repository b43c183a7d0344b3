#include "kernels/interpreter/handlers.h"

#include <any>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>

#include "kernels/interpreter/mosaic.h"
#include "kernels/interpreter/triton.h"
#include "kinema/core/error.h"
#include "kinema/graph/custom_call.h"
#include "kinema/kernels/kernel_text.h"
#include "kinema/kernels/rewrite.h"
#include "xla/ffi/api/ffi.h"

namespace kinema::interpreter {
namespace {

namespace ffi = ::xla::ffi;

DType dtype_of(ffi::DataType type) {
  switch (type) {
    case ffi::DataType::PRED:
      return DType::PRED;
    case ffi::DataType::S8:
      return DType::S8;
    case ffi::DataType::S16:
      return DType::S16;
    case ffi::DataType::S32:
      return DType::S32;
    case ffi::DataType::S64:
      return DType::S64;
    case ffi::DataType::F16:
      return DType::F16;
    case ffi::DataType::BF16:
      return DType::BF16;
    case ffi::DataType::F32:
      return DType::F32;
    default:
      fail("[interpreter] arrays of element type {} are not covered", static_cast<int>(type));
  }
}

Shape shape_of(const ffi::AnyBuffer& buffer) {
  const auto dims = buffer.dimensions();
  return {dtype_of(buffer.element_type()), Dims(dims.begin(), dims.end())};
}

/// Runs `kernel(operands, results)` on the call's buffers.
template <typename Kernel>
ffi::Error call(const ffi::RemainingArgs& in, const ffi::RemainingRets& out, const Kernel& kernel) {
  try {
    std::vector<Array> operands;
    for (size_t i = 0; i < in.size(); ++i) {
      const auto buffer = in.get<ffi::AnyBuffer>(i);
      check(buffer.has_value(), "[interpreter] operand {} cannot be read", i);
      operands.emplace_back(shape_of(*buffer));
      std::memcpy(operands[i].bytes.data(), buffer->untyped_data(), operands[i].bytes.size());
    }
    std::vector<Shape> shapes;
    std::vector<void*> places;
    for (size_t i = 0; i < out.size(); ++i) {
      auto buffer = out.get<ffi::AnyBuffer>(i);
      check(buffer.has_value(), "[interpreter] result {} cannot be written", i);
      shapes.push_back(shape_of(**buffer));
      places.push_back((*buffer)->untyped_data());
    }
    const std::vector<Array> results = kernel(operands, shapes);
    for (size_t i = 0; i < places.size(); ++i) {
      std::memcpy(places[i], results[i].bytes.data(), results[i].bytes.size());
    }
    return ffi::Error::Success();
  } catch (const std::exception& error) {
    return ffi::Error::Internal(error.what());
  }
}

ffi::Error mosaic(ffi::RemainingArgs in, ffi::RemainingRets out, std::string_view text) {
  return call(in, out, [&](std::span<const Array> operands, std::span<const Shape> results) {
    return run_mosaic(std::string(text), operands, results);
  });
}

ffi::Error triton(ffi::RemainingArgs in, ffi::RemainingRets out, std::string_view text,
                  std::string_view function, ffi::Span<const int64_t> grid) {
  return call(in, out, [&](std::span<const Array> operands, std::span<const Shape> results) {
    check(grid.size() == 3, "[interpreter] a grid of {} axes", grid.size());
    const std::array programs{grid.begin()[0], grid.begin()[1], grid.begin()[2]};
    return run_triton(std::string(text), std::string(function), programs, operands, results);
  });
}

XLA_FFI_DEFINE_HANDLER(
    kMosaicHandler, mosaic,
    ffi::Ffi::Bind().RemainingArgs().RemainingRets().Attr<std::string_view>("text"));

XLA_FFI_DEFINE_HANDLER(kTritonHandler, triton,
                       ffi::Ffi::Bind()
                           .RemainingArgs()
                           .RemainingRets()
                           .Attr<std::string_view>("text")
                           .Attr<std::string_view>("function")
                           .Attr<ffi::Span<const int64_t>>("grid"));

/// The interpreters see arrays in row-major order, whatever their layout.
void check_row_major(const std::vector<std::vector<int64_t>>& layouts) {
  for (const std::vector<int64_t>& layout : layouts) {
    std::vector<int64_t> row_major(layout.size());
    std::iota(row_major.rbegin(), row_major.rend(), 0);
    check(layout == row_major, "[interpreter] a layout that is not row-major is not covered");
  }
}

CustomCallAttrs interpreted(const kernels::KernelText& kernel) {
  CustomCallAttrs out{.api_version = 4};
  const bool is_mosaic = kernel.language == kernels::KernelText::Language::MOSAIC;
  out.target = is_mosaic ? kMosaicTarget : kTritonTarget;
  const std::string text = mlir_quoted(kernel.text);
  out.config =
      is_mosaic
          ? fmt::format("{{text = {}}}", text)
          : fmt::format("{{text = {}, function = {}, grid = array<i64: {}, {}, {}>}}", text,
                        mlir_quoted(kernel.name), kernel.grid[0], kernel.grid[1], kernel.grid[2]);
  return out;
}

}  // namespace

std::vector<kernels::Handler> handlers() {
  return {{kMosaicTarget, reinterpret_cast<void*>(kMosaicHandler)},
          {kTritonTarget, reinterpret_cast<void*>(kTritonHandler)}};
}

Lowering interpreting(Lowering lowering) {
  return [lowering = std::move(lowering)](const Node& node, Emitter& out) {
    if (node.op != &kCustomCall) return lowering && lowering(node, out);
    const auto& attrs = node.get<CustomCallAttrs>();
    const auto* kernel = std::any_cast<kernels::KernelText>(&attrs.kernel);
    if (kernel == nullptr) return lowering && lowering(node, out);
    check_row_major(attrs.operand_layouts);
    check_row_major(attrs.result_layouts);
    kernels::emit_replacement(node, out, [&](std::span<const Tensor> inputs) {
      return custom_call({inputs.begin(), inputs.end()}, node.results, interpreted(*kernel));
    });
    return true;
  };
}

}  // namespace kinema::interpreter
