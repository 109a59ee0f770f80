// Package workspace decides which of the host's files a cloister sees.
//
// It finds the project, refuses one that is too wide, and plans the binds: the
// project live, a private home, toolchains read-only, and over them the
// protected paths: files that the host's own programs would run or obey. It
// promises that a grant is computed from what lies on disk before the start
// and is never widened by a file's content, and that what it creates to
// protect an absent path is removed again. It mounts nothing and runs no git.
// Most readers want Find and Plan.
package workspace
