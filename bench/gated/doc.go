// Package gated is an experiment: a writer that brings what a payload wrote into its overlay
// to the host's project while the payload runs, and the person's edits the other way
// (docs/decisions/0073 has its figures and what came of it).
//
// The promise: only ordinary files, folders and links within the project arrive, placed by
// descriptors, with no link followed on either side and each entry compared with what both
// sides last had. What programs of the host run or obey, and what both sides changed, is told
// and stays where it is.
//
// No product code calls it, and it keeps no journal: a crash loses the record of what both
// sides last had, not a file.
//
// The call most readers want is [Open].
package gated
