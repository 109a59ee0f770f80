package envd

import (
	"context"
	"net/http"
	"path"
	"strconv"
	"time"

	"cloister/serve/connect"
	"cloister/serve/files"
)

// The messages of filesystem.Filesystem, as their JSON has them.
type (
	pathWire struct {
		Path         string `json:"path"`
		Source       string `json:"source"`
		Destination  string `json:"destination"`
		Depth        uint32 `json:"depth"`
		Recursive    bool   `json:"recursive"`
		IncludeEntry bool   `json:"includeEntry"`
		WatcherID    string `json:"watcherId"`
	}
	entryWire struct {
		Name          string            `json:"name"`
		Type          string            `json:"type"`
		Path          string            `json:"path"`
		Size          string            `json:"size"` // 64 bits are a string in the JSON of protocol buffers
		Mode          uint32            `json:"mode"`
		Permissions   string            `json:"permissions"`
		Owner         string            `json:"owner"`
		Group         string            `json:"group"`
		ModifiedTime  string            `json:"modifiedTime"`
		SymlinkTarget *string           `json:"symlinkTarget,omitempty"`
		Metadata      map[string]string `json:"metadata,omitempty"`
	}
	entryReply struct {
		Entry entryWire `json:"entry"`
	}
	entriesReply struct {
		Entries []entryWire `json:"entries"`
	}
	changeWire struct {
		Name  string     `json:"name"`
		Type  string     `json:"type"`
		Entry *entryWire `json:"entry,omitempty"`
	}
	watchWire struct {
		Start      *struct{}   `json:"start,omitempty"`
		Filesystem *changeWire `json:"filesystem,omitempty"`
		KeepAlive  *struct{}   `json:"keepalive,omitempty"`
	}
)

func entryOf(e files.Entry) entryWire {
	out := entryWire{
		Name: e.Name, Type: "FILE_TYPE_UNSPECIFIED", Path: e.Path, Size: strconv.FormatInt(e.Size, 10), Mode: e.Mode,
		Permissions: e.Text, Owner: e.Owner, Group: e.Group, Metadata: e.Metadata,
		ModifiedTime: e.Modified.UTC().Format(time.RFC3339Nano),
	}
	switch e.Kind {
	case files.File:
		out.Type = "FILE_TYPE_FILE"
	case files.Dir:
		out.Type = "FILE_TYPE_DIRECTORY"
	case files.Symlink:
		out.Type = "FILE_TYPE_SYMLINK"
	case files.Other:
	}
	if e.Target != "" {
		out.SymlinkTarget = &e.Target
	}
	return out
}

// pool gives the files of a call's sandbox.
func (d *Service) pool(ctx context.Context, r *http.Request) (*files.Pool, error) {
	if err := checkUser(r); err != nil {
		return nil, err
	}
	p, err := sandboxOf(ctx).Files()
	return p, d.rpcError(err)
}

func (d *Service) fileStat(ctx context.Context, r *http.Request, q pathWire) (entryReply, error) {
	p, err := d.pool(ctx, r)
	if err != nil {
		return entryReply{}, err
	}
	e, err := p.Stat(ctx, resolve(q.Path))
	return entryReply{entryOf(e)}, d.rpcError(err)
}

func (d *Service) fileMakeDir(ctx context.Context, r *http.Request, q pathWire) (entryReply, error) {
	p, err := d.pool(ctx, r)
	if err != nil {
		return entryReply{}, err
	}
	e, err := p.Mkdir(ctx, resolve(q.Path))
	return entryReply{entryOf(e)}, d.rpcError(err)
}

func (d *Service) fileMove(ctx context.Context, r *http.Request, q pathWire) (entryReply, error) {
	p, err := d.pool(ctx, r)
	if err != nil {
		return entryReply{}, err
	}
	e, err := p.Move(ctx, resolve(q.Source), resolve(q.Destination))
	return entryReply{entryOf(e)}, d.rpcError(err)
}

func (d *Service) fileList(ctx context.Context, r *http.Request, q pathWire) (entriesReply, error) {
	p, err := d.pool(ctx, r)
	if err != nil {
		return entriesReply{}, err
	}
	list, err := p.List(ctx, resolve(q.Path), int(max(1, min(q.Depth, 64))))
	out := entriesReply{Entries: make([]entryWire, 0, len(list))}
	for _, e := range list {
		out.Entries = append(out.Entries, entryOf(e))
	}
	return out, d.rpcError(err)
}

func (d *Service) fileRemove(ctx context.Context, r *http.Request, q pathWire) (nothing, error) {
	p, err := d.pool(ctx, r)
	if err != nil {
		return nothing{}, err
	}
	return nothing{}, d.rpcError(p.Remove(ctx, resolve(q.Path)))
}

func changeOf(e files.Event) *changeWire {
	names := map[files.Change]string{
		files.Created: "EVENT_TYPE_CREATE", files.Written: "EVENT_TYPE_WRITE", files.Removed: "EVENT_TYPE_REMOVE",
		files.Renamed: "EVENT_TYPE_RENAME", files.Chmod: "EVENT_TYPE_CHMOD",
	}
	out := &changeWire{Name: path.Clean(e.Name), Type: names[e.Change]}
	if e.Entry != nil {
		w := entryOf(*e.Entry)
		out.Entry = &w
	}
	return out
}

func (d *Service) fileWatch(ctx context.Context, r *http.Request, in *connect.Input, out *connect.Output) error {
	var q pathWire
	if err := in.Next(&q); err != nil {
		return connect.Errorf(connect.InvalidArgument, "read the request: %v", err)
	}
	p, err := d.pool(ctx, r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	pinged := make(chan struct{})
	started := false
	ready := func() error {
		started = true
		go func() {
			defer close(pinged)
			ping(ctx, interval(r), func() error { return out.Send(watchWire{KeepAlive: &struct{}{}}) }, cancel)
		}()
		return out.Send(watchWire{Start: &struct{}{}})
	}
	err = p.Watch(ctx, resolve(q.Path), q.Recursive, q.IncludeEntry, ready, func(e files.Event) error {
		return out.Send(watchWire{Filesystem: changeOf(e)})
	})
	cancel(nil)
	if started {
		<-pinged
	}
	return d.rpcError(err)
}

// ping says every so often that a stream lives.
func ping(ctx context.Context, every time.Duration, send func() error, stop context.CancelCauseFunc) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := send(); err != nil {
				stop(err)
				return
			}
		}
	}
}
