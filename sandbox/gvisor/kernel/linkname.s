// This file is empty: with it the compiler takes functions without a body, which go:linkname names.
