#include "kinema/pjrt/api.h"

#include <fmt/format.h>

#include <algorithm>

namespace kinema::pjrt {
namespace {

const char* code_name(PJRT_Error_Code code) {
  switch (code) {
    case PJRT_Error_Code_CANCELLED:
      return "cancelled";
    case PJRT_Error_Code_INVALID_ARGUMENT:
      return "invalid argument";
    case PJRT_Error_Code_DEADLINE_EXCEEDED:
      return "deadline exceeded";
    case PJRT_Error_Code_NOT_FOUND:
      return "not found";
    case PJRT_Error_Code_ALREADY_EXISTS:
      return "already exists";
    case PJRT_Error_Code_PERMISSION_DENIED:
      return "permission denied";
    case PJRT_Error_Code_RESOURCE_EXHAUSTED:
      return "resource exhausted";
    case PJRT_Error_Code_FAILED_PRECONDITION:
      return "failed precondition";
    case PJRT_Error_Code_ABORTED:
      return "aborted";
    case PJRT_Error_Code_OUT_OF_RANGE:
      return "out of range";
    case PJRT_Error_Code_UNIMPLEMENTED:
      return "unimplemented";
    case PJRT_Error_Code_INTERNAL:
      return "internal";
    case PJRT_Error_Code_UNAVAILABLE:
      return "unavailable";
    case PJRT_Error_Code_DATA_LOSS:
      return "data loss";
    case PJRT_Error_Code_UNAUTHENTICATED:
      return "unauthenticated";
    default:
      return "unknown";
  }
}

PJRT_Error_Code code_of(const PJRT_Api& api, PJRT_Error* error) {
  PJRT_Error_GetCode_Args args{.struct_size = PJRT_Error_GetCode_Args_STRUCT_SIZE, .error = error};
  if (api.PJRT_Error_GetCode == nullptr) return PJRT_Error_Code_UNKNOWN;
  if (PJRT_Error* second = api.PJRT_Error_GetCode(&args)) {
    PJRT_Error_Destroy_Args destroy{.struct_size = PJRT_Error_Destroy_Args_STRUCT_SIZE,
                                    .error = second};
    api.PJRT_Error_Destroy(&destroy);
    return PJRT_Error_Code_UNKNOWN;
  }
  return args.code;
}

// Compilers write pages; the cause is in their first lines.
std::string first_two_lines(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  const size_t first = text.find('\n');
  if (first == std::string_view::npos) return std::string(text);
  const size_t second = text.find('\n', first + 1);
  if (second == std::string_view::npos) return std::string(text);
  const auto more = std::count(text.begin() + static_cast<ptrdiff_t>(second), text.end(), '\n');
  return fmt::format("{} (and {} more lines)", text.substr(0, second), more);
}

}  // namespace

// These three functions are at the start of PJRT_Api, which Plugin::load checks, and two of them
// return nothing, so they do not use call().
std::string take_message(const PJRT_Api& api, PJRT_Error* error) {
  PJRT_Error_Message_Args message{.struct_size = PJRT_Error_Message_Args_STRUCT_SIZE,
                                  .error = error};
  api.PJRT_Error_Message(&message);
  std::string text = fmt::format("{}: {}", code_name(code_of(api, error)),
                                 first_two_lines(view(message.message, message.message_size)));
  PJRT_Error_Destroy_Args destroy{.struct_size = PJRT_Error_Destroy_Args_STRUCT_SIZE,
                                  .error = error};
  api.PJRT_Error_Destroy(&destroy);
  return text;
}

}  // namespace kinema::pjrt
