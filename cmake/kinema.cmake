# kinema_module, kinema_test: one line per room and per test file.
include(GNUInstallDirs)
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(OpenMP REQUIRED)

set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})

# -O3 belongs to rooms with inner loops of their own (kinema_module(... OPTIMIZE)): elsewhere it costs a
# fifth of the compile time and gains nothing that can be measured.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

find_program(KINEMA_CCACHE ccache)
if(KINEMA_CCACHE)
  # What ccache wants to be told before it keeps what was compiled with a precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${KINEMA_CCACHE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  endif()
endif()
find_program(KINEMA_LLD ld.lld)
if(KINEMA_LLD)
  add_link_options(-fuse-ld=lld)
endif()

add_library(kinema_build_flags INTERFACE)
target_compile_features(kinema_build_flags INTERFACE cxx_std_20)
# Warnings are ours alone: who links the installed libraries keeps their own.
target_compile_options(kinema_build_flags INTERFACE
  $<BUILD_INTERFACE:-Wall> $<BUILD_INTERFACE:-Wextra>
  $<BUILD_INTERFACE:-Wno-missing-field-initializers>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 sees overlaps and overruns in std::string that are not there (GCC bugs 105651, 105329).
  target_compile_options(kinema_build_flags INTERFACE
    $<BUILD_INTERFACE:-Wno-restrict> $<BUILD_INTERFACE:-Wno-array-bounds>
    $<BUILD_INTERFACE:-Wno-stringop-overread> $<BUILD_INTERFACE:-Wno-stringop-overflow>)
elseif(KINEMA_SANITIZE)
  # What is marked to be vectorised cannot be with a check at each access.
  target_compile_options(kinema_build_flags INTERFACE $<BUILD_INTERFACE:-Wno-pass-failed>)
endif()
if(KINEMA_DEVELOPER)
  target_compile_options(kinema_build_flags INTERFACE $<BUILD_INTERFACE:-Werror>)
endif()
if(KINEMA_SANITIZE)
  if(KINEMA_SANITIZE MATCHES "address" AND KINEMA_SANITIZE MATCHES "thread")
    message(FATAL_ERROR "KINEMA_SANITIZE takes address,undefined or thread, not both")
  endif()
  target_compile_options(kinema_build_flags INTERFACE -fsanitize=${KINEMA_SANITIZE}
                         -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC 12 warns of its own <regex> and <functional> when they are instrumented (GCC bug 105562).
    target_compile_options(kinema_build_flags INTERFACE -Wno-maybe-uninitialized)
  endif()
  target_link_options(kinema_build_flags INTERFACE -fsanitize=${KINEMA_SANITIZE})
endif()
if(KINEMA_FUZZ)
  target_compile_options(kinema_build_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
install(TARGETS kinema_build_flags EXPORT kinema)

# What nearly every file reads, parsed once: a third of the compile time otherwise. A file still includes
# what it uses; `./dev tidy` builds without these.
set(KINEMA_COMMON_HEADERS <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <cstring> <filesystem>
    <fstream> <functional> <limits> <map> <memory> <mutex> <optional> <set> <span> <sstream> <string>
    <string_view> <thread> <utility> <vector> <fmt/format.h> <fmt/ranges.h>)

# A room's files compiled some at a time as one: half the compile time from nothing, more of it after a
# change, so for CI and for those who build once. Names in anonymous namespaces must then differ
# within a room; files whose names do not are listed behind ALONE.
option(KINEMA_UNITY "Compile several files of a room as one" OFF)
function(kinema_unity target alone)
  if(KINEMA_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
    set_source_files_properties(${alone} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

# kinema_module(graph SOURCES graph.cpp ops/dot.cpp HEADERS graph.h DEPENDS core LIBS fmt::fmt INCLUDES dir)
# SOURCES and HEADERS are relative to the room's folder; LIBS stay private to the room. OPTIMIZE: compiled
# with -O3. ALONE: see KINEMA_UNITY. HEADERS are the public ones, which are installed and in the API pages: what users of the
# library and other rooms include, and what those include. A header that is not listed is its room's own.
function(kinema_module name)
  cmake_parse_arguments(ARG "OPTIMIZE" "" "SOURCES;ALONE;HEADERS;DEPENDS;LIBS;INCLUDES" ${ARGN})
  set_property(GLOBAL APPEND PROPERTY KINEMA_ROOMS ${name})
  add_library(kinema_${name} STATIC ${ARG_SOURCES})
  kinema_unity(kinema_${name} "${ARG_ALONE}")
  add_library(kinema::${name} ALIAS kinema_${name})
  target_include_directories(kinema_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
                             $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_include_directories(kinema_${name} SYSTEM PRIVATE ${ARG_INCLUDES})
  target_link_libraries(kinema_${name} PUBLIC kinema_build_flags fmt::fmt)
  foreach(dep IN LISTS ARG_DEPENDS)
    target_link_libraries(kinema_${name} PUBLIC kinema_${dep})
  endforeach()
  target_link_libraries(kinema_${name} PRIVATE ${ARG_LIBS})
  if(ARG_OPTIMIZE)
    target_compile_options(kinema_${name} PRIVATE $<$<CONFIG:Release>:-O3>)
  endif()
  if(ARG_OPTIMIZE OR name STREQUAL "core")
    target_precompile_headers(kinema_${name} PRIVATE ${KINEMA_COMMON_HEADERS})
  else()
    target_precompile_headers(kinema_${name} REUSE_FROM kinema_core)
  endif()
  set_target_properties(kinema_${name} PROPERTIES EXPORT_NAME ${name})
  set(public)
  if(ARG_HEADERS)
    target_sources(kinema_${name} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/src FILES ${ARG_HEADERS})
    set(public FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
    file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR}/src ${CMAKE_CURRENT_SOURCE_DIR})
    list(TRANSFORM ARG_HEADERS PREPEND ${folder}/)
    set_property(GLOBAL APPEND PROPERTY KINEMA_PUBLIC_HEADERS ${ARG_HEADERS})
  endif()
  install(TARGETS kinema_${name} EXPORT kinema ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} ${public})
endfunction()

# kinema_test(concatenate_test DEPENDS graph LABELS fast): source tests/<room>/concatenate_test.cpp
# Labels: fast (no plugin, seconds in all), cpu (needs the CPU plugin), golden (reference cases), slow.
# A room's tests are one program, tests/tests_<room>; ctest runs it once a file.
# ALONE: see KINEMA_UNITY. LIGHTLY_COMPILED: its time is the compiler's and its results are compared with one another, so LLVM
# optimises nothing; -DKINEMA_TESTS_LIGHTLY_COMPILED=OFF has these too compiled as users' programs are.
# It gets one module for a program in place of 32, each of which costs a target machine, a copy and a link.
# PLAIN_FLOATS: of these, one without float8, whose rounding XLA's older generator of fused code gets
# wrong, which takes half the time.
# PROCESSES n: mpirun starts n of it, which are one world (tests/world/test_world.h).
find_program(KINEMA_MPIRUN mpirun)
option(KINEMA_TESTS_LIGHTLY_COMPILED "tests that only wait for the compiler have it optimise nothing" ON)
# kinema_begins_early(faults/connections 300): of the tests that take longest, with its seconds, so that it does not run alone
# at the end where ctest has not measured it. ctest begins with the costliest.
function(kinema_begins_early test seconds)
  if(TEST ${test})
    set_tests_properties(${test} PROPERTIES COST ${seconds})
  endif()
endfunction()

# kinema_lightly_compiled(TEST PLAIN_FLOATS): the compiler's flags of such a test.
function(kinema_lightly_compiled test plain)
  if(KINEMA_TESTS_LIGHTLY_COMPILED)
    set(flags "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1")
    if(plain)
      string(APPEND flags " --xla_cpu_use_fusion_emitters=false")
    endif()
    set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT "XLA_FLAGS=${flags}")
  endif()
endfunction()

function(kinema_test name)
  cmake_parse_arguments(ARG "ALONE;LIGHTLY_COMPILED;PLAIN_FLOATS" "TIMEOUT;PROCESSES" "SOURCES;DEPENDS;LABELS;LIBS" ${ARGN})
  get_filename_component(room ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  set(target tests_${room})
  if(NOT TARGET ${target})
    add_executable(${target})
    target_link_libraries(${target} PRIVATE tests_main)
    target_precompile_headers(${target} REUSE_FROM tests_main)
    kinema_unity(${target} "")
    set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests
                          POSITION_INDEPENDENT_CODE OFF)
  endif()
  target_sources(${target} PRIVATE ${name}.cpp ${ARG_SOURCES})
  if(ARG_ALONE)
    set_source_files_properties(${name}.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
  foreach(dep IN LISTS ARG_DEPENDS)
    target_link_libraries(${target} PRIVATE kinema_${dep})
  endforeach()
  target_link_libraries(${target} PRIVATE ${ARG_LIBS})
  set(launcher)
  if(ARG_PROCESSES)
    if(NOT TARGET kinema_mpi OR NOT KINEMA_MPIRUN)
      return()
    endif()
    add_dependencies(${target} kinema_mpi)
    set(launcher ${KINEMA_MPIRUN} --allow-run-as-root --oversubscribe --bind-to none -np ${ARG_PROCESSES})
  endif()
  add_test(NAME ${room}/${name} COMMAND ${launcher} $<TARGET_FILE:${target}> --file=${name})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(KINEMA_SANITIZE)
    math(EXPR ARG_TIMEOUT "5 * ${ARG_TIMEOUT}")  # everything takes several times as long
  endif()
  set_tests_properties(${room}/${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
    ENVIRONMENT "KINEMA_PJRT_CPU=${KINEMA_PJRT_CPU}")
  if(ARG_LIGHTLY_COMPILED)
    kinema_lightly_compiled(${room}/${name} ${ARG_PLAIN_FLOATS})
  endif()
endfunction()

# kinema_test_with_stores(remote/store_test): the test starts the servers of tests/stores.
file(SHA256 ${PROJECT_SOURCE_DIR}/tests/stores/requirements.txt KINEMA_STORES_HASH)
string(SUBSTRING ${KINEMA_STORES_HASH} 0 12 KINEMA_STORES_HASH)
function(kinema_test_with_stores name)
  set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT
    "KINEMA_TEST_STORES=${KINEMA_WHEELS}/stores-${KINEMA_STORES_HASH}")
endfunction()
