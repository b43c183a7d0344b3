#!/usr/bin/env bash
# What ./dev demo does after building: train on examples/shapes, make videos of 24 prompts, score
# them, and say where everything is. A second call goes on where the first one ended.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

name=${KINEMA_DEMO_NAME:-shapes}
output=${KINEMA_DEMO_OUTPUT:-outputs}
run=$output/$name
settings=(configs/shapes.yml "run_name=$name" "output_dir=$output")
begin=$SECONDS

say() { printf -- '-- %s\n' "$*"; }

say "training on $(find examples/shapes -name '*.mp4' | wc -l) clips of examples/shapes"
build/kinema train "${settings[@]}" "$@"
trained=$SECONDS

say "making a video of each of $(wc -l <examples/shapes/prompts.txt) prompts"
mkdir -p "$run/samples"
samples=$(mktemp -d "$run/samples/demo.XXXXXX")  # of this call alone, for the score
chmod 755 "$samples"
build/kinema generate "${settings[@]}" "video_folder=$samples" "$@"

say "scoring the videos against their prompts"
build/shapes_score "$samples"

cat <<TEXT

run folder     $run
loss curve     $run/loss.svg (numbers: $run/metrics.jsonl)
videos         $samples/*.mp4
contact sheet  $samples/contact_sheet.png
training took $((trained - begin)) s, everything $((SECONDS - begin)) s
TEXT
