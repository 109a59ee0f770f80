package swap

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

// Between two codings stand a bound and the request's end.
func TestBetweenCodings(t *testing.T) {
	if got, err := io.ReadAll(&bounded{t.Context(), strings.NewReader("four"), 4}); err != nil || string(got) != "four" {
		t.Errorf("control: %q, %v", got, err)
	}
	if _, err := io.ReadAll(&bounded{t.Context(), strings.NewReader("four+"), 4}); !errors.Is(err, errTooMuch) {
		t.Errorf("one more: %v", err)
	}
	for _, coding := range []string{"gzip", "deflate", "br", "zstd"} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		open, err := decoder(ctx, []string{coding, "deflate"}, strings.NewReader("\x78\x9c"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(open); !errors.Is(err, context.Canceled) {
			t.Errorf("%s of a request that is over: %v", coding, err)
		}
	}
}
