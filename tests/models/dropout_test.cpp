#include "models/reference.h"

namespace kinema::wan {
namespace {

class DropoutTest : public pjrt::CpuTest {};

HostArray key(uint32_t a, uint32_t b) {
  const std::vector<uint32_t> values{a, b};
  return HostArray::from<uint32_t>(DType::U32, {2}, values);
}

HostArray predict(bool scan, double dropout, const HostArray& with) {
  const io::SafetensorsFile file = reference("transformer_edge");
  Subject subject("wan21_t2v/transformer", {.scan_layers = scan, .dropout = dropout});
  TransformerInputs in = subject.inputs(file);
  in.dropout_key = subject.input(with);
  return subject.run(std::vector<Tensor>{subject(in)})[0];
}

TEST_F(DropoutTest, DropsTheSameScannedAndUnrolledAndOtherwiseWithAnotherKey) {
  const HostArray scanned = predict(true, 0.3, key(1, 2));

  EXPECT_LE(relative_difference(predict(false, 0.3, key(1, 2)), scanned), 2e-5);
  EXPECT_GE(relative_difference(predict(true, 0.3, key(1, 3)), scanned), 1e-2);
  EXPECT_GE(relative_difference(predict(true, 0.0, key(1, 2)), scanned), 1e-2);
}

}  // namespace
}  // namespace kinema::wan
