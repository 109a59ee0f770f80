// Package aftertest generates hostile sessions, and looks at what the host does after them.
//
// The promise: whatever a session made of its project, by files, links, repositories and
// settings of git, the next start shows nothing from outside the project and writes
// nothing there; git of the host at the project's top runs nothing that was planted, and
// in a folder below it only what a review names; what stops a start says which
// path to remove.
//
// It knows no single attack (escape/corpus has those) and no agent. The folder holds tests
// only; most readers want TestGenerated.
package aftertest
