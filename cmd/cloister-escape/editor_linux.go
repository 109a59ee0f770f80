package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// longest is more than the longest line that either of these sends.
const longest = 32 << 20

// rpc is what an editor reads of a message, by a decoder that takes the last of two members
// and does not look at capitals.
type rpc struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Path    string   `json:"path"`
		Content string   `json:"content"`
		Command string   `json:"command"`
		Args    []string `json:"args"`
		Options []struct {
			ID string `json:"optionId"`
		} `json:"options"`
	} `json:"params"`
}

// editor starts an agent (COMMAND [WORD…]) that speaks the Agent Client Protocol, sends it one
// prompt, and grants all that it asks for: it reads and writes files and runs commands. It
// prints the lines that it got, an odd one once more, and at last the agent's exit status.
func editor(words []string) error {
	if len(words) == 0 {
		return errors.New("editor: of which agent?")
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	c := exec.Command(words[0], words[1:]...)
	c.Stderr = os.Stderr
	to, err := c.StdinPipe()
	if err != nil {
		return err
	}
	from, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	ask := func(id int, method, params string) {
		fmt.Fprintf(to, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", id, method, params)
	}
	const powers = `{"fs":{"readTextFile":true,"writeTextFile":true},"terminal":true}`
	ask(0, "initialize", `{"protocolVersion":1,"clientCapabilities":`+powers+`}`)
	ask(1, "session/new", fmt.Sprintf(`{"cwd":%q,"mcpServers":[]}`, dir))
	ask(2, "session/prompt", `{"sessionId":"s","prompt":[{"type":"text","text":"go"}]}`)
	in := bufio.NewScanner(from)
	in.Buffer(nil, longest)
	answered := map[string]bool{}
	for in.Scan() {
		fmt.Printf("%.4096s\n", in.Text())
		if odd(in.Bytes(), answered) {
			fmt.Printf("odd %.300s\n", in.Text())
		}
		var m rpc
		if json.Unmarshal(in.Bytes(), &m) != nil {
			continue
		}
		if m.Method == "" && string(m.ID) == "2" {
			_ = to.Close() // the agent ends
		}
		if result := granted(m); result != "" && m.ID != nil {
			fmt.Fprintf(to, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n", m.ID, result)
		}
	}
	if err := c.Wait(); err != nil && c.ProcessState == nil {
		return err
	}
	fmt.Println("status", c.ProcessState.ExitCode())
	return in.Err()
}

// odd reports whether a line is none that a strict editor would take: it is no message of
// JSON, has a method that the agent's side has not, or answers a request that is not under way.
func odd(line []byte, answered map[string]bool) bool {
	var m map[string]json.RawMessage
	if json.Unmarshal(line, &m) != nil {
		return true
	}
	if method := string(m["method"]); method != "" {
		return method != `"session/update"` && method != `"session/request_permission"`
	}
	id := string(m["id"])
	was := answered[id]
	answered[id] = true
	return was || id != "0" && id != "1" && id != "2"
}

// granted carries out what a request asks for and gives its result; empty for what is none.
func granted(m rpc) string {
	switch m.Method {
	case "fs/read_text_file":
		text, err := os.ReadFile(m.Params.Path)
		content, _ := json.Marshal(fmt.Sprintf("granted %s %v", text, err))
		return `{"content":` + string(content) + `}`
	case "fs/write_text_file":
		err := os.WriteFile(m.Params.Path, []byte(m.Params.Content), 0o644)
		return fmt.Sprintf(`{"wrote":%t}`, err == nil)
	case "terminal/create":
		err := exec.Command(m.Params.Command, m.Params.Args...).Run()
		return fmt.Sprintf(`{"terminalId":"t","ran":%t}`, err == nil)
	case "session/request_permission":
		if len(m.Params.Options) > 0 {
			return fmt.Sprintf(`{"outcome":{"outcome":"selected","optionId":%q}}`, m.Params.Options[0].ID)
		}
	}
	return ""
}

// agent is the other end: asked to go on, it plays the lines of a file and prints what it got
// into another. "? LINE" is a request, whose answer it waits for; "! LINE" goes out as it is;
// "# N" is a message of N bytes; "$ COMMAND" is run where the agent is.
func agent(words []string) error {
	if len(words) != 2 {
		return errors.New("agent: which lines, and where are its answers to go?")
	}
	lines, err := os.ReadFile(words[0])
	if err != nil {
		return err
	}
	got, err := os.Create(words[1])
	if err != nil {
		return err
	}
	defer got.Close()
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, longest)
	for in.Scan() {
		fmt.Fprintln(got, in.Text())
		var m rpc
		if json.Unmarshal(in.Bytes(), &m) != nil {
			continue
		}
		switch m.Method {
		case "initialize":
			fmt.Printf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"protocolVersion\":1}}\n", m.ID)
		case "session/new":
			fmt.Printf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"sessionId\":\"s\"}}\n", m.ID)
		case "session/prompt":
			for line := range strings.Lines(string(lines)) {
				if err := play(strings.TrimSuffix(line, "\n"), in, got); err != nil {
					return err
				}
			}
			fmt.Printf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"stopReason\":\"end_turn\"}}\n", m.ID)
		}
	}
	return in.Err()
}

func play(line string, in *bufio.Scanner, got io.Writer) error {
	how, text, _ := strings.Cut(line, " ")
	switch how {
	case "!":
		fmt.Println(text)
	case "#":
		n, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		fmt.Printf("{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"x\":%q}}\n", strings.Repeat("x", n))
	case "$":
		out, err := exec.Command("sh", "-c", text).CombinedOutput()
		fmt.Fprintf(got, "%s: %s %v\n", text, out, err)
	case "?":
		fmt.Println(text)
		var asked, answer rpc
		if err := json.Unmarshal([]byte(text), &asked); err != nil {
			return err
		}
		for in.Scan() {
			fmt.Fprintln(got, in.Text())
			answer = rpc{}
			if json.Unmarshal(in.Bytes(), &answer) == nil && answer.Method == "" && string(answer.ID) == string(asked.ID) {
				return nil
			}
		}
		return errors.New("no answer to " + text)
	default:
		return fmt.Errorf("agent: what is %q?", line)
	}
	return nil
}
