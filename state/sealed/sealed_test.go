package sealed_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"filippo.io/age"

	"cloister/state/sealed"
)

func seal(t *testing.T, k sealed.Key, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := sealed.Writer(&out, k)
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestSealed(t *testing.T) {
	mine, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	other, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("an archive ", 12_000)
	to := seal(t, sealed.Key{Recipients: []string{other.Recipient().String(), mine.Recipient().String()}}, text)
	by := seal(t, sealed.Key{Passphrase: "correct horse"}, text)
	file := func(i *age.X25519Identity) io.Reader { return strings.NewReader("# of mine\n" + i.String() + "\n") }
	stranger, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		in   []byte
		key  sealed.Key
		want string // of the error
	}{
		{"an identity", to, sealed.Key{Identities: file(mine)}, ""},
		{"another", to, sealed.Key{Identities: file(other)}, ""},
		{"a stranger's", to, sealed.Key{Identities: file(stranger)}, "does not open it"},
		{"none", to, sealed.Key{}, "it is sealed"},
		{"no identity", to, sealed.Key{Identities: strings.NewReader("hello")}, "has none that age knows"},
		{"a passphrase", by, sealed.Key{Passphrase: "correct horse"}, ""},
		{"a wrong passphrase", by, sealed.Key{Passphrase: "battery"}, "does not open it"},
		{"an identity for a passphrase", by, sealed.Key{Identities: file(mine)}, "does not open it"},
		{"no whole head", to[:60], sealed.Key{Identities: file(mine)}, "no whole sealed archive"},
	} {
		out, err := sealed.Open(bytes.NewReader(tt.in), tt.key)
		if tt.want != "" {
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if got, err := io.ReadAll(out); err != nil || string(got) != text {
			t.Errorf("%s: %d bytes, %v", tt.name, len(got), err)
		}
	}
	// Whatever byte is changed, and wherever it ends: nothing that was not sealed is read as whole.
	for at := 0; at < len(to); at += 1997 {
		bad := bytes.Clone(to)
		bad[at] ^= 1
		for _, in := range [][]byte{bad, to[:at]} {
			out, err := sealed.Open(bytes.NewReader(in), sealed.Key{Identities: file(mine)})
			if err != nil {
				continue
			}
			if got, err := io.ReadAll(out); err == nil || !strings.HasPrefix(text, string(got)) {
				t.Fatalf("byte %d: %d bytes, %v", at, len(got), err)
			}
		}
	}
}

// A file that asks for more memory than ours do is not tried.
func TestDearPassphrase(t *testing.T) {
	r, err := age.NewScryptRecipient("x")
	if err != nil {
		t.Fatal(err)
	}
	r.SetWorkFactor(19)
	var out bytes.Buffer
	w, err := age.Encrypt(&out, r)
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := sealed.Open(&out, sealed.Key{Passphrase: "x"}); err == nil {
		t.Error("it was tried")
	}
}

// A list of recipients without end is not kept in memory.
func TestManyRecipients(t *testing.T) {
	mine, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	const one = "-> X25519 TEiF0ypqr+bpvcqXNyCVJpL7OuwPdVwPL7KQEbFDOCc\nEmECAEcKN+n/Vs9SbWiV+Hu0r+E8R77DdWYyd83nw7U\n"
	in := strings.NewReader("age-encryption.org/v1\n" + strings.Repeat(one, 4<<20/len(one)))
	_, err = sealed.Open(in, sealed.Key{Identities: strings.NewReader(mine.String())})
	if err == nil || !strings.Contains(err.Error(), "name who can open it") || in.Len() < 2<<20 {
		t.Errorf("with %d bytes left: %v", in.Len(), err)
	}
}

func TestWords(t *testing.T) {
	for text, want := range map[string]bool{"age-encryption.org/v1\n": true, "age-encryption": false, "": false, "\x28\xb5\x2f\xfd rest of a tar": false} {
		if got := sealed.Is(bufio.NewReader(strings.NewReader(text))); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	mine, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	if err := sealed.Check([]string{mine.Recipient().String()}); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "age1", mine.String(), "# x\n" + mine.Recipient().String(), "ssh-ed25519 AAAA"} {
		if sealed.Check([]string{bad}) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if _, err := sealed.Writer(io.Discard, sealed.Key{Passphrase: "x", Recipients: []string{mine.Recipient().String()}}); err == nil {
		t.Error("a passphrase beside a recipient is taken")
	}
	if _, err := sealed.Writer(io.Discard, sealed.Key{}); err == nil {
		t.Error("no key is taken")
	}
}
