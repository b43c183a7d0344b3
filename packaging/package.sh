#!/usr/bin/env bash
# package.sh BUILD_FOLDER OUT_FOLDER [--quick]: kinema_VERSION_amd64.deb, which asks for this Debian's
# libraries, and kinema-VERSION-linux-x86_64.tar.gz, which brings its own. --quick packs less tightly.
set -euo pipefail
deb_compression=(-Zxz -z6) archive_level=6
if [ "${3:-}" = --quick ]; then deb_compression=(-Zgzip -z1) archive_level=1; fi
build=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")
# Equal sources make equal packages.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$here" log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
umask 022

# What the C library brings; everything else goes into the archive. The compiler's own libraries do
# too: a program built by g++ 12 may meet older ones.
glibc='^(ld-linux-x86-64|libc|libm|libdl|librt|libpthread|libresolv|libutil|libanl|libnsl)\.so'

# What both packages hold: the program, its libraries, configurations, man pages and completions.
stage=$work/stage
cmake --install "$build" --component program --strip --prefix "$stage" >"$work/log" 2>&1 ||
  { cat "$work/log" >&2; exit 1; }
# The plugin's table of symbols is a fifth of it; only those that it exports are needed.
strip --strip-unneeded "$stage"/lib/kinema/*.so*
chmod 644 "$stage"/lib/kinema/*.so*

# notices FOLDER: kinema's licence, and those of Arrow and XLA with what is linked into them.
notices() {
  mkdir -p "$1"
  cp "$here/../LICENSE" "$1/LICENSE"
  cp "$here/notices.txt" "$1/NOTICE"
}

make_deb() {
  local root=$work/deb doc=$work/deb/usr/share/doc/kinema
  mkdir -p "$root"
  cp -a "$stage" "$root/usr"
  mkdir -p "$doc" "$root/DEBIAN" "$root/usr/share/lintian/overrides"
  notices "$work/notices"
  sed "s/@YEAR@/$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y)/" "$here/debian/copyright" >"$doc/copyright"
  gzip -9nc "$work/notices/NOTICE" >"$doc/NOTICE.gz"
  gzip -9nc "$here/../CHANGELOG.md" >"$doc/CHANGELOG.md.gz"
  printf 'kinema (%s) bookworm; urgency=medium\n\n  * CHANGELOG.md.gz has the changes.\n\n -- %s  %s\n' \
    "$version" "$(sed -n 's/^Maintainer: //p' "$here/debian/control")" \
    "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9n >"$doc/changelog.gz"
  find "$root/usr/share/man" -type f -exec gzip -9n {} +
  cp "$here/debian/lintian-overrides" "$root/usr/share/lintian/overrides/kinema"

  mkdir -p "$work/debian"
  printf 'Source: kinema\n\nPackage: kinema\nArchitecture: amd64\n' >"$work/debian/control"
  local depends
  depends=$(cd "$work" && dpkg-shlibdeps -O -l"$root/usr/lib/kinema" --ignore-missing-info \
    "$root/usr/bin/kinema" "$root"/usr/lib/kinema/*.so* 2>"$work/log") || { cat "$work/log" >&2; exit 1; }
  sed -e "s/@VERSION@/$version/" -e "s/@DEPENDS@/${depends#shlibs:Depends=}/" \
    -e "s/@SIZE@/$(du -sk --exclude=DEBIAN "$root" | cut -f1)/" "$here/debian/control" >"$root/DEBIAN/control"
  (cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
  dpkg-deb --root-owner-group "${deb_compression[@]}" --build "$root" "$out/kinema_${version}_amd64.deb" >/dev/null
}

# bundle ROOT: every library that the program, the plugin and Arrow load, beside them.
bundle() {
  local root=$1 name path package
  declare -A packages=()
  patchelf --set-rpath '$ORIGIN' "$root/lib/kinema/xla_cpu_pjrt.so"
  while read -r name path; do
    cp -L "$path" "$root/lib/kinema/$name"
    patchelf --set-rpath '$ORIGIN' "$root/lib/kinema/$name"
    # dpkg knows a file by its place before /usr was merged.
    package=$(dpkg-query -S "$(realpath "$path")" 2>/dev/null || dpkg-query -S "${path#/usr}" 2>/dev/null || true)
    package=${package%%:*}
    [ -n "$package" ] || { echo "package: no Debian package owns $path, so its licence is not known" >&2; exit 1; }
    packages[$package]=1
  done < <(ldd "$root/bin/kinema" "$root"/lib/kinema/*.so* |
    awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }' | grep -v "$root" | grep -Ev "$glibc" | sort -u)
  local licences=$root/share/doc/kinema/licences
  mkdir -p "$licences"
  {
    cat "$here/bundled.txt"
    for package in $(printf '%s\n' "${!packages[@]}" | sort); do
      cp "/usr/share/doc/$package/copyright" "$licences/$package"
      dpkg-query -W -f '${Package} ${Version} (source ${source:Package} ${source:Version})\n' "$package" |
        sort -u
    done
  } >"$licences/README"
}

make_archive() {
  local name=kinema-$version-linux-x86_64
  local root=$work/$name
  cp -a "$stage" "$root"
  notices "$root/share/doc/kinema"
  cp "$here/../README.md" "$here/../CHANGELOG.md" "$root/share/doc/kinema/"
  bundle "$root"
  tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
    -cf - "$name" | gzip -n -"$archive_level" >"$out/$name.tar.gz"
}

make_deb
make_archive
ls -l "$out" | awk 'NR > 1 { printf "%s (%.0f MB)\n", $9, $5 / 1e6 }'
