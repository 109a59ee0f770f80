package tui

// KeysInPieces are the keys in what a terminal sends in pieces of so many bytes.
func KeysInPieces(b []byte, n int) (out []string) {
	var d decoder
	for len(b) > 0 {
		piece := b[:min(n, len(b))]
		b = b[len(piece):]
		out = append(out, d.keys(piece, len(b) > 0)...)
	}
	return out
}
