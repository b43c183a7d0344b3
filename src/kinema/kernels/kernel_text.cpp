#include "kinema/kernels/kernel_text.h"

#include <fmt/format.h>

#include <fstream>
#include <map>

#include "kinema/core/error.h"

namespace kinema::kernels {

void write_kernel_texts(const std::filesystem::path& folder, std::span<const KernelText> texts) {
  std::error_code ignored;  // an error appears in the next step
  std::filesystem::create_directories(folder, ignored);
  std::map<std::string, int> written;
  for (const KernelText& each : texts) {
    const int number = ++written[each.name];
    const std::string name = number == 1 ? each.name : fmt::format("{}_{}", each.name, number);
    const bool mosaic = each.language == KernelText::Language::MOSAIC;
    const std::filesystem::path path = folder / (name + (mosaic ? ".mosaic.mlir" : ".ttir.mlir"));
    std::ofstream file(path, std::ios::binary);
    file << each.text;
    check(static_cast<bool>(file.flush()), "[kernels] the text of {} cannot be written to {}",
          each.name, path.string());
  }
}

}  // namespace kinema::kernels
