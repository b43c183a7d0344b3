#pragma once

#include <pjrt_c_api.h>

#include <utility>

#include "kinema/pjrt/key_values.h"

namespace kinema::pjrt {

/// KeyValues as the functions of C that a plugin calls.
class KeyValueCalls {
 public:
  explicit KeyValueCalls(KeyValues own) : own_(std::move(own)) {}
  KeyValueCalls(const KeyValueCalls&) = delete;
  KeyValueCalls& operator=(const KeyValueCalls&) = delete;

  /// The client that is made of these arguments calls this object.
  void give_to(PJRT_Client_Create_Args& args);

 private:
  static PJRT_Error* put(PJRT_KeyValuePutCallback_Args* args);
  static PJRT_Error* get(PJRT_KeyValueGetCallback_Args* args);
  static PJRT_Error* try_get(PJRT_KeyValueTryGetCallback_Args* args);

  const KeyValues own_;
};

}  // namespace kinema::pjrt
