#include "kinema/pjrt/key_value_calls.h"

#include <cstring>
#include <exception>
#include <string>

#include "kinema/core/stopwatch.h"
#include "kinema/pjrt/api.h"

namespace kinema::pjrt {
namespace {

template <typename Args>
std::string key_of(const Args& args) {
  return std::string(view(args.key, args.key_size));
}

template <typename Args>
PJRT_Error* make_error(const Args& args, PJRT_Error_Code code, const std::string& text) {
  return (*args.callback_error)(code, text.data(), text.size());
}

/// Returns a copy that the plugin frees.
template <typename Args>
void hand_out(Args& args, const std::string& value) {
  args.value = new char[value.size()];
  std::memcpy(args.value, value.data(), value.size());
  args.value_size = value.size();
  args.value_deleter_callback = [](char* bytes) { delete[] bytes; };
}

}  // namespace

void KeyValueCalls::add_to(PJRT_Client_Create_Args& args) {
  args.kv_put_callback = put;
  args.kv_get_callback = get;
  args.kv_try_get_callback = try_get;
  args.kv_put_user_arg = args.kv_get_user_arg = args.kv_try_get_user_arg = this;
}

PJRT_Error* KeyValueCalls::put(PJRT_KeyValuePutCallback_Args* args) {
  try {
    const auto* own = static_cast<const KeyValueCalls*>(args->user_arg);
    own->own_.put(key_of(*args), std::string(view(args->value, args->value_size)));
    return nullptr;
  } catch (const std::exception& error) {
    return make_error(*args, PJRT_Error_Code_INTERNAL, error.what());
  }
}

PJRT_Error* KeyValueCalls::get(PJRT_KeyValueGetCallback_Args* args) {
  const std::chrono::milliseconds timeout(args->timeout_in_ms);
  const Stopwatch watch;
  try {
    const auto* own = static_cast<const KeyValueCalls*>(args->user_arg);
    hand_out(*args, own->own_.get(key_of(*args), timeout));
    return nullptr;
  } catch (const std::exception& error) {
    const bool late = watch.seconds() >= std::chrono::duration<double>(timeout).count();
    return make_error(*args, late ? PJRT_Error_Code_DEADLINE_EXCEEDED : PJRT_Error_Code_INTERNAL,
                      error.what());
  }
}

PJRT_Error* KeyValueCalls::try_get(PJRT_KeyValueTryGetCallback_Args* args) {
  try {
    const auto* own = static_cast<const KeyValueCalls*>(args->user_arg);
    const std::optional<std::string> value = own->own_.try_get(key_of(*args));
    if (!value) {
      return make_error(*args, PJRT_Error_Code_NOT_FOUND,
                        "no process has put `" + key_of(*args) + "` yet");
    }
    hand_out(*args, *value);
    return nullptr;
  } catch (const std::exception& error) {
    return make_error(*args, PJRT_Error_Code_INTERNAL, error.what());
  }
}

}  // namespace kinema::pjrt
