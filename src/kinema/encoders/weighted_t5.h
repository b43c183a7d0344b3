#pragma once

#include <span>
#include <string>

#include "kinema/core/host_array.h"
#include "kinema/encoders/t5_states.h"
#include "kinema/text/prompt_syntax.h"

/// Prompts with weights for T5 and UMT5.
namespace kinema::encoders {

/// A text with its syntax.
struct T5Prompt {
  std::string text;
  text::PromptSyntax syntax = text::PromptSyntax::PLAIN;
};

/// The states of prompts, f32 [n, max_sequence_length, d_model]. The formulas are those of
/// encode_weighted for CLIP, of one sequence: BREAK has no meaning, further tokens are dropped, and
/// the texts of compel's `.and()` are joined into one. Rows after the end of a masked prompt are 0,
/// in the empty prompt too.
HostArray encode_weighted(T5States& t5, std::span<const T5Prompt> prompts);

/// See T5States::memory_bytes.
int64_t weighted_memory_bytes(T5States& t5, std::span<const T5Prompt> prompts);

}  // namespace kinema::encoders
