package corpus

import (
	"os"
	"path/filepath"

	"cloister/escape"
)

func lg02() escape.Case {
	return escape.Case{
		ID: "LG-02", Class: "tamper reach", Attack: "find, read and write the record, the policy, the private homes and the sockets of cloister",
		Source: "opencompany #775 (the audit lay inside the agent's own write root)", Layers: []string{"view"},
		Tries: func(in escape.Inside) []escape.Try {
			var out []escape.Try
			for _, dir := range []string{in.Base + "/state", in.Base + "/config", in.Base + "/data", in.Base + "/run"} {
				out = append(out,
					on("list "+filepath.Base(dir), func() error { _, err := os.ReadDir(dir); return err }),
					on("write into "+filepath.Base(dir), func() error {
						defer os.Remove(dir + "/lg02")
						return create(dir+"/lg02", "LG-02")
					}))
			}
			return out
		},
	}
}
