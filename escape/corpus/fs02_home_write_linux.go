package corpus

import (
	"os"
	"path/filepath"

	"cloister/escape"
)

func fs02() escape.Case {
	return escape.Case{
		ID: "FS-02", Class: "home write", Attack: "append to the start-up files, keys and services of the person's home; what is made there lands in a home of the cloister's own",
		Source: "CVE-2026-25725 and every dropper", Layers: []string{"view"},
		Tries: func(in escape.Inside) []escape.Try {
			var out []escape.Try
			for _, name := range []string{".bashrc", ".profile", ".zshrc", ".gitconfig", ".config/fish/config.fish", ".ssh/authorized_keys", ".config/systemd/user/mine.service", ".config/autostart/mine.desktop"} {
				path := filepath.Join(in.Home, name)
				out = append(out,
					on("append to "+name, func() error { return appendTo(path, "FS-02") }),
					on("make "+name, func() error {
						if err := below(path, "FS-02"); err != nil {
							return err
						}
						defer os.Remove(path)
						if in.Control {
							return nil
						}
						// A home of the cloister's own: nobody outside sees it, as the
						// canaries tell.
						return escape.ErrNothing
					}))
			}
			return out
		},
	}
}
