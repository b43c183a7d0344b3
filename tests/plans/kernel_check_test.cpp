#include "kinema/plans/kernel_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "io/scratch.h"
#include "kernels/interpreter/cudnn.h"
#include "kernels/interpreter/handlers.h"
#include "kinema/graph/body.h"
#include "kinema/graph/ops.h"
#include "kinema/kernels/gpu/lowering.h"
#include "kinema/kernels/gpu/triton_norm.h"
#include "kinema/kernels/rewrite.h"
#include "kinema/kernels/settings.h"
#include "kinema/kernels/tpu/flash_calls.h"
#include "kinema/kernels/tpu/lowering.h"
#include "kinema/nn/flash_attention.h"
#include "kinema/nn/rope.h"
#include "kinema/verification/kernels.h"
#include "pjrt/cpu_plugin.h"

namespace kinema::plans {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using verification::KernelKind;

const pjrt::Client& client() {
  static const pjrt::Client opened = [] {
    pjrt::Client made = pjrt::cpu_client();
    for (const kernels::Handler& each : interpreter::handlers()) {
      made.plugin().register_ffi_handler(each.name, each.handler, each.platform);
    }
    return made;
  }();
  return opened;
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> out;
  for (const auto& each : fs::directory_iterator(folder)) {
    out.push_back(each.path());
  }
  return out;
}

class KernelCheck : public ::testing::Test {
 protected:
  bool agree(KernelKind kind = KernelKind::ATTENTION, const runtime::ProgramOptions& options = {}) {
    notices_.clear();
    Observer observer;
    observer.on_notice = [this](const std::string& line) { notices_.push_back(line); };
    observer.on_task = [this](const std::string& what, int64_t) {
      checks_ += what.starts_with("checking ") ? 1 : 0;
      return std::make_unique<Task>();
    };
    return kernels_agree(kind, client(), options, scratch_ / "kernels",
                         Job(observer, {.program = program_}));
  }
  const io::Scratch scratch_;
  std::vector<std::string> notices_;
  fs::path program_;
  int checks_ = 0;
};

TEST_F(KernelCheck, IsMadeOnceForADevice) {
  if (verification::kernel_program(KernelKind::ATTENTION, client(), {}).empty()) {
    GTEST_SKIP() << "this processor has no attention kernel";
  }
  EXPECT_TRUE(agree());
  EXPECT_TRUE(agree());
  EXPECT_EQ(checks_, 1);
  EXPECT_THAT(notices_, IsEmpty());

  const std::vector<fs::path> files = files_in(scratch_ / "kernels");
  ASSERT_EQ(files.size(), 1U);
  std::ofstream(files[0]) << "{\"pro";  // torn
  EXPECT_TRUE(agree());
  EXPECT_EQ(checks_, 2);
}

TEST_F(KernelCheck, RemembersMismatchesAndReportsThemEachTime) {
  if (verification::kernel_program(KernelKind::ATTENTION, client(), {}).empty()) {
    GTEST_SKIP() << "this processor has no attention kernel";
  }
  EXPECT_TRUE(agree());
  std::ofstream(files_in(scratch_ / "kernels")[0]) << R"({"problem": "dq is off"})";
  EXPECT_FALSE(agree());
  EXPECT_EQ(checks_, 1);
  EXPECT_THAT(notices_, ElementsAre(HasSubstr("attention runs without kernels")));
  EXPECT_THAT(notices_[0], HasSubstr("dq is off"));
}

/// A kinema program whose compiler crashes.
fs::path dying_program(const fs::path& folder) {
  fs::path out = folder / "dies";
  std::ofstream(out) << "#!/bin/sh\nkill -SEGV $$\n";
  fs::permissions(out, fs::perms::owner_all);
  return out;
}

TEST_F(KernelCheck, IsFalseIfTheyCrashTheCompiler) {
  if (verification::kernel_program(KernelKind::ATTENTION, client(), {}).empty()) {
    GTEST_SKIP() << "this processor has no attention kernel";
  }
  program_ = dying_program(scratch_.path());
  EXPECT_FALSE(agree());
  EXPECT_THAT(notices_, ElementsAre(HasSubstr("signal 11")));
  EXPECT_EQ(checks_, 0) << "nothing of it was compiled here";
  program_.clear();
  EXPECT_FALSE(agree()) << "it is remembered";

  program_ = fs::path(KINEMA_BINARY_DIR) / "kinema";
  fs::remove_all(scratch_ / "kernels");
  EXPECT_TRUE(agree());
}

TEST_F(KernelCheck, CompilesProgramsOfKernelsElsewhereOnce) {
  Graph graph;
  const Tensor x = graph.input({DType::F32, {4}});
  const std::string program = emit(graph, std::vector{x + x});
  const auto problem = [&](const fs::path& by) {
    return kernel_problem(client(), program, {}, scratch_ / "kernels", Job({}, {.program = by}));
  };
  // Without a program the result is unknown, and not cached.
  EXPECT_EQ(problem(""), "");
  EXPECT_EQ(problem("/nowhere/kinema"), "");
  EXPECT_FALSE(fs::exists(scratch_ / "kernels"));

  const fs::path dies = dying_program(scratch_.path());
  EXPECT_THAT(problem(dies), HasSubstr("ended by signal 11"));
  EXPECT_THAT(problem("/nowhere/kinema"), HasSubstr("ended by signal 11")) << "remembered";
  fs::remove_all(scratch_ / "kernels");
  EXPECT_EQ(problem(fs::path(KINEMA_BINARY_DIR) / "kinema"), "");
  EXPECT_EQ(problem(dies), "") << "remembered";
}

/// The check with a TPU's kernels.
runtime::ProgramOptions of_a_tpu(const Lowering& lowering) {
  runtime::ProgramOptions options;
  options.emit.lowering = interpreter::interpreting(lowering);
  return options;
}

TEST_F(KernelCheck, ACallWhoseKernelEndsTheCompilerIsComputedBlockwise) {
  Graph graph;
  const Shape shape{DType::F32, {1, 256, 2, 128}};
  const Tensor q = graph.input(shape);
  const Tensor k = graph.input(shape);
  const Tensor v = graph.input(shape);
  const std::vector<Tensor> outputs{nn::flash_forward(q, k, v, {}, DType::F32, {.scale = 0.1}).y};
  const Lowering lowering = interpreter::interpreting(kernels::tpu_lowering({.chip = "TPU v5p"}));
  std::vector<std::string> asked;
  const auto text = [&](const fs::path& by) {
    const auto problem = [&, by](KernelKind kind, const std::string& program) {
      EXPECT_EQ(kind, KernelKind::ATTENTION);
      asked.push_back(program);
      return kernel_problem(client(), program, {}, scratch_ / "kernels", Job({}, {.program = by}));
    };
    return emit(graph, outputs, {.lowering = with_fallback(lowering, lowering, problem)});
  };
  EXPECT_THAT(text(""), HasSubstr(interpreter::kMosaicTarget));
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_THAT(asked[0], HasSubstr(interpreter::kMosaicTarget));
  EXPECT_THAT(text(dying_program(scratch_.path())), Not(HasSubstr(interpreter::kMosaicTarget)));
  EXPECT_EQ(asked.size(), 2U);
  EXPECT_EQ(asked[1], asked[0]);

  // Blockwise attention needs no check.
  const Lowering none = [](const Node&, Emitter&) { return false; };
  emit(graph, outputs,
       {.lowering = with_fallback(none, none, [&](KernelKind, const std::string& program) {
          asked.push_back(program);
          return std::string();
        })});
  EXPECT_EQ(asked.size(), 2U);
}

/// The check with a GPU's kernels; the epsilon of norm and rotation is changed.
runtime::ProgramOptions of_a_gpu(double epsilon_factor = 1.0) {
  runtime::ProgramOptions options;
  options.emit.lowering = interpreter::interpreting([=](const Node& node, Emitter& out) {
    const auto* body = node.op == &kCall ? node.get<std::shared_ptr<Body>>().get() : nullptr;
    const auto* settings =
        body == nullptr ? nullptr : std::any_cast<kernels::RmsNormRotateSettings>(&body->settings);
    if (settings == nullptr || epsilon_factor == 1.0) {
      static const Lowering own = kernels::gpu_lowering({.chip = "NVIDIA H100 80GB HBM3"});
      return own(node, out);
    }
    const kernels::RmsNormRotateSettings wrong{settings->epsilon * epsilon_factor};
    kernels::emit_replacement(node, out, [&](std::span<const Tensor> in) {
      return kernels::triton_norm_rotate(in, node.results[0], wrong);
    });
    return true;
  });
  return options;
}

TEST(VerifyKernels, FindsThatNormAndRotationOfGpusAgree) {
  ASSERT_THAT(verification::kernel_program(KernelKind::NORM_ROTATION, client(), of_a_gpu()),
              HasSubstr(interpreter::kTritonTarget));
  const verification::Report report =
      verification::verify_kernels(KernelKind::NORM_ROTATION, client(), of_a_gpu());
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(std::ssize(report.rows), verification::kernel_case_count(KernelKind::NORM_ROTATION));
  for (const verification::Row& row : report.rows) {
    EXPECT_TRUE(row.ok && !row.unsupported) << row.name << " " << row.max_diff;
  }
}

TEST(VerifyKernels, FindsNormAndRotationThatDoesNot) {
  const verification::Report report =
      verification::verify_kernels(KernelKind::NORM_ROTATION, client(), of_a_gpu(1e5));
  for (const verification::Row& row : report.rows) {
    EXPECT_FALSE(row.ok) << row.name;
  }
}

TEST_F(KernelCheck, DistinguishesNormAndRotationFromAttention) {
  EXPECT_TRUE(agree(KernelKind::NORM_ROTATION)) << "this processor has no such kernel";
  EXPECT_EQ(checks_, 0);
  EXPECT_TRUE(agree(KernelKind::NORM_ROTATION, of_a_gpu()));
  EXPECT_EQ(checks_, 1);
  EXPECT_THAT(notices_, IsEmpty());

  for (int times = 0; times < 2; ++times) {  // the second result is cached
    EXPECT_FALSE(agree(KernelKind::NORM_ROTATION, of_a_gpu(1e5)));
    EXPECT_THAT(notices_,
                ElementsAre(HasSubstr("norm and rotation run without their kernel, which does not "
                                      "agree on this device: norm and rotation bf16")));
  }
  EXPECT_EQ(checks_, 2);
}

TEST_F(KernelCheck, NormAndRotationWhoseKernelEndsTheCompilerArePlainOperations) {
  Graph graph;
  const Tensor x = graph.input({DType::BF16, {1, 6, 128}});
  const Tensor weight = graph.input({DType::F32, {128}});
  const std::vector<Tensor> outputs{
      nn::norm_and_rotate(x, weight, 1e-6, 2, nn::rope_3d(graph, {1, 2, 3}, 64))};
  const Lowering lowering = of_a_gpu().emit.lowering;
  const auto text = [&](const std::string& problem) {
    const auto answer = [&](KernelKind kind, const std::string& program) {
      EXPECT_EQ(kind, KernelKind::NORM_ROTATION);
      EXPECT_THAT(program, HasSubstr(interpreter::kTritonTarget));
      return problem;
    };
    return emit(graph, outputs, {.lowering = with_fallback(lowering, lowering, answer)});
  };
  EXPECT_THAT(text(""), HasSubstr(interpreter::kTritonTarget));
  EXPECT_THAT(text("it ends"), Not(HasSubstr(interpreter::kTritonTarget)));
}

TEST(VerifyKernels, FindsThatThoseOfTpusAgree) {
  const verification::Report report = verification::verify_kernels(
      KernelKind::ATTENTION, client(), of_a_tpu(kernels::tpu_lowering({.chip = "TPU v5p"})));
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(report.rows.size(), 6U * 4 + 2);
  for (const verification::Row& row : report.rows) {
    EXPECT_TRUE(row.ok && !row.unsupported) << row.name << " " << row.tensor << " " << row.max_diff;
  }
}

TEST(VerifyKernels, FindsThatThoseOfGpusAgreeAndThatCudnnTakesNoFloat32) {
  runtime::ProgramOptions options;
  options.emit.lowering =
      interpreter::with_cudnn(kernels::gpu_lowering({.chip = "NVIDIA H100 80GB HBM3"}));
  const verification::Report report =
      verification::verify_kernels(KernelKind::ATTENTION, client(), options);
  EXPECT_TRUE(report.ok());
  for (const verification::Row& row : report.rows) {
    EXPECT_EQ(row.unsupported, row.name.find("f32") != std::string::npos) << row.name;
    EXPECT_TRUE(row.ok || row.unsupported) << row.name << " " << row.tensor << " " << row.max_diff;
  }
}

TEST(VerifyKernels, FindsOneThatDoesNot) {
  // Scores that are 5% too large.
  const verification::Report report = verification::verify_kernels(
      KernelKind::ATTENTION, client(), of_a_tpu([](const Node& node, Emitter& out) {
        const auto* body = node.op == &kCall ? node.get<std::shared_ptr<Body>>().get() : nullptr;
        const auto* settings =
            body == nullptr ? nullptr
                            : std::any_cast<kernels::FlashAttentionSettings>(&body->settings);
        if (settings == nullptr) {
          return false;
        }
        kernels::FlashAttentionSettings wrong = *settings;
        wrong.scale *= 1.05;
        kernels::emit_replacement(node, out, [&](std::span<const Tensor> in) {
          return kernels::call_flash_forward(in, node.results[0].dtype, wrong, "TPU v5p");
        });
        return true;
      }));
  EXPECT_FALSE(report.ok());
  for (const verification::Row& row : report.rows) {
    EXPECT_FALSE(row.ok) << row.name << " " << row.tensor;
  }
}

}  // namespace
}  // namespace kinema::plans
