package vault_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"

	"cloister/host/resolve"
	"cloister/internal/shellword"
	"cloister/secret"
	"cloister/secret/vault"
)

const canary = "ghp_CanaryCanaryCanaryCanaryCanaryCanary"

var env = []string{"PATH=/usr/local/bin:/usr/bin:/bin"}

func open(t *testing.T, dir string, ring vault.Keyring) *vault.Vault {
	t.Helper()
	v, err := vault.Open(dir, ring, vault.Command(env, resolve.In(t.TempDir(), os.Getuid())), nil)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func value(t *testing.T, text string) secret.Value {
	t.Helper()
	v, err := secret.New(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func reveal(t *testing.T, v *vault.Vault, name string) string {
	t.Helper()
	got, _, err := v.Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return got.Reveal()
}

// ring is a keyring of the desktop's kind: this machine has none to try.
type ring struct {
	mu   sync.Mutex
	kept map[string]string
	err  error // of every call
	once error // of the next Get: the person unlocks it then
}

func (r *ring) Get(account string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := errors.Join(r.err, r.once)
	r.once = nil
	if err != nil {
		return "", err
	}
	if text, ok := r.kept[account]; ok {
		return text, nil
	}
	return "", vault.ErrNoKey
}

func (r *ring) Set(account, text string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.kept[account] = text
	}
	return r.err
}

func TestKeepsAcrossOpens(t *testing.T) {
	for _, where := range []string{"file", "keyring", "broken keyring"} {
		t.Run(where, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "vault")
			var keys vault.Keyring
			r := &ring{kept: map[string]string{}}
			if where != "file" {
				keys = r
			}
			if where == "broken keyring" {
				r.err = errors.New("locked")
			}
			v := open(t, dir, keys)
			if err := v.Set("A", "", value(t, canary), time.Now()); err != nil {
				t.Fatal(err)
			}
			if err := v.Set("B", "", value(t, "other"), time.Now()); err != nil {
				t.Fatal(err)
			}
			if err := v.Remove("B"); err != nil {
				t.Fatal(err)
			}
			v = open(t, dir, keys)
			if got := reveal(t, v, "A"); got != canary {
				t.Errorf("A is %q", got)
			}
			if list := v.List(); len(list) != 1 || list[0].Name != "A" {
				t.Errorf("list: %v", list)
			}
			if _, _, err := v.Get(t.Context(), "B"); !errors.Is(err, vault.ErrNotFound) {
				t.Errorf("B: %v", err)
			}
			inRing := strings.Contains(v.Protection(), "keyring, which your login opens")
			if inRing != (where == "keyring") || inRing != (len(r.kept) == 1) {
				t.Errorf("protection: %s", v.Protection())
			}
			err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				text, err := os.ReadFile(path)
				info, _ := d.Info()
				if bytes.Contains(text, []byte("Canary")) || info.Mode().Perm() != 0o600 {
					t.Errorf("%s: mode %v, or the value in it", path, info.Mode())
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
			if where == "keyring" {
				if _, err := vault.Open(dir, nil, nil, nil); err == nil {
					t.Error("opened without the keyring that has its key")
				}
			}
		})
	}
}

func TestACorruptVaultIsKept(t *testing.T) {
	for name, break_ := range map[string]func(file, key string) error{
		"half":    func(file, _ string) error { return os.Truncate(file, 60) },
		"empty":   func(file, _ string) error { return os.Truncate(file, 0) },
		"noise":   func(file, _ string) error { return os.WriteFile(file, bytes.Repeat([]byte("noise "), 99), 0o600) },
		"flipped": func(file, _ string) error { return flip(file) },
		"no key":  func(_, key string) error { return os.Remove(key) },
		"bad key": func(_, key string) error { return os.WriteFile(key, []byte("AGE-SECRET-KEY-1CANARY\n"), 0o600) },
		"a link": func(file, _ string) error {
			return errors.Join(os.Rename(file, file+".x"), os.Symlink(file+".x", file))
		},
		"other's":    func(file, key string) error { return otherVault(file) },
		"too large":  func(file, _ string) error { return os.Truncate(file, 17<<20) },
		"a folder":   func(file, _ string) error { return errors.Join(os.Remove(file), os.Mkdir(file, 0o700)) },
		"unreadable": func(file, _ string) error { return errors.Join(os.Remove(file), os.Symlink(file, file)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "the vault")
			v := open(t, dir, nil)
			if err := v.Set("A", "", value(t, canary), time.Now()); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, "secrets.age")
			if err := break_(file, filepath.Join(dir, "key.txt")); err != nil {
				t.Fatal(err)
			}
			before, _ := os.Lstat(file)
			if !strings.HasSuffix(name, "key") {
				// One that was read before holds what it has, and writes nothing over it.
				var changed *vault.CorruptError
				if err := v.Set("B", "", value(t, "x"), time.Now()); !errors.As(err, &changed) || reveal(t, v, "A") != canary {
					t.Errorf("set in a vault that was open: %v", err)
				}
			}
			_, err := vault.Open(dir, nil, nil, nil)
			var corrupt *vault.CorruptError
			if !errors.As(err, &corrupt) || corrupt.File != file || !strings.Contains(err.Error(), file) || len(corrupt.Hints()) == 0 {
				t.Fatalf("opened: %v", err)
			}
			if strings.Contains(err.Error(), "CANARY") {
				t.Errorf("the error quotes the key: %v", err)
			}
			after, _ := os.Lstat(file)
			if before.Size() != after.Size() || before.ModTime() != after.ModTime() {
				t.Error("it was written over")
			}
			// The words that begin anew do.
			hints := corrupt.Hints()
			words := hints[len(hints)-1]
			if out, err := exec.CommandContext(t.Context(), "sh", "-c", words[strings.Index(words, "mv "):]).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v, %s", words, err, out)
			}
			if v, err = vault.Open(dir, nil, nil, nil); err == nil {
				err = v.Set("C", "", value(t, "x"), time.Now())
			}
			if err != nil || len(v.List()) != 1 {
				t.Errorf("begun anew: %v", err)
			}
		})
	}
}

func TestWordsOfACorruptVault(t *testing.T) {
	for name, c := range map[string]struct {
		break_ func(file, key string) error
		want   string
	}{
		"empty":       {func(file, _ string) error { return os.Truncate(file, 0) }, "the file is empty"},
		"cut":         {func(file, _ string) error { return os.Truncate(file, 100) }, "damaged or cut short"},
		"flipped":     {func(file, _ string) error { return flip(file) }, "damaged or cut short"},
		"plain text":  {func(file, _ string) error { return os.WriteFile(file, []byte(canary+"\n"), 0o600) }, "the file is no vault"},
		"another key": {func(file, _ string) error { return otherVault(file) }, "another key"},
		"no key":      {func(_, key string) error { return os.Remove(key) }, "its key is neither in"},
		"bad key":     {func(_, key string) error { return os.WriteFile(key, []byte(canary), 0o600) }, "holds is no key of a vault"},
	} {
		dir := filepath.Join(t.TempDir(), "vault")
		if err := open(t, dir, nil).Set("A", "", value(t, canary), time.Now()); err != nil {
			t.Fatal(err)
		}
		if err := c.break_(filepath.Join(dir, "secrets.age"), filepath.Join(dir, "key.txt")); err != nil {
			t.Fatal(err)
		}
		_, err := vault.Open(dir, nil, nil, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "Canary") {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}

// What a person puts there while a guardian runs is what rules.
func TestAnotherHandsVaultIsRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "vault")
	v := open(t, dir, nil)
	if err := v.Set("A", "", value(t, canary), time.Now()); err != nil {
		t.Fatal(err)
	}
	_, before, _ := v.Get(t.Context(), "A")
	other := open(t, dir, nil)
	if err := errors.Join(other.Set("A", "", value(t, "new"), time.Now()), other.Set("B", "", value(t, "b"), time.Now())); err != nil {
		t.Fatal(err)
	}
	if err := v.Set("C", "", value(t, "c"), time.Now()); err != nil {
		t.Fatal(err)
	}
	if got, after, err := v.Get(t.Context(), "A"); err != nil || got.Reveal() != "new" || after == before {
		t.Errorf("A is as before: %v", err)
	}
	if len(v.List()) != 3 {
		t.Errorf("of B and C: %v", v.List())
	}
	if err := os.Rename(filepath.Join(dir, "secrets.age"), filepath.Join(dir, "away")); err != nil {
		t.Fatal(err)
	}
	if err := v.Reread(); err != nil || len(v.List()) != 0 {
		t.Errorf("moved away: %v, %v", err, v.List())
	}
}

// A new vault takes the keyring's key: the one that was moved away needs it.
func TestTheKeyringsKeyStays(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "vault")
	r := &ring{kept: map[string]string{}}
	if err := open(t, dir, r).Set("A", "", value(t, canary), time.Now()); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "secrets.age")
	if err := os.Rename(file, file+".broken"); err != nil {
		t.Fatal(err)
	}
	if err := open(t, dir, r).Set("B", "", value(t, "b"), time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".broken", file); err != nil {
		t.Fatal(err)
	}
	if got := reveal(t, open(t, dir, r), "A"); got != canary {
		t.Errorf("brought back: %q", got)
	}
}

// A keyring that does not say what it has may have the key of a vault that was moved
// away, and a person may unlock it for what comes next.
func TestALockedKeyringsKeyStays(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "vault")
	r := &ring{kept: map[string]string{}}
	if err := open(t, dir, r).Set("A", "", value(t, canary), time.Now()); err != nil {
		t.Fatal(err)
	}
	r.once = errors.New("the prompt was dismissed")
	_, err := vault.Open(dir, r, nil, nil)
	corrupt, ok := errors.AsType[*vault.CorruptError](err)
	if !ok || !strings.HasPrefix(corrupt.Hints()[0], "unlock the keyring") {
		t.Fatalf("opened with a locked keyring: %v", err)
	}
	if err := os.Rename(dir, dir+".broken"); err != nil {
		t.Fatal(err)
	}
	v := open(t, dir, r)
	r.once = errors.New("the prompt was dismissed")
	if err := v.Set("B", "", value(t, "b"), time.Now()); err != nil {
		t.Fatal(err)
	}
	if got := reveal(t, open(t, dir, r), "B"); got != "b" || strings.Contains(v.Protection(), "which your login opens") {
		t.Errorf("the new one has %q; %s", got, v.Protection())
	}
	if err := errors.Join(os.Rename(dir, dir+".new"), os.Rename(dir+".broken", dir)); err != nil {
		t.Fatal(err)
	}
	if got := reveal(t, open(t, dir, r), "A"); got != canary {
		t.Errorf("brought back: %q", got)
	}
}

// What a login became is kept, whoever had the file in his hands while it was renewed.
func TestARenewedLoginIsWritten(t *testing.T) {
	long := time.Now().Add(-time.Hour)
	for name, c := range map[string]struct {
		hand func(t *testing.T, v *vault.Vault, file string) error
		want string
	}{
		"nobody": {func(*testing.T, *vault.Vault, string) error { return nil }, "two"},
		"touch":  {func(_ *testing.T, _ *vault.Vault, file string) error { return os.Chtimes(file, long, long) }, "two"},
		"chmod":  {func(_ *testing.T, _ *vault.Vault, file string) error { return os.Chmod(file, 0o400) }, "two"},
		"touch, and it is read": {func(_ *testing.T, v *vault.Vault, file string) error {
			return errors.Join(os.Chtimes(file, long, long), v.Reread())
		}, "two"},
		"restored": {func(_ *testing.T, _ *vault.Vault, file string) error {
			text, err := os.ReadFile(file)
			return errors.Join(err, os.Remove(file), os.WriteFile(file, text, 0o600))
		}, "two"},
		"another secret": {func(t *testing.T, _ *vault.Vault, file string) error {
			return open(t, filepath.Dir(file), nil).Set("B", "", value(t, "b2"), time.Now())
		}, "two"},
		"another login": {func(t *testing.T, _ *vault.Vault, file string) error {
			return open(t, filepath.Dir(file), nil).SetLogin("L", "service", value(t, "else"), time.Now())
		}, "else"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "vault")
			file := filepath.Join(dir, "secrets.age")
			var v *vault.Vault
			renew := func(_ context.Context, _ string, kept secret.Value) (value_, next secret.Value, err error) {
				if kept.Reveal() != "one" {
					return kept, secret.Value{}, nil
				}
				return value(t, "access"), value(t, "two"), c.hand(t, v, file)
			}
			again := func() *vault.Vault {
				v, err := vault.Open(dir, nil, nil, renew)
				if err != nil {
					t.Fatal(err)
				}
				return v
			}
			v = again()
			if err := errors.Join(v.SetLogin("L", "service", value(t, "one"), time.Now()), v.Set("B", "", value(t, "b1"), time.Now())); err != nil {
				t.Fatal(err)
			}
			if got := reveal(t, v, "L"); got != "access" {
				t.Errorf("as it is used: %q", got)
			}
			if item, err := v.Find("L"); err != nil || item.Problem != nil {
				t.Errorf("%v, %v", err, item.Problem)
			}
			if err := v.Reread(); err != nil {
				t.Fatal(err)
			}
			if here, there := reveal(t, v, "L"), reveal(t, again(), "L"); here != c.want || there != c.want {
				t.Errorf("kept: %q here, %q on the disk; want %q", here, there, c.want)
			}
			if got := reveal(t, again(), "B"); (got == "b2") != (name == "another secret") {
				t.Errorf("B is %q", got)
			}
		})
	}
}

// A login that was renewed while the vault could not be written outlives a vault that
// is brought back, as it was then or earlier, and is written as soon as that is possible.
// Who brings it back removes the broken one first, and the vault may be looked at between,
// or only then be found to be away when the login is renewed.
func TestAnUnwrittenLoginOutlivesARestore(t *testing.T) {
	for name, c := range map[string]struct {
		bring func(t *testing.T, file string, young, old []byte) error
		want  string // empty: there is none
	}{
		"as it was": {func(_ *testing.T, file string, young, _ []byte) error { return os.WriteFile(file, young, 0o600) }, "three"},
		"earlier":   {func(_ *testing.T, file string, _, old []byte) error { return os.WriteFile(file, old, 0o600) }, "three"},
		"another login": {func(t *testing.T, file string, young, _ []byte) error {
			err := os.WriteFile(file, young, 0o600)
			return errors.Join(err, open(t, filepath.Dir(file), nil).SetLogin("L", "service", value(t, "else"), time.Now().Add(time.Second)))
		}, "else"},
		"without it": {func(t *testing.T, file string, young, _ []byte) error {
			err := os.WriteFile(file, young, 0o600)
			return errors.Join(err, open(t, filepath.Dir(file), nil).Remove("L"))
		}, ""},
	} {
		for how, between := range map[string]func(t *testing.T, v *vault.Vault, renewed func()){
			"at once": func(_ *testing.T, _ *vault.Vault, _ func()) {},
			"looked at between": func(t *testing.T, v *vault.Vault, _ func()) {
				if err := v.Reread(); err != nil || len(v.List()) > 0 {
					t.Errorf("without a file: %v, %v", v.List(), err)
				}
			},
			"renewed between": func(_ *testing.T, _ *vault.Vault, renewed func()) { renewed() },
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "vault")
				file := filepath.Join(dir, "secrets.age")
				next := ""
				renew := func(_ context.Context, _ string, kept secret.Value) (_, young secret.Value, err error) {
					if next != "" {
						young = value(t, next)
					}
					return kept, young, nil
				}
				again := func() *vault.Vault {
					v, err := vault.Open(dir, nil, nil, renew)
					if err != nil {
						t.Fatal(err)
					}
					return v
				}
				v := again()
				if err := v.SetLogin("L", "service", value(t, "one"), time.Now()); err != nil {
					t.Fatal(err)
				}
				old, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				next = "two"
				reveal(t, v, "L")
				young, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				// A folder that cannot be replaced by a file, as root too.
				if err := errors.Join(os.Remove(file), os.Mkdir(file, 0o700), os.WriteFile(filepath.Join(file, "x"), nil, 0o600)); err != nil {
					t.Fatal(err)
				}
				third := func() {
					next = "three"
					reveal(t, v, "L")
					next = ""
				}
				if how != "renewed between" {
					third()
					if item, err := v.Find("L"); err != nil || item.Problem == nil {
						t.Errorf("%v, and no word of what was not written", err)
					}
				}
				if err := os.RemoveAll(file); err != nil {
					t.Fatal(err)
				}
				between(t, v, third)
				if err := errors.Join(c.bring(t, file, young, old), v.Reread()); err != nil {
					t.Fatal(err)
				}
				item, err := v.Find("L")
				if c.want == "" {
					if !errors.Is(err, vault.ErrNotFound) {
						t.Errorf("what another hand removed is there: %v", err)
					}
					return
				}
				if err != nil || item.Problem != nil {
					t.Errorf("%v, %v", err, item.Problem)
				}
				if here, there := reveal(t, v, "L"), reveal(t, again(), "L"); here != c.want || there != c.want {
					t.Errorf("kept: %q here, %q on the disk; want %q", here, there, c.want)
				}
			})
		}
	}
}

// Whoever writes the value into the command: no list shows it.
func TestACommandWithItsValueIsMasked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "vault")
	v := open(t, dir, nil)
	if err := v.SetCommand(t.Context(), "A", "", []string{"sh", "-c", "echo " + canary}, time.Minute, time.Now()); err != nil {
		t.Fatal(err)
	}
	v = open(t, dir, nil)
	if got := v.List()[0].Command; strings.Join(got, " ") != "sh -c echo "+secret.Mark {
		t.Errorf("shown as %q", got)
	}
	if got := reveal(t, v, "A"); got != canary {
		t.Errorf("it is %q", got)
	}
}

// One that an older cloister stored is shown as it is until it was fetched.
func TestAnOldCommandIsMaskedOnceFetched(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "vault")
	if err := open(t, dir, nil).Set("X", "", value(t, "x"), time.Now()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "key.txt"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := age.ParseX25519Identity(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	var sealed bytes.Buffer
	w, err := age.Encrypt(&sealed, key.Recipient())
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Write([]byte(`{"v":1,"secrets":[{"name":"A","command":["sh","-c","echo ` + canary + `"],"refresh":"1m","set_at":"2026-01-02T03:04:05Z"}]}`))
	if err := errors.Join(err, w.Close(), os.WriteFile(filepath.Join(dir, "secrets.age"), sealed.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	v := open(t, dir, nil)
	if got := reveal(t, v, "A"); got != canary {
		t.Errorf("it is %q", got)
	}
	if got := v.List()[0].Command; strings.Join(got, " ") != "sh -c echo "+secret.Mark {
		t.Errorf("shown as %q", got)
	}
	if err := v.Set("B", "", value(t, "b"), time.Now()); err != nil {
		t.Fatal(err)
	}
	if got := open(t, dir, nil).List()[0].Command; strings.Join(got, " ") != "sh -c echo "+secret.Mark {
		t.Errorf("opened again it is shown as %q", got)
	}
}

func flip(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text[len(text)-3] ^= 1
	return os.WriteFile(file, text, 0o600)
}

// otherVault puts the file of another vault in the place of this.
func otherVault(file string) error {
	dir, err := os.MkdirTemp(filepath.Dir(filepath.Dir(file)), "other")
	if err != nil {
		return err
	}
	v, err := vault.Open(dir, nil, nil, nil)
	if err != nil {
		return err
	}
	x, _ := secret.New("x")
	if err := v.Set("X", "", x, time.Now()); err != nil {
		return err
	}
	return os.Rename(filepath.Join(dir, "secrets.age"), file)
}

func TestAFailedWriteChangesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "vault")
	v := open(t, dir, nil)
	if err := v.Set("A", "", value(t, "old"), time.Now()); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "secrets.age")
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// A folder that cannot be replaced by a file, as root too.
	if err := errors.Join(os.Remove(file), os.Mkdir(file, 0o700), os.WriteFile(filepath.Join(file, "x"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func() error{
		"set": func() error { return v.Set("A", "", value(t, "new"), time.Now()) }, "remove": func() error { return v.Remove("A") },
		"add": func() error { return v.Set("B", "", value(t, "new"), time.Now()) },
	} {
		if do() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if got := reveal(t, v, "A"); got != "old" || len(v.List()) != 1 {
		t.Errorf("A is %q, %d secrets", got, len(v.List()))
	}
	if err := errors.Join(os.RemoveAll(file), os.WriteFile(file, kept, 0o600)); err != nil {
		t.Fatal(err)
	}
}

func TestNames(t *testing.T) {
	v := open(t, filepath.Join(t.TempDir(), "v"), nil)
	for _, name := range []string{"", "1A", "a b", "a/b", "../x", "A=B", "A\n", strings.Repeat("a", 200), "-x"} {
		if v.Set(name, "", value(t, "x"), time.Now()) == nil {
			t.Errorf("%q taken", name)
		}
	}
}

func TestCommands(t *testing.T) {
	dir := t.TempDir()
	sh := func(script string) []string { return []string{"sh", "-c", script} }
	v := open(t, filepath.Join(dir, "v"), nil)
	for name, argv := range map[string][]string{
		"fails": sh("echo " + canary + "; echo " + canary + " >&2; exit 3"), "two lines": sh("echo a; echo " + canary), "nothing": sh(":"),
		"NUL": sh(`printf 'a\0b'`), "endless": sh("yes " + canary), "not there": {"no-such-program-here"}, "relative": {"./x"},
		"killed": sh("kill -9 $$"), "spaces": sh("echo ' x '"),
	} {
		err := v.SetCommand(t.Context(), "C", "", argv, time.Minute, time.Now())
		if _, ok := errors.AsType[*vault.CommandError](err); !ok {
			t.Errorf("%s: %v", name, err)
		} else if strings.Contains(strings.ReplaceAll(err.Error(), shellword.Line(argv...), ""), "Canary") {
			t.Errorf("%s: the error has what it printed: %v", name, err)
		}
	}
	if len(v.List()) != 0 {
		t.Errorf("kept: %v", v.List())
	}
	if err := v.SetCommand(t.Context(), "C", "", sh("echo x"), time.Millisecond, time.Now()); err == nil {
		t.Error("a refresh of a millisecond")
	}
}

func TestAHangingCommandIsEndedWithAllOfIt(t *testing.T) {
	dir := t.TempDir()
	v := open(t, filepath.Join(dir, "v"), nil)
	late, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	err := v.SetCommand(late, "C", "", []string{"sleep", "60"}, time.Minute, time.Now())
	if err == nil || !strings.Contains(err.Error(), "did not end") || time.Since(began) > 30*time.Second {
		t.Fatalf("after %s: %v", time.Since(began), err)
	}

	// Ended when all of it is there.
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	pids := filepath.Join(dir, "pids")
	watch.Go(func() {
		for ctx.Err() == nil {
			if text, err := os.ReadFile(pids); err == nil && strings.HasSuffix(string(text), "\n") {
				cancel()
			}
		}
	})
	if err := v.SetCommand(ctx, "C", "", []string{"sh", "-c", "sleep 60 & echo $! >" + pids + "; sleep 60"}, time.Minute, time.Now()); err == nil || !errors.Is(ctx.Err(), context.Canceled) {
		t.Fatalf("%v, %v", err, ctx.Err())
	}
	text, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); alive(pid); {
		if time.Now().After(deadline) {
			t.Fatalf("process %d lives on", pid)
		}
	}
}

func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestRefreshIsLive(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "token")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first\n")
	v := open(t, filepath.Join(dir, "v"), nil)
	began := time.Now()
	if err := v.SetCommand(t.Context(), "C", "", []string{"cat", file}, 2*time.Second, time.Now()); err != nil {
		t.Fatal(err)
	}
	_, one, err := v.Get(t.Context(), "C")
	if err != nil {
		t.Fatal(err)
	}
	write("second")
	if got := reveal(t, v, "C"); got != "first" && time.Since(began) < 2*time.Second {
		t.Errorf("before its time is over it is %q", got)
	}
	deadline := time.Now().Add(20 * time.Second)
	for reveal(t, v, "C") != "second" {
		if time.Now().After(deadline) {
			t.Fatal("never the second")
		}
	}
	if _, two, _ := v.Get(t.Context(), "C"); one == two {
		t.Error("another value with the same revision")
	}
	// A command of another process starts with nothing fetched.
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	v = open(t, filepath.Join(dir, "v"), nil)
	if _, _, err := v.Get(t.Context(), "C"); err == nil {
		t.Error("a command that fails gave a value")
	}
	if item, err := v.Find("C"); err != nil || item.Problem == nil {
		t.Errorf("%v: the list does not tell why: %v", err, item)
	}
	if err := v.Set("C", "", value(t, "third"), time.Now()); err != nil {
		t.Fatal(err)
	}
	if got := reveal(t, v, "C"); got != "third" {
		t.Errorf("replaced by a value it is %q", got)
	}
}
