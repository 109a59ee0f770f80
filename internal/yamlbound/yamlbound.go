// Package yamlbound refuses YAML that would be slow to read, by its tokens.
//
// The promise: the parser's cost grows with the square of the depth, so that depth and
// number of tokens are bounded before it sees one. It reads no value.
package yamlbound

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goccy/go-yaml/token"
)

// ErrRefused is the error for a token of a type that the caller refuses.
var ErrRefused = errors.New("not used here")

// Check gives the first token that is refused or lies deeper than depth, with the reason. The
// token is nil where there are more than most.
func Check(tokens token.Tokens, most, depth int, refused ...token.Type) (*token.Token, error) {
	if len(tokens) > most {
		return nil, fmt.Errorf("more than %d words and signs", most)
	}
	flow, run, line := 0, 0, 0
	for _, tk := range tokens {
		if tk.Position != nil && tk.Position.Line != line {
			line, run = tk.Position.Line, 0
		}
		switch tk.Type { //nolint:exhaustive // the others neither nest nor are refused
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType:
			run++
		}
		if slices.Contains(refused, tk.Type) {
			return tk, ErrRefused
		}
		if flow > depth || run > depth {
			return tk, fmt.Errorf("nested more than %d deep", depth)
		}
	}
	return nil, nil
}
