#!/usr/bin/env bash
# What ./dev demo agent does after building: an agent learns to catch from pixels, within two minutes on two cores, and
# plays 200 new episodes. A second call goes on where the first one ended.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

output=${KINEMA_DEMO_OUTPUT:-outputs}
run=$output/catch
begin=$SECONDS

printf -- '-- training an agent that catches\n'
build/kinema agent train configs/dreamer.yml task=native_catch run_name=catch "output_dir=$output" run.steps=13000 \
  "$@"
trained=$SECONDS
printf -- '-- playing 200 episodes\n'
build/kinema agent eval "$run" --video
printf -- '-- one of them\n'
build/kinema agent play "$run" --seed 7
cat <<TEXT

run folder     $run
metrics        $run/metrics.jsonl, $run/scores.jsonl, $run/tensorboard
an episode     $run/episode.mp4; beside what the model imagined: $run/episode.png, $run/open_loop.mp4
time           training $((trained - begin)) s, all $((SECONDS - begin)) s
TEXT
