package protect

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// cache is what an earlier search read of each folder, by the folder's inode and
// change time, which no payload can set. It lies in Cloister's own data folder.
type cache struct {
	file  string // empty: nothing is kept
	began int64
	at    map[string]read
}

// read is one folder as it was read.
type read struct {
	dev, ino uint64
	ctime    int64
	hits     []hit
}

const cacheVersion = "cloister search 1\n"

// maxCache bounds what is kept of a project, in bytes; one with more is read anew.
const maxCache = 64 << 20

// openCache reads what is kept; a file that is not as it was written is done without.
func openCache(data, root string, lists ...Patterns) *cache {
	c := &cache{at: map[string]read{}, began: time.Now().UnixNano()}
	if data == "" || !timed(root) {
		return c
	}
	h := sha256.New()
	h.Write([]byte(root))
	for _, l := range lists {
		for _, p := range l {
			h.Write([]byte("\x00" + p.Text + "\x00" + p.under + "\x00" + strconv.Itoa(p.list)))
		}
		h.Write([]byte("\x00\x00"))
	}
	sum := h.Sum(nil)
	c.file = filepath.Join(data, "search", hex.EncodeToString(sum[:8]))
	if fi, err := os.Lstat(c.file); err != nil || fi.Size() > maxCache {
		return c
	}
	text, err := os.ReadFile(c.file)
	rest, ok := bytes.CutPrefix(text, []byte(cacheVersion))
	if err != nil || !ok || len(rest) < sha256.Size {
		return c
	}
	sum2 := sha256.Sum256(rest[sha256.Size:])
	if !bytes.Equal(sum2[:], rest[:sha256.Size]) {
		return c
	}
	c.parse(string(rest[sha256.Size:]))
	return c
}

// timed reports whether a file system is one that changes a folder's time with each name.
func timed(root string) bool {
	var st unix.Statfs_t
	if unix.Statfs(root, &st) != nil {
		return false
	}
	return keepsTimes(&st)
}

func (c *cache) parse(text string) {
	word := func() string {
		n, size := binary.Uvarint([]byte(text[:min(len(text), binary.MaxVarintLen64)]))
		if size <= 0 || n > uint64(len(text)-size) {
			text = ""
			return ""
		}
		w := text[size : size+int(n)]
		text = text[size+int(n):]
		return w
	}
	for text != "" {
		rel, where := word(), word()
		if len(where) != 24 {
			return
		}
		b := []byte(where)
		r := read{
			dev: binary.LittleEndian.Uint64(b), ino: binary.LittleEndian.Uint64(b[8:]),
			ctime: int64(binary.LittleEndian.Uint64(b[16:])), // written by save
		}
		for w := word(); w != ""; w = word() {
			r.hits = append(r.hits, hit{w[0], w[1:]})
		}
		c.at[rel] = r
	}
}

// next is an empty cache for the same project.
func (c *cache) next() *cache {
	return &cache{file: c.file, began: c.began, at: make(map[string]read, len(c.at))}
}

func (c *cache) get(rel string, st *unix.Stat_t) ([]hit, bool) {
	r, ok := c.at[rel]
	return r.hits, ok && r.dev == uint64(st.Dev) && r.ino == st.Ino && r.ctime == st.Ctim.Nano() // as wide elsewhere
}

func (c *cache) put(rel string, st *unix.Stat_t, hits []hit) {
	if c.file != "" && st.Ctim.Nano() < c.began-int64(settled) {
		c.at[rel] = read{uint64(st.Dev), st.Ino, st.Ctim.Nano(), hits} // as wide elsewhere
	}
}

// save keeps what was read, where it is not what was kept before. What cannot be kept
// is read again.
func (c *cache) save(old *cache) {
	if c.file == "" || len(c.at) < minCached || c.same(old) {
		return
	}
	var b []byte
	word := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	for rel, r := range c.at {
		word(rel)
		where := binary.LittleEndian.AppendUint64(nil, r.dev)
		where = binary.LittleEndian.AppendUint64(where, r.ino)
		word(string(binary.LittleEndian.AppendUint64(where, uint64(r.ctime)))) // read back by parse
		for _, h := range r.hits {
			word(string(h.kind) + h.name)
		}
		word("")
	}
	sum := sha256.Sum256(b)
	_ = os.MkdirAll(filepath.Dir(c.file), 0o700)
	f, err := os.CreateTemp(filepath.Dir(c.file), ".new-*")
	if err != nil {
		return
	}
	_, err = f.Write(append(append([]byte(cacheVersion), sum[:]...), b...))
	if f.Close() != nil || err != nil || os.Rename(f.Name(), c.file) != nil {
		_ = os.Remove(f.Name())
	}
}

// minCached is how many folders a project has at the least for what is read of it to be
// worth a file.
const minCached = 200

func (c *cache) same(old *cache) bool {
	if len(c.at) != len(old.at) {
		return false
	}
	for rel, r := range c.at {
		if o, ok := old.at[rel]; !ok || o.ctime != r.ctime || o.ino != r.ino || o.dev != r.dev {
			return false
		}
	}
	return true
}
