// A PJRT plugin without devices. FAKE_<KIND> selects its defect; see plugin_test.cpp.
#include <pjrt_c_api.h>

#include <atomic>
#include <cstring>
#include <string>

#include "fake_profiler.h"

struct PJRT_Error {
  std::string message;
};

namespace {

std::atomic<int> live_errors = 0;

PJRT_Error* make_error(const char* message) {
  ++live_errors;
  return new PJRT_Error{message};
}

void destroy_error(PJRT_Error_Destroy_Args* args) {
  --live_errors;
  delete args->error;
}

void error_message(PJRT_Error_Message_Args* args) {
  args->message = args->error->message.data();
  args->message_size = args->error->message.size();
}

PJRT_Error* error_code(PJRT_Error_GetCode_Args* args) {
  args->code = PJRT_Error_Code_RESOURCE_EXHAUSTED;
  return nullptr;
}

PJRT_Error* initialize(PJRT_Plugin_Initialize_Args*) {
#ifdef FAKE_FAILING_START
  return make_error("no device of this kind");
#else
  return nullptr;
#endif
}

PJRT_Error* attributes(PJRT_Plugin_Attributes_Args* args) {
  static const int64_t version[] = {1, 20, 0};
  static PJRT_NamedValue value{.struct_size = PJRT_NamedValue_STRUCT_SIZE};
  value.name = "stablehlo_current_version";
  value.name_size = std::strlen(value.name);
  value.type = PJRT_NamedValue_kInt64List;
  value.int64_array_value = version;
  value.value_size = 3;
  args->attributes = &value;
  args->num_attributes = 1;
  return nullptr;
}

PJRT_Error* create_client(PJRT_Client_Create_Args* args) {
  // The struct's size in this header, without tail padding.
  if (args->struct_size != PJRT_Client_Create_Args_STRUCT_SIZE) return make_error("struct size");
#ifdef FAKE_ECHOING
  // Reports the options it received, for tests of how options are passed.
  std::string text = "options:";
  for (size_t i = 0; i < args->num_options; ++i) {
    const PJRT_NamedValue& option = args->create_options[i];
    text += ' ' + std::string(option.name, option.name_size) + '=';
    switch (option.type) {
      case PJRT_NamedValue_kString:
        text += "text " + std::string(option.string_value, option.value_size);
        break;
      case PJRT_NamedValue_kInt64:
        text += "integer " + std::to_string(option.int64_value);
        break;
      case PJRT_NamedValue_kFloat:
        text += "float " + std::to_string(option.float_value);
        break;
      case PJRT_NamedValue_kBool:
        text += std::string("bool ") + (option.bool_value ? "true" : "false");
        break;
      default:
        text += "?";
    }
  }
  return make_error((text + ';').c_str());
#else
  return make_error("all devices are taken");
#endif
}

// Plugins of 0.104 that ignore struct_size: they fill fields that were added later.
PJRT_Error* memory_stats(PJRT_Executable_GetCompiledMemoryStats_Args* args) {
  args->temp_size_in_bytes = 7;
  args->peak_memory_in_bytes = 9;
#ifdef FAKE_NEWER
  int64_t* after = &args->peak_memory_in_bytes + 1;
  for (int i = 0; i < 4; ++i) after[i] = -1;
#endif
  return nullptr;
}

[[maybe_unused]] PJRT_Api make_api() {
  PJRT_Api api{};
  api.struct_size = PJRT_Api_STRUCT_SIZE;
  api.pjrt_api_version = {
      .struct_size = PJRT_Api_Version_STRUCT_SIZE, .major_version = 0, .minor_version = 81};
  api.PJRT_Error_Destroy = destroy_error;
  api.PJRT_Error_Message = error_message;
  api.PJRT_Error_GetCode = error_code;
  api.PJRT_Plugin_Initialize = initialize;
  api.PJRT_Plugin_Attributes = attributes;
  api.PJRT_Client_Create = create_client;
  api.PJRT_Executable_GetCompiledMemoryStats = memory_stats;
#ifdef FAKE_NEWER
  api.struct_size += 40 * sizeof(void*);
  api.pjrt_api_version.minor_version = 116;
#endif
#ifdef FAKE_OLDER_TABLE
  // A table that ends before the memory figures: the pointer after its end must not be read.
  api.struct_size = offsetof(PJRT_Api, PJRT_Executable_GetCompiledMemoryStats);
  api.pjrt_api_version.minor_version = 60;
#endif
#if defined(FAKE_PROFILING) || defined(FAKE_COUNTING_PROFILER) || defined(FAKE_BUSY_PROFILER) || \
    defined(FAKE_SHORT_PROFILER)
  api.extension_start = fake_profiler::extension();
#endif
#ifdef FAKE_ANCIENT
  api.pjrt_api_version.minor_version = 40;
#endif
#ifdef FAKE_NEXT_MAJOR
  api.pjrt_api_version.major_version = 1;
#endif
  return api;
}

}  // namespace

extern "C" {

int fake_live_errors() { return live_errors; }

#ifndef FAKE_NO_API
const PJRT_Api* GetPjrtApi() {
#ifdef FAKE_NULL_API
  return nullptr;
#else
  // Space after the table for what FAKE_NEWER claims to have.
  static struct {
    PJRT_Api api = make_api();
    void* later[40] = {};
  } table;
  return &table.api;
#endif
}
#endif

}  // extern "C"
