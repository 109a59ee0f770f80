package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// secretSettings is a configuration with one secret, which the server's name is bound
// to.
const secretSettings = readSettings + `secrets: [{name: BENCH_TOKEN, hosts: [api.bench.example], ports: [%d], header: Authorization, format: "Bearer {}"}]
`

const realToken = "bench-token-that-only-the-server-and-the-vault-know"

// measureInjected asks with a placeholder, and with another word of its length in the
// same header: in one session, so that what it adds is the finding of the placeholder,
// the judging and recording of its use, and the putting of the value in its place.
func measureInjected(ctx context.Context, w *world) error {
	p, l, port, err := w.secured(onlyReal)
	if err != nil {
		return err
	}
	defer l.Close()
	if _, err := w.guardianOf(ctx, fmt.Sprintf(secretSettings, port, p.caFile, port, port)); err != nil {
		return err
	}
	set := w.in(ctx, w.cloister, "secret", "set", "BENCH_TOKEN")
	set.Stdin = strings.NewReader(realToken)
	if out, err := set.CombinedOutput(); err != nil {
		return fmt.Errorf("keep a secret: %w: %s", err, out)
	}
	client, err := w.client()
	if err != nil {
		return err
	}
	y, err := w.open(ctx, ours, []string{w.cloister, "run", "--", client, insideWord}, fmt.Sprintf("%s:%d", readName, port), "", nil)
	if err != nil {
		return err
	}
	defer func() { _ = y.close() }()
	with := []string{withSecret, ours}
	for round := range w.rounds(60) {
		for turn := range with {
			name := with[(round+turn)%2]
			o := order{Do: "requests", Name: readName, Times: w.rounds(150)}
			if o.Token = "BENCH_TOKEN"; name == ours {
				o.Word = ownWord
			}
			took, err := y.each(o)
			if err != nil {
				return err
			}
			w.raw.add("request with a secret, p50", name, "µs", at(took, 0.5)*1e6)
		}
	}
	mine, ok := w.raw.find("request with a secret, p50", withSecret)
	plain, there := w.raw.find("request with a secret, p50", ours)
	if !ok || !there {
		return errors.New("nothing was measured")
	}
	for i := range min(len(mine.Values), len(plain.Values)) {
		w.raw.add("injection", ours, "µs", mine.Values[i]-plain.Values[i])
	}
	return nil
}

// withSecret is the contender whose requests carry the placeholder.
const withSecret = "cloister, with a placeholder"

// ownWord is a credential that the program has by itself: it is sent on as it is.
const ownWord = "a-word-that-the-program-has-by-itself-and-no-secret"

// onlyReal lets nobody in who brings another word than the real one, or its own.
func onlyReal(r *http.Request) bool {
	word := r.Header.Get("Authorization")
	return word == "Bearer "+ownWord || word == "Bearer "+realToken
}
