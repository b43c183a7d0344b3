#pragma once

#include <string>
#include <vector>

#include "kinema/graph/manual.h"
#include "kinema/graph/op.h"
#include "kinema/graph/ops.h"

/// Ops that other parts of the graph recognise (remat, scan, kernels), with their attributes.
namespace kinema {

/// Attributes of kDotGeneral.
struct DotAttrs {
  DotDims dims;
  Precision precision;
  DType out;
};
extern const Op kDotGeneral;

/// Its attributes are ConvolutionAttrs, with dilations filled in.
extern const Op kConvolution;

/// Its attributes are the sizes of its result.
extern const Op kReshape;

/// Attributes of kBroadcast: the result's sizes, and the result axis of each operand axis.
struct BroadcastAttrs {
  Dims dims;
  std::vector<int64_t> axes;
};
extern const Op kBroadcast;

/// The sum and the product of two tensors of one shape.
extern const Op kAdd;
extern const Op kMultiply;
/// y = x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2; no attributes.
extern const Op kGeluTanh;

/// Attributes of kTranspose: result axis i is the operand's axis `order[i]`.
struct TransposeAttrs {
  std::vector<int64_t> order;
};
extern const Op kTranspose;

/// The result's dtype is that of its shape.
extern const Op kConvert;

/// Attributes of kConcatenate.
struct ConcatenateAttrs {
  int64_t axis;
};
extern const Op kConcatenate;

/// Attributes of kSum: axes of the operand, sorted, at least one.
struct ReduceAttrs {
  std::vector<int64_t> axes;
};
extern const Op kSum;

/// Attributes of kSlice: elements `start`, `start + stride`, ... of one axis.
struct SliceAttrs {
  int64_t axis, start, size, stride;

  int64_t limit() const { return size == 0 ? start : start + (size - 1) * stride + 1; }
};
extern const Op kSlice;

/// Attributes of kReverse.
struct ReverseAttrs {
  int64_t axis;
};
extern const Op kReverse;

/// Attributes of kNamed, the identity that `named` writes.
struct NamedAttrs {
  std::string name;
};
extern const Op kNamed;

/// The same number of results as inputs; no attributes.
extern const Op kOptimizationBarrier;
/// The identity without gradient; no attributes.
extern const Op kStopGradient;

/// Attributes of the collectives.
struct CollectiveAttrs {
  DeviceGroups groups;
  int64_t axis = 0;    // gathered, scattered or split
  int64_t concat = 0;  // all_to_all only
  int64_t by = 0;      // ring_shift only
};

/// x in another memory; its attribute, a bool, is true for host memory.
extern const Op kPlace;

/// Attributes of kWithSharding.
struct ShardingAttrs {
  Sharding sharding;
};
extern const Op kWithSharding;

}  // namespace kinema
