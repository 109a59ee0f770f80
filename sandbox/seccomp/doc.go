// Package seccomp says which system calls a payload may make.
//
// The promise: what is in no list is refused, what is newer than the lists does
// not exist, other architectures' calls end the process, and the answers are the
// same whichever driver installs the filter. It installs nothing itself.
// Most readers want Filter.
package seccomp
