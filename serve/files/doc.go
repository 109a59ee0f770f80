// Package files gives the host a sandbox's files through a program that runs inside.
//
// [Serve] is the program: it is started in the sandbox as any command is, with the
// payload's own user, view and restrictions, and answers one request at a time on its
// standard streams. [Pool] is the host's end, which starts the program, keeps an idle one,
// and treats every byte from it as hostile.
//
// The promise: no path that a client names is ever opened by the host. Names and links
// are resolved by the kernel in the sandbox's own mount namespace, so they cannot lead
// out of it; what the program answers is bounded, and wrong only about the sandbox that
// it runs in. It keeps no state of its own and decides nothing about who may ask.
//
// Most readers want [Pool].
package files
