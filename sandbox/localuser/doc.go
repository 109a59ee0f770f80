// Package localuser is the driver for hosts that give their users no user namespaces: root's
// helper makes the namespaces, and the payload runs in them as an account of its own.
//
// The promise: the enclosure is native's, layer by layer (view, gate, Landlock, seccomp, no
// capability), but for the user namespace, which it does without. The payload is no user of
// this host where id-mapped mounts can be had; else it is the caller, as natively. What it
// makes in the project belongs to the caller. The helper gives no user a right: it takes
// folders as descriptors that the caller opened, shows them with at most the caller's rights,
// and only to callers that root listed. From its first step on the process that builds has
// the payload's user, and no power over files, processes or users.
//
// It decides nothing, keeps no state but the locks of ids in use, and shows no image.
//
// Most readers want [New], and [Serve] with [Main] for the helper.
package localuser

// Name is the word of --isolation.
const Name = "user"

// HelperName and OwnerName are the words by which the program is called as the helper, and
// as the process of root's that owns one box.
const (
	HelperName = "__local-user"
	OwnerName  = "__local-owner"
)

// Socket is where the helper listens.
const Socket = "/run/cloister-local/socket"
