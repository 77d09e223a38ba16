#!/usr/bin/env bash
# The last step of a release. `build.sh` runs it for its own files; after builds on several machines, run it once more in a
# directory with the files of all. It makes:
#
#   grandstand.rb        a Homebrew formula for the tarballs, if the address of the repository is known
#   SHA256SUMS           the sums of the files of this version, and of image.txt, which names the image by its digest
#   SHA256SUMS.minisig   if MINISIGN_KEY names a key: the signature of the sums (password: MINISIGN_PASSWORD)
#
#   config/release/finish.sh DIRECTORY
#
# The address is in REPOSITORY, else `repository` in Cargo.toml. Clients download from REPOSITORY/releases/download/vVERSION/.
set -euo pipefail
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")

fail() { echo "finish.sh: $*" >&2; exit 1; }
in_manifest() { sed -n "0,/^$1 = \"\(.*\)\"/s//\1/p" "$here/../../Cargo.toml"; }

[ $# -eq 1 ] || fail "name one directory: config/release/finish.sh DIRECTORY"
version=$(in_manifest version)
repository=${REPOSITORY:-$(in_manifest repository)}
key=${MINISIGN_KEY:+$(realpath "$MINISIGN_KEY")}
cd "$1"
rm -f grandstand.rb SHA256SUMS SHA256SUMS.minisig

formula=$(sed -e '/^#/d' -e "s|@REPOSITORY@|${repository%/}|; s|@VERSION@|$version|g" "$here/grandstand.rb")
# Fills in the sum of a machine's tarball; without that tarball, the formula is for the other machine alone.
for_machine() {
    local tarball=grandstand-$version-$1-unknown-linux-gnu.tar.gz
    if [ -e "$tarball" ]; then
        formula=${formula//@SHA256_$1@/$(sha256sum "$tarball" | cut -d' ' -f1)}
    else
        formula=$(sed "/^  on_$2 do/,/^  end/c\\  depends_on arch: :$3" <<<"$formula")
    fi
}
for_machine x86_64 intel arm64
for_machine aarch64 arm x86_64
if [ -z "$repository" ]; then
    echo "finish.sh: no Homebrew formula: neither REPOSITORY nor \`repository\` in Cargo.toml has an address"
elif [[ $formula != *" url "* ]]; then
    echo "finish.sh: no Homebrew formula: $PWD has no tarball for x86_64 or aarch64"
else
    printf '%s\n' "$formula" > grandstand.rb
fi

shopt -s nullglob
files=("grandstand-$version-"*.tar.gz "grandstand_$version-"*.deb "grandstand-$version-"*.cdx.json grandstand.r[b])
[ "${#files[@]}" -gt 0 ] || fail "$PWD has no files of version $version"
files+=(image.tx[t])
sha256sum -- "${files[@]}" > SHA256SUMS
if [ -n "$key" ]; then
    minisign -S -s "$key" -m SHA256SUMS -t "grandstand $version" <<<"${MINISIGN_PASSWORD:-}" >/dev/null ||
        fail "SHA256SUMS could not be signed with $key; is MINISIGN_PASSWORD right?"
else
    echo "finish.sh: SHA256SUMS is not signed: MINISIGN_KEY names no key"
fi
