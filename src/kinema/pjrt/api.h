#pragma once

#include <pjrt_c_api.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "kinema/core/error.h"

namespace kinema::pjrt {

/// The error's code and the first two lines of its text, `invalid argument: ...`; frees the error.
std::string take_message(const PJRT_Api& api, PJRT_Error* error);

/// All calls of a plugin go through this function: it sets `struct_size`, throws an Error if the
/// plugin is older than the function or does not have it, and converts an error object to an Error.
template <auto Function, typename Args>
Args call(const PJRT_Api& api, const char* name, size_t offset, size_t args_size, Args args) {
  check(offset + sizeof(void*) <= api.struct_size && api.*Function != nullptr,
        "[pjrt] {}: not offered by this plugin (PJRT {}.{})", name,
        api.pjrt_api_version.major_version, api.pjrt_api_version.minor_version);
  // A newer plugin knows fields after the end of this struct; one that ignores struct_size finds
  // zeros there and may write to them.
  struct {
    Args args;
    std::array<std::byte, 256> room;
  } padded{args, {}};
  padded.args.struct_size = args_size;
  if (PJRT_Error* error = (api.*Function)(&padded.args)) {
    fail("[pjrt] {}: {}", name, take_message(api, error));
  }
  return padded.args;
}

/// Runs `f` and ignores exceptions, for destructors.
template <typename F>
void ignoring_errors(F&& f) noexcept {
  try {
    f();
  } catch (const std::exception&) {
    // An error cannot be reported here, and the handle is freed in any case.
  }
}

inline std::string_view view(const char* text, size_t size) {
  return text == nullptr ? std::string_view() : std::string_view(text, size);
}

}  // namespace kinema::pjrt

/// KINEMA_PJRT(api, Client_PlatformName, .client = client) calls PJRT_Client_PlatformName and
/// returns its argument struct.
// NOLINTBEGIN(bugprone-macro-parentheses): names are pasted, parentheses would not parse
#define KINEMA_PJRT(api, Name, ...)                                                          \
  ::kinema::pjrt::call<&PJRT_Api::PJRT_##Name>(                                              \
      (api), "PJRT_" #Name, offsetof(PJRT_Api, PJRT_##Name), PJRT_##Name##_Args_STRUCT_SIZE, \
      PJRT_##Name##_Args{__VA_ARGS__})
// NOLINTEND(bugprone-macro-parentheses)
