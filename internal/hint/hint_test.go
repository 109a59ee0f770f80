package hint_test

import (
	"errors"
	"io"
	"slices"
	"testing"

	"cloister/internal/hint"
)

func TestAnErrorKeepsItsTextAndItsAdviceApart(t *testing.T) {
	err := hint.With(io.EOF, "one", "two")
	var advised interface{ Hints() []string }
	if err.Error() != io.EOF.Error() || !errors.Is(err, io.EOF) || !errors.As(err, &advised) ||
		!slices.Equal(advised.Hints(), []string{"one", "two"}) {
		t.Errorf("%v with %v", err, advised)
	}
}

func TestUsage(t *testing.T) {
	usage, is := errors.AsType[*hint.UsageError](hint.Usage("write 1", "run: %q is no number", "x"))
	if !is || usage.Error() != `run: "x" is no number` || !slices.Equal(usage.Hints(), []string{"write 1"}) {
		t.Errorf("%+v", usage)
	}
	if none := (&hint.UsageError{Msg: "m"}).Hints(); none != nil {
		t.Errorf("advice out of nothing: %q", none)
	}
}

func TestOfGathersEachLineOnce(t *testing.T) {
	err := errors.Join(hint.With(hint.With(io.EOF, "b"), "a"), hint.Usage("a", "x"), io.ErrUnexpectedEOF)
	got := hint.Of(err, func(e error) []string {
		if e == io.ErrUnexpectedEOF { //nolint:errorlint // this very one, and not what wraps it
			return []string{"c"}
		}
		return nil
	})
	if !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("%q", got)
	}
	if none := hint.Of(nil); none != nil {
		t.Errorf("advice on no error: %q", none)
	}
}
