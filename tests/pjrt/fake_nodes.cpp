// A PJRT plugin with one device per process, which connects the processes through the key-value
// callbacks as XLA's GPU client does: each puts its topology, process 0 merges them, all read the
// result, and one process puts a group's id, which the others do not know.
//   FAKE_MISSING=1     waits half a second for a key that nobody puts
//   FAKE_SLOW=SECONDS  takes this long
#include <pjrt_c_api.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

struct PJRT_Error {
  PJRT_Error_Code code;
  std::string message;
};
struct PJRT_DeviceDescription {
  int64_t node;
  std::string text;
};
struct PJRT_Device {
  PJRT_DeviceDescription description;
};
struct PJRT_Client {
  int64_t node = 0;
  std::string text;  // the options and what it learnt
  std::vector<PJRT_Device> devices;
  std::vector<PJRT_Device*> pointers;
};

namespace {

PJRT_Error* make_error(PJRT_Error_Code code, const char* text, size_t size) {
  return new PJRT_Error{code, std::string(text, size)};
}
PJRT_CallbackError callback_error = make_error;

PJRT_Error* wrong(const std::string& text) {
  return new PJRT_Error{PJRT_Error_Code_INVALID_ARGUMENT, text};
}

void destroy_error(PJRT_Error_Destroy_Args* args) { delete args->error; }
void error_message(PJRT_Error_Message_Args* args) {
  args->message = args->error->message.data();
  args->message_size = args->error->message.size();
}
PJRT_Error* error_code(PJRT_Error_GetCode_Args* args) {
  args->code = args->error->code;
  return nullptr;
}
PJRT_Error* initialize(PJRT_Plugin_Initialize_Args*) { return nullptr; }

/// The program's key-value store; each call returns an error or null.
class Store {
 public:
  explicit Store(const PJRT_Client_Create_Args& args) : args_(args) {}

  PJRT_Error* put(const std::string& key, const std::string& value) const {
    PJRT_KeyValuePutCallback_Args call{.struct_size = PJRT_KeyValuePutCallback_Args_STRUCT_SIZE,
                                       .key = key.data(),
                                       .key_size = key.size(),
                                       .value = value.data(),
                                       .value_size = value.size(),
                                       .callback_error = &callback_error,
                                       .user_arg = args_.kv_put_user_arg};
    return args_.kv_put_callback(&call);
  }
  PJRT_Error* get(const std::string& key, int milliseconds, std::string& value) const {
    PJRT_KeyValueGetCallback_Args call{.struct_size = PJRT_KeyValueGetCallback_Args_STRUCT_SIZE,
                                       .key = key.data(),
                                       .key_size = key.size(),
                                       .timeout_in_ms = milliseconds,
                                       .callback_error = &callback_error,
                                       .user_arg = args_.kv_get_user_arg};
    PJRT_Error* const error = args_.kv_get_callback(&call);
    return error == nullptr ? take(call, value) : error;
  }
  PJRT_Error* try_get(const std::string& key, std::string& value) const {
    PJRT_KeyValueTryGetCallback_Args call{
        .struct_size = PJRT_KeyValueTryGetCallback_Args_STRUCT_SIZE,
        .key = key.data(),
        .key_size = key.size(),
        .callback_error = &callback_error,
        .user_arg = args_.kv_try_get_user_arg};
    PJRT_Error* const error = args_.kv_try_get_callback(&call);
    return error == nullptr ? take(call, value) : error;
  }

 private:
  template <typename Call>
  static PJRT_Error* take(const Call& call, std::string& value) {
    value.assign(call.value, call.value_size);
    call.value_deleter_callback(call.value);
    return nullptr;
  }

  const PJRT_Client_Create_Args& args_;
};

PJRT_Error* join(const Store& store, int64_t node, int64_t nodes, std::string& topology) {
  constexpr int kLong = 10000;  // ms
  std::string value;
  PJRT_Error* error = store.try_get("nobody's", value);
  if (error == nullptr || error->code != PJRT_Error_Code_NOT_FOUND) {
    return wrong("try_get of a key that nobody put is not NOT_FOUND");
  }
  delete error;
  const std::string own("device\0of ", 10);  // with a zero byte inside
  if ((error = store.put("local_topology/" + std::to_string(node), own + std::to_string(node)))) {
    return error;
  }
  if (node == 0) {
    std::string all;
    for (int64_t i = 0; i < nodes; ++i) {
      if ((error = store.get("local_topology/" + std::to_string(i), kLong, value))) {
        return error;
      }
      all += value + ";";
    }
    if ((error = store.put("global_topology", all))) {
      return error;
    }
  }
  if ((error = store.get("global_topology", kLong, topology))) {
    return error;
  }
  // Group names list the devices, and may be long; ids are bytes.
  const std::string group = "group of " + std::string(2000, 'x');
  const std::string id = std::string(64, '\0') + std::string(64, '\xff');
  if (node == nodes - 1) {
    if ((error = store.put(group + " other", "other")) || (error = store.put(group, id))) {
      return error;
    }
  }
  // From several threads at once, like a client's compilers.
  std::array<PJRT_Error*, 4> errors{};
  std::array<std::string, 4> ids;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < ids.size(); ++i) {
    threads.emplace_back([&, i] { errors[i] = store.get(group, kLong, ids[i]); });
  }
  for (std::thread& each : threads) {
    each.join();
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    if (errors[i] != nullptr) {
      return errors[i];
    }
    if (ids[i] != id) {
      return wrong("the id of a group arrived otherwise than it was put");
    }
  }
  return std::getenv("FAKE_MISSING") == nullptr ? nullptr : store.get("a missing key", 500, value);
}

PJRT_Error* create_client(PJRT_Client_Create_Args* args) {
  int64_t node = 0;
  int64_t nodes = 1;
  std::string visible = "all";
  for (size_t i = 0; i < args->num_options; ++i) {
    const PJRT_NamedValue& option = args->create_options[i];
    const std::string name(option.name, option.name_size);
    if (name == "node_id") {
      node = option.int64_value;
    } else if (name == "num_nodes") {
      nodes = option.int64_value;
    } else if (name == "visible_devices") {
      visible = std::to_string(option.int64_array_value[0]);
    } else {
      return wrong("unexpected option " + name);
    }
  }
  if (const char* seconds = std::getenv("FAKE_SLOW")) {
    std::this_thread::sleep_for(std::chrono::duration<double>(std::atof(seconds)));
  }
  std::string topology;
  if (nodes > 1) {
    if (args->kv_get_callback == nullptr || args->kv_put_callback == nullptr ||
        args->kv_try_get_callback == nullptr) {
      return wrong("num_nodes > 1 needs the key-value callbacks");
    }
    if (PJRT_Error* error = join(Store(*args), node, nodes, topology)) {
      return error;
    }
  }
  auto* client = new PJRT_Client;
  client->node = node;
  client->text = "node " + std::to_string(node) + " of " + std::to_string(nodes) + ", device " +
                 visible + ": " + topology;
  for (int64_t i = 0; i < nodes; ++i) {
    client->devices.push_back({{.node = i, .text = "FakeDevice(" + std::to_string(i) + ")"}});
  }
  for (PJRT_Device& device : client->devices) {
    client->pointers.push_back(&device);
  }
  args->client = client;
  return nullptr;
}

PJRT_Error* destroy_client(PJRT_Client_Destroy_Args* args) {
  delete args->client;
  return nullptr;
}
PJRT_Error* process_index(PJRT_Client_ProcessIndex_Args* args) {
  args->process_index = static_cast<int>(args->client->node);
  return nullptr;
}
PJRT_Error* platform_name(PJRT_Client_PlatformName_Args* args) {
  args->platform_name = "cuda";
  args->platform_name_size = 4;
  return nullptr;
}
PJRT_Error* platform_version(PJRT_Client_PlatformVersion_Args* args) {
  args->platform_version = args->client->text.data();
  args->platform_version_size = args->client->text.size();
  return nullptr;
}
PJRT_Error* devices(PJRT_Client_Devices_Args* args) {
  args->devices = args->client->pointers.data();
  args->num_devices = args->client->pointers.size();
  return nullptr;
}
PJRT_Error* addressable_devices(PJRT_Client_AddressableDevices_Args* args) {
  args->addressable_devices = args->client->pointers.data() + args->client->node;
  args->num_addressable_devices = 1;
  return nullptr;
}
PJRT_Error* description(PJRT_Device_GetDescription_Args* args) {
  args->device_description = &args->device->description;
  return nullptr;
}
PJRT_Error* description_id(PJRT_DeviceDescription_Id_Args* args) {
  args->id = static_cast<int>(args->device_description->node);
  return nullptr;
}
PJRT_Error* description_process(PJRT_DeviceDescription_ProcessIndex_Args* args) {
  args->process_index = static_cast<int>(args->device_description->node);
  return nullptr;
}
PJRT_Error* description_attributes(PJRT_DeviceDescription_Attributes_Args* args) {
  args->attributes = nullptr;
  args->num_attributes = 0;
  return nullptr;
}
PJRT_Error* description_kind(PJRT_DeviceDescription_Kind_Args* args) {
  args->device_kind = "fake";
  args->device_kind_size = 4;
  return nullptr;
}
PJRT_Error* description_text(PJRT_DeviceDescription_ToString_Args* args) {
  args->to_string = args->device_description->text.data();
  args->to_string_size = args->device_description->text.size();
  return nullptr;
}

PJRT_Api make_api() {
  PJRT_Api api{};
  api.struct_size = PJRT_Api_STRUCT_SIZE;
  api.pjrt_api_version = {
      .struct_size = PJRT_Api_Version_STRUCT_SIZE, .major_version = 0, .minor_version = 81};
  api.PJRT_Error_Destroy = destroy_error;
  api.PJRT_Error_Message = error_message;
  api.PJRT_Error_GetCode = error_code;
  api.PJRT_Plugin_Initialize = initialize;
  api.PJRT_Client_Create = create_client;
  api.PJRT_Client_Destroy = destroy_client;
  api.PJRT_Client_ProcessIndex = process_index;
  api.PJRT_Client_PlatformName = platform_name;
  api.PJRT_Client_PlatformVersion = platform_version;
  api.PJRT_Client_Devices = devices;
  api.PJRT_Client_AddressableDevices = addressable_devices;
  api.PJRT_Device_GetDescription = description;
  api.PJRT_DeviceDescription_Id = description_id;
  api.PJRT_DeviceDescription_ProcessIndex = description_process;
  api.PJRT_DeviceDescription_Attributes = description_attributes;
  api.PJRT_DeviceDescription_Kind = description_kind;
  api.PJRT_DeviceDescription_ToString = description_text;
  return api;
}

}  // namespace

extern "C" const PJRT_Api* GetPjrtApi() {
  static const PJRT_Api api = make_api();
  return &api;
}
