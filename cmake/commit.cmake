# cmake -D SOURCE=FOLDER -D OUT=FILE.cpp -P commit.cmake: writes the source's git commit as a C++ string, empty where
# there is no git repository (a release's archive). The file is left alone when it is current.
execute_process(COMMAND git -C "${SOURCE}" rev-parse --short=10 HEAD OUTPUT_VARIABLE commit RESULT_VARIABLE failed
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(failed)
  set(commit "")
endif()
file(CONFIGURE OUTPUT "${OUT}" CONTENT "extern const char* const kKinemaCommit = \"${commit}\";\n")
