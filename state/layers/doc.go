// Package layers reads what an overlay workspace changed: it compares a stack of
// overlayfs layers with the folder that lies below them.
//
// The promise: every difference in content, kind, link target or mode is one
// [Change], found by walking the layers and only those parts of the base that they
// replace. All reads go through folder descriptors, one path component at a time and
// without following a symbolic link, because both sides may change while they are read
// and the payload chose every name in a layer.
//
// It writes nothing but the mode of a folder or file in a layer that its owner cannot
// open, which it puts back. It ignores extended attributes, lists (see package apply) and times.
//
// The call most readers want is [Stack.Changes].
package layers
