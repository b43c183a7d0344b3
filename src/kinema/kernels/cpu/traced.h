#pragma once

#include <cstdint>
#include <utility>

#include "kinema/core/trace.h"
#include "xla/ffi/api/ffi.h"

namespace kinema::kernels {

/// The same kernel, which says in recordings (core/trace.h) when it runs, under the label that is
/// its last argument: the attribute `scope`.
template <typename... Arguments>
auto traced(::xla::ffi::Error (*kernel)(Arguments...)) {
  return [kernel](Arguments... arguments, int64_t scope) {
    const trace::Scope span(trace::Label{scope});
    return kernel(std::move(arguments)...);
  };
}

}  // namespace kinema::kernels
