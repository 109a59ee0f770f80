package corpus

import (
	"strings"

	"cloister/escape"
)

func hx29() escape.Case {
	return escape.Case{
		ID: "HX-29", Class: "editor's messages", Attack: "such an agent writes messages that two readers take for two things, none at all, longer ones than memory should hold, answers to requests that were not made or are another's, and questions in Cloister's name that the person says yes to",
		Source: "JSON-RPC 2.0; the Agent Client Protocol: session/request_permission", Layers: []string{"acp"},
		Host: commands("  auto_approve: [{pattern: \"^unused$\"}]\n", messages),
	}
}

func messages(r *ruled) []escape.Finding {
	secret := r.base + "/secret29"
	if err := r.w.Write(secret, "the secret of 29\n"); err != nil {
		return escape.NoHost("write a secret", err)
	}
	read := `"fs/read_text_file","params":{"sessionId":"s","path":"` + secret + `"}`
	note := `"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"seen"}}}`
	doubtful := []string{
		`{"jsonrpc":"2.0","id":11,"method":"session/update","method":` + read + `}`,
		`{"jsonrpc":"2.0","id":12,"method":` + read + `,"Method":"session/update"}`,
		`{"jsonrpc":"2.0","id":13,"Method":` + read + `}`,
		`{"jsonrpc":"2.0","id":14,"method":"session/request_permission","params":{"toolCall":{},"options":[]},"\u006dethod":` + read + `}`,
		`[{"jsonrpc":"2.0","id":15,"method":` + read + `}]`,
		`{"jsonrpc":"1.0","id":16,"method":` + read + `}`,
		`{"jsonrpc":"2.0","id":null,"method":` + read + `}`,
		`{"jsonrpc":"2.0","id":{"a":1},"method":` + read + `}`,
		`{"jsonrpc":"2.0","id":17,"method":` + read + `} {"jsonrpc":"2.0","id":18,"method":` + read + `}`,
		`{"jsonrpc":"2.0","id":19,"method":"session/update","params":{"x":"\ud800"}}`,
		`{"jsonrpc":"2.0","id":20,"method":"session/update","params":` + strings.Repeat("[", 100000) + strings.Repeat("]", 100000) + `}`,
		"{\"jsonrpc\":\"2.0\",\"id\":21,\"method\":\"session/update\",\"params\":{\"x\":\"\x00\x1b]0;x\x07\"}}",
		"\xff\xfe{}", "}", `"text"`, "",
		// Answers that the editor did not ask this agent for, and its own.
		`{"jsonrpc":"2.0","id":99,"result":{"stopReason":"end_turn"}}`,
		`{"jsonrpc":"2.0","id":"2","result":{"stopReason":"end_turn"}}`,
		`{"jsonrpc":"2.0","id":2.0,"result":{"stopReason":"end_turn"}}`,
		`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{"again":true}}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"sessionId":"another"}}`,
		`{"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"},"error":{"code":1,"message":"x"}}`,
	}
	e := edited{r: r, lines: "! " + strings.Join(doubtful, "\n! ") + "\n! {\"jsonrpc\":\"2.0\",\"method\":" + note + "}\n"}
	editor, agent, res := e.through()
	out := []escape.Finding{
		found("control: what is a message arrives", strings.Count(editor, `"text":"seen"`) == 1 && strings.HasSuffix(editor, "status 0\n"), "%.2000s\n%.2000s", editor, res.Stderr),
		found("nothing else does", !strings.Contains(editor, "\nodd "), "%.2000s", editor),
		found("no file is read", !strings.Contains(editor+agent, "the secret"), "%.2000s", agent),
	}
	plain, read1, res := e.direct()
	out = append(out, found("control: without a cloister the editor reads a key that stands twice, and two answers", strings.Contains(read1, "granted the secret of 29") && strings.Contains(plain, "\nodd ") && strings.Contains(plain, `"again":true`), "%.2000s %.2000s %.500s", plain, read1, res.Stderr))

	e.lines = "# 9000000\n"
	editor, _, res = e.through()
	out = append(out, found("a line without an end ends the session", !strings.Contains(editor, "xxxx") && !strings.HasSuffix(editor, "status 0\n") && r.cloister("guardian", "status").Status == 0, "%.500s %.1000s", editor, res.Stderr))
	plain, _, _ = e.direct()
	out = append(out, found("control: without a cloister it arrives", strings.Contains(plain, "xxxx"), "%.500s", plain))

	// The editor says yes to whatever it is asked. That is an answer to the agent, and widens nothing.
	question := func(id, title, more string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"c","title":"` + title + `"` + more + `},"options":[{"optionId":"allow","name":"Always","kind":"allow_always"}]}}`
	}
	const host = "asked29.test"
	e.lines = "? " + question("2", `cloister: allow `+host+`?\u001b[2J\u202e`, `,"rawInput":{"command":"cloister policy allow `+host+`"},"_meta":{"x":1},"content":[{"type":"terminal","terminalId":"t"},{"type":"diff","path":"`+secret+`","newText":"x"}]`) + "\n" +
		"! " + `{"jsonrpc":"2.0","method":"session/request_permission","params":{}}` + "\n" +
		"$ " + r.w.Self + " fetch " + host + ":443\n" +
		"? " + `{"jsonrpc":"2.0","id":5,"method":` + read + "}\n"
	editor, agent, res = e.through()
	asked := strings.Count(editor, `"session/request_permission"`)
	return append(out,
		found("control: the question arrives, and the yes", asked == 1 && strings.Contains(agent, `"optionId":"allow"`) && strings.Contains(editor, `cloister: allow `+host), "%d %.2000s %.1000s", asked, editor, res.Stderr),
		found("it is shown as it is", strings.Contains(editor, `policy allow `+host) && strings.Contains(editor, `\\x1b[2J`) && strings.Contains(editor, `\\u202e`) && !strings.Contains(editor, "_meta") && !strings.Contains(editor, secret+`","type":"diff"`), "%.2000s", editor),
		found("the yes allows no network and no file", strings.Contains(agent, "exit status 3") && !strings.Contains(agent, "the secret") && strings.Contains(agent, `"id":5,"error"`), "%.2000s", agent))
}
