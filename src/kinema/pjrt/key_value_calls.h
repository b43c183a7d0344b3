#pragma once

#include <pjrt_c_api.h>

#include <utility>

#include "kinema/pjrt/key_values.h"

namespace kinema::pjrt {

/// KeyValues as C functions for a plugin.
class KeyValueCalls {
 public:
  explicit KeyValueCalls(KeyValues own) : own_(std::move(own)) {}
  KeyValueCalls(const KeyValueCalls&) = delete;
  KeyValueCalls& operator=(const KeyValueCalls&) = delete;

  /// A client created with these arguments calls this object.
  void add_to(PJRT_Client_Create_Args& args);

 private:
  static PJRT_Error* put(PJRT_KeyValuePutCallback_Args* args);
  static PJRT_Error* get(PJRT_KeyValueGetCallback_Args* args);
  static PJRT_Error* try_get(PJRT_KeyValueTryGetCallback_Args* args);

  const KeyValues own_;
};

}  // namespace kinema::pjrt
