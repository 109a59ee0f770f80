package audit

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloister/internal/durable"
)

const (
	// keyAge is how long one key is used before the next one is made.
	keyAge = 30 * 24 * time.Hour

	keysFile = "keys.json"
	headFile = "head"
	// maxKeys bounds the file of keys in bytes: about 250 bytes each.
	maxKeys = 1 << 20
)

// KeysDir is the folder of the keys of the record in dir. It is not inside dir, so
// that a copy of the record, or the right to write it, is not also the key.
func KeysDir(dir string) string { return filepath.Clean(dir) + "-keys" }

// key is one secret with the first record that it covers. Every record from there
// on, up to the next key, carries its ID.
type key struct {
	ID     string    `json:"id"`
	Secret string    `json:"secret"` // 32 bytes in hex
	From   uint64    `json:"from"`   // the first record
	Prev   string    `json:"prev"`   // the hash of the record before that
	Made   time.Time `json:"made"`

	secret []byte
}

// keyring is the keys of one record, oldest first. It is used by one goroutine.
type keyring struct {
	dir  string
	list []key
	macs map[string]hash.Hash
}

// readKeys reads the keys of the record in dir. None is no error: a record that
// was written before there were keys has none.
func readKeys(dir string) (*keyring, error) {
	k := &keyring{dir: KeysDir(dir)}
	return k, k.read()
}

func (k *keyring) read() error {
	f, err := openFile(filepath.Join(k.dir, keysFile), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read audit keys: %w", err)
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxKeys))
	if err != nil {
		return fmt.Errorf("read audit keys: %w", err)
	}
	var file struct {
		Version int   `json:"version"`
		Keys    []key `json:"keys"`
	}
	if err := json.Unmarshal(text, &file); err != nil || file.Version != 1 {
		return fmt.Errorf("read audit keys: %s is damaged, or of a later version", f.Name())
	}
	for i := range file.Keys {
		one := &file.Keys[i]
		one.secret, err = hex.DecodeString(one.Secret)
		if err != nil || len(one.secret) != sha256.Size || one.From == 0 || i > 0 && one.From <= file.Keys[i-1].From {
			return fmt.Errorf("read audit keys: %s: key %d is damaged", f.Name(), i+1)
		}
	}
	k.list, k.macs = file.Keys, map[string]hash.Hash{}
	return nil
}

// add makes the key for every record behind at, and writes it to the disk. The
// caller has made the records up to at durable.
func (k *keyring) add(at head, now time.Time) error {
	next := key{From: at.Seq + 1, Prev: at.Hash, Made: now.UTC().Round(0), secret: make([]byte, sha256.Size)}
	_, _ = rand.Read(next.secret) // it never fails (crypto/rand)
	next.Secret = hex.EncodeToString(next.secret)
	id := sha256.Sum256(append([]byte("cloister audit key\n"), next.secret...))
	next.ID = hex.EncodeToString(id[:4])
	list := slices.DeleteFunc(slices.Clone(k.list), func(old key) bool { return old.From >= next.From }) // covered nothing
	list = append(list, next)
	text, err := json.MarshalIndent(map[string]any{"version": 1, "keys": list}, "", " ")
	if err != nil {
		return fmt.Errorf("write audit keys: %w", err)
	}
	if err := os.MkdirAll(k.dir, 0o700); err != nil {
		return fmt.Errorf("write audit keys: %w", err)
	}
	if err := durable.WriteFile(filepath.Join(k.dir, keysFile), append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("write audit keys: %w", err)
	}
	k.list, k.macs = list, map[string]hash.Hash{}
	return nil
}

// due reports whether the next key is to be made.
func (k *keyring) due(now time.Time, age time.Duration) bool {
	last := k.last()
	return last == nil || now.Sub(last.Made) >= age
}

// retire puts the keys aside of a record that is not in the folder any more, so
// that the folder can still be verified where someone puts both together again.
func (k *keyring) retire() error {
	last := k.last()
	if last == nil {
		return nil
	}
	for _, name := range []string{keysFile, headFile} {
		err := os.Rename(filepath.Join(k.dir, name), filepath.Join(k.dir, name+".until-"+last.ID))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("retire audit keys: %w", err)
		}
	}
	k.list, k.macs = nil, nil
	return nil
}

// retired counts the records whose keys were put aside.
func (k *keyring) retired() (int, error) {
	entries, err := os.ReadDir(k.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("read audit keys: %w", err)
	}
	n := 0
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), keysFile+".until-") {
			n++
		}
	}
	return n, nil
}

// last is the newest key; nil for none.
func (k *keyring) last() *key {
	if len(k.list) == 0 {
		return nil
	}
	return &k.list[len(k.list)-1]
}

// at is the key that covers a record; nil for those from before there were keys.
func (k *keyring) at(seq uint64) *key {
	for i := range slices.Backward(k.list) {
		if seq >= k.list[i].From {
			return &k.list[i]
		}
	}
	return nil
}

func (k *keyring) find(id string) *key {
	for i := range k.list {
		if k.list[i].ID == id {
			return &k.list[i]
		}
	}
	return nil
}

// signer makes the hashes of records: keyed by the newest key, or SHA-256 alone
// where there is none. It is used by one goroutine.
type signer struct {
	id  string
	mac hash.Hash
	out [sha256.Size]byte
}

func (k *keyring) signer() *signer {
	last := k.last()
	if last == nil {
		return &signer{mac: sha256.New()}
	}
	return &signer{id: last.ID, mac: hmac.New(sha256.New, last.secret)}
}

// sum is the hash of a line without its hash member, valid until the next call.
func (s *signer) sum(line []byte) []byte {
	s.mac.Reset()
	s.mac.Write(line)
	return s.mac.Sum(s.out[:0])
}

// check holds the hash of a line, whose hash member is cut out, against the key that
// covers it.
func (k *keyring) check(e *Event, body, hash []byte) error {
	want := k.at(e.Seq)
	if e.Key != "" && k.find(e.Key) == nil {
		if err := k.read(); err != nil { // the guardian may have made one meanwhile
			return err
		}
		if want = k.at(e.Seq); k.find(e.Key) == nil {
			return fmt.Errorf("it is keyed by the key %.16s, which is not in %s: neither it nor a later record can be proven",
				e.Key, k.dir)
		}
	}
	switch {
	case want == nil && e.Key != "":
		return fmt.Errorf("it is keyed by the key %.16s, which covers records from %d on", e.Key, k.find(e.Key).From)
	case want == nil:
		if digest(body) != string(hash) {
			return errHash
		}
		return nil
	case e.Key == "":
		return fmt.Errorf("it is not keyed, and each record from %d on was", k.list[0].From)
	case e.Key != want.ID:
		return fmt.Errorf("it is keyed by the key %.16s, and %s covers it", e.Key, want.ID)
	case e.Seq == want.From && e.Prev != want.Prev:
		return errors.New("it does not continue the record that the guardian keyed it behind")
	}
	mac := k.macs[want.ID]
	if mac == nil {
		mac = hmac.New(sha256.New, want.secret)
		k.macs[want.ID] = mac
	}
	mac.Reset()
	mac.Write(body)
	mac.Write([]byte{'}'})
	var sum [sha256.Size]byte
	got, err := hex.DecodeString(string(hash))
	if err != nil || !hmac.Equal(mac.Sum(sum[:0]), got) {
		return errHash
	}
	return nil
}

// seal is what proves a head.
func (k *key) seal(h head) string {
	mac := hmac.New(sha256.New, k.secret)
	mac.Write([]byte("cloister audit head\n" + strconv.FormatUint(h.Seq, 10) + " " + h.Hash))
	return hex.EncodeToString(mac.Sum(nil))
}

// sealed is h with its proof, for a file; without a key it is as it was before
// there were any.
func (k *keyring) sealed(h head) head {
	if last := k.last(); last != nil {
		h.Key, h.MAC = last.ID, last.seal(h)
	}
	return h
}

// genuine reports whether the guardian wrote a head.
func (k *keyring) genuine(h head) bool {
	if h.Key == "" {
		return k.at(h.Seq) == nil
	}
	one := k.find(h.Key)
	return one != nil && hmac.Equal([]byte(one.seal(h)), []byte(h.MAC))
}
