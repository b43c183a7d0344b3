#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kinema/core/shape.h"
#include "kinema/graph/custom_call.h"
#include "kinema/graph/emit.h"
#include "kinema/kernels/kernel_text.h"

/// Calls of kernels that are texts, by themselves: to be compiled before the program that they are
/// part of, or to be read.
namespace kinema::kernels {

struct KernelCall {
  KernelText text;
  std::vector<Shape> operands;
  std::vector<Shape> results;
  CustomCallAttrs attrs;
};

/// Does what `lowering` does, and writes down the calls that come of it, each once.
Lowering collecting(Lowering lowering, std::shared_ptr<std::vector<KernelCall>> calls);

/// A program of nothing but these calls, for one device; its arguments are their operands in a row.
std::string program_of(std::span<const KernelCall> calls);

/// Writes each text into a file of its own in `folder`: `flash_forward.mosaic.mlir`, and
/// `flash_forward_2.mosaic.mlir` for the second of a name. Throws an Error where it cannot.
void write_kernel_texts(const std::filesystem::path& folder, std::span<const KernelCall> calls);

}  // namespace kinema::kernels
