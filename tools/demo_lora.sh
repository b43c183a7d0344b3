#!/usr/bin/env bash
# What ./dev demo lora does after building: a model learns examples/shapes without its triangles, an adapter on that
# model learns the triangles alone, and both are scored: what the adapter brought, and what it cost of the rest.
# A second call goes on where the first one ended.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

output=${KINEMA_DEMO_OUTPUT:-outputs}
base=$output/shapes_base
adapter=$output/shapes_lora
data=$output/shapes_lora_data
videos=32  # of each prompt: 576 of the other shapes, chance moves their score by a point

say() { printf -- '-- %s\n' "$*"; }

# clips NAME GREP_OPTIONS: the clips whose captions match, as a folder of their own.
clips() {
  local folder=$data/$1
  shift
  mkdir -p "$folder/videos"
  grep "$@" triangle examples/shapes/metadata.jsonl >"$folder/metadata.jsonl"
  sed 's/.*"file_name": "\([^"]*\)".*/\1/' "$folder/metadata.jsonl" | while read -r file; do
    cp -n "examples/shapes/$file" "$folder/$file"
  done
}
clips others -v
clips triangles
grep triangle examples/shapes/prompts.txt >"$data/triangles.txt"
grep -v triangle examples/shapes/prompts.txt >"$data/others.txt"

# score RUN PROMPTS
score() {
  local folder
  folder=$(mktemp -d "$data/videos.XXXXXX")
  build/kinema generate "$1/config.yml" "prompt_file=$data/$2.txt" "num_videos_per_prompt=$videos" seed=7 "video_folder=$folder" >/dev/null
  printf '%-12s %-10s ' "$(basename "$1")" "$2"
  build/shapes_score "$folder" --quiet
  rm -rf "$folder"
}

say "training on the circles and squares of examples/shapes"
build/kinema train configs/shapes.yml run_name=shapes_base "output_dir=$output" "train_data_dir=$data/others" "$@"

# On cross-attention alone, where words meet pictures, and without dropped captions, so that only what is said to be a
# triangle becomes one.
say "training an adapter on the triangles"
build/kinema train configs/shapes.yml run_name=shapes_lora "output_dir=$output" "train_data_dir=$data/triangles" \
  "pretrained_model_name_or_path=$base" enable_lora=true lora_rank=6 'lora_target_modules=.*attn2\..*' caption_dropout=0 \
  per_device_batch_size=8 max_train_steps=1400 learning_rate=1.2e-3 "$@"

say "scoring"
for run in "$base" "$adapter"; do
  for prompts in triangles others; do
    score "$run" "$prompts"
  done
done
