package policyset

import (
	"fmt"
	"net"
	"testing"
)

// net's errors can be unwrapped, and may hold none: a login without a network
// ended the guardian's answer.
func TestProblemsOfAnErrorThatWrapsNone(t *testing.T) {
	err := fmt.Errorf("log in: %w", &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "github.com"}})
	if got := Problems(err); len(got) != 1 || got[0].Message != err.Error() {
		t.Errorf("problems: %+v", got)
	}
}
