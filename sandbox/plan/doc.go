// Package plan says what an enclosure is made of, as one list of steps in order: what is
// shown of files, what a process gives up, and what must then be found refused.
//
// The promise: the list depends on the Spec and the Facts alone, on nothing that the package
// looks up itself, and each path is shown, hidden or held in one place of it. A hand executes
// the list: native by system calls that it writes down, the inside of containers over what the
// engine mounted. How a hand finds its way through an image's links is its own matter, as are
// namespaces, control groups and the network, which sandbox/gate has as data.
// Most readers want New, and testdata for what comes of it.
package plan
