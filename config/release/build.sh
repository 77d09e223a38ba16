#!/usr/bin/env bash
# Makes everything that a release has, in dist/ or the directory given:
#
#   grandstand-VERSION-TARGET.tar.gz     program, manual pages, completions, config/ with samples and units, docs/, licences
#   grandstand_VERSION-1_ARCH.deb        the Debian package
#   grandstand-VERSION-TARGET.cdx.json   the list of its parts (CycloneDX)
#   grandstand.rb, SHA256SUMS            a Homebrew formula, sums and their signature; finish.sh makes these
#
#   config/release/build.sh [--binary FILE] [--revision NUMBER] [DIRECTORY]
#
# `--binary`: packs a program that is built already. `--revision`: of the Debian package. The same sources and tools give
# the same bytes. Needs what `./setup.sh build` installs, cargo-deb and cargo-cyclonedx, for a signature minisign. The program
# needs the C library of this machine, or a newer one.
#
# `cargo binstall` and the formula find the tarball by its name, and by `repository` in Cargo.toml.
set -euo pipefail
root=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")

fail() { echo "build.sh: $*" >&2; exit 1; }

binary="" revision=1 out=$root/dist
while [ $# -gt 0 ]; do
    case $1 in
        --binary) binary=$(realpath -e "${2:?}"); shift 2 ;;
        --revision) revision=${2:?}; shift 2 ;;
        -*) fail "$1 is not known; see the first lines of this script" ;;
        *) out=$(realpath -m "$1"); shift ;;
    esac
done
if [ -n "${MINISIGN_KEY:-}" ]; then
    command -v minisign >/dev/null || fail "minisign is missing: apt-get install minisign"
    MINISIGN_KEY=$(realpath -e "$MINISIGN_KEY")
    export MINISIGN_KEY
fi
cd "$root"
for tool in deb cyclonedx; do
    cargo "$tool" --version >/dev/null 2>&1 || fail "cargo-$tool is missing: cargo install --locked cargo-$tool"
done

version=$(sed -n '0,/^version = "\(.*\)"/s//\1/p' Cargo.toml)
tags=$(git tag --points-at HEAD 'v*' 2>/dev/null || true)
[ -z "$tags" ] || grep --quiet --line-regexp --fixed-strings "v$version" <<<"$tags" ||
    fail "the tag of this commit is ${tags//$'\n'/, }, but the version in Cargo.toml is $version"
# Times in the files are those of the last commit.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y Cargo.toml)}
export SOURCE_DATE_EPOCH
host=$(rustc -vV | sed -n 's/^host: //p')
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ -z "$binary" ]; then
    # The program does not name the directories of the machine that built it. A directory of its own: the flags differ.
    RUSTFLAGS="--remap-path-prefix=$root=. --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo" \
        CARGO_TARGET_DIR=target/dist cargo build --release --locked --bin grandstand
    binary=$root/target/dist/release/grandstand
fi

extras=$work/target/release/package
mkdir -p "$extras/man"
install -m 755 "$binary" "$work/target/release/grandstand"
"$binary" man "$extras/man" >/dev/null
gzip --best --no-name "$extras"/man/*.1
"$binary" completions bash > "$extras/grandstand.bash"
"$binary" completions zsh > "$extras/_grandstand"
"$binary" completions fish > "$extras/grandstand.fish"
gzip --best --no-name --stdout CHANGELOG.md > "$extras/changelog.gz"
gzip --best --no-name > "$extras/changelog.Debian.gz" <<END
grandstand ($version-$revision) stable; urgency=medium

  * Version $version; changelog.gz says what is new.

 -- $(sed -n 's/^maintainer = "\(.*\)"/\1/p' Cargo.toml)  $(date --utc --rfc-email --date "@$SOURCE_DATE_EPOCH")
END

# Of a file that is not packed, pages keep the words of the link.
unlink_missing() {
    find "$1" -name '*.md' -exec perl -0777 -i -pe '
        BEGIN { use File::Basename }
        s{!?\[([^\[\]]*)\]\(([^()\s#]+)(?:#[^()\s]*)?\)}
         { my ($all, $words, $to) = ($&, $1, $2); $to =~ /^[a-z]+:/ || -e dirname($ARGV) . "/$to" ? $all : $words }ge' {} +
}
# As the package installs them.
mkdir -p "$extras/doc"
cp -r README.md docs "$extras/doc/"
unlink_missing "$extras/doc"

# `--no-strip`: a release build has nothing to strip, and other programs take long.
CARGO_TARGET_DIR=$work/target cargo deb --quiet --no-build --no-strip --fast --deb-version "$version-$revision" --output "$out/"

name=grandstand-$version-$host
mkdir -p "$work/$name/completions" "$work/$name/config"
cp -r "$work/target/release/grandstand" "$extras/man" README.md CHANGELOG.md LICENSE-* docs "$work/$name/"
cp "$extras"/*grandstand* "$work/$name/completions/"
cp -r config/*.toml config/{systemd,grafana,prometheus,proxies,kubernetes} "$work/$name/config/"
unlink_missing "$work/$name"
tar --create --directory "$work" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX "$name" \
    | gzip --best --no-name > "$out/$name.tar.gz"

# The list is made of a copy without tests and benches: what these need is not in the program.
mkdir -p "$work/parts/tests"
cp -r Cargo.lock src "$work/parts/"
cp -r tests/sample "$work/parts/tests/"
sed -e '/^\[dev-dependencies\]/,/^\[lib\]/{/^\[lib\]/!d}' -e '/^\[\[bench\]\]/,/^$/d' -e 's|"tests/origin", ||' Cargo.toml > "$work/parts/Cargo.toml"
cargo cyclonedx --quiet --manifest-path "$work/parts/Cargo.toml" --format json --spec-version 1.5 --target "$host" --override-filename parts
sed "s|file://$work/parts|file://.|g" "$work/parts/parts.json" > "$out/$name.cdx.json"

config/release/finish.sh "$out"
ls -l "$out"
