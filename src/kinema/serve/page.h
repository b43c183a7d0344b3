#pragma once

// Private to the module: the files of src/kinema/serve/page, which are part of the program.

#include <span>
#include <string_view>

namespace kinema::serve {

struct PageFile {
  std::string_view name;
  std::string_view bytes;
  std::string_view hash;
};
std::span<const PageFile> page_files();

}  // namespace kinema::serve
