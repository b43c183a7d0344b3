# cmake --install: the program (component `program`, which is what ./dev package packs), the static
# library of every room with its public headers (kinema_module installs those), and a package that find_package(kinema) finds; link
# kinema::kinema, or single rooms such as kinema::graph.
include(CMakePackageConfigHelpers)

get_property(KINEMA_ROOMS GLOBAL PROPERTY KINEMA_ROOMS)
add_library(kinema_all INTERFACE)
foreach(room IN LISTS KINEMA_ROOMS)
  if(NOT room STREQUAL "cli")
    target_link_libraries(kinema_all INTERFACE kinema_${room})
    add_dependencies(kinema kinema_${room})  # what is installed is built with the program
  endif()
endforeach()
if(TARGET kinema_mpi)
  add_dependencies(kinema kinema_mpi)
endif()
set_target_properties(kinema_all PROPERTIES EXPORT_NAME kinema)
add_library(kinema::kinema ALIAS kinema_all)

install(TARGETS kinema_all EXPORT kinema)

# libarrow and the CPU plugin come along; the program finds both from where it lies itself, and its
# configurations in share/kinema.
file(GLOB arrow_libraries "${KINEMA_ARROW}/libarrow.so.*" "${KINEMA_ARROW}/libarrow_s3.so.*"
     "${KINEMA_ARROW}/libparquet.so.*")
set(KINEMA_ARROW_INSTALLED lib/kinema)
install(FILES ${arrow_libraries} DESTINATION ${KINEMA_ARROW_INSTALLED} COMPONENT program)
if(KINEMA_PJRT_CPU)
  install(FILES ${KINEMA_PJRT_CPU} DESTINATION lib/kinema RENAME xla_cpu_pjrt.so COMPONENT program)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/configs DESTINATION share/kinema COMPONENT program)
install(FILES ${PROJECT_SOURCE_DIR}/tools/envs.py ${PROJECT_SOURCE_DIR}/packaging/kinema-serve.service
        DESTINATION share/kinema COMPONENT program)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples/shapes DESTINATION share/kinema/examples
        COMPONENT program)
foreach(example generate linear_regression own_model train_tiny)
  install(FILES ${PROJECT_SOURCE_DIR}/examples/${example}.cpp DESTINATION share/kinema/examples)
endforeach()
file(RELATIVE_PATH arrow_from_bin /${CMAKE_INSTALL_BINDIR} /${KINEMA_ARROW_INSTALLED})
set_target_properties(kinema PROPERTIES INSTALL_RPATH "$ORIGIN/${arrow_from_bin}")

# The program writes its man pages and completions.
install(CODE "
  set(kinema \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/kinema\")
  set(share \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}\")
  file(MAKE_DIRECTORY \"\${share}/bash-completion/completions\" \"\${share}/zsh/vendor-completions\")
  execute_process(COMMAND \${kinema} manual --to \${share}/man COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND \${kinema} completion bash COMMAND_ERROR_IS_FATAL ANY
                  OUTPUT_FILE \"\${share}/bash-completion/completions/kinema\")
  execute_process(COMMAND \${kinema} completion zsh COMMAND_ERROR_IS_FATAL ANY
                  OUTPUT_FILE \"\${share}/zsh/vendor-completions/_kinema\")
" COMPONENT program)

set(KINEMA_PACKAGE ${CMAKE_INSTALL_LIBDIR}/cmake/kinema)
install(EXPORT kinema NAMESPACE kinema:: FILE kinema-targets.cmake DESTINATION ${KINEMA_PACKAGE})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/kinema-config.cmake.in
                              ${PROJECT_BINARY_DIR}/kinema-config.cmake
                              INSTALL_DESTINATION ${KINEMA_PACKAGE}
                              PATH_VARS KINEMA_ARROW_INSTALLED)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/kinema-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/kinema-config.cmake
              ${PROJECT_BINARY_DIR}/kinema-config-version.cmake
              ${CMAKE_CURRENT_LIST_DIR}/arrow.cmake
        DESTINATION ${KINEMA_PACKAGE})
