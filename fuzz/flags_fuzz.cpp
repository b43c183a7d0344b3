// Any text as LIBTPU_INIT_ARGS and XLA_FLAGS: findings, never a crash, and a list that was mended
// is read without stray words.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <sstream>
#include <string>

#include "kinema/flags/effective.h"
#include "kinema/flags/fix.h"

namespace {

using namespace kinema::flags;

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

size_t words_of(const std::string& text) {
  std::istringstream words(text);
  return static_cast<size_t>(std::distance(std::istream_iterator<std::string>(words), {}));
}

void read_as(Variable variable, const std::string& text, const char* target) {
  const bool tpu = variable == Variable::LIBTPU_INIT_ARGS;
  const EnvironmentFlags list = tpu ? read_libtpu_init_args(text) : read_xla_flags(text);
  require(list.flags.size() <= list.words.size());
  Request request{.platform = parse_platform(target)};
  (tpu ? request.libtpu_init_args : request.xla_flags) = text;
  const Effective effective = resolve(request);
  const std::string mended = fixed(list, effective);
  (void)to_json(effective).dump();
  const EnvironmentFlags again = tpu ? read_libtpu_init_args(mended) : read_xla_flags(mended);
  // Nothing is made up: a flag was a word of the text, or is what a finding says to add.
  require(again.flags.size() <= words_of(text) + effective.findings.size() * 4);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  read_as(Variable::LIBTPU_INIT_ARGS, text, "v6e:4x4");
  // A text that does not begin with a dash names a file, which may be a pipe.
  if (text.find('/') == std::string::npos) {
    read_as(Variable::XLA_FLAGS, text, "h100:8");
  }
  return 0;
}
