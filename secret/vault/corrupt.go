package vault

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"filippo.io/age"

	"cloister/internal/shellword"
)

// intro begins every file of age.
const intro = "age-encryption.org/v1"

// A CorruptError is a vault that cannot be read. It stays as it is.
type CorruptError struct {
	File string
	Err  error
}

func (e *CorruptError) Error() string { return "open the vault " + e.File + ": " + e.Err.Error() }
func (e *CorruptError) Unwrap() error { return e.Err }

// Hints are the words of what to do.
func (e *CorruptError) Hints() []string {
	dir := filepath.Dir(e.File)
	back, away := e.File, e.File
	key, ok := errors.AsType[*keyError](e.Err)
	if ok {
		back, away = filepath.Join(dir, keyName)+" as it was when this vault was written", dir
	}
	first := "it is kept as it is, and nothing is written over it: bring " + back + " back from a backup"
	if ok && key.locked {
		first = "unlock the keyring, and try again: the vault and its key stay as they are"
	}
	return []string{first, "or begin with an empty vault: " + shellword.Line("mv", away, unused(away))}
}

// unused is a name beside another that nothing has.
func unused(name string) string {
	for n := 0; ; n++ {
		free := name + ".broken"
		if n > 0 {
			free = fmt.Sprintf("%s.broken-%d", name, n)
		}
		if _, err := os.Lstat(free); err != nil {
			return free
		}
	}
}

func (v *Vault) corrupt(err error) error { return &CorruptError{File: v.file(), Err: err} }

// A keyError is a vault whose key is what is wrong.
type keyError struct {
	why string
	// locked says that the keyring did not answer, and may have it.
	locked bool
}

func (e *keyError) Error() string { return e.why }

// unseal opens the sealed text of a vault. age's own words are not a person's, and
// quote what the file begins with.
func unseal(sealed []byte, key *age.X25519Identity) ([]byte, error) {
	switch {
	case len(sealed) == 0:
		return nil, errors.New("the file is empty, which a vault never is: it was cut or wiped")
	case !bytes.HasPrefix(sealed, []byte(intro)):
		return nil, errors.New("the file is no vault: it does not begin as a file that age has sealed")
	}
	r, err := age.Decrypt(bytes.NewReader(sealed), key)
	if _, ok := errors.AsType[*age.NoIdentityMatchError](err); ok {
		return nil, &keyError{why: "it was sealed with another key than the one that is there now"}
	}
	if err != nil {
		return nil, errors.New("the file is damaged or cut short: its beginning cannot be read")
	}
	text, err := io.ReadAll(io.LimitReader(r, maxFile))
	if err != nil {
		return nil, errors.New("the file is damaged or cut short: what is in it is not what was sealed")
	}
	return text, nil
}
