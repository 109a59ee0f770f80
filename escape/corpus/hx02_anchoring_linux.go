package corpus

import (
	"cloister/escape"
	"strings"
)

func hx02() escape.Case {
	return escape.Case{
		ID: "HX-02", Class: "pattern anchoring", Attack: "rules that hold for a part of a command are refused; commands that only look like an allowed one: longer, with a newline, another case, other letters, other words",
		Source: "claude-code's prefix match; cloister's tests of patterns", Layers: []string{"hostexec", "commands", "loader"},
		Host: commands("  auto_approve:\n    - pattern: \"^echo test$\"\n    - pattern: \"(?i)^echo k$\"\n", func(r *ruled) []escape.Finding {
			good := r.run("hostexec", "echo", "test")
			out := []escape.Finding{found("control: the command itself", good.Status == 0 && good.Stdout == "test\n", "%d %q %s", good.Status, good.Stdout, good.Stderr)}
			for name, argv := range map[string][]string{
				"prefix extension": {"echo", "testx"}, "one more word": {"echo", "test", "x"}, "an empty word": {"echo", "test", ""}, "one word of two": {"echo test"},
				"a newline after it": {"echo", "test\n"}, "a newline and more": {"echo", "test\nx"}, "a carriage return": {"echo", "test\r"}, "upper case": {"ECHO", "test"},
				"a wide space": {"echo", "\u3000test"}, "the sign of Kelvin": {"echo", "\u212a"}, "look-alike letters": {"echo", "t\u0435st"}, "a space within": {"echo", "test "}, "a tab": {"echo", "test\t"},
			} {
				res := r.run(append([]string{"hostexec"}, argv...)...)
				out = append(out, found(name, res.Status != 0 && res.Stdout == "", "%d %q", res.Status, res.Stdout))
			}
			for _, pattern := range []string{"npm test", "^npm test", "npm test$", "^a|b$", "^(a)|b$", "(?m)^npm test$", "^npm test(?:$|x)", "^", "", ".*", "^$|.*", "(^npm test$)|x", "^npm (test"} {
				if err := r.write("version: 1\nhostexec:\n  auto_approve:\n    - pattern: '" + pattern + "'\n"); err != nil {
					return escape.NoHost("write a rule", err)
				}
				res := r.cloister("guardian", "reload")
				out = append(out, found("the rule "+pattern, res.Status != 0 && strings.Contains(res.Stderr, "config.yaml:"), "%d %s", res.Status, res.Stderr))
			}
			return out
		}),
	}
}
