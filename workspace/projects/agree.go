package projects

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"cloister/config"
	"cloister/internal/hint"
	"cloister/internal/xdg"
)

// Agree remembers that a person agreed to a proposal, whose text was shown to them as
// changes to what k has: the bytes that were shown, not what the file says by now, and over
// no other answer that was given meanwhile.
func (k Known) Agree(d xdg.Dirs, text []byte) (Known, error) {
	alone, err := Lock(d)
	if err != nil {
		return k, fmt.Errorf("trust project: %w", err)
	}
	defer func() { _ = alone.Close() }()
	now, err := k.Reread(d)
	switch look := "look at what is there now: cloister project trust"; {
	case errors.Is(err, fs.ErrNotExist):
		return k, hint.With(fmt.Errorf("trust project: %s was forgotten meanwhile", k.Name), look)
	case err != nil:
		return k, fmt.Errorf("trust project: %w", err)
	case now.Digest != k.Digest && now.Digest != config.Digest(text):
		return k, hint.With(errors.New("trust project: another version was agreed to meanwhile"), look)
	}
	now.Trusted, now.Digest = string(text), config.Digest(text)
	return now, now.Save(d)
}

// MakeSettings makes the user's own file for a project, where there is none yet.
func (k Known) MakeSettings(d xdg.Dirs) (file string, err error) {
	file = k.SettingsFile(d)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return file, fmt.Errorf("edit project: %w", err)
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return file, nil
	}
	if err == nil {
		_, err = fmt.Fprintf(f, `# Keys as in config.yaml, but for those that are the whole machine's: proxy.hosts,
# upstream_ca and approval_timeout. Words take the place of those there,
# lists are added to them.
version: 1
root: %q
`, k.Root)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return file, fmt.Errorf("edit project: %w", err)
	}
	return file, nil
}
