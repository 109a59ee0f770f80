package corpus

import (
	"os"
	"path/filepath"
	"strings"

	"cloister/escape"
)

// An edited is an agent with an editor that grants it all, once through run --acp.
type edited struct {
	r     *ruled
	lines string // what the agent sends
}

// through has the editor start the agent in a cloister, and gives what the editor and the
// agent got, with what the person was shown.
func (e edited) through() (editor, agent string, res escape.Result) {
	return e.start(append(e.r.variables(), e.r.w.Cloister, "run", "--acp", "-C", e.r.project, "--expose", e.r.w.Self+":ro", "--")...)
}

// direct is the control: the same without a cloister.
func (e edited) direct() (editor, agent string, res escape.Result) { return e.start() }

func (e edited) start(before ...string) (editor, agent string, res escape.Result) {
	lines, answers := e.r.project+"/lines", e.r.project+"/answers"
	if err := e.r.w.Write(lines, e.lines); err != nil {
		return "", "", escape.Result{Stderr: err.Error(), Status: -1}
	}
	_ = os.Remove(answers) // of the time before
	argv := append([]string{"-C", e.r.project, e.r.w.Self, "editor", "env"}, before...)
	res, err := e.r.w.Exec("env", append(argv, e.r.w.Self, "agent", lines, answers)...)
	if err != nil {
		res.Stderr += err.Error()
	}
	got, err := os.ReadFile(answers)
	if err != nil {
		res.Stderr += err.Error()
	}
	return res.Stdout, string(got), res
}

// records counts what the record has of a method.
func (e edited) records(method string) int {
	return strings.Count(e.r.host("cat "+e.r.base+"/state/cloister/audit/*.jsonl").Stdout, `"action":"`+method+`"`)
}

func hx28() escape.Case {
	return escape.Case{
		ID: "HX-28", Class: "editor's powers", Attack: "an agent that an editor started with run --acp asks it to read and write files outside, in the project, by links and dots, to run commands, and for what is not of the protocol; the editor would grant all",
		Source: "the Agent Client Protocol: fs/*, terminal/*", Layers: []string{"acp"},
		Host: hosted("  auto_approve: [{pattern: \"^unused$\"}]\n", func(r *ruled) []escape.Finding {
			secret, mark := r.base+"/secret28", r.base+"/mark28"
			if err := r.w.Write(secret, "the secret of 28\n"); err != nil {
				return escape.NoHost("write a secret", err)
			}
			if err := os.Symlink(secret, r.project+"/link"); err != nil {
				return escape.NoHost("make a link", err)
			}
			requests := map[string]string{
				"a file outside":          `"method":"fs/read_text_file","params":{"sessionId":"s","path":"` + secret + `"}`,
				"a file by dots":          `"method":"fs/read_text_file","params":{"sessionId":"s","path":"` + r.project + `/../` + filepath.Base(secret) + `"}`,
				"a file by a link":        `"method":"fs/read_text_file","params":{"sessionId":"s","path":"` + r.project + `/link"}`,
				"a method by its escapes": `"method":"fs\/re\u0061d_text_file","params":{"sessionId":"s","path":"` + secret + `"}`,
				"a write outside":         `"method":"fs/write_text_file","params":{"sessionId":"s","path":"` + mark + `-w","content":"x"}`,
				"a write by /proc":        `"method":"fs/write_text_file","params":{"sessionId":"s","path":"/proc/self/root` + mark + `-p","content":"x"}`,
				"a write in the project":  `"method":"fs/write_text_file","params":{"sessionId":"s","path":"` + r.project + `/mark28-g","content":"x"}`,
				"a command":               `"method":"terminal/create","params":{"sessionId":"s","command":"touch","args":["` + mark + `-t"]}`,
			}
			e := edited{r: r}
			for _, rest := range requests {
				e.lines += `? {"jsonrpc":"2.0","id":"` + itoa(len(e.lines)) + `",` + rest + "}\n"
			}
			marks := func() string {
				return strings.Join(append(globbed(mark+"-*"), globbed(r.project+"/mark28-*")...), " ")
			}
			editor, agent, res := e.through()
			out := []escape.Finding{
				found("the agent is answered and ends", strings.Contains(editor, `"stopReason":"end_turn"`) && strings.HasSuffix(editor, "status 0\n"), "%.2000s\n%.2000s", editor, res.Stderr),
				found("every request is refused", strings.Count(agent, `"code":-32601`) == len(requests), "%.2000s", agent),
				found("the editor is asked for nothing", !strings.Contains(editor, `"method"`), "%.2000s", editor),
				found("no effect outside", marks() == "" && !strings.Contains(agent, "the secret"), "%s %.2000s", marks(), agent),
				found("each is recorded", e.records("fs/read_text_file") == 4 && e.records("fs/write_text_file") == 3 && e.records("terminal/create") == 1,
					"%d %d %d", e.records("fs/read_text_file"), e.records("fs/write_text_file"), e.records("terminal/create")),
			}
			// What is no request of the protocol is refused too, and a notification does nothing.
			e.lines = `! {"jsonrpc":"2.0","method":"terminal/create","params":{"command":"touch","args":["` + mark + `-n"]}}` + "\n" +
				`? {"jsonrpc":"2.0","id":9,"method":"_ext/run","params":{"command":"touch"}}` + "\n"
			editor, agent, _ = e.through()
			out = append(out, found("no notification, no extension", !strings.Contains(editor, `"method"`) && strings.Count(agent, `"code":-32601`) == 1 && marks() == "", "%.1000s %.1000s", editor, agent))
			e.lines = ""
			for _, rest := range requests {
				e.lines += `? {"jsonrpc":"2.0","id":` + itoa(len(e.lines)) + `,` + rest + "}\n"
			}
			_, agent, res = e.direct()
			made := marks()
			for _, name := range strings.Fields(made) {
				clean(name)
			}
			return append(out, found("control: without a cloister all is granted", strings.Count(agent, "granted the secret of 28") == 4 && strings.Count(agent, `"wrote":true`) == 3 && len(strings.Fields(made)) == 4,
				"%s %.2000s %.500s", made, agent, res.Stderr))
		}),
	}
}

// globbed are the paths that a pattern finds.
func globbed(pattern string) []string {
	out, _ := filepath.Glob(pattern) // the pattern is ours
	return out
}
