#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kinema/graph/scan.h"

namespace kinema {

/// A range of a longer loop's steps: ScanOptions::length steps from `first` of `of` steps. Every x
/// has the leading size `of`.
struct ScanPart {
  int64_t first;
  int64_t of;
};

/// `scan` over a range of a stack's layers, without copying them. The gradient copies those that it
/// reads, and is that of the whole stack, with zeros for the others.
ScanResult scan_some(std::vector<Tensor> carry, std::vector<Tensor> xs, ScanOptions options,
                     ScanPart part,
                     const std::function<ScanResult(std::span<const Tensor> carry,
                                                    std::span<const Tensor> xs)>& body);

}  // namespace kinema
