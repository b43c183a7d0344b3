#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kinema/encoders/clip_text.h"
#include "kinema/encoders/learned_words.h"
#include "kinema/encoders/text_encoder.h"
#include "kinema/text/prompt_syntax.h"

/// Prompts with weights for CLIP: sequences of tokens that are encoded one by one, whose states are
/// weighted and follow each other.
namespace kinema::encoders {

/// A text with its syntax, and the layer of its states.
struct ClipPrompt {
  std::string text;
  text::PromptSyntax syntax = text::PromptSyntax::PLAIN;
  int64_t hidden_layer = -2;
};

/// The layer of each prompt: `layer`, or `clip_skip` layers before it. As in diffusers' pipelines
/// of Stable Diffusion, no layer is skipped for negative prompts.
std::vector<int64_t> layers_of(std::span<const Prompt> prompts, int64_t layer, int64_t clip_skip);
/// `texts` with the prompts' syntax, and these layers.
std::vector<ClipPrompt> clip_prompts(std::span<const Prompt> prompts,
                                     const std::vector<std::string>& texts,
                                     const std::vector<int64_t>& layers);

/// The number of sequences of a prompt; 1 for PLAIN, whose further tokens are dropped.
///
/// A1111: BREAK starts a new sequence, as does a token that does not fit; then up to 20 tokens
/// after the last comma move to the new one. COMPEL: sequences end after the last point, else the
/// last
/// `,` `.` `;` or `:`, else the last word that fits, and the texts of `.and()` have their own.
int64_t clip_sequences(const ClipText& clip, const LearnedWords& words, const ClipPrompt& prompt);

/// The states of prompts, `hidden` f32 [n, sequences * t, d]; prompts with fewer sequences are
/// padded with the states of the empty prompt, as in both programs.
///
/// A1111 (web UI, emphasis "Original"): states times weights, then times the mean of the states
/// divided by the mean after the weights; pooled is that of the first sequence.
/// COMPEL (2.x, its defaults): e + w (z - e) with the empty prompt's states e. For each part with a
/// weight w below 1 the states with this part masked are computed, and all are averaged, with
/// shares tan((1 - w) pi / 2), and 1 for the states without masks. pooled is that of the prompt as
/// plain text.
ClipText::States encode_weighted(ClipText& clip, const LearnedWords& words,
                                 std::span<const ClipPrompt> prompts, int64_t sequences);

}  // namespace kinema::encoders
