# The target `docs` (./dev docs): API pages of the public headers, in docs/html of the build folder.
get_property(KINEMA_PUBLIC_HEADERS GLOBAL PROPERTY KINEMA_PUBLIC_HEADERS)
set(KINEMA_DOCS_INPUT
    "${PROJECT_SOURCE_DIR}/docs/internals/api.md \\\n  ${PROJECT_SOURCE_DIR}/docs/internals/library.md")
foreach(header IN LISTS KINEMA_PUBLIC_HEADERS)
  string(APPEND KINEMA_DOCS_INPUT " \\\n  ${PROJECT_SOURCE_DIR}/src/${header}")
endforeach()
configure_file(${PROJECT_SOURCE_DIR}/docs/Doxyfile.in ${PROJECT_BINARY_DIR}/Doxyfile @ONLY)
add_custom_target(docs COMMAND ${CMAKE_COMMAND} -E rm -rf docs/html
                  COMMAND doxygen ${PROJECT_BINARY_DIR}/Doxyfile
                  WORKING_DIRECTORY ${PROJECT_BINARY_DIR} VERBATIM)
