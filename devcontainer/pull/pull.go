// Package pull gets features of devcontainers from their registries, from inside a cloister.
//
// The promise: what a registry answers is read in here, where nothing of the person's is,
// and by the network that the guardian gives. Where the person bound a secret to the
// registry, its placeholder is sent as a password, which the guardian makes the secret of:
// no credential comes in here. Files and helpers of a container engine are not looked at.
// What comes out is bytes; whoever gets them holds them against their digests again.
//
// Most readers want [Main], which runs inside, and [Answer], which comes back.
package pull

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"cloister/devcontainer/features"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// Name is the word by which the program is called for it.
const Name = "__feature"

// Most bounds one answer: an archive and its manifest, in base64, and the words around.
const Most = (features.MaxLayer+features.MaxManifest)/3*4 + 64<<10

// Answer is one feature, or why there is none.
type Answer struct {
	Packed features.Packed `json:"packed"`
	Error  string          `json:"error,omitempty"`
}

// within is how long one feature may take.
const within = 2 * time.Minute

// Main is the program inside: the name of a feature. It prints what came of it, and gives
// an exit status.
func Main(ctx context.Context, args []string, out io.Writer) int {
	if len(args) != 1 {
		return 2
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var a Answer
	p, err := Fetch(ctx, args[0], netrc)
	if err != nil {
		a.Error = err.Error()
	} else {
		a.Packed = p
	}
	if json.NewEncoder(out).Encode(a) != nil {
		return 1
	}
	return 0
}

// Fetch gets one feature, with the logins of a file.
func Fetch(ctx context.Context, feature, netrc string) (features.Packed, error) {
	var p features.Packed
	ref, err := name.ParseReference(feature)
	if err != nil {
		return p, err
	}
	puller, err := remote.NewPuller(remote.WithContext(ctx), remote.WithAuthFromKeychain(logins(netrc)))
	if err != nil {
		return p, err
	}
	d, err := puller.Get(ctx, ref)
	if err != nil {
		return p, explain(err)
	}
	m, err := features.ReadManifest(d.Manifest)
	if err != nil {
		return p, err
	}
	digest, err := name.NewDigest(ref.Context().Name() + "@" + m.Layers[0].Digest)
	if err != nil {
		return p, err
	}
	layer, err := puller.Layer(ctx, digest)
	if err != nil {
		return p, explain(err)
	}
	r, err := layer.Compressed()
	if err != nil {
		return p, explain(err)
	}
	defer r.Close()
	p.Manifest = d.Manifest
	p.Layer, err = io.ReadAll(io.LimitReader(r, m.Layers[0].Size+1))
	if err != nil {
		return p, fmt.Errorf("read its archive: %w", err)
	}
	if _, err := p.Files(features.Digest(p.Manifest)); err != nil {
		return p, err
	}
	return p, nil
}

// explain says what a registry's answer means for a person.
func explain(err error) error {
	answer, ok := errors.AsType[*transport.Error](err)
	if !ok {
		return err
	}
	switch answer.StatusCode {
	case http.StatusNotFound:
		return errors.New("the registry has no such feature")
	case http.StatusUnauthorized:
		return errors.New("the registry has no such feature, or shows it to others only; a secret that is bound to it in " +
			"config.yaml is sent")
	}
	// The guardian's own answer is the end of the library's text.
	text := err.Error()
	var refusal struct{ Error, Reason string }
	if at := strings.Index(text, "{"); at >= 0 && json.Unmarshal([]byte(text[at:]), &refusal) == nil &&
		refusal.Error == "cloister" {
		return fmt.Errorf("the guardian does not let it through: %s", refusal.Reason)
	}
	const most = 300
	if line, _, _ := strings.Cut(text, "\n"); len(line) < most {
		return errors.New(line)
	}
	return errors.New(text[:most])
}
