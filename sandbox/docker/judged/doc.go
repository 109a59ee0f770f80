// Package judged has the kernel judge what a container does with files and programs.
//
// The promise: the group that is judged is the container's own, with everything in it and nothing
// else, whoever put it there; judging begins before anything of the payload runs; and what is lost is
// ended with all inside. It loads nothing into the kernel (sandbox/judge does), and speaks to no engine.
// Most readers want [Begin].
package judged
