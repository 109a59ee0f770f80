// Package bucket keeps a copy of the record in an S3 bucket, and proves what comes back.
//
// The promise: an object is written once and never replaced; a copy is believed as far as the
// guardian's own keys prove it, and as far as it reaches the newest head that this machine
// noted when it was sent. A bucket that is rolled back, cut, reordered or forged is an error that
// names the place.
//
// It does not hold back a decision: it reads what was recorded. It sends no key: whoever has the bucket
// alone can change nothing unseen, but can read the record.
//
// Most readers want [Copy.Ship] and [Copy.Fetch].
package bucket

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"cloister/audit"
	"cloister/internal/durable"

	"github.com/minio/minio-go/v7"
)

// Copy is the copy of one record.
type Copy struct {
	Client *minio.Client
	Bucket string
	Prefix string // of all its objects, without a slash at its end
	Dir    string // the record
	Ledger string // the file that says what was sent
	// Timeout bounds one request, and each answer of the listing: a bucket that takes or gives nothing is an
	// error. 5 min when 0.
	Timeout time.Duration
}

// ledger is what was sent: the bytes of each segment, and the newest head.
type ledger struct {
	V     int              `json:"v"`
	Bytes map[string]int64 `json:"bytes"`
	Head  audit.Anchor     `json:"head,omitzero"`
}

// mostPiece bounds one object, in bytes.
const mostPiece = 8 << 20

var segmentName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^audit-[0-9]{6,12}\.jsonl$`) })

// Sent is what one run sent.
type Sent struct {
	Pieces int
	Bytes  int64
	Record uint64 // the newest record that the bucket has
}

// Ship sends what the record has and the bucket has not: whole lines of each segment as objects of their
// own, then the head that they end with. The record is proven first, so that none that was
// changed is sent.
func (c *Copy) Ship(ctx context.Context) (Sent, error) {
	var sent Sent
	l, err := c.noted()
	if err != nil {
		return sent, err
	}
	report, err := audit.Verify(c.Dir, l.heads(c.Ledger)...)
	if err != nil {
		return sent, err
	}
	if report.Records == 0 {
		return sent, nil
	}
	head, err := audit.Head(c.Dir, report, time.Now())
	if err != nil {
		return sent, err
	}
	sent.Record = head.Seq
	if head.Seq == l.Head.Seq {
		return sent, nil
	}
	left := report.Bytes // the guardian may have written more meanwhile, which the next run sends
	names, err := segments(c.Dir)
	if err != nil {
		return sent, err
	}
	for _, name := range names {
		end := l.Bytes[name]
		if end, err = c.segment(ctx, name, end, left, &sent); err != nil {
			return sent, fmt.Errorf("ship %s: %w", name, err)
		}
		l.Bytes[name], left = end, left-end
	}
	text, err := head.Line()
	if err != nil {
		return sent, err
	}
	if err := c.put(ctx, fmt.Sprintf("heads/%020d.json", head.Seq), text); err != nil {
		return sent, fmt.Errorf("ship the head: %w", err)
	}
	l.Head = head
	return sent, c.note(l)
}

// heads are what a record must agree with.
func (l ledger) heads(where string) []audit.Anchor {
	if l.Head.Seq == 0 {
		return nil
	}
	l.Head.Where = where
	return []audit.Anchor{l.Head}
}

// segment sends a segment from an offset on, to the end of what was proven, and gives that.
func (c *Copy) segment(ctx context.Context, name string, from, proven int64, sent *Sent) (int64, error) {
	f, err := os.Open(filepath.Join(c.Dir, name))
	if err != nil {
		return from, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return from, err
	}
	end := min(info.Size(), proven)
	for from < end {
		text := make([]byte, min(end-from, mostPiece))
		if _, err := f.ReadAt(text, from); err != nil {
			return from, err
		}
		text = text[:bytes.LastIndexByte(text, '\n')+1]
		if len(text) == 0 {
			return from, errors.New("a line is longer than a piece")
		}
		key := fmt.Sprintf("segments/%s/%015d-%015d", name, from, from+int64(len(text)))
		if err := c.put(ctx, key, text); err != nil {
			return from, err
		}
		from, sent.Pieces, sent.Bytes = from+int64(len(text)), sent.Pieces+1, sent.Bytes+int64(len(text))
	}
	return from, nil
}

// put writes an object that did not exist. One that a run before had written just before it was killed
// is the same, or the bucket has another record.
func (c *Copy) put(ctx context.Context, name string, text []byte) error {
	key := path.Join(c.Prefix, name)
	o := minio.PutObjectOptions{ContentType: "application/json", DisableMultipart: true, SendContentMd5: true}
	o.SetMatchETagExcept("*")
	short, stop := c.within(ctx)
	defer stop()
	_, err := c.Client.PutObject(short, c.Bucket, key, bytes.NewReader(text), int64(len(text)), o)
	if err == nil || minio.ToErrorResponse(err).Code != minio.PreconditionFailed {
		return why(short, err)
	}
	there, err := c.get(ctx, key, int64(len(text)))
	if err != nil {
		return err
	}
	if !bytes.Equal(there, text) && !strings.HasPrefix(name, "heads/") { // two heads of one record differ in their time
		return fmt.Errorf("%s: the bucket has another object of that name", key)
	}
	return nil
}

// get reads an object of at most so many bytes.
func (c *Copy) get(ctx context.Context, key string, most int64) ([]byte, error) {
	ctx, stop := c.within(ctx)
	defer stop()
	o, err := c.Client.GetObject(ctx, c.Bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = o.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(o, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s is larger than it can be", key)
	}
	return text, why(ctx, err)
}

// Bounds of what a bucket may make this machine fetch.
const (
	mostObjects = 1_000_000
	mostHead    = 4 << 10
)

// Fetch writes the bucket's copy into a folder that does not exist and proves it there, by the keys of the
// record: each line, the order, that nothing is missing, each head that the bucket has, and that
// it reaches what this machine noted or the anchors name.
func (c *Copy) Fetch(ctx context.Context, into string, anchors ...audit.Anchor) (audit.Report, error) {
	l, err := c.noted()
	if err != nil {
		return audit.Report{}, err
	}
	if err := os.Mkdir(into, 0o700); err != nil {
		return audit.Report{}, fmt.Errorf("fetch: %w", err)
	}
	anchors = append(slices.Clone(anchors), l.heads(c.Ledger)...)
	at := map[string]int64{}
	listing, hold, wait, stop := c.watch(ctx)
	defer stop()
	n := 0
	all := minio.ListObjectsOptions{Prefix: c.Prefix + "/", Recursive: true}
	for o := range c.Client.ListObjects(listing, c.Bucket, all) {
		hold()
		if o.Err != nil {
			return audit.Report{}, fmt.Errorf("fetch: list: %w", why(listing, o.Err))
		}
		if n++; n > mostObjects {
			return audit.Report{}, fmt.Errorf("fetch: more than %d objects", mostObjects)
		}
		switch kind, name, _ := strings.Cut(strings.TrimPrefix(o.Key, c.Prefix+"/"), "/"); kind {
		case "heads":
			a, err := c.head(ctx, o.Key)
			if err != nil {
				return audit.Report{}, err
			}
			anchors = append(anchors, a)
		case "segments":
			if err := c.piece(ctx, into, o.Key, name, at); err != nil {
				return audit.Report{}, err
			}
		}
		wait()
	}
	if err := context.Cause(listing); err != nil { // what was listed may be a part
		return audit.Report{}, fmt.Errorf("fetch: list: %w", err)
	}
	if len(anchors) == 0 {
		return audit.Report{}, errors.New("fetch: the bucket has no head of this record, and none was noted here")
	}
	return audit.VerifyCopy(into, c.Dir, anchors...)
}

func (c *Copy) head(ctx context.Context, key string) (audit.Anchor, error) {
	text, err := c.get(ctx, key, mostHead)
	if err != nil {
		return audit.Anchor{}, fmt.Errorf("fetch: %w", err)
	}
	a := audit.Anchor{Where: c.Bucket + "/" + key}
	if err := json.Unmarshal(text, &a); err != nil || a.Seq == 0 {
		return a, fmt.Errorf("fetch: %q is no head", a.Where)
	}
	return a, nil
}

// piece writes one object behind the one before.
func (c *Copy) piece(ctx context.Context, into, key, name string, at map[string]int64) error {
	segment, span, _ := strings.Cut(name, "/")
	low, high, _ := strings.Cut(span, "-")
	from, err := strconv.ParseInt(low, 10, 64)
	to, err2 := strconv.ParseInt(high, 10, 64)
	if !segmentName().MatchString(segment) || err != nil || err2 != nil || to-from < 1 || to-from > mostPiece {
		return fmt.Errorf("fetch: %q is no piece of a record", key)
	}
	if from > at[segment] {
		return fmt.Errorf("fetch: %s: bytes %d to %d are missing in the bucket", segment, at[segment], from)
	}
	text, err := c.get(ctx, key, to-from)
	if err == nil && int64(len(text)) != to-from {
		err = errors.New("it is cut")
	}
	if err != nil {
		return fmt.Errorf("fetch: %q: %w", key, err)
	}
	f, err := os.OpenFile(filepath.Join(into, segment), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("fetch: %w", err)
	}
	err = joined(f, text, from, at[segment])
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("fetch: %q: %w", key, err)
	}
	at[segment] = max(to, at[segment])
	return nil
}

// joined writes the bytes from an offset on that a file of so many does not have. A run that was killed before
// it noted what it had sent leaves a piece that a later one begins with.
func joined(f *os.File, text []byte, from, have int64) error {
	same := min(have-from, int64(len(text)))
	before := make([]byte, same)
	if _, err := f.ReadAt(before, from); err != nil && same > 0 {
		return err
	}
	if !bytes.Equal(before, text[:same]) {
		return errors.New("it is not what another object has of the same bytes")
	}
	_, err := f.WriteAt(text[same:], from+same)
	return err
}

// segments are the names of a record's segments, in order.
func segments(dir string) ([]string, error) {
	list, err := os.ReadDir(dir)
	var out []string
	for _, e := range list {
		if segmentName().MatchString(e.Name()) {
			out = append(out, e.Name())
		}
	}
	slices.SortFunc(out, func(a, b string) int { // numbers of more digits are later
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	})
	return out, err
}

func (c *Copy) noted() (ledger, error) {
	l := ledger{V: 1, Bytes: map[string]int64{}}
	text, err := os.ReadFile(c.Ledger)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &l)
	}
	if err == nil && (l.V != 1 || l.Bytes == nil) {
		err = fmt.Errorf("it has version %d, want 1", l.V)
	}
	if err != nil {
		return l, fmt.Errorf("read what was sent: %s: %w", c.Ledger, err)
	}
	return l, nil
}

func (c *Copy) note(l ledger) error {
	text, err := json.MarshalIndent(l, "", " ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(c.Ledger), 0o700)
	}
	if err == nil {
		err = durable.WriteFile(c.Ledger, append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("note what was sent: %w", err)
	}
	return nil
}
