package hostexec

import (
	"context"
	"encoding/json"
	"io"
	"regexp"
	"strings"
	"sync"
	"time"

	"cloister/internal/termsafe"
)

// Turn is what the hook of an agent calls inside before each of its turns. It asks for a
// checkpoint of the cloister's own workspace; nothing runs on the host.
const Turn = "cloister-turn"

// OfTurn reports whether a request is for that.
func (r *Request) OfTurn() bool { return len(r.Argv) == 1 && string(r.Argv[0]) == Turn }

const (
	// maxHook bounds what is read of a hook's input, in bytes.
	maxHook = 64 << 10
	// maxPrompt bounds what is kept of a prompt, in bytes.
	maxPrompt = 100
	// hookWithin bounds the wait for a hook's input: a person who calls it by hand may have none.
	hookWithin = 500 * time.Millisecond
)

// conversations are names that an agent may have for one: what else comes is not used.
var conversations = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_-]{0,63}$`)
})

// Hook is the beginning of what the agent was asked, and its name for the conversation, as
// agents give both to a hook; "" where one cannot be read.
func (c *Conn) Hook(ctx context.Context) (prompt, conversation string) {
	ctx, cancel := context.WithTimeout(ctx, hookWithin)
	defer cancel()
	text, err := io.ReadAll(io.LimitReader(c.Stdin(ctx), maxHook))
	var hook struct {
		Prompt       string `json:"prompt"`
		Conversation string `json:"session_id"`
	}
	if err != nil || json.Unmarshal(text, &hook) != nil {
		return "", ""
	}
	if !conversations().MatchString(hook.Conversation) {
		hook.Conversation = ""
	}
	return termsafe.Clip(termsafe.Text(strings.Join(strings.Fields(hook.Prompt), " ")), maxPrompt), hook.Conversation
}
