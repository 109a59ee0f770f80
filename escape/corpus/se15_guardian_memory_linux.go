package corpus

import (
	"cloister/escape"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

func se15() escape.Case {
	return escape.Case{
		ID: "SE-15", Class: "guardian memory", Attack: "another process of the same user opens the guardian's memory, environment and descriptors; one inside looks for it",
		Source: "SE-15", Layers: []string{"undumpable", "view"}, Needs: gate(),
		Host: vaulted(func(r *ruled) []escape.Finding {
			used := r.swapped()
			var status struct {
				PID int `json:"pid"`
			}
			res := r.cloister("guardian", "status", "--json")
			if err := json.Unmarshal([]byte(res.Stdout), &status); err != nil || status.PID == 0 {
				return escape.NoHost("find the guardian", fmt.Errorf("%w: %s", err, res.Stdout))
			}
			out := []escape.Finding{used}
			for _, name := range []string{"mem", "environ", "fd/0", "maps"} {
				_, err := os.Open(fmt.Sprintf("/proc/%d/%s", status.PID, name))
				// Root may read every process: SECURITY.md says so.
				out = append(out, found("its "+name, err != nil || os.Geteuid() == 0, "it was opened"))
			}
			environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", status.PID))
			out = append(out, found("its environment has no secret", !strings.Contains(string(environ), canary), "%v", err))
			inside := r.cloister("run", "-C", r.project, "--", "sh", "-c", fmt.Sprintf("cat /proc/*/comm | sort -u; ls -d /proc/%d/mem", status.PID))
			out = append(out, found("inside it is not there", inside.Status != 0 && !strings.Contains(inside.Stdout, "guardian"), "%s", inside.Stdout))
			f, err := os.Open(fmt.Sprintf("/proc/%d/environ", r.w.PID))
			if err == nil {
				err = f.Close()
			}
			return append(out, found("control: another process of the same user is opened", err == nil, "%v", err))
		}),
	}
}
