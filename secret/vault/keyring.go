package vault

import (
	"errors"
	"fmt"
	"time"

	"github.com/zalando/go-keyring"
)

// service is the name under which a keyring shows what is ours.
const service = "cloister"

// keyringWithin is how long a keyring may take: one that is locked asks the
// person, who may not be there.
const keyringWithin = 20 * time.Second

// SystemKeyring is the keyring of the person's desktop: the Secret Service, the
// macOS keychain.
type SystemKeyring struct{}

// Get reads one entry.
func (SystemKeyring) Get(account string) (string, error) {
	return bounded(func() (string, error) {
		text, err := keyring.Get(service, account)
		if errors.Is(err, keyring.ErrNotFound) {
			return "", ErrNoKey
		}
		return text, err
	})
}

// Set writes one entry.
func (SystemKeyring) Set(account, text string) error {
	_, err := bounded(func() (string, error) { return "", keyring.Set(service, account, text) })
	return err
}

// ForgetKey removes the key of the vault in a folder from the keyring.
func ForgetKey(dir string) error {
	_, err := bounded(func() (string, error) {
		err := keyring.Delete(service, accountOf(dir))
		if errors.Is(err, keyring.ErrNotFound) {
			err = nil
		}
		return "", err
	})
	return err
}

// bounded waits for a keyring no longer than keyringWithin. A call that hangs is
// left behind: the library gives no way to end it.
func bounded(call func() (string, error)) (string, error) {
	type answer struct {
		text string
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		text, err := call()
		done <- answer{text, err}
	}()
	limit := time.NewTimer(keyringWithin)
	defer limit.Stop()
	select {
	case a := <-done:
		return a.text, a.err
	case <-limit.C:
		return "", fmt.Errorf("the keyring did not answer within %s", keyringWithin)
	}
}
