# cmake --install: the binary, the static library of every room and their headers.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/kinema
        FILES_MATCHING PATTERN "*.h")
