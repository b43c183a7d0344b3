// Any bytes as the file of a compiled program. Since a checksum keeps most inputs out of what lies
// behind it, also as what such a file holds: it is read back as it was, and not at all once a byte
// of it is another or it is cut short.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "allocations.h"
#include "input_file.h"
#include "kinema/runtime/executable_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kinema::runtime;
  const std::string path = input_file("a.executable", data, size).string();
  const AllocationLimit limit(size);
  if (const auto file = read_executable(path); file && file->bytes.size() >= size) {
    std::abort();
  }
  if (size < 3) {
    return 0;
  }
  const std::string bytes(reinterpret_cast<const char*>(data + 3), size - 3);
  const std::string key = program_key(bytes);
  if (!write_executable(path, key, bytes)) {
    return 0;
  }
  if (const auto file = read_executable(path); !file || file->key != key || file->bytes != bytes) {
    std::abort();
  }
  std::ifstream in(path, std::ios::binary);
  std::string damaged{std::istreambuf_iterator<char>(in), {}};
  const size_t place = (data[0] + size_t{256} * data[1]) % damaged.size();
  if (data[2] == 0) {
    damaged.resize(place);
  } else {
    damaged[place] = static_cast<char>(damaged[place] ^ data[2]);
  }
  input_file("a.executable", reinterpret_cast<const uint8_t*>(damaged.data()), damaged.size());
  // The cache compares the key, which the checksum does not cover.
  if (const auto file = read_executable(path); file && file->key == key) {
    std::abort();
  }
  return 0;
}
