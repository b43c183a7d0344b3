#!/usr/bin/env bash
# bench/run.sh BUILD_FOLDER [SECTION...] [OPTION...]: bench/compare.py with its peers, which live in the cache.
set -euo pipefail
build=$(realpath "$1")
shift
cd "$(dirname "${BASH_SOURCE[0]}")"
cache=${KINEMA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kinema}
mkdir -p "$cache"
peers() { python3 ../tools/wheels.py "$cache" peers "$1"; }  # prints the folder of what a file pins

sections=() options=() runs=() alone=
for word in "$@"; do
  case $word in
    checkpoint | data | store | processes) runs+=("$word") ;;
    real | memory | plan | quality | lengths | adapters | files) alone=$word ;;
    step | lora | start | layers | remat | denoise | text | vae | first | images) sections+=("$word") ;;
    *) options+=("$word") ;;
  esac
done
if [ "$alone" = quality ]; then
  python=${KINEMA_BENCH_TORCH:-$(peers requirements-torch.txt)}/bin/python  # of it numpy and pillow
  exec "$python" quality.py --kinema "$build" ${options[@]+"${options[@]}"}
fi
if [ "$alone" = lengths ]; then
  exec "$build/bench_text_time" ${options[@]+"${options[@]}"}
fi
if [ "$alone" = adapters ]; then
  exec "$build/bench_adapters" ${options[@]+"${options[@]}"}
fi
if [ -n "$alone" ]; then
  # Gigabytes of weights or of compilers, and minutes: only when asked for, and alone.
  if [ "$alone" = real ]; then
    options+=(--torch "${KINEMA_BENCH_TORCH:-$(peers requirements-torch.txt)}/bin/python")
  fi
  exec python3 "$alone.py" --kinema "$build" --cache "$cache" ${options[@]+"${options[@]}"}
fi
if [ ${#sections[@]} = 0 ] && [ ${#runs[@]} = 0 ]; then
  sections=(step lora start layers remat denoise text vae first) runs=(checkpoint data store processes)
fi
if [ ${#runs[@]} -gt 0 ]; then
  stores=$cache/stores-$(sha256sum ../tests/stores/requirements.txt | cut -c1-12)
  python3 training_run.py --kinema "$build" --stores "$stores" "${runs[@]}" ${options[@]+"${options[@]}"}
  [ ${#sections[@]} -gt 0 ] || exit 0
fi
jax=/nonexistent torch=/nonexistent
for section in "${sections[@]}"; do
  case $section in
    step | start | lora | images) jax=$(peers requirements.txt) ;;
  esac
  case $section in
    denoise | text | vae | first | lora | images) torch=${KINEMA_BENCH_TORCH:-$(peers requirements-torch.txt)} ;;
  esac
done
exec python3 compare.py --kinema "$build" --jax "$jax/bin/python" --torch "$torch/bin/python" \
  "${sections[@]}" "${options[@]}"
