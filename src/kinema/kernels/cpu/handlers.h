#pragma once

namespace kinema::kernels {

/// Kernel names in programs, and their XLA_FFI_Handlers.
inline constexpr const char* kDotTarget = "kinema.dot";
inline constexpr const char* kConvolutionTarget = "kinema.convolution";
inline constexpr const char* kActivatedConvolutionTarget = "kinema.activated_convolution";
inline constexpr const char* kAttentionTarget = "kinema.attention";
inline constexpr const char* kAttentionBackwardTarget = "kinema.attention_backward";
inline constexpr const char* kAdamWTarget = "kinema.adamw";
inline constexpr const char* kGradientSizesTarget = "kinema.gradient_sizes";
inline constexpr const char* kBarrierTarget = "kinema.barrier";
inline constexpr const char* kColumnSumsTarget = "kinema.column_sums";
/// The same kernels, which add their runs to recordings (core/trace.h).
inline constexpr const char* kTracedDotTarget = "kinema.dot.traced";
inline constexpr const char* kTracedConvolutionTarget = "kinema.convolution.traced";
inline constexpr const char* kTracedActivatedConvolutionTarget =
    "kinema.activated_convolution.traced";
inline constexpr const char* kTracedAttentionTarget = "kinema.attention.traced";
inline constexpr const char* kTracedAttentionBackwardTarget = "kinema.attention_backward.traced";
void* dot_handler();
void* convolution_handler();
void* activated_convolution_handler();
void* attention_handler();
void* attention_backward_handler();
void* adamw_handler();
void* gradient_sizes_handler();
void* barrier_handler();
void* column_sums_handler();
void* traced_dot_handler();
void* traced_convolution_handler();
void* traced_activated_convolution_handler();
void* traced_attention_handler();
void* traced_attention_backward_handler();

}  // namespace kinema::kernels
