#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kinema/graph/scan.h"

namespace kinema {

/// Which steps of a longer loop: ScanOptions::length of them from `first` on, where every x has
/// `of` as leading size.
struct ScanPart {
  int64_t first;
  int64_t of;
};

/// `scan` over some of a stack's layers, which are read where they lie. Has no gradient.
ScanResult scan_some(std::vector<Tensor> carry, std::vector<Tensor> xs, ScanOptions options,
                     ScanPart part,
                     const std::function<ScanResult(std::span<const Tensor> carry,
                                                    std::span<const Tensor> xs)>& body);

}  // namespace kinema
