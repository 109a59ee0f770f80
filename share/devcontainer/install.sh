#!/bin/sh
# Installs Cloister while a devcontainer's image is built, by the release's own script,
# whose sum is held against SHA256SUMS as that of everything else. A cloister in a
# container needs user namespaces, which engines' filters refuse: the feature asks for
# a container without these filters, and cloister doctor says what is still missing.
#
# In .devcontainer/devcontainer.json, with this folder as .devcontainer/cloister:
#
#   "features": {"./cloister": {"release": "https://downloads.example.com/cloister/1.0.0"}}
set -eu
release=${RELEASE:-} prefix=${PREFIX:-/usr/local}
[ -n "$release" ] || { echo "cloister: the option release names no release" >&2 && exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for file in install.sh SHA256SUMS; do
	case $release in
	https://*) curl -fsS --proto =https --tlsv1.2 -o "$work/$file" "$release/$file" ;;
	*) cp "$release/$file" "$work/$file" ;;
	esac
done
grep -qx "$(sha256sum "$work/install.sh" | cut -d' ' -f1)  install.sh" "$work/SHA256SUMS" ||
	{ echo "cloister: install.sh is not what SHA256SUMS says: nothing was installed" >&2 && exit 1; }
set -- --from "$release" --prefix "$prefix"
[ -z "${SIGNERS:-}" ] || set -- "$@" --signers "$SIGNERS"
sh "$work/install.sh" "$@"
