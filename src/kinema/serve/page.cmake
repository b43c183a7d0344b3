# cmake -D FOLDER=page -D OUT=page_files.cpp -P page.cmake: the files of the page as arrays of a C++ source.
file(GLOB files RELATIVE ${FOLDER} ${FOLDER}/*)
list(SORT files)
set(arrays "")
set(table "")
set(number 0)
foreach(name IN LISTS files)
  file(SHA256 ${FOLDER}/${name} hash)
  file(READ ${FOLDER}/${name} bytes HEX)
  string(LENGTH "${bytes}" length)
  math(EXPR size "${length} / 2")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" bytes "${bytes}")
  # Compilers limit the length of a literal: pieces of 1,000 bytes, which they join.
  string(LENGTH "${bytes}" escaped)
  set(at 0)
  set(pieces "")
  while(at LESS escaped)
    string(SUBSTRING "${bytes}" ${at} 4000 piece)
    string(APPEND pieces "    \"${piece}\"\n")
    math(EXPR at "${at} + 4000")
  endwhile()
  if(pieces STREQUAL "")
    set(pieces "    \"\"\n")
  endif()
  string(APPEND arrays "constexpr char kFile${number}[] =\n${pieces}    ;\n")
  string(SUBSTRING ${hash} 0 16 hash)
  string(APPEND table "    {\"${name}\", {kFile${number}, ${size}}, \"${hash}\"},\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE ${OUT}.new "// Made by page.cmake.
#include \"kinema/serve/page.h\"

namespace kinema::serve {
namespace {
${arrays}
constexpr PageFile kFiles[] = {
${table}    {\"\", \"\", \"\"},
};
}  // namespace

std::span<const PageFile> page_files() { return {kFiles, ${number}}; }

}  // namespace kinema::serve
")
file(COPY_FILE ${OUT}.new ${OUT} ONLY_IF_DIFFERENT)
