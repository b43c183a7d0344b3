// Any bytes as a multipart body, with the boundary that the first byte chooses: parts lie within
// the body, in order and without overlap, and no part contains the boundary.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "allocations.h"
#include "kinema/core/error.h"
#include "kinema/http/multipart.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  // Each part costs a struct of 120 bytes for at least 50 of the form.
  const AllocationLimit limit(8 * size);
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const bool has_type = data[0] % 4 == 0 && all.find('\n') != all.npos;
  const std::string type(has_type ? all.substr(1, all.find('\n') - 1)
                                  : "multipart/form-data; boundary=XX");
  const std::string_view body = all.substr(has_type ? all.find('\n') + 1 : 1);
  try {
    const char* at = body.data();
    for (const auto& part : kinema::http::read_multipart(type, body)) {
      const char* const begin = part.content.data();
      if (part.content.empty()) {
        continue;
      }
      if (begin < at || begin + part.content.size() > body.data() + body.size() ||
          (!has_type && part.content.find("\r\n--XX") != part.content.npos)) {
        std::abort();
      }
      at = begin + part.content.size();
    }
  } catch (const kinema::Error&) {
  }
  return 0;
}
