# The page in a browser, in the virtual environment of page_requirements.txt, which `./dev peers` fetches; skipped where
# that, chromium or chromium-driver is not there. It drives the stand-in of this folder.
file(SHA256 ${CMAKE_CURRENT_LIST_DIR}/page_requirements.txt page_hash)
string(SUBSTRING ${page_hash} 0 12 page_hash)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/page_requirements.txt)
foreach(name Make Restart Gallery TenThousand Train Models Looks)
  string(TOLOWER ${name} lower)
  add_test(NAME serve/page_${lower} COMMAND ${PROJECT_SOURCE_DIR}/tests/peers/run.sh ${KINEMA_WHEELS}/bench-${page_hash}
                                            ${CMAKE_CURRENT_LIST_DIR}/page_test.py ${name})
  set_tests_properties(serve/page_${lower} PROPERTIES LABELS peer TIMEOUT 600 SKIP_RETURN_CODE 77)
endforeach()
