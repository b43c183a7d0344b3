#include <nanobind/operators.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kinema/core/error.h"
#include "kinema/graph/autodiff.h"
#include "kinema/graph/ops.h"
#include "kinema/python/arrays.h"
#include "kinema/python/jobs.h"
#include "kinema/runtime/array.h"
#include "kinema/runtime/client.h"
#include "kinema/runtime/program.h"

namespace kinema::python {
namespace {

using nb::literals::operator""_a;

DType dtype_of(const std::string& name) {
  const std::optional<DType> found = dtype_from_string(name);
  check(found.has_value(), "[python] `{}` is no dtype, expected float32, bfloat16, int32, ...",
        name);
  return *found;
}

/// A tensor that keeps its graph alive.
struct PyTensor {
  std::shared_ptr<Graph> graph;
  Tensor tensor;
};

PyTensor made(const PyTensor& by, Tensor tensor) { return {by.graph, tensor}; }

void check_same(const PyTensor& a, const PyTensor& b) {
  check(a.graph == b.graph, "[python] the tensors are of two graphs, expected one");
}

/// A compiled graph on the first device of a kind of hardware.
class PyProgram {
 public:
  PyProgram(std::shared_ptr<Graph> graph, const std::vector<PyTensor>& outputs,
            const std::string& hardware)
      : devices_(runtime::open_client({.hardware = hardware})),
        program_(compile(devices_, *graph, outputs)) {}

  /// Arrays in, in the order of the graph's inputs; numpy arrays out.
  std::vector<nb::object> run(const std::vector<GivenArray>& arguments) const {
    const std::vector<runtime::Port>& inputs = program_.inputs();
    check(arguments.size() == inputs.size(), "[python] the program has {} inputs, but {} are given",
          inputs.size(), arguments.size());
    std::vector<HostArray> results;
    std::vector<Shape> shapes;
    for (size_t i = 0; i < arguments.size(); ++i) {
      shapes.push_back(shape_of(arguments[i]));
      check(shapes.back() == inputs[i].shape, "[python] input {} ({}) is {}, expected {}", i,
            inputs[i].name, to_string(shapes.back()), to_string(inputs[i].shape));
    }
    {
      const nb::gil_scoped_release unlocked;
      std::vector<runtime::Array> arrays;
      std::vector<const runtime::Array*> pointers;
      arrays.reserve(arguments.size());
      for (size_t i = 0; i < arguments.size(); ++i) {
        pointers.push_back(
            &arrays.emplace_back(devices_.upload(bytes_of(arguments[i]), shapes[i])));
      }
      for (const runtime::Array& each : program_.run(devices_, pointers)) {
        results.push_back(each.to_host());
      }
    }
    std::vector<nb::object> out;
    for (HostArray& each : results) {
      out.push_back(to_numpy(std::move(each)));
    }
    return out;
  }

 private:
  static runtime::Program compile(const runtime::Devices& devices, const Graph& graph,
                                  const std::vector<PyTensor>& outputs) {
    std::vector<Tensor> tensors;
    for (const PyTensor& each : outputs) {
      check(each.graph.get() == &graph, "[python] an output is of another graph");
      tensors.push_back(each.tensor);
    }
    const nb::gil_scoped_release unlocked;
    return runtime::Program::compile(devices.client(), graph, tensors, {.name = "python"});
  }

  runtime::Devices devices_;
  runtime::Program program_;
};

template <Tensor (*Op)(Tensor)>
PyTensor unary(const PyTensor& x) {
  return made(x, Op(x.tensor));
}
template <Tensor (*Op)(Tensor, Tensor)>
PyTensor binary(const PyTensor& a, const PyTensor& b) {
  check_same(a, b);
  return made(a, Op(a.tensor, b.tensor));
}
template <Tensor (*Op)(Tensor, double)>
PyTensor with_number(const PyTensor& a, double b) {
  return made(a, Op(a.tensor, b));
}
template <Tensor (*Op)(double, Tensor)>
PyTensor with_number_first(const PyTensor& a, double b) {
  return made(a, Op(b, a.tensor));
}

using Reduction = Tensor (*)(Tensor, std::vector<int64_t>, bool);
template <Reduction Op>
PyTensor reduce(const PyTensor& x, const std::vector<int64_t>& axes, bool keep_dims) {
  return made(x, Op(x.tensor, axes, keep_dims));
}

PyTensor compare_with(const PyTensor& a, Comparison how, const nb::object& b) {
  if (nb::isinstance<PyTensor>(b)) {
    const auto& other = nb::cast<const PyTensor&>(b);
    check_same(a, other);
    return made(a, compare(a.tensor, how, other.tensor));
  }
  return made(a, compare(a.tensor, how, nb::cast<double>(b)));
}

void add_tensor(nb::module_& module) {
  nb::class_<PyTensor>(module, "Tensor", "A value of a graph: it has a shape, but no numbers.")
      .def_prop_ro("shape",
                   [](const PyTensor& x) { return nb::tuple(nb::cast(x.tensor.shape().dims)); })
      .def_prop_ro("dtype",
                   [](const PyTensor& x) { return std::string(to_string(x.tensor.shape().dtype)); })
      .def("__repr__",
           [](const PyTensor& x) { return "Tensor(" + to_string(x.tensor.shape()) + ")"; })
      .def("__neg__", &unary<(operator-)>)
      .def("__add__", &binary < operator+>, nb::is_operator())
      .def("__add__", &with_number < operator+>, nb::is_operator())
      .def("__radd__", &with_number_first < operator+>, nb::is_operator())
      .def("__sub__", &binary<(operator-)>, nb::is_operator())
      .def("__sub__", &with_number<(operator-)>, nb::is_operator())
      .def("__rsub__", &with_number_first<(operator-)>, nb::is_operator())
      .def("__mul__", &binary < operator*>, nb::is_operator())
      .def("__mul__", &with_number < operator*>, nb::is_operator())
      .def("__rmul__", &with_number_first < operator*>, nb::is_operator())
      .def("__truediv__", &binary < operator/>, nb::is_operator())
      .def("__truediv__", &with_number < operator/>, nb::is_operator())
      .def("__rtruediv__", &with_number_first < operator/>, nb::is_operator())
      .def("__matmul__",
           [](const PyTensor& a, const PyTensor& b) {
             check_same(a, b);
             return made(a, matmul(a.tensor, b.tensor));
           })
      .def("__lt__", [](const PyTensor& a,
                        const nb::object& b) { return compare_with(a, Comparison::LT, b); })
      .def("__le__", [](const PyTensor& a,
                        const nb::object& b) { return compare_with(a, Comparison::LE, b); })
      .def("__gt__", [](const PyTensor& a,
                        const nb::object& b) { return compare_with(a, Comparison::GT, b); })
      .def("__ge__", [](const PyTensor& a,
                        const nb::object& b) { return compare_with(a, Comparison::GE, b); })
      .def(
          "reshape",
          [](const PyTensor& x, const std::vector<int64_t>& dims) {
            return made(x, reshape(x.tensor, Dims(dims.begin(), dims.end())));
          },
          "dims"_a)
      .def(
          "transpose",
          [](const PyTensor& x, const std::vector<int64_t>& order) {
            return made(x, transpose(x.tensor, order));
          },
          "order"_a)
      .def(
          "broadcast_to",
          [](const PyTensor& x, const std::vector<int64_t>& dims) {
            return made(x, broadcast_to(x.tensor, Dims(dims.begin(), dims.end())));
          },
          "dims"_a)
      .def(
          "astype",
          [](const PyTensor& x, const std::string& dtype) {
            return made(x, convert(x.tensor, dtype_of(dtype)));
          },
          "dtype"_a);
}

void add_ops(nb::module_& module) {
  module.def("exp", &unary<exp>);
  module.def("log", &unary<log>);
  module.def("sqrt", &unary<sqrt>);
  module.def("rsqrt", &unary<rsqrt>);
  module.def("tanh", &unary<tanh>);
  module.def("sin", &unary<sin>);
  module.def("cos", &unary<cos>);
  module.def("sigmoid", &unary<logistic>);
  module.def("erf", &unary<erf>);
  module.def("abs", &unary<abs>);
  module.def("stop_gradient", &unary<stop_gradient>);
  module.def("maximum", &binary<maximum>);
  module.def("maximum", &with_number<maximum>);
  module.def("minimum", &binary<minimum>);
  module.def("minimum", &with_number<minimum>);
  module.def("pow", &binary<pow>);
  module.def("sum", &reduce<sum>, "x"_a, "axes"_a = std::vector<int64_t>{}, "keep_dims"_a = false);
  module.def("mean", &reduce<mean>, "x"_a, "axes"_a = std::vector<int64_t>{},
             "keep_dims"_a = false);
  module.def("max", &reduce<max>, "x"_a, "axes"_a = std::vector<int64_t>{}, "keep_dims"_a = false);
  module.def("min", &reduce<min>, "x"_a, "axes"_a = std::vector<int64_t>{}, "keep_dims"_a = false);
  module.def("where", [](const PyTensor& which, const PyTensor& a, const PyTensor& b) {
    check_same(which, a);
    check_same(a, b);
    return made(a, select(which.tensor, a.tensor, b.tensor));
  });
  module.def("einsum", [](const std::string& spec, const PyTensor& a, const PyTensor& b) {
    check_same(a, b);
    return made(a, einsum(spec, a.tensor, b.tensor));
  });
  module.def(
      "concatenate",
      [](const std::vector<PyTensor>& xs, int64_t axis) {
        check(!xs.empty(), "[python] concatenate is given no tensors");
        std::vector<Tensor> tensors;
        for (const PyTensor& each : xs) {
          check_same(xs.front(), each);
          tensors.push_back(each.tensor);
        }
        return made(xs.front(), concatenate(tensors, Axis(axis)));
      },
      "xs"_a, "axis"_a);
  module.def("take", &binary<take>, "table"_a, "ids"_a);
  module.def(
      "gradients",
      [](const PyTensor& loss, const std::vector<PyTensor>& of) {
        std::vector<Tensor> wanted;
        for (const PyTensor& each : of) {
          check_same(loss, each);
          wanted.push_back(each.tensor);
        }
        std::vector<PyTensor> out;
        for (const Tensor& each : gradients(loss.tensor, wanted)) {
          out.push_back(made(loss, each));
        }
        return out;
      },
      "loss"_a, "of"_a,
      "The derivatives of a scalar loss; tensors, which can be differentiated again.");
}

}  // namespace

void add_graph(nb::module_& module) {
  nb::module_ graph = module.def_submodule("graph", "Programs with gradients, compiled by XLA.");
  add_tensor(graph);
  add_ops(graph);
  struct PyGraph {
    std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  };
  nb::class_<PyGraph>(graph, "Graph", "Operations on tensors; nothing is computed before compile.")
      .def(nb::init<>())
      .def(
          "input",
          [](PyGraph& self, const std::vector<int64_t>& shape, const std::string& dtype,
             const std::string& name) {
            return PyTensor{
                self.graph,
                self.graph->input({dtype_of(dtype), Dims(shape.begin(), shape.end())}, name)};
          },
          "shape"_a, "dtype"_a = "float32", "name"_a = "")
      .def(
          "constant",
          [](PyGraph& self, const GivenArray& array) {
            return PyTensor{self.graph, constant(*self.graph, shape_of(array), bytes_of(array))};
          },
          "array"_a)
      .def(
          "compile",
          [](PyGraph& self, const std::vector<PyTensor>& outputs, const std::string& hardware) {
            return std::make_shared<PyProgram>(self.graph, outputs, hardware);
          },
          "outputs"_a, "hardware"_a = "cpu");
  nb::class_<PyProgram>(graph, "Program")
      .def("__call__", [](const PyProgram& program, const nb::args& arguments) {
        std::vector<GivenArray> arrays;
        for (const nb::handle& each : arguments) {
          arrays.push_back(nb::cast<GivenArray>(each));
        }
        return program.run(arrays);
      });
}

}  // namespace kinema::python
