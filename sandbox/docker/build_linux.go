package docker

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"runtime"
	"strings"

	"cloister/sandbox"
	"cloister/sandbox/docker/definition"
	"cloister/sandbox/docker/inside"
	"cloister/sandbox/docker/refuse"
	"cloister/sandbox/gate"
)

// Build is what an image is built by.
type Build struct {
	// ID and Name are the session's whose network the steps have.
	ID, Name string
	// File names the definition in errors, Text is it.
	File string
	Text []byte
	// Files writes the files beside the definition; nil for none. Arguments and Target
	// are what the definition is built with.
	Files     func(w *tar.Writer) error
	Arguments map[string]string
	Target    string
	// Labels are what the image says of itself.
	Labels map[string]string
	// Image is the engine's name for what is built.
	Image string
	// Authorities are what the steps trust, in PEM form, and Variables those by which
	// programs look for them.
	Authorities []byte
	Variables   []string
	// Stored finds an image of the store, which a definition may begin with.
	Stored func(name string) (sandbox.Root, bool)
	// Arm takes the network of the steps: it returns when that is served.
	Arm func(ctx context.Context, g sandbox.Gate) error
	// Output gets what the steps say; Say is told what takes long.
	Output io.Writer
	Say    func(string)
}

// Build has the engine build an image by a definition. Each step runs in a
// container without any network but that of a gate of its own, which the guardian
// serves; the images that the definition begins with the engine fetches itself.
// A build that fails leaves nothing. It gives the image's ID.
func (d *Driver) Build(ctx context.Context, b Build) (id string, err error) {
	from, text, err := definition.Read(b.File, b.Text, b.Files != nil, b.Arguments)
	if err != nil {
		return "", err
	}
	b.Text = text
	program, err := d.program(true)
	if err != nil {
		return "", err
	}
	a, err := d.connect(ctx)
	if err != nil {
		return "", err
	}
	defer a.Close()
	for _, o := range from {
		if o.Stage {
			continue // its own, or scratch
		}
		b.Text = definition.Begun(b.Text, o, o.Name) // as it was read here
		if r, ok := b.Stored(o.Name); ok {
			if err := d.Give(ctx, r, b.Say); err != nil {
				return "", err
			}
			id, err := a.given(ctx, r)
			if err != nil {
				return "", err
			}
			b.Text = definition.Begun(b.Text, o, id)
			continue
		}
		if err := a.origin(ctx, o.Name, b.Say); err != nil {
			return "", err
		}
	}
	if len(b.Authorities) > 0 {
		place := definition.AuthoritiesFile
		if b.Files != nil {
			// Among the files of the build, COPY . would take it too.
			var forget func() error
			if place, forget, err = a.authorities(ctx, b.Authorities); err != nil {
				return "", err
			}
			defer func() { err = errors.Join(err, forget()) }()
			b.Authorities = nil
		}
		b.Text = definition.Trusting(b.Text, from, place, b.Variables)
	}
	br, err := d.border(ctx, a, b, program)
	defer func() { err = errors.Join(err, br.close(context.WithoutCancel(ctx))) }()
	if err != nil {
		return "", err
	}
	return a.build(ctx, b, br.id)
}

// origin makes sure that the engine has an image to begin with, for this machine
// and without steps of its own for whoever builds on it.
func (a *api) origin(ctx context.Context, name string, say func(string)) error {
	_, err := a.inspect(ctx, name)
	if _, missing := errors.AsType[*NoImage](err); missing {
		say("the engine pulls " + name)
		err = a.pull(ctx, name)
	}
	if err != nil {
		return fmt.Errorf("begin with %s: %w", name, err)
	}
	var i struct {
		Os, Architecture string
		Config           struct{ OnBuild []string }
	}
	if err := a.call(ctx, http.MethodGet, "/images/"+url.PathEscape(name)+"/json", nil, &i); err != nil {
		return fmt.Errorf("begin with %s: %w", name, err)
	}
	if i.Os != "linux" || i.Architecture != runtime.GOARCH {
		return otherMachine(name, i.Os, i.Architecture)
	}
	if len(i.Config.OnBuild) > 0 {
		return &sandbox.Unsupported{
			Guarantee: "image",
			Reason:    "image " + name + " brings steps of its own for every build on it (ONBUILD)",
			Fix:       "begin with another, or run its steps in your definition",
		}
	}
	return nil
}

func otherMachine(name, system, arch string) error {
	return &sandbox.Unsupported{
		Guarantee: "image",
		Reason:    fmt.Sprintf("image %s is for %s/%s, this machine is linux/%s", name, system, arch, runtime.GOARCH),
		Fix:       "name one for this machine",
	}
}

// pull has the engine fetch an image from its registry.
func (a *api) pull(ctx context.Context, name string) error {
	ref, tag := name, "latest"
	if repo, digest, ok := strings.Cut(name, "@"); ok {
		ref, tag = repo, digest
	} else if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		ref, tag = name[:i], name[i+1:]
	}
	q := url.Values{"fromImage": {ref}, "tag": {tag}}
	resp, err := a.Do(ctx, http.MethodPost, "/"+a.version+"/images/create?"+q.Encode(), nil, "")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusBadRequest {
		return a.Read(ctx, resp, nil)
	}
	_, err = a.words(ctx, resp.Body, io.Discard)
	return err
}

// border is the container whose network the steps of a build join.
type border struct {
	a     *api
	id    string
	doors *doors
	line  inside.Line
}

func (d *Driver) border(ctx context.Context, a *api, b Build, program string) (*border, error) {
	br := &border{a: a}
	s := sandbox.Spec{ID: b.ID, Name: b.Name}
	var err error
	if br.doors, err = d.openDoors(s.ID); err != nil {
		return br, err
	}
	if br.id, err = a.createGate(ctx, s, d.borderContainer(s, program, br.doors)); err != nil {
		return br, err
	}
	if err := a.start(ctx, br.id); err != nil {
		return br, err
	}
	st := &start{d: d, a: a, spec: s, gate: br.id}
	if br.line, _, err = st.greet(ctx, br.doors.gate, inside.RoleBorder, 0); err != nil {
		return br, err
	}
	for {
		m, err := br.line.Hear()
		switch {
		case err != nil:
			return br, fmt.Errorf("the build's gate ended early (%s)", a.state(context.WithoutCancel(ctx), br.id))
		case m.Failed != nil:
			return br, refuse.Explained(m.Failed)
		case m.Gate:
			g, err := takeGate(br.line)
			if err == nil {
				err = b.Arm(ctx, g)
			}
			if err != nil {
				return br, err
			}
		case m.Built:
			return br, nil
		}
	}
}

func (d *Driver) borderContainer(s sandbox.Spec, program string, o *doors) object {
	body := d.gateContainer(s, program, o)
	body["Cmd"], body["Labels"] = []string{inside.RoleBorder}, d.labels(s, inside.RoleBorder)
	host := body["HostConfig"].(object)
	host["Sysctls"] = withIPv6
	host["CapAdd"] = []string{"NET_ADMIN", "NET_BIND_SERVICE"}
	// The steps' containers have its resolv.conf, which the engine makes.
	host["Dns"] = []string{gate.Addr4}
	delete(body, "NetworkDisabled")
	return body
}

func (br *border) close(ctx context.Context) error {
	br.line.Close()
	var err error
	if br.id != "" {
		err = br.a.remove(ctx, br.id)
	}
	if br.doors != nil {
		err = br.doors.after(err)
	}
	return err
}

// build sends the definition and reads the steps. Of a failed one the layers that
// its steps made are removed: the engine would keep them as a cache.
func (a *api) build(ctx context.Context, b Build, border string) (string, error) {
	r, w := io.Pipe()
	written := make(chan struct{})
	go func() {
		_ = w.CloseWithError(b.write(w)) // it returns nil
		close(written)
	}()
	defer func() {
		_ = r.Close() // it returns nil
		<-written
	}()
	said := map[string]string{}
	maps.Copy(said, b.Labels)
	said[labelBuilt] = b.Image
	labels, err := json.Marshal(said)
	if err != nil {
		return "", err
	}
	before, err := a.layers(ctx)
	if err != nil {
		return "", err
	}
	// Version 1 is the builder in the engine: the other brings a network of its own.
	arguments, err := json.Marshal(b.Arguments)
	if err != nil {
		return "", err
	}
	network := "none"
	if border != "" {
		network = "container:" + border
	}
	q := url.Values{"networkmode": {network}, "rm": {"1"}, "forcerm": {"1"}, "version": {"1"}, "labels": {string(labels)},
		"dockerfile": {definition.File}, "buildargs": {string(arguments)}, "target": {b.Target}}
	if border != "" {
		q.Set("t", b.Image)
	}
	resp, err := a.Do(ctx, http.MethodPost, "/"+a.version+"/build?"+q.Encode(), r, "application/x-tar")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusBadRequest {
		return "", a.Read(ctx, resp, nil)
	}
	steps := &steps{w: b.Output}
	id, err := a.words(ctx, resp.Body, steps)
	if err != nil {
		return "", errors.Join(&FailedBuild{err}, a.forget(ctx, steps.made, before))
	}
	if !strings.HasPrefix(id, "sha256:") {
		return "", a.NotAnEngine(fmt.Sprintf("it built an image as %q", id))
	}
	return id, nil
}

// write gives the engine the definition and the files beside it. The engine takes the
// names in .dockerignore out of what COPY sees.
func (b *Build) write(to io.Writer) error {
	t := tar.NewWriter(to)
	var err error
	for _, f := range []struct {
		name string
		text []byte
	}{{definition.File, b.Text}, {definition.AuthoritiesFile, b.Authorities},
		{".dockerignore", []byte(".dockerignore\n" + definition.File + "\n")}} {
		if len(f.text) == 0 {
			continue
		}
		if err == nil {
			err = t.WriteHeader(&tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.text))})
		}
		if err == nil {
			_, err = t.Write(f.text)
		}
	}
	if err == nil && b.Files != nil {
		err = b.Files(t)
	}
	return errors.Join(err, t.Close())
}

// words reads the engine's answer to what takes long, and gives the ID that it
// names, where it does.
func (a *api) words(ctx context.Context, r io.Reader, w io.Writer) (id string, err error) {
	for lines := json.NewDecoder(r); ; {
		var word struct {
			Stream, Error string
			Aux           struct{ ID string }
		}
		if err := lines.Decode(&word); errors.Is(err, io.EOF) {
			return id, nil
		} else if err != nil {
			return "", a.Explain(ctx, err)
		}
		if word.Error != "" {
			return "", errors.New(word.Error)
		}
		if word.Aux.ID != "" {
			id = word.Aux.ID
		}
		if _, err := io.WriteString(w, word.Stream); err != nil {
			return "", err
		}
	}
}

// steps passes on what a build says, and remembers the layers that it makes.
type steps struct {
	w      io.Writer
	rest   string
	cached bool
	made   []string
}

func (s *steps) Write(p []byte) (int, error) {
	s.rest += string(p)
	for {
		line, rest, whole := strings.Cut(s.rest, "\n")
		if !whole {
			break
		}
		s.rest = rest
		// What a step itself says may look the same: what is not an image's ID, or
		// is in use, the engine does not remove.
		switch id, ok := strings.CutPrefix(line, " ---> "); {
		case ok && id == "Using cache":
			s.cached = true
		case ok && len(id) == 12 && strings.Trim(id, "0123456789abcdef") == "":
			if !s.cached {
				s.made = append(s.made, id)
			}
			s.cached = false
		}
	}
	return s.w.Write(p)
}
