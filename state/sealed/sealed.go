// Package sealed encrypts an archive of a checkpoint, in the format of age: to recipients, or
// by a passphrase.
//
// The promise: what [Open] gives was written by someone who had the recipient or the passphrase,
// and is whole up to where it was read; a byte that was changed ends the reading with an
// error. It says nothing of who that was, keeps no key, and does not hide how long an archive
// is. The tool age reads and writes the same files.
package sealed

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"filippo.io/age"
)

// begins is how every sealed file begins.
const begins = "age-encryption.org/"

// maxWork bounds what a passphrase costs to try: 2 to the power of it is 256 MiB of memory.
// It is what age writes; a file from elsewhere could ask for any.
const maxWork = 18

// maxHead bounds what comes before the archive itself: a recipient has some hundred bytes
// there, and all of it is kept in memory.
const maxHead = 1 << 20

// maxKeys bounds a file of identities.
const maxKeys = 1 << 20

// Key is what an archive is sealed to, or opened by: a passphrase, or keys.
type Key struct {
	Passphrase string
	Recipients []string // as age-keygen prints them: age1…
	Identities io.Reader
}

// WrongKey is the error for an archive that none of the keys opens.
type WrongKey struct{ Why string }

// Error says why.
func (w *WrongKey) Error() string { return w.Why }

// Hints say what opens it.
func (w *WrongKey) Hints() []string {
	return []string{"--identity FILE opens what is sealed to a recipient; a passphrase is asked for at a terminal"}
}

// Check refuses what is no recipient.
func Check(recipients []string) error {
	for _, word := range recipients {
		if _, err := recipient(word); err != nil {
			return err
		}
	}
	return nil
}

// NewKey makes a key: the identity that opens what is sealed to the recipient.
func NewKey() (identity, recipient string, err error) {
	i, err := age.GenerateX25519Identity()
	if err != nil {
		return "", "", fmt.Errorf("make a key: %w", err)
	}
	return i.String(), i.Recipient().String(), nil
}

func recipient(word string) (age.Recipient, error) {
	// As the files of age have them, so the newer kind with it; comments are none of ours.
	list, err := age.ParseRecipients(strings.NewReader(word))
	if err != nil || len(list) != 1 || strings.ContainsAny(word, "\n\r#") {
		return nil, fmt.Errorf("%.80q is no recipient of age (age1…, as age-keygen prints it)", word)
	}
	return list[0], nil
}

// Writer encrypts what is written to it. Closed, the archive is whole; out stays open.
func Writer(out io.Writer, k Key) (io.WriteCloser, error) {
	var to []age.Recipient
	for _, word := range k.Recipients {
		r, err := recipient(word)
		if err != nil {
			return nil, err
		}
		to = append(to, r)
	}
	if k.Passphrase != "" { // alone: age takes it beside nothing else
		if len(to) > 0 {
			return nil, errors.New("an archive is sealed to recipients or by a passphrase, not both")
		}
		r, err := age.NewScryptRecipient(k.Passphrase)
		if err != nil {
			return nil, err
		}
		r.SetWorkFactor(maxWork)
		to = append(to, r)
	}
	return age.Encrypt(out, to...)
}

// Write writes an archive, sealed where there is a key.
func Write(out io.Writer, k Key, archive func(io.Writer) error) error {
	if k.Passphrase == "" && len(k.Recipients) == 0 {
		return archive(out)
	}
	z, err := Writer(out, k)
	if err != nil {
		return err
	}
	return errors.Join(archive(z), z.Close())
}

// Read gives an archive as it was before it was sealed, where it was. ask is asked for a
// passphrase where there are no identities; both may be nil.
func Read(in *bufio.Reader, identities io.Reader, ask func() (string, error)) (io.Reader, error) {
	if !Is(in) {
		if identities != nil {
			return nil, &WrongKey{"it is not sealed: it needs no --identity"}
		}
		return in, nil
	}
	k := Key{Identities: identities}
	if identities == nil && ask != nil {
		var err error
		if k.Passphrase, err = ask(); err != nil {
			return nil, err
		}
	}
	return Open(in, k)
}

// Is reports whether an archive is sealed, and takes nothing of it.
func Is(in *bufio.Reader) bool {
	head, err := in.Peek(len(begins))
	return err == nil && string(head) == begins
}

// Open decrypts an archive.
func Open(in io.Reader, k Key) (io.Reader, error) {
	var by []age.Identity
	if k.Identities != nil {
		list, err := age.ParseIdentities(io.LimitReader(k.Identities, maxKeys))
		if err != nil {
			return nil, &WrongKey{"the file of identities has none that age knows (AGE-SECRET-KEY-1…)"}
		}
		by = list
	}
	if k.Passphrase != "" {
		i, err := age.NewScryptIdentity(k.Passphrase)
		if err != nil {
			return nil, err
		}
		i.SetMaxWorkFactor(maxWork)
		by = append(by, i)
	}
	if len(by) == 0 {
		return nil, &WrongKey{"it is sealed"}
	}
	head := &bounded{in: in, left: maxHead}
	out, err := age.Decrypt(head, by...)
	head.left = -1
	if _, none := errors.AsType[*age.NoIdentityMatchError](err); none {
		return nil, &WrongKey{"it is sealed, and this does not open it"}
	}
	if err != nil {
		return nil, fmt.Errorf("it is no whole sealed archive: %w", err)
	}
	return out, nil
}

// bounded is a reader that gives so many bytes; where left is negative, all.
type bounded struct {
	in   io.Reader
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left < 0 {
		return b.in.Read(p)
	}
	if b.left == 0 {
		return 0, fmt.Errorf("more than %d bytes name who can open it", maxHead)
	}
	n, err := b.in.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
