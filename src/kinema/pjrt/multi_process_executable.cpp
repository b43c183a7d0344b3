#include "kinema/pjrt/multi_process_executable.h"

#include "pjrt/compile_options.pb.h"

namespace kinema::pjrt {
namespace {

constexpr std::string_view kMagic = "kinema executable with calls 1\n";

}  // namespace

std::string pack_multi_process(const PartitionedProgram& program, std::string_view own) {
  wire::ExecutableAcross out;
  out.set_format(program.optimized.format);
  out.set_optimized(program.optimized.bytes);
  out.mutable_device_ids()->Add(program.device_ids.begin(), program.device_ids.end());
  out.set_number(program.number);
  out.set_own(std::string(own));
  return std::string(kMagic) + out.SerializeAsString();
}

std::optional<SerializedMultiProcess> unpack_multi_process(std::string_view bytes) {
  if (!bytes.starts_with(kMagic)) {
    return std::nullopt;
  }
  bytes.remove_prefix(kMagic.size());
  wire::ExecutableAcross in;
  if (!in.ParseFromString(std::string(bytes))) {
    return std::nullopt;
  }
  return SerializedMultiProcess{
      .program = {.optimized = {.format = in.format(), .bytes = in.optimized()},
                  .device_ids = {in.device_ids().begin(), in.device_ids().end()},
                  .number = in.number()},
      .own = in.own()};
}

}  // namespace kinema::pjrt
