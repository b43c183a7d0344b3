#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "kinema/core/error.h"
#include "kinema/jobs/process_setup.h"
#include "kinema/python/jobs.h"
#include "kinema/python/waiting.h"
#include "kinema/runtime/client.h"

namespace nb = nanobind;

NB_MODULE(_kinema, module) {
  const nb::object error = nb::exception<kinema::Error>(module, "Error", PyExc_RuntimeError);
  nb::exception<kinema::Stopped>(module, "Stopped", error);
  module.attr("__version__") = KINEMA_VERSION;
  module.def(
      "setup",
      [](const std::string& plugins) {
        // A guest in the process: signals and limits are Python's. Truncated model files would
        // otherwise end it.
        kinema::jobs::ProcessSetup setup;
        setup.ignore_sigpipe = false;
        setup.raise_open_file_limit = false;
        setup.notice_children = false;
        setup.apply();
        if (!plugins.empty()) {
          kinema::runtime::remember_plugin_folder(plugins.c_str());
        }
      },
      nb::arg("plugins"), "Prepares the process; `plugins` is a folder with PJRT plugins.");
  module.def("finish", &kinema::python::finish_all,
             "Waits for work that was interrupted and has not ended yet.");
  kinema::python::add_jobs(module);
  kinema::python::add_graph(module);
}
